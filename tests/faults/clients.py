"""The crowd: clients that walk through their tapes, and a record of what they asked and were told.

A call whose answer does not say what became of it is asked again with the same key until one does, as a good client would.
"""

import contextlib
import http.client
import itertools
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

import plan
from processes import eventually

SALE = "drop"
PATIENCE_SECONDS = 60
REST_SECONDS = 0.03
LOOK_SECONDS = 0.1
#: Words of Redis that no caller may ever see.
LEAK = re.compile(r"\b(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT|READONLY|LOADING|BUSY|NOSCRIPT|MISCONF|NOREPLICAS|MASTERDOWN|WRONGTYPE|OOM"
                  r"|EXECABORT|NOPERM|NOAUTH|WRONGPASS|EVALSHA)\b")


@dataclass
class Call:
    """One try, and what it was told. `status` is 0 where there was no answer, -1 where nobody took the call."""
    kind: str
    name: str
    key: str
    body: dict | None
    begun: int
    ended: int = 0
    status: int = 0
    document: dict = field(default_factory=dict)
    headers: dict = field(default_factory=dict)
    #: Of a verb: the reservation that was asked for.
    id: str | None = None

    @property
    def is_good(self):
        return self.status in (200, 201)

    @property
    def is_durable(self):
        """Whether it was answered without the remark that a replica does not have it yet."""
        return self.is_good and self.headers.get("stockade-durability") != "local"

    @property
    def is_unknown(self):
        return self.status == 0 or self.status == 503 and self.document.get("outcome") == "unknown"

    @property
    def is_definite(self):
        return self.status > 0 and self.status != 503


class Journal:
    """All calls, in the order of their answers, and what was wrong with any."""

    def __init__(self):
        self.calls, self.wrong = [], []

    def note(self, call, raw):
        if leaked := LEAK.search(raw):
            self.wrong.append(f"words of Redis: {leaked[0]} in {raw[:300]}")
        if call.status >= 500 and call.status != 503:
            self.wrong.append(f"{call.kind} {call.name}: {call.status} {raw[:300]}")
        if call.status == 503 and call.document.get("outcome") not in ("not_applied", "unknown"):
            self.wrong.append(f"{call.kind} {call.name}: does not say what became of it: {raw[:300]}")
        if call.is_good and (said := another(call)):
            self.wrong.append(f"{call.kind} {call.name}: somebody else's answer, {said}: {raw[:300]}")
        self.calls.append(call)

    def good_since(self, moment):
        """The first good answer to a change that was asked for after this moment."""
        for call in reversed(self.calls):
            if call.begun > moment and call.is_good and call.kind not in ("look", "levels"):
                return call
        return None


def another(call):
    """Of a good answer: what shows that it is not about what was asked."""
    said = call.document
    if call.kind == "adjust":
        return said["delta"] != call.body["delta"] and "delta"
    if call.kind == "look":
        return said["sku"] != call.name and "sku"
    if call.kind == "levels":
        return False
    if call.id and said["id"] != call.id:
        return "id"
    if said["reference"] != call.name:
        return "reference"
    asked = call.body.get("lines") if call.kind == "reserve" else None
    told = sorted((line["sku"], line["quantity"]) for line in said["lines"])
    return asked and sorted((line["sku"], line["quantity"]) for line in asked) != told and "lines"


class Crowd:
    """All clients, and one who looks at all levels all the time."""

    def __init__(self, services, tapes, vanish=None, is_endless=True):
        self.services, self.journal, self.is_endless = services, Journal(), is_endless
        self.goes_on = True
        self.clients = [Client(self, number, tape, vanish[number] if vanish else None) for number, tape in enumerate(tapes)]
        self.threads = [threading.Thread(target=guarded, args=(self, client.run), daemon=True) for client in self.clients]
        self.threads.append(threading.Thread(target=guarded, args=(self, self.watch), daemon=True))
        for thread in self.threads:
            thread.start()

    def wait(self):
        """Until all have done all they wanted."""
        for thread in self.threads[:-1]:
            thread.join(2 * PATIENCE_SECONDS)

    def stop(self):
        """Each finishes what it has begun: all is definite then."""
        self.goes_on = False
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS + 30)
            if thread.is_alive():
                self.journal.wrong.append("a client is stuck")

    def watch(self):
        """Reads the levels of all SKUs as they are at one moment, about ten times a second, wherever there is an answer."""
        client = Client(self, len(self.clients), [], None)
        while self.goes_on:
            call = client.send("levels", "levels", "GET", "/stock?fresh=true", None, None)
            if call.is_good and {level["sku"] for level in call.document["items"]} != set(plan.SKUS):
                self.journal.wrong.append(f"levels of {call.document}")
            for level in call.document.get("items", []) if call.is_good else []:
                units = [level[word] for word in ("available", "held", "sold", "granted")]
                if min(units) < 0 or sum(units[:3]) != units[3]:
                    self.journal.wrong.append(f"not conserved: {level}")
            time.sleep(LOOK_SECONDS)


def guarded(crowd, run):
    """A client that fails must not fail silently."""
    try:
        run()
    except Exception as failed:     # noqa: BLE001
        crowd.journal.wrong.append(f"a client failed: {failed!r}")


class Client:
    """One storefront's connection."""

    def __init__(self, crowd, number, tape, vanish):
        self.crowd, self.number, self.tape = crowd, number, tape
        self.vanish = vanish and itertools.cycle(vanish)
        self.made, self.tries = 0, number
        self.callers = [service.caller() for service in crowd.services]

    def run(self):
        for turn in itertools.cycle(self.tape) if self.crowd.is_endless else self.tape:
            if not self.crowd.goes_on:
                break
            self.made += 1
            self.take(turn, f"{self.number}-{self.made}")
        for caller in self.callers:
            caller.close()

    def take(self, turn, name):
        if sku := turn.get("look"):
            self.ask("look", sku, "GET", f"/stock/{sku}?fresh=true")
        elif sku := turn.get("adjust"):
            self.ask("adjust", name, "POST", f"/stock/{sku}/adjustments", {"delta": turn["delta"], "reason": name})
        else:
            self.shop(turn, name)

    def shop(self, turn, name):
        """A hold, and what becomes of it."""
        seconds = turn.get("hold_seconds", plan.HOLD_SECONDS)
        held = self.hold(name, turn["lines"], seconds)
        if not held or not held.is_good:
            return
        id = held.document["id"]
        if turn["repeat"]:
            self.hold(name, turn["lines"], seconds)
        if turn["rest_ms"]:
            time.sleep(turn["rest_ms"] / 1000)
        if turn["extend"]:
            self.verb("extend", name, id, {"hold_seconds": plan.HOLD_SECONDS})
        if turn["settle"]:
            self.verb(turn["settle"], name, id)
        if turn["return"]:
            self.verb("return", name, id)

    def hold(self, name, lines, seconds=plan.HOLD_SECONDS):
        lines = [{"sku": sku, "quantity": quantity} for sku, quantity in lines.items()]
        body = {"lines": lines, "hold_seconds": seconds, "reference": name}
        return self.ask("reserve", name, "POST", "/reservations", body)

    def verb(self, verb, name, id, body=None):
        self.ask(verb, name, "POST", f"/reservations/{id}/{verb}", body, id)

    def ask(self, kind, name, method, path, body=None, id=None):
        """Asks with one key until the answer is definite."""
        key = f"{name} {kind}" if method == "POST" else None
        deadline = time.monotonic() + PATIENCE_SECONDS
        if self.vanish and key:
            self.vanish_from(kind, name, path, body, key, id)
        while time.monotonic() < deadline:
            call = self.send(kind, name, method, path, body, key, id)
            if call.is_definite:
                return call
            if method == "GET" and not self.crowd.goes_on:
                return None
            time.sleep(REST_SECONDS)    # as Retry-After asks, in small
        self.crowd.journal.wrong.append(f"{kind} {name} is not answered for {PATIENCE_SECONDS} s")
        return None

    def send(self, kind, name, method, path, body, key, id=None):
        """One try, at one service after the other."""
        caller = self.callers[self.tries % len(self.callers)]
        self.tries += 1 if len(self.callers) > 1 else 0
        call, raw = Call(kind, name, key, body, time.monotonic_ns(), id=id), b""
        path = f"/v1/sales/{SALE}{path}"
        try:
            answer, raw = caller.fetch(method, path, body, key)
            call.status, call.headers = answer.status, {word.lower(): text for word, text in answer.headers.items()}
            call.document = json.loads(raw or b"{}")
        except ConnectionRefusedError:
            call.status = -1
        except (OSError, http.client.HTTPException):
            caller.close()
        call.ended = time.monotonic_ns()
        self.crowd.journal.note(call, raw.decode(errors="replace"))
        if call.headers.get("connection") == "close":
            turn_away(caller)
        return call

    def vanish_from(self, kind, name, path, body, key, id):
        """Sends the request, or a part of it, and is gone before the answer."""
        if how := next(self.vanish):
            call = Call(kind, name, key, body, time.monotonic_ns(), id=id)
            leave(self.callers[0], f"/v1/sales/{SALE}{path}", body, key, how)
            call.ended = time.monotonic_ns()
            self.crowd.journal.note(call, "")


def turn_away(caller):
    """A service that stops asks its clients to leave. As behind a balancer, they come back when it is ready."""
    def is_ready():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return caller.fetch("GET", "/readyz")[0].status == 200
        return False

    with contextlib.suppress(TimeoutError):
        eventually(is_ready, "it is ready again")


def leave(caller, path, body, key, how):
    """Sends so much of a request, waits so long, and goes without an answer."""
    raw = json.dumps(body).encode() if body is not None else b""
    head = (f"POST {path} HTTP/1.1\r\nHost: {caller.host}:{caller.port}\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: {key}\r\nContent-Length: {len(raw)}\r\n\r\n").encode()
    with contextlib.suppress(OSError), socket.create_connection((caller.host, caller.port), timeout=5) as wire:
        whole = head + raw
        wire.sendall(whole[:max(1, int(len(whole) * how["share"]))])
        time.sleep(how["ms"] / 1000)
        if how["reset"]:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
