"""A sale from opening to the books (`make demo`): a crowd that holds, pays, walks away, pays late and asks twice.

Starts a Stockade of its own on a free port, lets the crowd in, adds stock half way, waits until every hold has ended, and
compares what the shoppers remember with what the service says. Exit code 1 if a unit was made or lost.
"""

import argparse
import collections
import heapq
import itertools
import os
import random
import sys
import threading
import time

from engine import Caller, Stockade, folder

SALE = "/v1/sales/demo"
STOCK = {"shirt": 500, "mug": 400, "poster": 150}
RESTOCK_AT, RESTOCK_UNITS = 6.0, 150
SHOPPERS, ARRIVE_WITHIN, HOLD_SECONDS, BUYER_LIMIT = 2_000, 10.0, 2, 4
THREADS = 32
BAR = 30
WORDS = ("held", "sold out", "asked twice", "walked away", "released", "paid", "retaken", "refunded", "restocked")


class Clockwork:
    """Runs functions at their times on a few threads: shoppers are functions that put their next step here."""

    def __init__(self):
        self.steps, self.number, self.busy = [], itertools.count(), 0
        self.changed, self.begun = threading.Condition(), time.monotonic()

    def now(self):
        return time.monotonic() - self.begun

    def at(self, when, step):
        with self.changed:
            heapq.heappush(self.steps, (when, next(self.number), step))
            self.changed.notify()

    def run(self, port):
        caller = Caller(port)
        while True:
            with self.changed:
                while not self.steps or self.steps[0][0] > self.now():
                    if not self.steps and not self.busy:
                        self.changed.notify_all()
                        return
                    self.changed.wait(max(0.0, self.steps[0][0] - self.now()) if self.steps else None)
                _, _, step = heapq.heappop(self.steps)
                self.busy += 1
            try:
                step(caller)
            finally:
                with self.changed:
                    self.busy -= 1
                    self.changed.notify_all()


class Crowd:
    """What the shoppers do, and what they remember of it."""

    def __init__(self, clockwork, chance):
        self.clockwork, self.chance = clockwork, chance
        self.counts, self.bought, self.lock = collections.Counter(), collections.Counter(), threading.Lock()

    def note(self, *words):
        with self.lock:
            self.counts.update(words)

    def arrive(self, number):
        cart = {sku: self.chance.randint(1, 2) for sku in self.chance.sample(list(STOCK), self.chance.choice([1, 1, 2]))}
        # 5 in 10 pay in time, 2 walk away, 1 gives back, 2 pay after the hold has run out.
        ends = self.chance.choice(["pay"] * 5 + ["walk away"] * 2 + ["release"] + ["pay late"] * 2)
        asks_twice = self.chance.random() < 0.05
        when = self.chance.random() ** 2 * ARRIVE_WITHIN  # most are there at the door
        self.clockwork.at(when, lambda caller: self.reserve(caller, f"s{number}", cart, ends, asks_twice))

    def reserve(self, caller, buyer, cart, ends, asks_twice):
        body = {"buyer": buyer, "lines": [{"sku": sku, "quantity": n} for sku, n in cart.items()]}
        status, hold = caller.until_known("POST", f"{SALE}/reservations", body, buyer)
        if asks_twice:  # as after a lost answer
            repeat, again = caller.until_known("POST", f"{SALE}/reservations", body, buyer)
            if status == 201 and (repeat != 200 or again["id"] != hold["id"]):
                raise SystemExit(f"a repeat made another reservation: {again}")
            status, hold = (status, hold) if status == 201 else (repeat, again)  # a refusal may be tried again
            self.note("asked twice")
        if status != 201:
            return self.note("sold out")
        self.note("held")
        later = self.chance.uniform(0.2, 1.6)
        if ends == "walk away":
            return self.note("walked away")
        if ends == "pay late":
            later = HOLD_SECONDS + self.chance.uniform(0.1, 2.0)
        step = self.release if ends == "release" else self.pay
        self.clockwork.at(self.clockwork.now() + later, lambda caller: step(caller, hold["id"]))

    def release(self, caller, hold):
        caller.until_known("POST", f"{SALE}/reservations/{hold}/release", None, None)
        self.note("released")

    def pay(self, caller, hold):
        """The money is there. In time: sold. Late: the units are taken once more, or the money goes back."""
        path = f"{SALE}/reservations/{hold}/confirm"
        status, sold = caller.until_known("POST", path, None, None)
        late = status == 410
        if late:
            status, sold = caller.until_known("POST", path, {"if_expired": "retake"}, None)
        if status != 200:
            return self.note("refunded")
        self.note("retaken" if late else "paid")
        with self.lock:
            self.bought.update({line["sku"]: line["confirmed"] for line in sold["lines"]})

    def restock(self, caller):
        body = {"delta": RESTOCK_UNITS, "reason": "a box was found"}
        caller.until_known("POST", f"{SALE}/stock/shirt/adjustments", body, "box-1")
        self.note("restocked")


def levels(caller):
    return {level["sku"]: level for level in caller.call("GET", f"{SALE}/stock?fresh=true")[1]["items"]}


def picture(level):
    """Sold, held and available as a bar."""
    marks = [("#", level["sold"]), ("+", level["held"]), (".", level["available"])]
    return "".join(mark * round(units / max(1, level["granted"]) * BAR) for mark, units in marks)[:BAR].ljust(BAR, ".")


def show(clockwork, caller, crowd, in_place, again=True):
    now = levels(caller)
    lines = [f"{clockwork.now():5.1f} s  " + "  ".join(f"{word} {crowd.counts[word]}" for word in WORDS)]
    lines += [f"  {sku:7} {picture(level)}  available {level['available']:4}  held {level['held']:4}  sold {level['sold']:4}"
              for sku, level in now.items()]
    if in_place and again:
        print(f"\033[{len(lines)}A", end="")
    print("\n".join("\033[K" + line if in_place else line for line in lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--shoppers", type=int, default=SHOPPERS)
    parser.add_argument("--port", type=int, help="of the Stockade, for whoever wants to watch; default: a free one")
    options = parser.parse_args()
    in_place = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    with folder() as home, Stockade(home, options.port) as service:
        caller = Caller(service.port)
        rules = {"buyer_limit": BUYER_LIMIT, "hold_seconds": HOLD_SECONDS,
                 "stock": {sku: {"initial": units} for sku, units in STOCK.items()}}
        service.call("PUT", SALE, rules)
        print(f"The doors of {SALE} open: {options.shoppers} shoppers, holds of {HOLD_SECONDS} s, at most {BUYER_LIMIT} "
              f"units a buyer. Seed {options.seed}.\n# sold   + held   . available", flush=True)
        clockwork = Clockwork()
        crowd = Crowd(clockwork, random.Random(options.seed))
        for number in range(options.shoppers):
            crowd.arrive(number)
        clockwork.at(RESTOCK_AT, crowd.restock)
        threads = [threading.Thread(target=clockwork.run, args=(service.port,), daemon=True) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        shown = False
        while any(thread.is_alive() for thread in threads):
            show(clockwork, caller, crowd, in_place, shown)
            shown = True
            threads[0].join(timeout=0.25 if in_place else 2)
        while any(level["held"] for level in levels(caller).values()):
            time.sleep(0.1)  # those who walked away: their holds run out by themselves
        show(clockwork, caller, crowd, in_place)

        print("\nThe books\n"
              f"{'':9}{'granted':>8}{'available':>10}{'held':>6}{'sold':>6}   {'shoppers have':>13}")
        balanced = True
        for sku, level in levels(caller).items():
            has = crowd.bought[sku]
            balanced &= level["available"] + level["held"] + level["sold"] == level["granted"] and level["sold"] == has
            print(f"  {sku:7}{level['granted']:>8}{level['available']:>10}{level['held']:>6}{level['sold']:>6}   {has:>13}")
        status, text = service.audit("demo")
        print(f"\nstockade audit: {text}")
    if status or not balanced:
        print("A unit was made or lost.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
