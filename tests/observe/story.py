"""A story with everything in it that a dashboard shows: a crowd, locks, orders, barriers, webhooks, streams, and mistakes.

Each act is a thread that does the same again until the story is told to stop, so that no rate falls to zero while somebody
looks. What it asks for follows from the seed. Every answer is checked, and counted as Stockade counts.
"""

import collections
import contextlib
import datetime
import http.client
import http.server
import json
import random
import socket
import threading

from servers import Caller, eventually

# Who means to pay has time, also on a slow machine; who does not leaves a hold that ends soon.
HOLD_SECONDS, SHORT_SECONDS, BUYER_LIMIT = 30, 1, 3
# Long enough for Prometheus to see it shut.
OPENS_IN_SECONDS = 8
CROWD_THREADS = 3


class Wrong(Exception):
    """An answer that the story does not expect."""


def route(path):
    """`/v1/sales/drop/stock/mug?fresh=true` is `/v1/sales/{}/stock/{}`: every second part is a name."""
    parts = path.partition("?")[0].split("/")
    return "/".join("{}" if place > 2 and place % 2 else part for place, part in enumerate(parts))


class Client(Caller):
    """A caller that remembers how its calls went."""

    def __init__(self, port, seen):
        super().__init__(port)
        self.seen = seen

    def expect(self, wanted, method, path, body=None, key=None):
        """The document of an answer that must have this status, and this outcome where it is written with it (`201 held`)."""
        answer, raw = self.fetch(method, path, body, key)
        outcome = answer.headers.get("Stockade-Outcome")
        self.seen[route(path), method, str(answer.status), outcome] += 1
        document = json.loads(raw or b"null")
        said = {str(answer.status), f"{answer.status} {(document or {}).get('code') or outcome}"}
        if said.isdisjoint(wanted.split(" | ")):
            raise Wrong(f"{method} {path} {body}: {answer.status} {outcome}, not {wanted}: {raw[:500]}")
        return answer.status, document


class Receiver:
    """Takes webhooks. Under /moody it refuses each message once, under /gone for good."""

    def __enter__(self):
        self.refused, self.taken, lock = set(), collections.Counter(), threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                handler.rfile.read(int(handler.headers["Content-Length"]))
                message, status = handler.headers["webhook-id"], 204
                with lock:
                    if handler.path == "/moody" and message not in self.refused:
                        self.refused.add(message)
                        status = 500
                    if handler.path == "/gone":
                        status = 410
                    self.taken[handler.path, status] += 1
                handler.send_response(status)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Story:
    """Tells itself to these instances while its block runs."""

    def __init__(self, instances, seed=7):
        self.ports, self.seed = [instance.port for instance in instances], seed
        self.seen, self.rounds, self.failures = collections.Counter(), collections.Counter(), []
        self.stopped, self.threads, self.lock = threading.Event(), [], threading.Lock()
        self.stream, self.units_returned = None, 0
        self.acts = {f"crowd {n}": self.crowd for n in range(CROWD_THREADS)}
        self.acts |= {"bulk": self.bulk, "refusals": self.refusals, "restock": self.restock, "readers": self.readers,
                      "locks": self.locks, "orders": self.orders, "barriers": self.barriers, "waiter": self.waiter,
                      "webhooks": self.webhooks, "listener": self.listener}

    def __enter__(self):
        self.receiver = Receiver().__enter__()
        try:
            with self.clients() as (one, _):
                self.prepare(one)
            for name, act in self.acts.items():
                thread = threading.Thread(target=self.repeat, args=(name, act), name=name, daemon=True)
                self.threads.append(thread)
                thread.start()
            return self
        except BaseException:
            self.receiver.__exit__()
            raise

    def __exit__(self, *_):
        self.end()
        self.receiver.__exit__()

    @contextlib.contextmanager
    def clients(self):
        """One client of each instance; what they saw is counted with the rest at the end."""
        seen = collections.Counter()
        clients = [Client(port, seen) for port in self.ports]
        try:
            yield clients
        finally:
            for client in clients:
                client.close()
            with self.lock:
                self.seen.update(seen)

    def repeat(self, name, act):
        """Rounds of one act, each beginning at the other instance."""
        chance, number = random.Random(f"{self.seed} {name}"), 0
        try:
            with self.clients() as clients:
                while not self.stopped.is_set():
                    act(f"{name.replace(' ', '')}-{self.seed}-{number}", chance, *(clients if number % 2 else clients[::-1]))
                    number += 1
                    with self.lock:
                        self.rounds[name] = number
                    self.stopped.wait(0.05)  # a crowd, not a benchmark
        except Exception as failure:
            self.failures.append((name, number, failure))
            self.stopped.set()

    def check(self):
        if self.failures:
            raise Wrong(f"the story went wrong: {self.failures}") from self.failures[0][2]

    def wait_told(self, times=2):
        """Waits until each act has been played so often."""
        def look():
            self.check()
            with self.lock:
                return all(self.rounds[name] >= times for name in self.acts)

        eventually(look, lambda: f"{times} rounds of each act: {dict(self.rounds)}", seconds=120)

    def stop(self):
        """Ends it, and says if something went wrong."""
        self.end()
        self.check()

    def end(self):
        """Ends all acts after their present round."""
        self.stopped.set()
        if self.stream:
            with contextlib.suppress(OSError):
                self.stream.shutdown(socket.SHUT_RDWR)  # it may be waiting for an event
        for thread in self.threads:
            thread.join()

    def settled(self, client):
        """Waits until nothing is held any more and nothing waits for delivery."""
        def held():
            return sum(sale["totals"]["held"] for sale in client.expect("200", "GET", "/v1/sales")[1]["items"])

        eventually(lambda: held() == 0, lambda: f"{held()} units are still held")

        def pending():
            hooks = client.expect("200", "GET", "/v1/webhooks")[1]["items"]
            return sum(len(client.expect("200", "GET", f"/v1/webhooks/{hook['id']}/deliveries?status=pending")[1]["items"])
                       for hook in hooks)

        eventually(lambda: pending() == 0, lambda: f"{pending()} deliveries are still pending")

    # The acts.

    def prepare(self, client):
        """Sales in every state there is, and two webhooks. They may be there from another story."""
        opens = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=OPENS_IN_SECONDS)
        later = opens + datetime.timedelta(days=1)
        rules = {"hold_seconds": HOLD_SECONDS, "hold_seconds_max": 2 * HOLD_SECONDS}

        def put(sale, stock, **more):
            body = rules | more | {"stock": {sku: {"initial": units} for sku, units in stock.items()}}
            client.expect("201 | 200", "PUT", f"/v1/sales/{sale}", body)

        put("drop", {"shirt": 400, "mug": 250, "poster": 60})
        put("encore", {"vinyl": 300}, opens_at=opens.isoformat())
        put("winter", {"coat": 100}, opens_at=later.isoformat())
        put("outlet", {"socks": 80})
        put("last", {"ticket": 5})
        put("past", {"scarf": 40})
        put("members", {"pin": 5000}, buyer_limit=BUYER_LIMIT)
        put("left", {"shoe": 5000})
        put("right", {"shoe": 5000, "sock": 5})
        client.expect("200", "POST", "/v1/sales/outlet/pause")
        client.expect("200", "POST", "/v1/sales/past/close")
        for number in range(5):
            _, hold = self.reserve(client, "last", "ticket", 1, f"first-{number}", f"first-{number}", "201 held | 200 replayed")
            client.expect("200", "POST", f"/v1/sales/last/reservations/{hold['id']}/confirm")
        url = self.receiver.url
        client.expect("201 | 200", "POST", "/v1/webhooks", {"url": f"{url}/good", "sales": ["drop"]}, f"good-{self.seed}")
        client.expect("201 | 200", "POST", "/v1/webhooks", {"url": f"{url}/moody", "types": ["barrier.cancelled"]}, f"moody-{self.seed}")

    @staticmethod
    def reserve(client, sale, sku, quantity, buyer, key, wanted="201 held", **more):
        body = {"buyer": buyer, "lines": [{"sku": sku, "quantity": quantity}]} | more
        return client.expect(wanted, "POST", f"/v1/sales/{sale}/reservations", body, key)

    def crowd(self, name, chance, one, two):
        """A shopper of `drop`: takes something, then pays, walks away, gives back, pays late, or asks twice."""
        ends = chance.choice(["pay"] * 4 + ["walk away", "release", "pay late", "ask twice", "extend", "return"])
        sku, quantity = chance.choice(["shirt", "shirt", "mug", "poster"]), chance.randint(1, 2)
        more = {"hold_seconds": SHORT_SECONDS} if ends in ("walk away", "pay late") else {}
        status, hold = self.reserve(one, "drop", sku, quantity, name, name, "201 held | 409 sold_out", **more)
        if status != 201 or ends == "walk away":
            return
        path = f"/v1/sales/drop/reservations/{hold['id']}"
        if ends == "ask twice":
            self.reserve(two, "drop", sku, quantity, name, name, "200 replayed")
        if ends == "release":
            two.expect("200 released", "POST", f"{path}/release")
            two.expect("200 replayed", "POST", f"{path}/release")
        if ends == "extend":
            two.expect("200 extended", "POST", f"{path}/extend", {"hold_seconds": HOLD_SECONDS + 1}, f"{name}-more")
        if ends == "pay late":
            eventually(lambda: two.expect("200", "GET", path)[1]["status"] == "expired", f"the end of {path}")
            two.expect("410 hold_expired", "POST", f"{path}/confirm")
            two.expect("200 retaken | 409 sold_out", "POST", f"{path}/confirm", {"if_expired": "retake"})
        if ends in ("pay", "ask twice", "extend", "return"):
            one.expect("200 confirmed", "POST", f"{path}/confirm")
        if ends == "return":
            one.expect("200 returned", "POST", f"{path}/return")
            with self.lock:
                self.units_returned += quantity

    def bulk(self, name, chance, one, two):
        """A box office: twenty carts in one call, asked for twice; half of them are paid."""
        requests = [{"buyer": f"{name}-{cart}", "lines": [{"sku": chance.choice(["mug", "shirt"]), "quantity": 1}],
                     "hold_seconds": HOLD_SECONDS if cart % 2 else SHORT_SECONDS} for cart in range(20)]
        for client in (one, two):
            _, answer = client.expect("200", "POST", "/v1/sales/drop/reservations/bulk", {"requests": requests}, name)
        for result in answer["results"][1::2]:
            if result["status"] != 409:  # sold out
                path = f"/v1/sales/drop/reservations/{result['reservation']['id']}"
                one.expect("200 confirmed", "POST", f"{path}/confirm")
        self.stopped.wait(1)

    def refusals(self, name, chance, one, two):
        """Those who get nothing, and those who ask wrongly."""
        self.reserve(one, "last", "ticket", 1, name, name, "409 sold_out")
        self.reserve(one, "outlet", "socks", 1, name, name, "409 sale_paused")
        self.reserve(one, "past", "scarf", 1, name, name, "409 sale_closed")
        self.reserve(one, "winter", "coat", 1, name, name, "409 sale_not_open")
        self.reserve(two, "encore", "vinyl", 1, name, name, "409 sale_not_open | 201 held | 409 sold_out",
                     hold_seconds=SHORT_SECONDS)
        _, hold = self.reserve(two, "members", "pin", BUYER_LIMIT, name, f"{name}-all")
        self.reserve(one, "members", "pin", 1, name, f"{name}-more", "409 buyer_limit")
        self.reserve(one, "members", "pin", 1, name, f"{name}-all", "422 idempotency_key_reused")
        one.expect("200 released", "POST", f"/v1/sales/members/reservations/{hold['id']}/release")
        self.reserve(two, "drop", "hat", 1, name, name, "404 unknown_sku")
        self.reserve(two, "nowhere", "hat", 1, name, name, "404 unknown_sale")
        two.expect("422 invalid_request", "POST", "/v1/sales/drop/reservations", {"lines": []})
        one.expect("404 not_found", "GET", "/v1/nothing")
        self.stopped.wait(0.3)

    def restock(self, name, chance, one, two):
        """Boxes that are found, so that the crowd never runs dry for long."""
        for sku, units in (("shirt", 20), ("mug", 20), ("poster", 6)):
            body = {"delta": units, "reason": "a box was found"}
            one.expect("201", "POST", f"/v1/sales/drop/stock/{sku}/adjustments", body, f"{name}-{sku}")
        self.stopped.wait(1)

    def readers(self, name, chance, one, two):
        """Shop windows: most look at what was true a moment ago."""
        for _ in range(8):
            one.expect("200", "GET", f"/v1/sales/drop/stock/{chance.choice(['shirt', 'mug'])}")
            two.expect("200", "GET", "/v1/sales/drop/stock")
        one.expect("200", "GET", "/v1/sales/drop/stock?fresh=true")
        two.expect("200", "GET", "/v1/sales/drop")
        two.expect("200", "GET", "/v1/sales")
        one.expect("200", "GET", "/v1/sales/drop/reservations?status=held")
        one.expect("200", "GET", f"/v1/sales/members/buyers/{name}")
        self.stopped.wait(0.2)

    def locks(self, name, chance, one, two):
        """A lease that is renewed and given back, one that is waited for, one that runs out."""
        path, long = "/v1/sales/members/locks/pricing", {"ttl_ms": 60_000}
        _, lease = one.expect("201 acquired", "POST", path, long, name)
        one.expect("200 replayed", "POST", path, long, name)
        two.expect("409 lock_held", "POST", path, long, f"{name}-other")
        two.expect("409 not_owner", "POST", f"{path}/release", {"token": "x" * 22})
        one.expect("200 renewed", "POST", f"{path}/renew", {"token": lease["token"]} | long)
        fence = {"lock": "pricing", "token": lease["token"], "fence": lease["fence"]}
        self.reserve(one, "members", "pin", 1, name, name, fence=fence, hold_seconds=SHORT_SECONDS)
        for outcome in ("released", "replayed"):
            one.expect(f"200 {outcome}", "POST", f"{path}/release", {"token": lease["token"]})
        self.reserve(one, "members", "pin", 1, name, f"{name}-late", "409 stale_fence", fence=fence)
        free = "/v1/locks/nightly"
        one.expect("201 acquired", "POST", free, {"ttl_ms": 200}, name)
        _, lease = two.expect("201 acquired", "POST", free, long | {"wait_ms": 20_000}, f"{name}-next")
        two.expect("200 released", "POST", f"{free}/release", {"token": lease["token"]})
        self.stopped.wait(0.3)

    def orders(self, name, chance, one, two):
        """Bundles over two sales: bought, given back, left alone, and refused because of one line."""
        def order(client, key, wanted, sku="shoe", quantity=1, **more):
            lines = [{"sale": sale, "sku": what, "quantity": quantity} for sale, what in (("left", "shoe"), ("right", sku))]
            return client.expect(wanted, "POST", "/v1/orders", {"buyer": name, "lines": lines} | more, key)

        _, placed = order(one, f"{name}-buy", "201 held")
        order(two, f"{name}-buy", "200 replayed")
        two.expect("200 confirmed", "POST", f"/v1/orders/{placed['id']}/confirm")
        _, placed = order(two, f"{name}-back", "201 held")
        one.expect("200 released", "POST", f"/v1/orders/{placed['id']}/release")
        order(one, f"{name}-left", "201 held", hold_seconds=SHORT_SECONDS)
        order(two, f"{name}-none", "409 sold_out", "sock", 6)
        self.stopped.wait(0.5)

    def barriers(self, name, chance, one, two):
        """One that completes, one that fails, one that is cancelled, one that nobody ends."""
        workers = ["orders", "prices", "stock"]

        def barrier(kind, wanted="201", **more):
            body = {"participants": workers, "retention_seconds": 600} | more
            one.expect(wanted, "PUT", f"/v1/barriers/{name}-{kind}", body)
            return f"/v1/barriers/{name}-{kind}"

        path = barrier("done", notify=[{"url": f"{self.receiver.url}/barrier"}])
        two.expect("422 unknown_participant", "POST", f"{path}/arrivals", {"participant": "somebody"})
        for client, worker in zip((one, two, one), chance.sample(workers, 3)):
            client.expect("200 completed", "POST", f"{path}/arrivals", {"participant": worker})
        two.expect("200 replayed", "POST", f"{path}/arrivals", {"participant": "stock"})
        two.expect("410 barrier_ended", "POST", f"{path}/arrivals", {"participant": "somebody"})
        path = barrier("failed", tolerated_failures=0)
        two.expect("200 failed", "POST", f"{path}/arrivals", {"participant": "prices", "outcome": "failed"})
        one.expect("200", "DELETE", barrier("cancelled"))
        barrier("late", deadline_seconds=1)
        one.expect("404 unknown_barrier", "POST", "/v1/barriers/none/arrivals", {"participant": "stock"})
        self.stopped.wait(0.5)

    def waiter(self, name, chance, one, two):
        """Waits at a barrier, by a long answer and by a stream."""
        path = f"/v1/barriers/{name}"
        one.expect("201", "PUT", path, {"expected": 1})
        one.expect("200", "GET", f"{path}/wait?seconds=1")
        two.expect("200", "POST", f"{path}/arrivals", {"participant": "only"})
        answer, _ = two.fetch("GET", f"{path}/live")  # ends with the barrier
        if answer.status != 200:
            raise Wrong(f"{path}/live: {answer.status}")

    def webhooks(self, name, chance, one, two):
        """An endpoint whose shop is gone."""
        body = {"url": f"{self.receiver.url}/gone", "types": ["reservation.*"], "sales": ["drop"]}
        _, hook = one.expect("201", "POST", "/v1/webhooks", body, name)
        path = f"/v1/webhooks/{hook['id']}"
        eventually(lambda: two.expect("200", "GET", path)[1]["status"] == "disabled" or self.stopped.is_set(), f"the end of {path}")
        one.expect("204", "DELETE", path)
        self.stopped.wait(1)

    def listener(self, name, chance, one, two):
        """Follows the events of `drop`, then comes back as listeners do."""
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=30)
        try:
            connection.request("GET", "/v1/sales/drop/events/live")
            self.stream = connection.sock
            answer = connection.getresponse()
            heard = 0
            while heard < 50 and not self.stopped.is_set():
                line = answer.readline()
                if not line and not self.stopped.is_set():
                    raise Wrong("the stream of events ended")
                heard += line.startswith(b"id:")
        except (OSError, http.client.HTTPException):
            if not self.stopped.is_set():  # whoever stops the story cuts the stream
                raise
        finally:
            connection.close()
