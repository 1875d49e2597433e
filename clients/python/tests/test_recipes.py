"""The code of docs/recipes/stripe.md, as it stands there, with a Stripe that only keeps its word about idempotency keys."""

from __future__ import annotations

import re
import time
import uuid
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import stripe_checkout
from conftest import ROOT, client
from stockade_client import NoAnswer, Sale, Settings, Stockade, UnexpectedRefusal, unwrap
from stockade_client.schema import Line
from test_flows import level, until_expired


class FakeStripe:
    """One effect an idempotency key, as Stripe promises for a day."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.checkout = SimpleNamespace(Session=SimpleNamespace(create=self._create_session))
        self.Refund = SimpleNamespace(create=self._create_refund)

    def _create_session(self, idempotency_key: str, **of: Any) -> dict[str, Any]:
        assert of["expires_at"] - time.time() > 30 * 60, "Stripe refuses sessions that close earlier"
        session = {**of, "url": f"https://checkout.example/{len(self.sessions)}", "payment_intent": "pi_7"}
        return self.sessions.setdefault(idempotency_key, session)

    def _create_refund(self, idempotency_key: str, **of: Any) -> dict[str, Any]:
        return self.refunds.setdefault(idempotency_key, of)


def event(kind: str, reservation: str, payment_status: str = "paid") -> dict[str, Any]:
    session = {"client_reference_id": reservation, "payment_status": payment_status, "payment_intent": "pi_7"}
    return {"type": f"checkout.session.{kind}", "data": {"object": session}}


@pytest.fixture
def stripe() -> FakeStripe:
    return FakeStripe()


@pytest.fixture
def sale(service: str) -> Sale:
    sale = client(service).sale(f"t{uuid.uuid4().hex}")
    unwrap(sale.put({"stock": {"shirt": {"initial": 3}}}))
    return sale


def shirts(quantity: int) -> list[Line]:
    return [{"sku": "shirt", "quantity": quantity}]


def hold(sale: Sale, quantity: int, hold_seconds: int = 600) -> str:
    return unwrap(sale.reserve(str(uuid.uuid4()), {"lines": shirts(quantity), "hold_seconds": hold_seconds}))["id"]


def test_the_page_shows_the_code_that_is_tested() -> None:
    page = (ROOT / "docs/recipes/stripe.md").read_text()
    code = (ROOT / "clients/python/recipes/stripe_checkout.py").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert block.strip() in code, block


def test_a_payment_in_time_ships_once(sale: Sale, stripe: FakeStripe) -> None:
    id = hold(sale, 2)
    before = unwrap(sale.reservation(id))["expires_at"] or ""
    urls = {stripe_checkout.redirect(sale, stripe, id, "attempt 1", [], "https://shop.example") for _ in range(2)}
    assert urls == {"https://checkout.example/0"} and len(stripe.sessions) == 1
    held = unwrap(sale.reservation(id))
    assert held["expires_at"] is not None and held["expires_at"] > before
    assert stripe_checkout.webhook(sale, stripe, event("completed", id, "unpaid")) == "waiting"
    for kind in ("completed", "completed", "async_payment_succeeded"):
        assert stripe_checkout.webhook(sale, stripe, event(kind, id)) == "ship"
    with pytest.raises(UnexpectedRefusal):
        stripe_checkout.webhook(sale, stripe, event("completed", str(uuid.uuid4())))
    # It came late, and changes nothing.
    assert stripe_checkout.webhook(sale, stripe, event("expired", id)) == "released"
    assert stripe_checkout.webhook(sale, stripe, event("created", id)) == "ignored"
    assert level(sale, "shirt") == (1, 0, 2, 3) and not stripe.refunds

    for _ in range(2):
        assert stripe_checkout.refund(sale, stripe, id, "r1", shirts(1), 1999, "pi_7") == "refunded"
    assert stripe_checkout.refund(sale, stripe, id, "r2", shirts(2), 3998, "pi_7") == "quantity_exceeds_reservation"
    assert level(sale, "shirt") == (2, 0, 1, 3)
    assert [refund["amount"] for refund in stripe.refunds.values()] == [1999]
    unwrap(sale.return_reservation(id, "the rest", {}))
    assert stripe_checkout.webhook(sale, stripe, event("completed", id)) == "returned"


def test_a_late_payment_ships_or_is_refunded(sale: Sale, stripe: FakeStripe) -> None:
    late, too_late = hold(sale, 1, 1), hold(sale, 2, 1)
    until_expired(sale, late)
    until_expired(sale, too_late)
    assert stripe_checkout.redirect(sale, stripe, late, "attempt 1", [], "https://shop.example") is None
    unwrap(sale.reserve("quicker", {"lines": shirts(1)}))
    assert stripe_checkout.webhook(sale, stripe, event("completed", late)) == "ship"
    for _ in range(2):
        assert stripe_checkout.webhook(sale, stripe, event("completed", too_late)) == "refunded"
    assert stripe.refunds == {"refund pi_7": {"payment_intent": "pi_7", "metadata": {"reason": "sold_out"}}}
    assert level(sale, "shirt") == (1, 1, 1, 3)


def test_a_session_that_closes_unpaid_gives_the_units_back(sale: Sale, stripe: FakeStripe) -> None:
    id = hold(sale, 3)
    assert stripe_checkout.webhook(sale, stripe, event("expired", id)) == "released"
    assert level(sale, "shirt") == (3, 0, 0, 3)
    # Paid after all, on a page that was still open somewhere.
    assert stripe_checkout.webhook(sale, stripe, event("completed", id)) == "refunded"
    assert stripe.refunds["refund pi_7"]["metadata"] == {"reason": "already_released"}


def test_without_an_answer_nothing_is_refunded(stripe: FakeStripe) -> None:
    def lose(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("lost", request=request)

    http = httpx.Client(transport=httpx.MockTransport(lose))
    sale = Stockade("http://stockade", settings=Settings(tries_max=2, backoff=0.001), http=http).sale("drop")
    with pytest.raises(NoAnswer):
        stripe_checkout.webhook(sale, stripe, event("completed", "id"))
    assert not stripe.refunds
