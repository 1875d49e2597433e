"""Barriers: complete when all participants have arrived; then exactly one notification is sent."""

from __future__ import annotations

import time
from typing import Any, Literal

from . import schema
from .outcome import Outcome, Refused
from .transport import Transport, part, query

#: The service waits no longer in one call.
_WAIT_SECONDS_MAX = 50


class Barrier:
    """One barrier. Nothing here needs a key: every call may be repeated, and counts once."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._path = f"/v1/barriers/{part(name)}"

    def put(self, spec: schema.PutBarrier) -> Outcome[schema.Barrier]:
        """Makes it. The same again gets it as it is now; `notify` shows what messages are signed with."""
        return self._call("PUT", "", spec)

    def get(self) -> Outcome[schema.Barrier]:
        return self._call("GET", "")

    def arrive(self, arrival: schema.Arrive) -> Outcome[schema.BarrierProgress]:
        """`fired` is true for exactly one arrival (or seal), also when that one is repeated."""
        return self._call("POST", "/arrivals", arrival)

    def declare(self, participants: list[str]) -> Outcome[schema.Barrier]:
        """Names of participants that are still to come, at most 1,000 a call."""
        return self._call("POST", "/participants", {"participants": participants})

    def seal(self, expected: int | None = None) -> Outcome[schema.BarrierProgress]:
        """Settles how many it waits for: `None`: those declared until now."""
        return self._call("POST", "/seal", {"expected": expected})

    def extend(self, deadline_seconds: int) -> Outcome[schema.Barrier]:
        """Moves the deadline to so many seconds from now, if that is later."""
        return self._call("POST", "/extend", {"deadline_seconds": deadline_seconds})

    def cancel(self) -> Outcome[schema.Barrier]:
        return self._call("DELETE", "")

    def participants(
        self, status: Literal["missing", "arrived", "failed"], after: str | None = None, limit: int | None = None
    ) -> Outcome[schema.PageBarrierParticipant]:
        return self._call("GET", f"/participants{query(status=status, after=after, limit=limit)}")

    def wait(self, seconds: float | None = None) -> Outcome[schema.Barrier]:
        """Waits until it has ended, or for so long; `status` says which."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            # A call that waits must be answered before it is given up.
            step = min(_WAIT_SECONDS_MAX, self._transport.settings.timeout / 2, *([] if until is None else [until - asked]))
            outcome: Outcome[schema.Barrier] = self._call("GET", f"/wait{query(seconds=max(0, round(step)))}")
            if isinstance(outcome, Refused) or outcome.value["status"] != "open":
                return outcome
            if until is not None and time.monotonic() >= until - 0.5:
                return outcome
            # A process that stops answers at once.
            if time.monotonic() - asked < step / 2:
                self._transport.pause(1, 0.0)

    def _call(self, method: str, path: str, body: object = None) -> Outcome[Any]:
        return self._transport.send(method, self._path + path, body)
