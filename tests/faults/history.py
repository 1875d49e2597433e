"""From what clients were told, and from the books at the end, to the operations on each SKU.

Whether a call without an answer took effect is in the books: a record is there or not, and its status says how far it came. When it
did is not, so it may have been at any time after it was first sent, and before the first answer that knows of it.
"""

import collections
import math

import plan
from linear import Op, check

CHANGES = {"reserve": (-1, 1, 0, 0), "confirm": (0, -1, 1, 0), "release": (1, -1, 0, 0), "return": (1, 0, -1, 0)}
#: What has happened to a reservation with this status.
WAYS = {"held": ("reserve",), "confirmed": ("reserve", "confirm"), "released": ("reserve", "release"),
        "returned": ("reserve", "confirm", "return")}


def span(calls):
    """From the first try to the first good answer."""
    return min(call.begun for call in calls), min((call.ended for call in calls if call.is_good), default=math.inf)


def operations(calls, books):
    """Of each SKU."""
    ops, by = collections.defaultdict(list), collections.defaultdict(list)
    for call in calls:
        by[call.kind, call.name].append(call)
        for sku, seen in sights(call):
            ops[sku].append(Op(call.begun, call.ended, seen=seen, what=f"{call.kind} {call.name} sees"))
    for record in books.records.values():
        for verb in WAYS[record["status"]]:
            tries = by.get((verb, record["reference"]))
            begun, ended = span(tries) if tries else (-math.inf, math.inf)
            for line in record["lines"]:
                change = tuple(line["quantity"] * one for one in CHANGES[verb])
                ops[line["sku"]].append(Op(begun, ended, change, what=f"{verb} {record['reference']}"))
    for sku, entries in books.ledgers.items():
        for entry in entries:
            if tries := by.get(("adjust", entry["reason"])):
                begun, ended = span(tries)
                ops[sku].append(Op(begun, ended, (entry["delta"], 0, 0, entry["delta"]), what=f"adjust {entry['reason']}"))
    return ops


def sights(call):
    """What an answer says of levels as they were at one moment."""
    if call.kind in ("look", "levels") and call.is_good:
        for level in call.document.get("items", [call.document]):
            yield level["sku"], (level["available"], level["held"], level["sold"], level["granted"])
    elif call.kind == "reserve" and call.document.get("code") == "sold_out":
        for short in call.document["shortfalls"]:
            yield short["sku"], (short["available"], short["held"], None, None)


def not_linearizable(calls, books):
    """SKUs whose answers contradict each other, and why; and those of which it is not known."""
    ops = operations(calls, books)
    verdicts = {sku: check((plan.UNITS, 0, 0, plan.UNITS), ops[sku]) for sku in plan.SKUS}
    return ([f"{sku}: {verdict.why}" for sku, verdict in verdicts.items() if verdict.is_linearizable is False],
            [f"{sku}: {verdict.why}" for sku, verdict in verdicts.items() if verdict.is_linearizable is None])
