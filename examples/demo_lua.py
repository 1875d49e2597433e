"""The thirty lines of Lua beside Stockade, each with a shop that is killed again and again (`make demo-lua`).

Both shops sell 1,000 units to 3,000 buyers: take a unit, take the money (2 ms), write the order into the shop's own
order book. Shop and store are killed with kill -9 at random moments and started again; the shop then goes on with every
buyer for whom it finds no word in its book. A unit that has left the stock and is in no order is lost.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

from engine import ROOT, Caller, Client, Redis, Stockade, folder

UNITS, BUYERS, THREADS, KILLS = 1_000, 3_000, 8, 20
PAYMENT_SECONDS = 0.002
SALE = "/v1/sales/drop"


class Book:
    """The shop's order book: a line a buyer, `ordered` or `refused`, on disk before anybody is told."""

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)

    def write(self, buyer, word):
        os.write(self.file, f"{buyer} {word}\n".encode())
        os.fsync(self.file)

    def read(self):
        with open(self.path) as book:
            return dict(line.split() for line in book)


def thirty_lines(path):
    """Sells with the script; answers a function of a buyer that says whether he got his unit."""
    with open(os.path.join(ROOT, "examples", "thirty_lines.lua")) as script:
        source = script.read()
    connections = threading.local()

    def sell(buyer):
        while True:
            try:
                connections.client = getattr(connections, "client", None) or Client(path)
                left = connections.client.call("EVAL", source, 2, "stock:shirt", "buyers:shirt", buyer, 1, 1)
                break
            except Exception:  # Redis was killed: nobody knows whether the unit was taken, so ask again
                connections.client = None
                time.sleep(0.05)
        time.sleep(PAYMENT_SECONDS)
        return left >= 0

    return sell


def stockade(port):
    """Sells through Stockade: reserve, pay, confirm; every try of a buyer carries the same key."""
    callers = threading.local()

    def sell(buyer):
        callers.caller = caller = getattr(callers, "caller", None) or Caller(int(port))
        cart = {"buyer": buyer, "lines": [{"sku": "shirt", "quantity": 1}]}
        status, hold = caller.until_known("POST", f"{SALE}/reservations", cart, buyer)
        if status == 410:  # it ended while the shop was away: a new try
            status, hold = caller.until_known("POST", f"{SALE}/reservations", cart, f"{buyer}-again")
        if status not in (200, 201):
            return False
        time.sleep(PAYMENT_SECONDS)
        paid = {"if_expired": "retake"}
        status, _ = caller.until_known("POST", f"{SALE}/reservations/{hold['id']}/confirm", paid, None)
        return status == 200

    return sell


def shop(which, store, book_path):
    """The shop's process: every buyer without a word in the book, a few at a time."""
    book = Book(book_path)
    known = book.read()
    waiting = iter([buyer for buyer in (f"b{n:04}" for n in range(BUYERS)) if buyer not in known])
    lock = threading.Lock()
    sell = {"thirty-lines": thirty_lines, "stockade": stockade}[which](store)

    def serve():
        while True:
            with lock:
                buyer = next(waiting, None)
            if buyer is None:
                return
            book.write(buyer, "ordered" if sell(buyer) else "refused")

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_shop(which, store, book_path, chance, kill_store):
    """Runs the shop to its end, with kills of it and of its store on the way; answers its orders."""
    for kill in range(KILLS + 1):
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--shop", which, store, book_path])
        try:
            child.wait(timeout=None if kill == KILLS else chance.uniform(0.15, 0.35))
            break
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
        if kill % 4 == 3:
            kill_store()
    return list(Book(book_path).read().values()).count("ordered")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--shop", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shop:
        shop(*options.shop)
        return 0
    print(f"{UNITS} units, {BUYERS} buyers, {KILLS} x kill -9 of the shop, {KILLS // 4} x of the store. Seed {options.seed}.\n")
    print(f"{'':14}{'left':>6}{'taken':>7}{'orders':>8}{'lost':>6}", flush=True)
    lost = {}
    with folder() as home, Redis(home) as redis:
        chance = random.Random(options.seed)
        redis.client().call("SET", "stock:shirt", UNITS)

        def kill_redis():
            redis.kill()
            redis.start()

        orders = run_shop("thirty-lines", redis.path, os.path.join(home, "book"), chance, kill_redis)
        left = int(redis.client().call("GET", "stock:shirt"))
        lost["thirty lines"] = UNITS - left - orders
        print(f"{'thirty lines':14}{left:>6}{UNITS - left:>7}{orders:>8}{lost['thirty lines']:>6}", flush=True)
    with folder() as home, Stockade(home) as service:
        chance = random.Random(options.seed)
        rules = {"buyer_limit": 1, "hold_seconds": 60, "stock": {"shirt": {"initial": UNITS}}}
        service.call("PUT", SALE, rules)
        turns = iter(range(KILLS))

        def kill_stockade():
            if next(turns) % 2:
                service.kill_engine()
            else:
                service.kill()
                service.start()

        orders = run_shop("stockade", str(service.port), os.path.join(home, "book"), chance, kill_stockade)
        service.wait_ready()
        level = service.call("GET", f"{SALE}/stock/shirt?fresh=true")[1]
        taken = level["granted"] - level["available"]
        lost["Stockade"] = taken - orders
        print(f"{'Stockade':14}{level['available']:>6}{taken:>7}{orders:>8}{lost['Stockade']:>6}\n")
        status, text = service.audit("drop")
        print(f"stockade audit: {text}")
    return 1 if status or lost["Stockade"] or level["held"] else 0


if __name__ == "__main__":
    sys.exit(main())
