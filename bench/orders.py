"""What complex orders cost: round trips to Redis of one that is alone, and a crowd that orders the same two sales."""

import threading
import time

import load
from barriers import Caller
from resp import Client
from sides import HOT_UNITS, Failed

ONE, TWO = "order-one", "order-two"
#: What an order asks of Redis: its own record, the locks of its sales, its parts.
MARKERS = ("}:o:", ":lock:_order", "}:r:")
ALONE = 20
CLIENTS = 32


class Monitor:
    """Counts the scripts that Redis is asked to run for orders."""

    def __init__(self, path):
        self.client, self.count = Client(path), 0
        if self.client.call("MONITOR") != "OK":
            raise Failed("Redis does not let itself be watched")
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        try:
            while True:
                said = self.client.read()
                if '"EVALSHA"' in said and any(marker in said for marker in MARKERS):
                    self.count += 1
        except (OSError, ValueError, ConnectionError):
            pass        # it is over


def body(first, second):
    return {"lines": [{"sale": sale, "sku": "hot", "quantity": 1} for sale in (first, second)]}


def alone(run):
    """Orders of two sales, one after the other: how often each asks Redis, and how long it takes."""
    service = run.sides["service"]
    caller, monitor = Caller(service), Monitor(service.redis.path)
    held, confirmed = [], []

    def counted(counts, call):
        before = monitor.count
        answer = call()
        # What Redis was asked before this answer it has told before the next.
        caller.expect(200, "GET", f"/v1/sales/{ONE}/stock/hot?fresh=true")
        counts.append(monitor.count - before)
        return answer

    for n in range(ALONE + 1):
        order = counted(held, lambda: caller.expect(201, "POST", "/v1/orders", body(ONE, TWO)))
        counted(confirmed, lambda: caller.expect(200, "POST", f"/v1/orders/{order['id']}/confirm"))
    # The first one reads what the process does not know yet.
    figures = {"hold_trips": max(held[1:]), "confirm_trips": max(confirmed[1:])}
    run.samples["order alone"] = [figures]
    print(f"  an order of two sales: {figures['hold_trips']} round trips to hold, {figures['confirm_trips']} to confirm")


def opposite(run):
    """32 clients order the same two sales, half of them the other way round; the same clients reserve in one of them."""
    service = run.sides["service"]

    def held():
        return service.held(ONE), service.held(TWO)

    def orders():
        before = held()
        env = {"ONE": ONE, "TWO": TWO}
        what = ["-s", f"{load.HERE}/orders.lua", f"http://127.0.0.1:{service.port}/"]
        result = load.wrk(service, what, run.args.seconds, run.args.threads, run.pids(service), env, CLIENTS)
        if result["refused"]:
            raise Failed(f"{result['refused']} of {result['requests']} orders were refused: somebody waited for too long")
        return settle(result, before)

    def settle(result, before):
        # When wrk ends it drops what is under way, and that goes on without it.
        time.sleep(1)
        one, two = held()
        if one - before[0] != two - before[1]:
            raise Failed(f"an order is half done: {one - before[0]} units are held in one sale, {two - before[1]} in the other")
        result["uncounted"] = one - before[0] - result["requests"]
        if not 0 <= result["uncounted"] <= CLIENTS:
            raise Failed(f"{result['requests']} orders were answered, {result['uncounted']} more were held")
        return result

    def reservations():
        return load.wrk_reserve(service, ONE, f"beside-{len(run.samples.get('plain carts, 32 clients', []))}",
                                run.args.seconds, run.args.threads, run.pids(service), connections=CLIENTS)

    for number in range(run.args.rounds):
        steps = [lambda: run.measure("orders of two sales, 32 clients", orders),
                 lambda: run.measure("plain carts, 32 clients", reservations)]
        for step in steps if number % 2 == 0 else reversed(steps):
            step()


def orders(run):
    service = run.sides["service"]
    for sale in (ONE, TWO):
        rules = {"hold_seconds": 3600, "stock": {"hot": {"initial": HOT_UNITS}}}
        service.expect(201, "PUT", f"/v1/sales/{sale}", rules)
    alone(run)
    opposite(run)
