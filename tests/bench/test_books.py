"""What counts as drift, as a unit sold twice, and as a reservation that is missing."""

import books
import pytest
from report import Row, number
from sides import Failed

LEVEL = {"available": 4, "held": 6, "sold": 0, "granted": 10}
IDS = [f"id-{n}" for n in range(6)]


def compare(level=LEVEL, ids=IDS, missing=0, unknown=0, drift=0):
    return books.compare(level, 10, ids, missing, unknown, drift)


def test_books_that_balance():
    assert compare() == books.Books(granted=10, held=6, acknowledged=6, unknown=0, missing=0, oversold=0, drift=0)


@pytest.mark.parametrize("ids, unknown, drift", [
    (IDS[:5], 0, 1),        # a unit that nobody knows of
    (IDS[:5], 1, 0),        # unless somebody was told nothing
    (IDS[:3], 1, 2),
    ([*IDS, "id-6"], 0, 1),  # somebody believes in a unit that is not held
    ([*IDS, "id-6"], 3, 1),
])
def test_each_held_unit_has_an_owner_who_knows_of_it(ids, unknown, drift):
    assert compare(ids=ids, unknown=unknown).drift == drift


def test_units_that_were_made_or_lost_are_drift():
    assert compare(level={**LEVEL, "available": 3}).drift == 1
    assert compare(level={**LEVEL, "available": 5, "granted": 11}).drift == 1
    assert compare(drift=2).drift == 2


def test_a_reservation_that_two_were_told_is_a_unit_sold_twice():
    assert compare(ids=[*IDS, IDS[0]]).oversold == 1
    assert compare(level={**LEVEL, "available": 0, "held": 12}, ids=[f"id-{n}" for n in range(12)]).oversold == 2


@pytest.mark.parametrize("text, code, drift", [
    ("1 sales, 1 SKUs, 3 holds, 0 ended reservations, 0 orphans: the books balance\n", 0, 0),
    ("drop/hot  7 (books: 4)  0  10  3 (books: 6)\n1 sales, 1 SKUs, 4 holds, 0 ended reservations, 0 orphans: DRIFT\n", 1, 3),
    ("drop/AAAA: no record\n1 sales, 1 SKUs, 4 holds, 0 ended reservations, 0 orphans: DRIFT\n", 1, 1),
])
def test_what_the_audit_says(text, code, drift):
    assert books.audit_drift(text, code) == drift


@pytest.mark.parametrize("text, code", [
    ("stockade: audit: there is no sale drop", 2),
    ("1 sales, 1 SKUs, 3 holds, 0 ended reservations, 0 orphans: no drift in what was checked\n", 0),
    ("1 sales, 1 SKUs, 3 holds, 0 ended reservations, 1 orphans: the books balance\n", 0),
])
def test_an_audit_that_could_not_check_everything_is_none(text, code):
    with pytest.raises(Failed):
        books.audit_drift(text, code)


class Redis:
    """Has the records of some reservations."""

    def __init__(self, *there):
        self.client, self.there = self, there

    def call(self, command, *keys):
        assert command == "EXISTS"
        return sum(key in self.there for key in keys)


def test_an_acknowledged_reservation_without_a_record_is_missing():
    one, other = "01890a5d-ac96-874b-bcce-b302099a8057", "ffffffff-ffff-8fff-bfff-ffffffffffff"
    assert books.record_key("drop", other) == "st:{drop}:r:________j_-__________w"
    redis = Redis(books.record_key("drop", one))
    assert books.missing(redis, "drop", [one, one]) == 0
    assert books.missing(redis, "drop", [one, other]) == 1


def test_a_row_that_must_be_zero():
    assert Row("drift", 0, 0, None, lower=True).verdict() == "ok"
    assert Row("drift", 1, 0, None, lower=True).verdict() == "BELOW FLOOR"
    assert Row("drift", None, 0, None, lower=True).verdict() == "not measured"
    assert (number(0), number(0.0), number(250), number(1.234)) == ("0", "0.00", "250", "1.23")
