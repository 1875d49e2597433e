"""What happens in a run, drawn before it begins: the same seed, row and number are the same plan.

When which answer comes is up to the machine; what is asked, in which order by each client, and which faults come when, is not.
"""

import hashlib
import json
import random

SKUS = ("a", "b", "c")
#: Enough for some and too few for all.
UNITS = 60
CLIENTS = 10
#: What one client does, again and again, unless its row says something else.
TURNS = 200
HOLD_SECONDS = 3_600


class Chance(random.Random):
    """Of one run."""

    def __init__(self, row, seed, number):
        super().__init__(f"{seed}/{row}/{number}")
        self.number = number
        #: The same in all runs of the row.
        self.of_all = random.Random(f"{seed}/{row}")


def lines(rng):
    """One SKU, or a cart of two."""
    return {sku: rng.randint(1, 3) for sku in sorted(rng.sample(SKUS, rng.choice((1, 1, 2))))}


def turn(rng, brief):
    """What a client does next: supply, a look, or a shopper's way from the hold to its end."""
    kind = rng.random()
    if kind < 0.04:
        return {"adjust": rng.choice(SKUS), "delta": rng.randint(1, 4)}
    if kind < 0.25:
        return {"look": rng.choice(SKUS)}
    settle = rng.choices(("release", "confirm", None), (55, 42, 3))[0]
    way = {"lines": lines(rng), "extend": rng.random() < 0.1, "repeat": rng.random() < 0.2, "settle": settle,
           "return": settle == "confirm" and rng.random() < 0.8, "rest_ms": rng.choice((0, 0, 0, 1, 5))}
    if rng.random() < brief:    # one who walks away, or comes a moment too late
        way |= {"hold_seconds": 1, "extend": False, "settle": rng.choice((None, None, "confirm", "release")), "rest_ms": rng.choice((0, 1_000))}
    return way


def draw(row, seed, number):
    """The plan of a run: what its clients do, and its faults."""
    rng = Chance(row.name, seed, number)
    faults = row.draw(rng)
    return {"row": row.name, "number": number, "faults": faults,
            "tapes": [[turn(rng, row.brief) for _ in range(row.turns)] for _ in range(row.clients)]}


def digest(plan):
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12]
