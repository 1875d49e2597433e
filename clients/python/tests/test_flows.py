"""What a storefront does, against a running service."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from conftest import client
from stockade_client import Done, Outcome, Refused, Sale, Stockade, unwrap
from stockade_client.schema import BulkRequest, Line, Problem, Reservation


@pytest.fixture
def stockade(service: str) -> Stockade:
    return client(service)


def sale_of(stockade: Stockade, **stock: int) -> Sale:
    sale = stockade.sale(f"t{uuid.uuid4().hex}")
    created = unwrap(sale.put({"stock": {sku: {"initial": units} for sku, units in stock.items()}}))
    assert created["status"] == "open"
    return sale


def key() -> str:
    return str(uuid.uuid4())


def lines(**of: int) -> list[Line]:
    return [{"sku": sku, "quantity": quantity} for sku, quantity in of.items()]


def level(sale: Sale, sku: str) -> tuple[int, int, int, int]:
    """available, held, sold, granted"""
    level = unwrap(sale.level(sku, fresh=True))
    return level["available"], level["held"], level["sold"], level["granted"]


def refused(outcome: Outcome[Any], code: str) -> Problem:
    assert isinstance(outcome, Refused) and outcome.code == code, outcome
    return outcome.problem


def until_expired(sale: Sale, id: str) -> Reservation:
    """The deadline is the service's, so the test asks until it has passed."""
    given_up = time.monotonic() + 20
    while True:
        reservation = unwrap(sale.reservation(id))
        if reservation["status"] == "expired":
            return reservation
        assert time.monotonic() < given_up, "it does not expire"
        time.sleep(0.05)


def test_one_sku_reserve_confirm_sold_out(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=2)
    cart = key()
    held = sale.reserve(cart, {"buyer": "ann", "lines": lines(shirt=2)})
    assert isinstance(held, Done) and (held.word, held.replayed, held.value["status"]) == ("held", False, "held")
    id = held.value["id"]
    again = sale.reserve(cart, {"buyer": "ann", "lines": lines(shirt=2)})
    assert isinstance(again, Done) and (again.replayed, again.value["id"]) == (True, id)
    found = unwrap(sale.reservation_of_key(cart))
    assert found is not None and found["id"] == id
    assert unwrap(sale.reservation_of_key('nobody\'s; "key"')) is None

    sold_out = refused(sale.reserve(key(), {"lines": lines(shirt=1)}), "sold_out")
    assert sold_out["shortfalls"] == [{"sku": "shirt", "requested": 1, "available": 0, "held": 2}]
    assert sold_out["may_return"] is True
    refused(sale.reserve(cart, {"lines": lines(shirt=1)}), "idempotency_key_reused")
    refused(sale.reserve(key(), {"lines": lines(shoe=1)}), "unknown_sku")
    refused(sale.reserve(key(), {"lines": []}), "invalid_request")

    sold = unwrap(sale.confirm(id))
    assert sold["status"] == "confirmed"
    assert unwrap(sale.confirm(id))["ended_at"] == sold["ended_at"]
    assert level(sale, "shirt") == (0, 0, 2, 2)
    assert unwrap(sale.buyer("ann"))["limit"] is None


def test_a_cart_of_two_paid_after_its_deadline_taken_again_replaced(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=3, shoe=3)
    late = unwrap(sale.reserve(key(), {"lines": lines(shirt=1, shoe=1), "hold_seconds": 1}))
    until_expired(sale, late["id"])
    expired = refused(sale.confirm(late["id"]), "hold_expired")
    assert expired["retake"] == {"possible": True, "shortfalls": []}
    assert expired["reservation"] is not None and expired["reservation"]["id"] == late["id"]
    retaken = sale.confirm(late["id"], {"if_expired": "retake"})
    assert isinstance(retaken, Done) and retaken.word == "retaken" and retaken.value["retaken"]
    assert level(sale, "shoe") == (2, 0, 1, 3)

    first = unwrap(sale.reserve(key(), {"lines": lines(shirt=2, shoe=1)}))
    second = unwrap(sale.reserve(key(), {"lines": lines(shirt=1, shoe=2), "replaces": first["id"]}))
    assert second["replaces"] == first["id"]
    replaced = unwrap(sale.reservation(first["id"]))
    assert (replaced["status"], replaced["replaced_by"]) == ("released", second["id"])
    refused(sale.confirm(first["id"]), "already_released")
    assert (level(sale, "shirt"), level(sale, "shoe")) == ((1, 1, 1, 3), (0, 2, 1, 3))
    extended = unwrap(sale.extend(second["id"], key(), 1_800))
    assert (extended["expires_at"] or "") > (second["expires_at"] or "")
    assert unwrap(sale.release(second["id"]))["status"] == "released"


def test_a_late_payment_whose_units_are_gone_is_a_refund(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=1)
    late = unwrap(sale.reserve(key(), {"lines": lines(shirt=1), "hold_seconds": 1}))
    until_expired(sale, late["id"])
    unwrap(sale.reserve(key(), {"lines": lines(shirt=1)}))
    retake = refused(sale.confirm(late["id"]), "hold_expired")["retake"]
    assert retake is not None and not retake["possible"]
    refused(sale.confirm(late["id"], {"if_expired": "retake"}), "sold_out")


def test_refund_of_one_line_with_and_without_restock(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=5, shoe=5)
    id = unwrap(sale.reserve(key(), {"lines": lines(shirt=2, shoe=2)}))["id"]
    unwrap(sale.confirm(id))
    refund = key()
    for replayed in (False, True):
        outcome = sale.return_reservation(id, refund, {"lines": lines(shirt=1)})
        assert isinstance(outcome, Done) and outcome.replayed == replayed
        assert level(sale, "shirt") == (4, 0, 1, 5)
    damaged = unwrap(sale.return_reservation(id, key(), {"lines": lines(shoe=2), "restock": False}))
    assert damaged["status"] == "confirmed"
    assert level(sale, "shoe") == (3, 0, 0, 3)
    refused(sale.return_reservation(id, key(), {"lines": lines(shoe=1)}), "quantity_exceeds_reservation")


def test_bulk_each_request_has_its_own_outcome(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=300)
    requests: list[BulkRequest] = [{"idempotency_key": f"import {n}", "lines": lines(shirt=1)} for n in range(500)]
    first = unwrap(sale.reserve_bulk(requests))
    assert sum(isinstance(one, Done) and one.word == "held" for one in first) == 300
    assert sum(isinstance(one, Refused) and one.code == "sold_out" for one in first) == 200
    again = sale.reserve_bulk(requests[:10])
    assert isinstance(again, Done) and again.replayed
    assert all(isinstance(one, Done) and one.replayed for one in again.value)
    bad = refused(sale.reserve_bulk([{"idempotency_key": "k", "lines": []}]), "invalid_request")
    assert bad["errors"] is not None and bad["errors"][0]["field"] == "/requests/0/lines"
    with pytest.raises(ValueError):
        sale.reserve_bulk([{"lines": lines(shirt=1)}])
    assert level(sale, "shirt") == (0, 300, 0, 300)


def test_restock_during_a_sale(stockade: Stockade) -> None:
    sale = sale_of(stockade, shirt=1)
    unwrap(sale.reserve(key(), {"lines": lines(shirt=1)}))
    cart, delivery = key(), key()
    refused(sale.reserve(cart, {"lines": lines(shirt=2)}), "sold_out")
    for _ in range(2):
        entry = unwrap(sale.adjust("shirt", delivery, {"delta": 5, "reason": "delivery 7"}))
        assert entry["level"]["granted"] == 6
    unwrap(sale.reserve(cart, {"lines": lines(shirt=2)}))
    lost = refused(sale.adjust("shirt", key(), {"delta": -4, "reason": "lost"}), "insufficient_available")
    assert lost["level"] is not None and lost["level"]["available"] == 3
    assert [entry["delta"] for entry in unwrap(sale.adjustments("shirt"))["items"]] == [1, 5]
    unwrap(sale.pause())
    refused(sale.reserve(key(), {"lines": lines(shirt=1)}), "sale_paused")
    unwrap(sale.resume())
    kinds = {event["type"].split(".")[-1] for event in unwrap(sale.events(limit=500))["items"]}
    assert {"sold_out", "back_in_stock", "adjusted", "paused", "resumed"} <= kinds
