"""The comparison must find what it is there for."""

import copy
import itertools

import checks
import pytest
from checks import RESERVATION, check
from clients import LEAK, Call, Journal
from history import not_linearizable

HOW = {"held": (), "confirmed": ("confirm",), "released": ("release",), "returned": ("confirm", "return")}
EVENTS = {"confirm": "confirmed", "release": "released", "return": "returned"}


class Books:
    """Of a sale with one reservation of each status, and an adjustment."""

    def __init__(self):
        self.all = [record(name, status) for name, status in zip("wxyz", HOW)]
        self.ledgers = {sku: [{"reason": "initial", "delta": 60}] for sku in "abc"}
        self.ledgers["a"].append({"reason": "more", "delta": 5})
        self.levels = {sku: {"available": 60, "held": 0, "sold": 0, "granted": 60} for sku in "abc"}
        self.levels["a"] = {"available": 61, "held": 2, "sold": 2, "granted": 65}
        words = [(name, word) for name, status in zip("wxyz", HOW) for word in ("held", *(EVENTS[verb] for verb in HOW[status]))]
        self.events = [{"id": f"event-{number}", "type": RESERVATION + word, "subject": name} for number, (name, word) in enumerate(words)]

    @property
    def records(self):
        return {one["id"]: one for one in self.all}


def record(name, status):
    sold, back = 2 if status in ("confirmed", "returned") else 0, 2 if status == "returned" else 0
    return {"id": name, "reference": name, "status": status, "lines": [{"sku": "a", "quantity": 2, "confirmed": sold, "returned": back}]}


def made(moment, kind, name, **more):
    return Call(kind, name, f"{name} {kind}", {"delta": 5}, begun=moment, ended=moment + 1, status=200, **more)


@pytest.fixture
def calls():
    clock = itertools.count(0, 2)
    asked = [(verb, name) for name, status in zip("wxyz", HOW) for verb in ("reserve", *HOW[status])]
    return [*(made(next(clock), verb, name, document={"id": name}) for verb, name in asked), made(next(clock), "adjust", "more")]


@pytest.fixture
def books():
    return Books()


def test_all_is_well(calls, books):
    assert check(calls, books) == checks.Findings()
    assert not_linearizable(calls, books) == ([], [])


def test_what_was_acknowledged_and_is_gone(calls, books):
    gone = books.all.pop(0)
    books.levels["a"] |= {"available": 63, "held": 0}
    assert check(calls, books).lost == 1
    books.all.append(gone | {"id": "other"})
    books.levels["a"] |= {"available": 61, "held": 2}
    assert check(calls, books).duplicates == 1
    books.all[-1] = gone
    books.ledgers["a"].pop()
    assert check(calls, books).lost == 1


def test_what_was_answered_as_not_yet_on_a_replica_is_not_counted_as_lost(calls, books):
    books.all.pop(0)
    calls[0].headers["stockade-durability"] = "local"
    assert check(calls, books).lost == 0


@pytest.mark.parametrize("status, lost", [("held", 1), ("released", 1), ("expired", 1), ("returned", 0), ("confirmed", 0)])
def test_a_status_that_its_client_was_not_told(calls, books, status, lost):
    books.all[1]["status"] = status
    findings = check(calls, books)
    assert (findings.lost > 0 or findings.wrong != []) == (status != "confirmed")
    assert findings.lost <= lost


def test_a_reservation_that_nobody_asked_for_and_one_that_expired(calls, books):
    books.all.append(record("v", "held"))
    assert any("nobody asked for" in why for why in check(calls, books).wrong)
    books.all[-1] = record("w", "expired")
    assert check(calls, books, may_expire=True).duplicates == 1


def test_levels_that_differ_from_records(calls, books):
    books.levels["a"]["sold"] += 3
    assert check(calls, books).drift == 3


def test_more_sold_than_there_was(calls, books):
    books.ledgers["a"] = [{"reason": "initial", "delta": -2}, {"reason": "more", "delta": 5}]
    assert check(calls, books).oversold == 1


def test_events_twice(calls, books):
    books.events.append(books.events[-1])    # the same one
    assert check(calls, books).duplicates == 2
    books.events[-1] = books.events[-1] | {"id": "another"}
    assert check(calls, books).duplicates == 1


def test_an_event_that_is_missing(calls, books):
    del books.events[2]
    assert any("its last event" in why for why in check(calls, books).wrong)


def test_an_adjustment_twice(calls, books):
    books.ledgers["a"].append({"reason": "more", "delta": 5})
    assert check(calls, books).duplicates == 1


def test_refused_after_it_was_held(calls, books):
    refused = made(100, "reserve", "w", document={"code": "sold_out", "shortfalls": []})
    refused.status = 409
    assert check([*calls, refused], books).wrong == ["refused after it was held: w"]


def seen(moment, available, held, sold, granted):
    return made(moment, "look", "a", document={"sku": "a", "available": available, "held": held, "sold": sold, "granted": granted})


def test_a_look_at_what_is_over(calls, books):
    assert not_linearizable([*calls, seen(100, 61, 2, 2, 65)], books) == ([], [])
    [why], _ = not_linearizable([*calls, seen(100, 63, 0, 2, 65)], books)
    assert "look a sees (63, 0, 2, 65)" in why


def test_an_unknown_outcome_is_in_the_books_or_not(calls, books):
    lost = copy.copy(calls[0])
    lost.status, lost.document = 0, {}
    # It took effect, at some time: those who looked may have seen it early or late.
    assert not_linearizable([lost, *calls[1:], seen(100, 61, 2, 2, 65)], books) == ([], [])
    assert not_linearizable([lost, *calls[1:], seen(100, 63, 0, 2, 65), seen(102, 61, 2, 2, 65)], books) == ([], [])
    assert not_linearizable([lost, *calls[1:], seen(100, 61, 2, 2, 65), seen(102, 63, 0, 2, 65)], books)[0]
    del books.all[0]
    assert not_linearizable([lost, *calls[1:], seen(100, 63, 0, 2, 65)], books) == ([], [])


@pytest.mark.parametrize("raw", ["READONLY You can't write", "-MOVED 1 127.0.0.1:1", "a NOSCRIPT b", "MISCONF"])
def test_words_of_redis(raw):
    assert LEAK.search(raw)


def test_answers_that_are_somebody_elses():
    journal, lines = Journal(), [{"sku": "a", "quantity": 2}]
    right = {"id": "w", "reference": "w", "lines": [{"sku": "a", "quantity": 2, "confirmed": 0, "returned": 0}]}
    for wrong in ({}, {"reference": "x"}, {"lines": [{"sku": "b", "quantity": 2}]}):
        call = made(0, "reserve", "w", document=right | wrong)
        call.body = {"lines": lines}
        journal.note(call, "")
    journal.note(made(0, "confirm", "w", document=right, id="other"), "")
    assert [why.split(", ")[1].split(":")[0] for why in journal.wrong] == ["reference", "lines", "id"]


def test_answers_that_do_not_say_what_became_of_it():
    journal = Journal()
    for status, document, is_wrong in [(500, {}, True), (503, {}, True), (503, {"outcome": "unknown"}, False), (409, {}, False)]:
        call = made(0, "reserve", "w", document=document)
        call.status = status
        journal.note(call, "")
        assert bool(journal.wrong) == is_wrong
        journal.wrong.clear()
