"""One run of one row: what it starts, the crowd, the moments of its faults, and what is found afterwards."""

import contextlib
import os
import time
from dataclasses import dataclass, field

import checks
import history
import plan
from clients import PATIENCE_SECONDS, SALE, Crowd
from processes import Redis, Service, eventually


@dataclass
class Result:
    """What a run adds to its row."""
    calls: int = 0
    unknown: int = 0
    lost: int = 0
    drift: int = 0
    oversold: int = 0
    duplicates: int = 0
    not_linearizable: int | None = 0
    recovered: list = field(default_factory=list)
    #: What must not be.
    wrong: list = field(default_factory=list)
    #: What is worth a word.
    notes: dict = field(default_factory=dict)


class Run:
    """The hands of a row."""

    def __init__(self, row, drawn, home, stack):
        self.row, self.plan, self.home, self.stack = row, drawn, home, stack
        self.faults, self.result, self.crowd = drawn["faults"], Result(), None
        self.services, self.is_put, self.is_finished = [], False, False

    def start(self, child):
        return self.stack.enter_context(child)

    def redis(self, *settings, name="redis", **more):
        return self.start(Redis(os.path.join(self.home, name), *settings, **more))

    def service(self, url=None, *options, name=None):
        """On this Redis, or with its embedded engine."""
        service = self.start(Service(self.home, name or f"service-{len(self.services)}", url, *options))
        self.services.append(service)
        return service

    def open(self, vanish=None):
        """Puts the sale up at the first service and lets the crowd in at all of them."""
        if not self.is_put:
            self.put_sale()
        self.crowd = Crowd(self.services, self.plan["tapes"], vanish, self.row.is_endless)

    def put_sale(self, **more):
        stock = {sku: {"initial": plan.UNITS} for sku in plan.SKUS}
        body = {"stock": stock, "hold_seconds": plan.HOLD_SECONDS, "hold_seconds_max": 2 * plan.HOLD_SECONDS, **more}

        def put():
            status, document = caller.call("PUT", f"/v1/sales/{SALE}", body, "put")
            if status not in (200, 201, 503):
                raise RuntimeError(f"PUT: {status} {document}")
            return status < 300

        with contextlib.closing(self.services[0].caller()) as caller:
            self.is_put = eventually(put, "the sale is up")

    def load(self, seconds):
        """Lets the crowd go on."""
        time.sleep(seconds)

    def over(self):
        """The fault is over: how long until somebody who asks from now on gets what they want."""
        moment = time.monotonic_ns()
        try:
            call = eventually(lambda: self.crowd.journal.good_since(moment), "a change is answered 2xx", PATIENCE_SECONDS)
        except TimeoutError as late:
            self.result.wrong.append(f"it does not recover: {late}")
        else:
            self.result.recovered.append((call.ended - moment) / 1e9)

    def longest_silence(self, since):
        """Seconds without a good answer to a change, from this moment to the last of them."""
        moments = sorted(call.ended for call in self.crowd.journal.calls if call.is_good and call.key and call.ended > since)
        self.result.recovered.append(max((later - one for one, later in zip([since, *moments], moments)), default=0) / 1e9)

    def fail(self, what):
        self.result.wrong.append(what)

    def finish(self):
        """Sends the crowd home and compares. A row that has more to do afterwards calls it itself."""
        self.is_finished = True
        self.crowd.stop()
        calls = self.crowd.journal.calls
        self.result.calls += sum(call.status >= 0 for call in calls)    # not those that nobody took
        self.result.unknown += sum(call.is_unknown and call.kind not in ("look", "levels") for call in calls)
        self.result.wrong += self.crowd.journal.wrong
        service = self.services[0]
        with contextlib.closing(service.caller(60)) as caller:
            books = checks.Books(caller)
        findings = checks.check(calls, books, self.row.may_expire)
        where = {"url": service.url} if service.url else {"data": service.data}
        checks.check_audit(findings, **where)
        self.take(findings)
        self.check_history(calls, books)
        return books

    def take(self, findings):
        for word in ("lost", "drift", "oversold", "duplicates"):
            setattr(self.result, word, getattr(self.result, word) + getattr(findings, word))
        if not self.row.may_lose:
            self.result.wrong += findings.wrong
        else:
            # What a lost write brings along is said in numbers; the books of what is left must balance all the same.
            never = ["drift", "oversold", "duplicates", *(["lost"] if self.row.keeps_replicated else [])]
            self.result.wrong += [f"{word}: {count}" for word in never if (count := getattr(findings, word))]

    def check_history(self, calls, books):
        if self.row.may_expire or self.result.lost or any(call.is_good and not call.is_durable for call in calls):
            self.result.not_linearizable = None     # with a hole in it there is nothing to check
            return
        broken, unsure = history.not_linearizable(calls, books)
        self.result.not_linearizable = len(broken)
        if not self.row.may_lose:   # else an old master may have been read
            self.result.wrong += [f"not linearizable: {why}" for why in broken]
        if unsure:
            self.result.notes["histories not decided"] = len(unsure)
