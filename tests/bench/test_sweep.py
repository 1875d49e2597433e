"""The ladder of rates, and which rung is one too many."""

import pytest
import sweep


class Side:
    """Answers at a rate as if it were measured."""
    name = "side"

    def __init__(self, **result):
        self.result = {"answered": 2_000, "p50_us": 500, "p99_us": 4_000, "p999_us": 9_000, **result}

    def constant_rate(self, rate, seconds, warmup_seconds):
        return self.result


def test_the_ladder_starts_at_some_hundreds_and_never_takes_a_step_twice():
    rates = sweep.ladder()
    assert rates[:4] == [300, 480, 770, 1200] and rates[-1] > 100_000
    assert all(1.4 < after / before < 1.8 for before, after in zip(rates, rates[1:]))


@pytest.mark.parametrize("result, overloaded", [
    ({}, False),
    ({"seconds": 2.1}, False),              # 952 of 1,000 a second
    ({"seconds": 2.2}, True),               # 909
    ({"p99_us": 1_900_000}, False),
    ({"p99_us": 2_100_000}, True),
    ({"missing": 1}, True),
])
def test_a_side_that_falls_behind_is_overloaded(result, overloaded):
    figures = sweep.rung(Side(**result), "sale", "word", 1_000, 2)
    assert figures["overloaded"] is overloaded
    assert (figures["p50_ms"], figures["p999_ms"]) == (0.5, 9)


def test_a_rung_is_overloaded_if_it_was_so_more_often_than_not():
    def sample(overloaded, p99_ms):
        return {"rate": 300, "achieved": 300, "p50_ms": 1, "p99_ms": p99_ms, "p999_ms": 9, "overloaded": overloaded}
    stalled = sweep.medians([sample(True, 800), sample(False, 2), sample(False, 3)])[300]
    assert not sweep.overloaded(stalled) and stalled["p99_ms"] == 3
    assert sweep.overloaded(sweep.medians([sample(True, 800), sample(True, 700), sample(False, 3)])[300])
