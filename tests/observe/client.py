"""A caller of the story, who checks and counts what he is told."""

import json
import time

from servers import Caller

TRIES = 10


class Wrong(Exception):
    """An answer that the story does not expect."""


def route(path):
    """`/v1/sales/drop/stock/mug?fresh=true` is `/v1/sales/{}/stock/{}`: every second part is a name."""
    parts = path.partition("?")[0].split("/")
    return "/".join("{}" if place > 2 and place % 2 else part for place, part in enumerate(parts))


class Client(Caller):
    """A caller that remembers how its calls went."""

    def __init__(self, port, seen):
        super().__init__(port)
        self.seen = seen

    def expect(self, wanted, method, path, body=None, key=None):
        """The document of an answer that must have this status, and this outcome where it is written with it (`201 held`)."""
        is_known = True
        for _ in range(TRIES):
            answer, raw = self.fetch(method, path, body, key)
            outcome = answer.headers.get("Stockade-Outcome")
            self.seen[route(path), method, str(answer.status), outcome] += 1
            document = json.loads(raw or b"null")
            if answer.status != 503:
                break
            # Redis did not answer in time, as happens where disks are slow: a client asks again.
            is_known &= document["outcome"] == "not_applied"
            time.sleep(int(answer.headers["Retry-After"]))
        said = {str(answer.status), f"{answer.status} {(document or {}).get('code') or outcome}"}
        if said.isdisjoint(wanted.split(" | ")) and (is_known or answer.status != 200):
            raise Wrong(f"{method} {path} {body}: {answer.status} {outcome}, not {wanted}: {raw[:500]}")
        return answer.status, document
