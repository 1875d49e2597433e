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
#: What one client does at most in a run.
TURNS = 400
HOLD_SECONDS = 3_600


def chance(seed, row, number):
    """For the faults of one run, or for all it draws."""
    return random.Random(f"{seed}/{row}/{number}")


def lines(rng):
    """One SKU, or a cart of two."""
    return {sku: rng.randint(1, 3) for sku in sorted(rng.sample(SKUS, rng.choice((1, 1, 2))))}


def turn(rng):
    """What a client does next: supply, a look, or a shopper's way from the hold to its end."""
    kind = rng.random()
    if kind < 0.04:
        return {"adjust": rng.choice(SKUS), "delta": rng.randint(1, 4)}
    if kind < 0.25:
        return {"look": rng.choice(SKUS)}
    settle = rng.choices(("release", "confirm", None), (55, 42, 3))[0]
    return {"lines": lines(rng), "extend": rng.random() < 0.1, "repeat": rng.random() < 0.2, "settle": settle,
            "return": settle == "confirm" and rng.random() < 0.8, "rest_ms": rng.choice((0, 0, 0, 1, 5))}


def tapes(rng, clients=CLIENTS, turns=TURNS):
    return [[turn(rng) for _ in range(turns)] for _ in range(clients)]


def draw(row, seed, number):
    """The plan of a run: what its clients do, and its faults."""
    rng = chance(seed, row.name, number)
    return {"row": row.name, "number": number, "faults": row.draw(rng), "tapes": tapes(rng)}


def digest(plan):
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12]
