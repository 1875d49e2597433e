"""The code of docs/recipes/fan-in.md, as it stands there, with a receiver that is told to fail."""

from __future__ import annotations

import http.server
import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import fan_in
from conftest import ROOT, client
from stockade_client import Barrier, Stockade, UnexpectedRefusal, unwrap
from stockade_client.schema import Event
from stockade_client.webhooks import Seen


def test_the_page_shows_the_code_that_is_tested() -> None:
    page = (ROOT / "docs/recipes/fan-in.md").read_text()
    code = (ROOT / "clients/python/recipes/fan_in.py").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        assert block.strip() in code, block


@pytest.fixture
def night(service: str) -> tuple[Stockade, str]:
    return client(service), f"night-{uuid.uuid4().hex}"


class Receiver:
    """An HTTP server that leaves all to `receive`, and whose work fails as often as it is told."""

    def __init__(self) -> None:
        self.secret, self.seen = "", Seen()
        self.failures = 0
        self.statuses: list[int] = []
        self.events: list[Event] = []
        self.heard = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = fan_in.receive(receiver.secret, self.headers, body, receiver.seen, receiver.act)
                receiver.statuses.append(status)
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/night"

    def act(self, event: Event) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError("the shop's database is away")
        self.events.append(event)
        self.heard.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with receiver.server:
        threading.Thread(target=receiver.server.serve_forever, daemon=True).start()
        yield receiver
        receiver.server.shutdown()


def nothing() -> None:
    pass


def fail() -> None:
    raise RuntimeError("no space left " * 100)


def test_sixty_processes_are_one_notification(night: tuple[Stockade, str], receiver: Receiver) -> None:
    stockade, name = night
    barrier = stockade.barrier(name)
    receiver.secret = fan_in.begin(barrier, fan_in.PARTICIPANTS, receiver.url)
    assert fan_in.begin(barrier, fan_in.PARTICIPANTS, receiver.url) == receiver.secret
    receiver.failures = 1
    with ThreadPoolExecutor(20) as crowd:
        # Each reports twice, as after a crash between its report and the end of its process.
        reports = [crowd.submit(fan_in.take_part, barrier, who, nothing) for who in fan_in.PARTICIPANTS * 2]
        statuses = {report.result() for report in reports}
    assert statuses == {"open", "completed"}
    assert receiver.heard.wait(30)
    assert receiver.statuses[0] == 500
    [event] = receiver.events
    assert (event["type"], event["subject"]) == ("dev.stockade.barrier.completed", name)
    published: list[str] = []
    fan_in.after_the_night(stockade, event, receiver.url, lambda: published.append(name), lambda *_: None)
    assert published == [name]


def test_the_missing_begin_anew(night: tuple[Stockade, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    stockade, name = night
    monkeypatch.setattr(fan_in, "DEADLINE_SECONDS", 2)
    barrier = stockade.barrier(name)
    receiver.secret = fan_in.begin(barrier, fan_in.PARTICIPANTS, receiver.url)
    dead = "stock-19"
    alive = [who for who in fan_in.PARTICIPANTS if who != dead]
    with ThreadPoolExecutor(20) as crowd:
        told = dict(zip(alive, crowd.map(lambda who: fan_in.take_part(barrier, who, nothing), alive), strict=True))
    assert receiver.heard.wait(30)
    [event] = receiver.events
    assert event["type"] == "dev.stockade.barrier.timed_out"
    assert fan_in.take_part(barrier, dead, nothing) == "late"
    assert fan_in.take_part(barrier, alive[0], nothing) == "timed_out"
    # On a slow machine there may be more of them.
    missing = sorted([dead, *(who for who in alive if told[who] != "open")])
    started: list[tuple[str, list[str]]] = []
    for _ in range(2):
        fan_in.after_the_night(stockade, event, receiver.url, nothing, lambda *begun: started.append(begun))
    assert started == [(f"{name}-again", missing)] * 2
    again = stockade.barrier(f"{name}-again")
    assert [fan_in.take_part(again, who, nothing) for who in missing][-1] == "completed"


def test_who_failed_has_not_finished_and_may_try_again(night: tuple[Stockade, str]) -> None:
    stockade, name = night
    barrier = stockade.barrier(name)
    unwrap(barrier.put({"participants": ["orders-0", "orders-1"]}))
    assert fan_in.take_part(barrier, "orders-0", nothing) == "open"
    assert fan_in.take_part(barrier, "orders-1", fail) == "open"
    [failed] = unwrap(barrier.participants("failed"))["items"]
    assert failed["participant"] == "orders-1" and len(failed["note"] or "") == 256
    with pytest.raises(UnexpectedRefusal, match="unknown_participant"):
        fan_in.take_part(barrier, "orders-2", nothing)
    assert fan_in.take_part(barrier, "orders-1", nothing) == "completed"


def test_time_is_given_to_those_who_are_at_work(night: tuple[Stockade, str]) -> None:
    stockade, name = night
    barrier = stockade.barrier(name)
    before = unwrap(barrier.put({"participants": ["orders-0", "orders-1"]}))["deadline"]
    fan_in.take_part(barrier, "orders-0", nothing)
    assert not fan_in.give_time(barrier, lambda who: who == "orders-0", 2 * 86_400)
    assert unwrap(barrier.get())["deadline"] == before
    assert fan_in.give_time(barrier, lambda who: who == "orders-1", 2 * 86_400)
    assert unwrap(barrier.get())["deadline"] > before
    unwrap(barrier.cancel())
    assert not fan_in.give_time(barrier, lambda _: True, 3 * 86_400)


def test_names_come_page_after_page(night: tuple[Stockade, str]) -> None:
    stockade, name = night
    barrier: Barrier = stockade.barrier(name)
    everybody = sorted(f"p{number}" for number in range(1_200))
    unwrap(barrier.put({}))
    for first in (0, 600):
        unwrap(barrier.declare(everybody[first : first + 600]))
    assert list(fan_in.names(barrier, "missing")) == everybody
    assert unwrap(barrier.seal())["expected"] == 1_200
    assert unwrap(barrier.wait(0))["status"] == "open"
