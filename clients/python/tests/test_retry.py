"""Lost answers: always the same key again, never another."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from conftest import client
from stockade_client import BulkOutcome, Done, NoAnswer, Refused, Sale, Settings, Unanswered, unwrap
from stockade_client.schema import BulkRequest, Reservation, Reserve

ONE: Reserve = {"lines": [{"sku": "shirt", "quantity": 1}]}
QUICK = Settings(backoff=0.001, backoff_max=0.05)


@dataclass
class Seen:
    key: str | None
    body: bytes
    at: float


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def listening(answer: Callable[[BaseHTTPRequestHandler, bytes], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        do_GET = do_PUT = do_POST = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that give up are what these tests are about

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def scripted(*answers: Answer, settings: Settings = QUICK) -> Iterator[tuple[Sale, list[Seen]]]:
    """A server that answers what the test says, one answer a request, and remembers what it was sent."""
    seen: list[Seen] = []

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        seen.append(Seen(request.headers.get("Idempotency-Key"), body, time.monotonic()))
        answers[len(seen) - 1](request)

    with listening(answer) as url:
        yield client(url, settings).sale("drop"), seen


def send(
    request: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None, headers: dict[str, str] = {}
) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    request.wfile.write(body)
    request.wfile.flush()


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)


def held(request: BaseHTTPRequestHandler) -> None:
    send(request, 201, b'{"id": "7", "status": "held"}', headers={"Stockade-Outcome": "held"})


def cut(request: BaseHTTPRequestHandler) -> None:
    send(request, 201, b'{"id":', length=100)
    hang_up(request)


def silent(request: BaseHTTPRequestHandler) -> None:
    time.sleep(3)
    hang_up(request)


def page(status: int) -> Answer:
    return lambda request: send(request, status, b"<html>")


def problem(status: int, code: str, outcome: str | None = None, retry_after: str | None = None) -> Answer:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    document = {"code": code, "status": status, "detail": code, "retryable": status == 503, "outcome": outcome}
    return lambda request: send(request, status, json.dumps(document).encode(), headers=headers)


busy = problem(503, "store_busy", "not_applied")


def test_the_same_bytes_and_the_same_key_go_again_after_each_kind_of_lost_answer() -> None:
    with scripted(busy, hang_up, cut, silent, page(502), held, settings=Settings(2.0, 6, 0.001, 0.05)) as (sale, seen):
        assert unwrap(sale.reserve('cart "7"; a\\b', ONE))["id"] == "7"
    assert len(seen) == 6
    assert {one.key for one in seen} == {'"cart \\"7\\"; a\\\\b"'}
    assert {one.body for one in seen} == {seen[0].body} and json.loads(seen[0].body) == ONE


@pytest.mark.parametrize(
    "status, code", [(409, "sold_out"), (422, "invalid_request"), (404, "unknown_sale"), (410, "hold_expired")]
)
def test_an_answer_is_not_asked_for_again(status: int, code: str) -> None:
    with scripted(problem(status, code), held) as (sale, seen):
        outcome = sale.reserve("k", ONE)
        assert isinstance(outcome, Refused) and outcome.code == code
    assert len(seen) == 1


def test_retry_after_is_waited_for_and_not_for_ever() -> None:
    soon = problem(503, "queue_full", "not_applied", "1")
    with scripted(soon, held, settings=Settings(backoff=0.001, backoff_max=5)) as (sale, seen):
        unwrap(sale.reserve("k", ONE))
    assert seen[1].at - seen[0].at >= 1
    late = problem(503, "queue_full", "not_applied", "3600")
    with scripted(late, held) as (sale, _):
        unwrap(sale.reserve("k", ONE))


@pytest.mark.parametrize(
    "answers, outcome, tries",
    [
        ((busy, busy), "not_applied", 2),
        # One try that may have had its effect is enough.
        ((cut, busy), "unknown", 2),
        ((problem(500, "internal", "unknown"), held), "unknown", 1),
        ((page(404), held), "not_applied", 1),
    ],
)
def test_without_an_answer_it_says_whether_it_may_have_been_done(
    answers: tuple[Answer, ...], outcome: str, tries: int
) -> None:
    settings = Settings(tries_max=2, backoff=0.001, backoff_max=0.05)
    with scripted(*answers, settings=settings) as (sale, _), pytest.raises(NoAnswer) as raised:
        sale.reserve("k", ONE)
    assert (raised.value.outcome, raised.value.tries, raised.value.key) == (outcome, tries, "k")


def test_what_was_never_sent_was_not_applied() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        sale = client(f"http://127.0.0.1:{nobody.getsockname()[1]}", QUICK).sale("drop")
        with pytest.raises(NoAnswer) as raised:
            sale.reserve("k", ONE)
    assert (raised.value.outcome, raised.value.tries) == ("not_applied", 6)


def test_bulk_sends_only_what_was_not_answered_again() -> None:
    def result(status: int, code: str | None = None) -> object:
        outcome = "not_applied" if status == 503 else None
        problem = {"code": code, "status": status, "retryable": status == 503, "outcome": outcome}
        return {"status": status, "reservation": None if code else {"id": "7"}, "problem": problem if code else None}

    def results(*all: object) -> Answer:
        return lambda request: send(request, 200, json.dumps({"results": all}).encode())

    full, sold_out = result(503, "queue_full"), result(409, "sold_out")
    answers = results(result(201), full, full), results(sold_out, full)
    requests: list[BulkRequest] = [{"idempotency_key": key, "lines": ONE["lines"]} for key in "abc"]
    with scripted(*answers, settings=Settings(tries_max=2, backoff=0.001, backoff_max=0.05)) as (sale, seen):
        outcomes = unwrap(sale.reserve_bulk(requests))

    def said(one: BulkOutcome) -> str:
        match one:
            case Done():
                return one.word
            case Refused():
                return one.code
            case Unanswered():
                return one.outcome

    assert [said(one) for one in outcomes] == ["held", "sold_out", "not_applied"]
    keys = [[one["idempotency_key"] for one in json.loads(call.body)["requests"]] for call in seen]
    assert keys == [["a", "b", "c"], ["b", "c"]]


def test_a_client_whose_answers_are_cut_30_percent_of_the_time_has_one_hold_a_key(service: str) -> None:
    seed = int(os.environ.get("STOCKADE_TEST_SEED") or random.randrange(2**31))
    print(f"STOCKADE_TEST_SEED={seed}")
    chance, lock, cuts = random.Random(seed), threading.Lock(), 0
    host = urlsplit(service).netloc

    def pass_on(request: BaseHTTPRequestHandler, body: bytes) -> None:
        nonlocal cuts
        onward = http.client.HTTPConnection(host, timeout=30)
        onward.request(request.command, request.path, body or None, dict(request.headers))
        answer = onward.getresponse()
        whole = answer.read()
        with lock:
            is_cut, at_once, share = chance.random() < 0.3, chance.random() < 0.5, chance.random()
            cuts += is_cut
        if not (is_cut and at_once):
            kept = whole[: int(share * len(whole))] if is_cut else whole
            headers = {"Stockade-Outcome": answer.headers.get("Stockade-Outcome", "")}
            send(request, answer.status, kept, len(whole), headers)
        if is_cut:
            hang_up(request)
        onward.close()

    straight = client(service).sale("cut")
    unwrap(straight.put({"stock": {"shirt": {"initial": 1_000}}}))
    # 40 tries: that all are cut happens once in 10^20 calls.
    with listening(pass_on) as url, ThreadPoolExecutor(8) as pool:
        cut_off = client(url, Settings(tries_max=40, backoff=0.001, backoff_max=0.005)).sale("cut")

        def reserve(n: int) -> Reservation:
            return unwrap(cut_off.reserve(f"cart {n}", {**ONE, "reference": f"cart {n}"}))

        made = list(pool.map(reserve, range(150)))
        bulk: list[BulkRequest] = [
            {"idempotency_key": f"bulk {n}", "reference": f"bulk {n}", "lines": ONE["lines"]} for n in range(50)
        ]
        for outcome in unwrap(cut_off.reserve_bulk(bulk)):
            assert isinstance(outcome, Done)
            made.append(outcome.value)
        for reservation in made:
            found = unwrap(straight.reservation_of_key(reservation["reference"] or ""))
            assert found is not None and found["id"] == reservation["id"]
        assert len({reservation["id"] for reservation in made}) == 200
        level = unwrap(straight.level("shirt", fresh=True))
        assert (level["available"], level["held"]) == (800, 200)
        assert cuts >= 20, f"only {cuts} answers were cut"

        # Settling is as safe.
        list(pool.map(lambda one: unwrap(cut_off.confirm(one["id"])), made[:50]))
    level = unwrap(straight.level("shirt", fresh=True))
    assert (level["available"], level["held"], level["sold"]) == (800, 150, 50)
