"""The acts of the story. Each is one round, with a name of its own, a source of chance, and a client of each instance."""

import datetime
import http.client

from client import Wrong
from servers import eventually

# Who means to pay has time, also on a slow machine; who does not leaves a hold that ends soon.
HOLD_SECONDS, SHORT_SECONDS, BUYER_LIMIT = 30, 1, 3
# Long enough for Prometheus to see it shut.
OPENS_IN_SECONDS = 8


class Acts:
    """What `Story` plays."""

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
        for name, wanted in (("good", {"sales": ["drop"]}), ("moody", {"types": ["barrier.cancelled"]})):
            body = {"url": f"{url}/{name}"} | wanted
            client.expect("201", "POST", "/v1/webhooks", body, f"{name}-{self.seed}")

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
            if result["reservation"]:  # not sold out
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
        if answer.status not in (200, 503):
            raise Wrong(f"{path}/live: {answer.status}")

    def webhooks(self, name, chance, one, two):
        """An endpoint whose shop is gone."""
        body = {"url": f"{self.receiver.url}/gone", "types": ["reservation.*"], "sales": ["drop"]}
        _, hook = one.expect("201", "POST", "/v1/webhooks", body, name)
        path = f"/v1/webhooks/{hook['id']}"

        def is_over():
            return two.expect("200", "GET", path)[1]["status"] == "disabled" or self.stopped.is_set()

        eventually(is_over, f"the end of {path}")
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
            while answer.status == 200 and heard < 50 and not self.stopped.is_set():
                line = answer.readline()
                if not line and not self.stopped.is_set():
                    raise Wrong("the stream of events ended")
                heard += line.startswith(b"id:")
        except (OSError, http.client.HTTPException):
            if not self.stopped.is_set():  # whoever stops the story cuts the stream
                raise
        finally:
            connection.close()
