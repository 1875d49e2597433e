"""Ends that are planned, several processes that do the same work, and those who are told."""

import contextlib
import signal

from checks import RESERVATION
from clients import SALE
from matrix import Row, seconds
from matrix.clocks import expire
from matrix.receivers import BEHAVIOURS, Receiver
from processes import engine, eventually, tail


class Sigterm(Row):
    name, fault = "sigterm", "SIGTERM under load, start: nobody is cut off"
    is_quick = True

    def draw(self, rng):
        return {"embedded": rng.random() < 0.5, "times": [seconds(rng, 0.5, 1) for _ in range(2)]}

    def play(self, run):
        service = run.service(None if run.faults["embedded"] else run.redis().url)
        run.open()
        for after in run.faults["times"]:
            run.load(after)
            service.child.send_signal(signal.SIGTERM)
            eventually(service.has_ended, "it ends")
            if service.child.returncode:
                run.fail(f"it ended with {service.child.returncode}: {tail(service.log)}")
            service.start(ready=False)
            run.over()
        service.wait_ready()
        cut = [call for call in run.crowd.journal.calls if call.status == 0]
        run.result.notes["cut off"] = len(cut)
        if cut:
            run.fail(f"{len(cut)} requests were cut off, the first: {cut[0]}")


def told(run, receiver):
    """Registers it for whatever happens to reservations."""
    with contextlib.closing(run.services[0].caller()) as caller:
        status, document = caller.call("POST", "/v1/webhooks", {"url": receiver.url, "types": ["reservation.*"], "sales": [SALE]}, "hook")
    if status != 201:
        raise RuntimeError(f"webhook: {status} {document}")


def check_told(run, receiver, books):
    """Each event has reached it, under its one id, and nothing else has."""
    events = {event["id"] for event in books.events if event["type"].startswith(RESERVATION)}
    with contextlib.suppress(TimeoutError):
        eventually(lambda: events <= set(receiver.taken), "each event has arrived", 2 * engine.DEADLINE_SECONDS)
    if missing := events - set(receiver.taken):
        run.fail(f"{len(missing)} of {len(events)} events were never delivered: {sorted(missing)[:3]}")
    if unknown := set(receiver.tries) - events:
        run.fail(f"{len(unknown)} messages are of no event: {sorted(unknown)[:3]}")
    run.result.notes["events"] = len(events)
    run.result.notes["messages"] = sum(receiver.tries.values())


class Webhooks(Row):
    name, fault = "webhooks", "receiver of webhooks answers 500, hangs, drops after reading"
    clients, turns, is_endless = 4, 20, False

    def draw(self, rng):
        return {"behaviours": [rng.choice(BEHAVIOURS) for _ in range(200)]}

    def play(self, run):
        run.service(run.redis().url)
        receiver = run.start(Receiver(run.faults["behaviours"]))
        run.put_sale()
        told(run, receiver)
        run.open()
        run.crowd.wait()
        check_told(run, receiver, run.finish())


class ThreeServices(Row):
    name, fault = "three-services", "three services on one Redis: three sweepers, three notifiers"
    is_quick = True
    may_expire, brief = True, 0.4
    turns, is_endless = 25, False

    def draw(self, rng):
        return {}

    def play(self, run):
        redis = run.redis()
        for _ in range(3):
            run.service(redis.url)
        receiver = run.start(Receiver())
        run.put_sale()
        told(run, receiver)
        run.open()
        run.crowd.wait()
        expire(run, redis)
        books = run.finish()
        run.result.notes["holds expired"] = sum(record["status"] == "expired" for record in books.all)
        check_told(run, receiver, books)


ROWS = [Sigterm(), Webhooks(), ThreeServices()]
