"""Can the answers about one SKU be put in one order in which each is true, and nobody sees what came later or misses what came before?

The check of Wing and Gong, with Lowe's memory of what was tried. What a SKU has is a sum of changes, so it follows from the *set* of
operations that are placed; that set alone is remembered.
"""

import math
from typing import NamedTuple

#: Sets looked at before the search is given up.
TRIED_MAX = 500_000
NOTHING = (0, 0, 0, 0)


class Op(NamedTuple):
    """Something that took effect at one moment between its begin and its end, which is infinite where nobody was told."""
    begun: float
    ended: float
    #: What it added to available, held, sold and granted.
    change: tuple = NOTHING
    #: What it was told of them; None: nothing of this one.
    seen: tuple | None = None
    #: It may also never have happened.
    maybe: bool = False
    what: str = ""


class Verdict(NamedTuple):
    """`None` is not known: the search was given up."""
    is_linearizable: bool | None
    #: Where it goes no further.
    why: str = ""


class Placed(NamedTuple):
    """Operations that have their place: all before `low`, and of those from there on the bits of `mask`."""
    low: int
    mask: int

    def has(self, at):
        return self.mask >> (at - self.low) & 1

    def plus(self, at):
        low, mask = self.low, self.mask | 1 << (at - self.low)
        ones = ((mask + 1) & ~mask).bit_length() - 1    # at the low end
        return Placed(low + ones, mask >> ones)


def next_ones(ops, placed):
    """Those that may come next: they had begun when the first of the others ended."""
    found, ended = [], math.inf
    for at in range(placed.low, len(ops)):
        if placed.has(at):
            continue
        if ops[at].begun > ended:
            break
        found.append(at)
        ended = min(ended, ops[at].ended)
    return found


def is_true(seen, state):
    return all(one is None or one == other for one, other in zip(seen, state))


def look(ops, placed, state):
    """Places all that only look and see the truth now: nothing can be lost by that. And says who may come next."""
    while True:
        found = next_ones(ops, placed)
        true = [at for at in found if ops[at].seen and is_true(ops[at].seen, state)]
        if not true:
            return placed, found
        for at in true:
            placed = placed.plus(at)


def check(start, ops, tried_max=TRIED_MAX):
    """Whether there is such an order, from these levels on."""
    ops = sorted(ops, key=lambda op: (op.begun, op.ended))
    placed, found = look(ops, Placed(0, 0), tuple(start))
    tried, stack, far = {placed}, [], (placed, start, found)
    stack.append((placed, tuple(start), changes(ops, found)))
    if is_over(ops, found, placed):
        return Verdict(True)
    while stack:
        placed, state, choices = stack[-1]
        if not choices:
            stack.pop()
            continue
        at = choices.pop()
        after = tuple(one + by for one, by in zip(state, ops[at].change))
        if min(after) < 0:
            continue
        then, found = look(ops, placed.plus(at), after)
        if is_over(ops, found, then):
            return Verdict(True)
        if then in tried:
            continue
        tried.add(then)
        if len(tried) > tried_max:
            return Verdict(None, f"given up after {tried_max} sets of operations")
        if (then.low, then.mask) > far[0]:
            far = (then, after, found)
        stack.append((then, after, changes(ops, found)))
    _, state, found = far
    waiting = ", ".join(shown(ops[at]) for at in found[:12])
    return Verdict(False, f"with available, held, sold, granted {state} none of these can be next: {waiting}")


def changes(ops, found):
    """Of these the ones that change something; the one to be tried first, which was answered first, is the last.

    Of several that do the same only the one that was answered first: an order with another in this place stays true if the two change
    places."""
    first = {}
    for at in found:
        if not ops[at].seen:
            known = first.setdefault(ops[at].change, at)
            first[ops[at].change] = min(known, at, key=lambda one: ops[one].ended)
    return sorted(first.values(), key=lambda at: -ops[at].ended)


def is_over(ops, found, placed):
    """Whether all are placed that must have happened."""
    if not all(ops[at].maybe for at in found):
        return False
    return all(ops[at].maybe or placed.has(at) for at in range(placed.low, len(ops)))


def shown(op):
    return f"{op.what} {op.seen or op.change}"
