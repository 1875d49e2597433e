"""Stripe Checkout on top of Stockade: docs/recipes/stripe.md tells it step by step."""

from __future__ import annotations

import time
from typing import Any

from stockade_client import Done, Refused, Sale, UnexpectedRefusal
from stockade_client.schema import Line

#: Stripe closes a session no earlier than 30 minutes after it was made; a minute more for both clocks.
SESSION_SECONDS = 31 * 60
#: What the shopper pays in the last second must find its hold: the webhook needs a while.
HOLD_SECONDS = SESSION_SECONDS + 5 * 60


def redirect(sale: Sale, stripe: Any, reservation: str, attempt: str, line_items: list[Any], shop: str) -> str | None:
    """The URL of a payment page whose units are held until it closes. `None`: the hold is gone, show the cart again.

    `attempt` names this attempt to pay: a repeat makes no second session."""
    match sale.extend(reservation, attempt, HOLD_SECONDS):
        case Refused():
            return None
        case Done(value=hold):
            session = stripe.checkout.Session.create(
                mode="payment",
                line_items=line_items,
                client_reference_id=reservation,
                metadata={"sale": hold["sale"], "reservation": reservation},
                payment_intent_data={"metadata": {"sale": hold["sale"], "reservation": reservation}},
                expires_at=int(time.time()) + SESSION_SECONDS,
                success_url=f"{shop}/thanks",
                cancel_url=f"{shop}/cart",
                idempotency_key=f"session {attempt}",
            )
            return str(session["url"])


def webhook(sale: Sale, stripe: Any, event: Any) -> str:
    """What became of it, for your order. `event` is verified: `stripe.Webhook.construct_event` made it.

    Let `NoAnswer` and Stripe's own errors become a 5xx: Stripe sends the event again, and all of this may be repeated."""
    session = event["data"]["object"]
    match event["type"]:
        case "checkout.session.completed" if session["payment_status"] == "unpaid":
            return "waiting"  # a bank transfer: async_payment_succeeded or _failed follows
        case "checkout.session.completed" | "checkout.session.async_payment_succeeded":
            return paid(sale, stripe, session)
        case "checkout.session.expired" | "checkout.session.async_payment_failed":
            sale.release(session["client_reference_id"])  # refused where it was paid after all
            return "released"
        case _:
            return "ignored"


def paid(sale: Sale, stripe: Any, session: Any) -> str:
    """The money is there: the units, or the money back."""
    reservation, payment = session["client_reference_id"], session["payment_intent"]
    match sale.confirm(reservation, {"if_expired": "retake", "reference": payment}):
        case Done():
            return "ship"
        # Late, and others have the units, or the buyer has bought as many meanwhile; or they were given back.
        case Refused(code="sold_out" | "buyer_limit" | "buyer_holds" | "already_released" as code):
            stripe.Refund.create(
                payment_intent=payment, metadata={"reason": code}, idempotency_key=f"refund {payment}"
            )
            return "refunded"
        case Refused(code="already_returned"):
            return "returned"  # sold, sent back and refunded before this event came again
        case Refused() as refused:
            raise UnexpectedRefusal(refused)  # a mistake of ours: no reason to pay


def refund(sale: Sale, stripe: Any, reservation: str, request: str, lines: list[Line], cents: int, payment: str) -> str:
    """The customer sends something back. `request` names this return: a repeat takes back and pays nothing twice."""
    match sale.return_reservation(reservation, f"return {request}", {"lines": lines}):
        case Done():
            stripe.Refund.create(payment_intent=payment, amount=cents, idempotency_key=f"return {request}")
            return "refunded"
        case Refused(code=code):
            return code  # such as `quantity_exceeds_reservation`: it was returned before, under another name
