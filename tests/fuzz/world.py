"""What there is to meet in the service that is fuzzed: a name that nobody knows is answered 404, and says little."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from engine import Caller  # noqa: E402

NOWHERE = "http://127.0.0.1:9/"


class World:
    """Sales, reservations, orders, locks, barriers and webhooks in several states, under names of their own: whatever the
    calls before did to theirs, the next world is as this one was."""

    def __init__(self, port, token, number):
        self.caller, self.number, self.calls = Caller(port, token), number, 0
        open_sale, paused = f"open-{number}", f"paused-{number}"
        self.names = {"sale": [open_sale, open_sale, open_sale, paused, f"over-{number}"], "sku": ["many", "many", "few", "none"],
                      "buyer": ["ann", "bob"], "participant": ["p1", "p2", "p3"]}
        self.make_sales(*self.names["sale"][2:])
        self.names["reservation"] = self.make_reservations(open_sale)
        self.names["order"] = self.make_orders(open_sale)
        self.names["name"] = self.names["lock"] = [self.make_lock(open_sale), "free"]
        self.names["barrier"] = self.make_barriers()
        self.names["webhook"] = [self.make_webhook()]
        self.caller.close()

    def call(self, method, path, body=None):
        """One call that must succeed, or nothing below tests what it seems to."""
        self.calls += 1
        status, document = self.caller.call(method, path, body, f"world-{self.number}-{self.calls}")
        assert status in (200, 201, 204), f"{method} {path}: {status} {document}"
        return document

    def make_sales(self, *sales):
        stock = {"many": {"initial": 1_000_000}, "few": {"initial": 3}, "none": {"initial": 0}}
        for sale in sales:
            self.call("PUT", f"/v1/sales/{sale}", {"stock": stock})
        self.call("POST", f"/v1/sales/{sales[1]}/pause", {})
        self.call("POST", f"/v1/sales/{sales[2]}/close", {})

    def make_reservations(self, sale):
        """Held, confirmed and released ones."""
        path = f"/v1/sales/{sale}/reservations"
        order = {"lines": [{"sku": "many", "quantity": 2}], "buyer": "ann"}
        ids = [self.call("POST", path, order)["id"] for _ in range(6)]
        for id, verb in zip(ids, ("confirm", "confirm", "release")):
            self.call("POST", f"{path}/{id}/{verb}", {})
        return ids

    def make_orders(self, sale):
        order = {"lines": [{"sale": sale, "sku": "many", "quantity": 1}], "buyer": "bob"}
        ids = [self.call("POST", "/v1/orders", order)["id"] for _ in range(4)]
        self.call("POST", f"/v1/orders/{ids[0]}/confirm", {})
        self.call("POST", f"/v1/orders/{ids[1]}/release", {})
        return ids

    def make_lock(self, sale):
        """The same name with a sale and without one."""
        name = f"held-{self.number}"
        locks = [self.call("POST", f"{path}/locks/{name}", {"ttl_ms": 300_000}) for path in (f"/v1/sales/{sale}", "/v1")]
        self.names |= {member: [lock[member] for lock in locks] for member in ("token", "fence")}
        return name

    def make_barriers(self):
        """Open, not sealed, counting, ended."""
        kinds = {"open": {"participants": ["p1", "p2"]}, "waits": {}, "counts": {"expected": 5, "mode": "count"},
                 "ended": {"participants": ["p1"]}}
        names = [f"{kind}-{self.number}" for kind in kinds]
        for name, body in zip(names, kinds.values()):
            self.call("PUT", f"/v1/barriers/{name}", body)
        self.call("POST", f"/v1/barriers/{names[-1]}/arrivals", {"participant": "p1"})
        return names

    def make_webhook(self):
        """The only one: there is a limit to them, and each is sent all that happens."""
        for webhook in self.call("GET", "/v1/webhooks?limit=500")["items"]:
            self.call("DELETE", f"/v1/webhooks/{webhook['id']}")
        return self.call("POST", "/v1/webhooks", {"url": f"{NOWHERE}{self.number}"})["id"]
