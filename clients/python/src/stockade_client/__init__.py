"""A small client of Stockade. It retries with the same key, and makes refusals values.

The types are made from openapi.json; requests and answers are dictionaries of exactly these fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from . import schema
from .barriers import Barrier
from .outcome import BulkOutcome, Done, Effect, NoAnswer, Outcome, Refused, Unanswered, UnexpectedRefusal, unwrap
from .transport import Settings, Transport, part, query, quoted

__all__ = [
    "Barrier", "BulkOutcome", "Done", "Effect", "NoAnswer", "Outcome", "Refused", "Sale", "Settings", "Stockade",
    "Unanswered", "UnexpectedRefusal", "schema", "unwrap",
]

#: A bulk answer as a whole has no `Retry-After`.
_BULK_PAUSE = 1.0


class Stockade:
    """One service. `http` stands in for the HTTPX client that is made otherwise."""

    def __init__(
        self, base_url: str, api_key: str | None = None, settings: Settings = Settings(), http: httpx.Client | None = None
    ) -> None:
        self._transport = Transport(base_url, api_key, settings, http)

    def sale(self, name: str) -> Sale:
        return Sale(self._transport, name)

    def barrier(self, name: str) -> Barrier:
        return Barrier(self._transport, name)

    def close(self) -> None:
        self._transport.close()


class Sale:
    """One sale. What takes units, or changes the supply, needs a key: your name for this one effect, such as the id of
    the cart. Store it with the cart before you call, so that you can ask again after a crash."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._path = f"/v1/sales/{part(name)}"

    def put(self, rules: schema.PutSale) -> Outcome[schema.Sale]:
        """Makes the sale or replaces its rules."""
        return self._call("PUT", "", rules)

    def get(self) -> Outcome[schema.Sale]:
        return self._call("GET", "")

    def pause(self) -> Outcome[schema.Sale]:
        return self._call("POST", "/pause")

    def resume(self) -> Outcome[schema.Sale]:
        return self._call("POST", "/resume")

    def close(self) -> Outcome[schema.Sale]:
        return self._call("POST", "/close")

    def levels(
        self, after: str | None = None, limit: int | None = None, *, fresh: bool = False
    ) -> Outcome[schema.PageLevel]:
        """May be a moment old, which `as_of` tells; `fresh` reads them now."""
        return self._call("GET", f"/stock{_query(after, limit, fresh)}")

    def level(self, sku: str, *, fresh: bool = False) -> Outcome[schema.Level]:
        """May be a moment old, too."""
        return self._call("GET", f"/stock/{part(sku)}{_query(fresh=fresh)}")

    def put_sku(self, sku: str, spec: schema.PutSku) -> Outcome[schema.Level]:
        """Adds a SKU, or sets its buyer limit."""
        return self._call("PUT", f"/stock/{part(sku)}", spec)

    def adjust(self, sku: str, key: str, change: schema.Adjust) -> Outcome[schema.Adjustment]:
        """Changes the supply by `delta`."""
        return self._call("POST", f"/stock/{part(sku)}/adjustments", change, key)

    def adjustments(
        self, sku: str, after: str | None = None, limit: int | None = None
    ) -> Outcome[schema.PageAdjustment]:
        return self._call("GET", f"/stock/{part(sku)}/adjustments{_query(after, limit)}")

    def reserve(self, key: str, request: schema.Reserve) -> Outcome[schema.Reservation]:
        """Takes all lines, or nothing. `Done` means that the units are the buyer's until `expires_at`."""
        return self._call("POST", "/reservations", request, key)

    def reserve_bulk(self, requests: Sequence[schema.BulkRequest]) -> Outcome[list[BulkOutcome]]:
        """Reserves for up to 500 requests, each for itself: outcomes are in their order. Each needs an
        `idempotency_key`. Requests that were not answered are sent again, the others are not."""
        if not all(request.get("idempotency_key") for request in requests):
            raise ValueError("each request needs an idempotency_key: without one it could not be sent again")
        outcomes: list[BulkOutcome] = [Unanswered("not_applied", None)] * len(requests)
        waiting = list(range(len(requests)))
        tries = 0
        while True:
            tries += 1
            try:
                body = {"requests": [requests[place] for place in waiting]}
                answer: Outcome[schema.BulkAnswer] = self._call("POST", "/reservations/bulk", body)
            except NoAnswer as error:
                if tries == 1:
                    raise
                # What was answered before must not be lost.
                for place in waiting:
                    outcomes[place] = _unanswered(error.outcome, error.problem, outcomes[place])
                return _whole(outcomes)
            if isinstance(answer, Refused):
                return answer if tries == 1 else _whole(outcomes)
            results = dict(zip(waiting, answer.value["results"], strict=True))
            for place, result in results.items():
                outcomes[place] = _outcome_of(result, outcomes[place])
            waiting = [place for place, result in results.items() if result["problem"] and result["problem"]["retryable"]]
            if not waiting or tries >= self._transport.settings.tries_max:
                return _whole(outcomes)
            self._transport.pause(tries, _BULK_PAUSE)

    def reservation(self, id: str) -> Outcome[schema.Reservation]:
        return self._call("GET", f"/reservations/{part(id)}")

    def reservation_of_key(self, key: str) -> Outcome[schema.Reservation | None]:
        """The reservation that a key has made; `None` where it has made none."""
        wanted = query(idempotency_key=quoted(key))
        found: Outcome[schema.PageReservation] = self._call("GET", f"/reservations{wanted}")
        if isinstance(found, Refused):
            return found
        return Done(next(iter(found.value["items"]), None), found.word, found.replayed)

    def confirm(self, id: str, request: schema.Confirm | None = None) -> Outcome[schema.Reservation]:
        """Sells what is held. Needs no key: a repeat is answered the same."""
        return self._call("POST", f"/reservations/{part(id)}/confirm", request)

    def release(self, id: str, request: schema.Release | None = None) -> Outcome[schema.Reservation]:
        """Gives back what is held."""
        return self._call("POST", f"/reservations/{part(id)}/release", request)

    def extend(self, id: str, key: str, hold_seconds: int) -> Outcome[schema.Reservation]:
        """Moves the deadline to now + `hold_seconds`, if that is later."""
        return self._call("POST", f"/reservations/{part(id)}/extend", {"hold_seconds": hold_seconds}, key)

    def return_reservation(self, id: str, key: str, request: schema.Return) -> Outcome[schema.Reservation]:
        """Gives back what was sold: all that is left, or some lines."""
        return self._call("POST", f"/reservations/{part(id)}/return", request, key)

    def buyer(self, buyer: str) -> Outcome[schema.BuyerStanding]:
        """What a buyer has, and may still take."""
        return self._call("GET", f"/buyers/{part(buyer)}")

    def events(self, after: str | None = None, limit: int | None = None) -> Outcome[schema.PageEvent]:
        """What happened, oldest first. `after`: a cursor, or `latest`."""
        return self._call("GET", f"/events{_query(after, limit)}")

    def _call(self, method: str, path: str, body: object = None, key: str | None = None) -> Outcome[Any]:
        return self._transport.send(method, self._path + path, body, key)


def _outcome_of(result: schema.BulkResult, before: BulkOutcome) -> BulkOutcome:
    reservation, problem = result["reservation"], result["problem"]
    if reservation is not None:
        replayed = result["status"] == 200
        return Done(reservation, "replayed" if replayed else "held", replayed)
    if problem is not None and problem["status"] < 500:
        return Refused(problem)
    return _unanswered("unknown" if problem is None or problem.get("outcome") == "unknown" else "not_applied", problem, before)


def _unanswered(effect: Effect, problem: schema.Problem | None, before: BulkOutcome) -> Unanswered:
    """One try that may have had its effect is enough."""
    was_unknown = isinstance(before, Unanswered) and before.outcome == "unknown"
    return Unanswered("unknown" if was_unknown else effect, problem)


def _whole(outcomes: list[BulkOutcome]) -> Done[list[BulkOutcome]]:
    replayed = all(isinstance(one, Done) and one.replayed for one in outcomes)
    held = any(isinstance(one, Done) and not one.replayed for one in outcomes)
    return Done(outcomes, "held" if held else "replayed" if replayed else "unchanged", replayed)


def _query(after: str | None = None, limit: int | None = None, fresh: bool = False) -> str:
    return query(after=after, limit=limit, fresh="true" if fresh else None)
