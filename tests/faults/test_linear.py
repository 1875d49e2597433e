"""The checker must say no."""

import math
import random

import pytest
from linear import Op, check

START = (2, 0, 0, 2)


def take(begun, ended, quantity=1, **more):
    return Op(begun, ended, (-quantity, quantity, 0, 0), what="reserve", **more)


def release(begun, ended, quantity=1, **more):
    return Op(begun, ended, (quantity, -quantity, 0, 0), what="release", **more)


def level(begun, ended, available, held=None):
    return Op(begun, ended, seen=(available, held, None, None), what="level")


def test_nothing_and_one_after_the_other():
    assert check(START, []).is_linearizable
    assert check(START, [take(0, 1), level(2, 3, 1, 1), release(4, 5), level(6, 7, 2, 0)]).is_linearizable


def test_oversold():
    assert check(START, [take(0, 1), take(0, 1)]).is_linearizable
    assert check(START, [take(0, 1), take(0, 1), take(0, 1)]).is_linearizable is False


def test_sold_again_only_when_it_was_given_back():
    ops = [take(0, 1, 2), release(2, 5, 2), take(3, 4)]
    assert check(START, ops).is_linearizable
    assert check(START, [take(0, 1, 2), release(5, 6, 2), take(3, 4)]).is_linearizable is False


@pytest.mark.parametrize("seen, is_so", [(2, False), (1, True), (0, False)])
def test_a_read_after_a_take(seen, is_so):
    assert check(START, [take(0, 1), level(2, 3, seen)]).is_linearizable is is_so


@pytest.mark.parametrize("seen, is_so", [(2, True), (1, True), (0, False)])
def test_a_read_beside_a_take(seen, is_so):
    assert check(START, [take(0, 3), level(1, 2, seen)]).is_linearizable is is_so


def test_two_reads_do_not_go_back():
    assert check(START, [take(0, 9), level(1, 2, 1), level(3, 4, 2)]).is_linearizable is False
    assert check(START, [take(0, 9), level(1, 2, 2), level(3, 4, 1)]).is_linearizable


def test_a_lost_release():
    ops = [take(0, 1), release(2, 3)]
    assert check(START, [*ops, level(4, 5, 2)]).is_linearizable
    assert check(START, [*ops, level(4, 5, 1)]).is_linearizable is False


def test_refused_though_there_was_enough():
    assert check(START, [take(0, 1), level(2, 3, 0)]).is_linearizable is False


def test_who_was_told_nothing_may_come_late_or_never():
    unknown = take(0, math.inf, maybe=True)
    for first, second, is_so in [(2, 2, True), (2, 1, True), (1, 1, True), (1, 2, False)]:
        assert check(START, [unknown, level(2, 3, first), level(4, 5, second)]).is_linearizable is is_so
    # One that is found in the books at the end has come at some time.
    sure = take(0, math.inf)
    assert check(START, [sure, level(2, 3, 2)]).is_linearizable
    assert check(START, [take(0, 1), take(0, 1), sure]).is_linearizable is False


def test_it_gives_up_rather_than_say_something():
    ops = [Op(0, 100, (0, number, 0, 0)) for number in range(1, 12)] + [level(1, 2, 2, 10_000)]
    assert check(START, ops, tried_max=50).is_linearizable is None


def history(rng, operations):
    """One that is true: each takes effect at a moment between its begin and its end."""
    state, ops = (30, 0, 0, 30), []
    for moment in range(operations):
        begun, ended = moment - rng.random() * 8, moment + rng.random() * 8
        if rng.random() < 0.3:
            ops.append(Op(begun, ended, seen=state))
            continue
        quantity = rng.randint(1, 3) * rng.choice((1, -1))
        change = (-quantity, quantity, 0, 0)
        after = tuple(one + by for one, by in zip(state, change))
        if min(after) < 0:
            ops.append(Op(begun, ended, seen=(state[0], None, None, None)))
        else:
            state = after
            ops.append(Op(begun, ended, change))
    return ops


@pytest.mark.parametrize("seed", range(10))
def test_true_histories_and_the_same_with_one_lie(seed):
    ops = history(random.Random(seed), 300)
    assert check((30, 0, 0, 30), ops).is_linearizable
    at = next(at for at in range(150, 300) if ops[at].seen)
    lie = ops[at]._replace(seen=(31, *ops[at].seen[1:]))
    assert check((30, 0, 0, 30), [*ops[:at], lie, *ops[at + 1:]]).is_linearizable is False
