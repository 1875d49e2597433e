"""What a receiver of webhooks needs: the check of the signature, as Standard Webhooks has it, and a way to drop repeats."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Iterable
from typing import Protocol, cast

from .schema import Event


class NotGenuine(Exception):
    """The message is not from Stockade, was changed, or is too old. Answer 401, and do nothing."""


class Headers(Protocol):
    """Those of any framework; in upper or lower case."""

    def items(self) -> Iterable[tuple[str, str]]: ...


def verify(
    secrets: str | Iterable[str], headers: Headers, body: bytes, *, tolerance: float = 300, now: float | None = None
) -> Event:
    """The event of a genuine message; raises `NotGenuine` otherwise.

    `body` is what came, byte for byte: JSON that was read and written again is another text. Several secrets: while one
    is changed, and where several endpoints send to one place. `tolerance`: how many seconds the message's time may be
    from ours; clocks differ, and an older one may be a recording."""
    given = {name.lower(): value for name, value in headers.items()}
    id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
    if not is_number or abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise NotGenuine("it was not sent now")
    # While a secret is changed, it is signed with both.
    theirs = [one.encode() for one in given.get("webhook-signature", "").split(" ")]
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mac = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
        ours = b"v1," + base64.b64encode(mac)
        if any(hmac.compare_digest(one, ours) for one in theirs):
            return cast(Event, json.loads(body))
    raise NotGenuine("no signature is right")


class Seen:
    """Ids of events that were taken in; the oldest are forgotten, and all when the process ends. It is for a start: a
    real receiver has a table whose unique column is the id, and writes to it in the transaction that does the work.
    Safe to share between threads."""

    def __init__(self, ids_max: int = 100_000) -> None:
        self._ids_max = ids_max
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()

    def is_new(self, id: str) -> bool:
        """True for the first of an id."""
        with self._lock:
            if id in self._ids:
                return False
            self._ids[id] = None
            if len(self._ids) > self._ids_max:
                del self._ids[next(iter(self._ids))]
            return True

    def forget(self, id: str) -> None:
        """The work failed: answer 5xx, and let it come again."""
        with self._lock:
            self._ids.pop(id, None)
