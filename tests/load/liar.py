"""A service that answers as Stockade does and keeps no honest books: what it lies about is chosen."""

import http.server
import itertools
import json
import re
import threading
import uuid

UNITS = 1000


class Liar:
    """Serves on a port of its own while its block runs. `lie` is one of the words below; `truth` is honest."""

    def __init__(self, lie):
        self.lie, self.lock = lie, threading.Lock()
        self.sold, self.holds, self.units, self.arrived, self.numbers = 0, {}, {}, {}, itertools.count()
        self.keys = set()
        handler = type("Handler", (Answers,), {"liar": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def level(self):
        """Of the one SKU, as far as it is true."""
        sold = {"sold twice": UNITS + 3, "a sale is lost": self.sold - 1}.get(self.lie, self.sold)
        available = {"sold twice": 0, "units are lost": UNITS - sold - 2}.get(self.lie, UNITS - sold)
        held = 2 if self.lie == "a hold never ends" else 0
        return {"available": available - held, "held": held, "sold": sold, "granted": UNITS}

    def totals(self):
        level = self.level()
        return {**level, "available": level["available"] + 1} if self.lie == "totals differ" else level

    def reserve(self, key, lines):
        """Whether the key is new, and its hold."""
        known = self.holds.get(key)
        if known and self.lie != "a repeat takes again":
            return False, known
        hold = self.holds[key] = {"id": str(uuid.UUID(int=next(self.numbers)))}
        self.units[hold["id"]] = sum(line["quantity"] for line in lines)
        return known is None, hold

    def fired(self, barrier, participant):
        """What an arrival is told: the last one fires."""
        there = self.arrived[barrier]
        there.setdefault(participant, len(there) + 1)
        return self.lie == "all are the last" or there[participant] == 5

    def buyer(self):
        """Who has one hold of two units."""
        return {"units": 4 if self.lie == "a buyer has twice" else 2}


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave at once, or the kernel waits for a full packet.
    wbufsize = -1
    liar: Liar

    def answer(self, status, body=None, outcome=None, location=None):
        raw = body.encode() if isinstance(body, str) else json.dumps(body or {}).encode()
        self.send_response(status)
        for name, value in {"Stockade-Outcome": outcome, "Location": location, "Content-Length": str(len(raw))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def any_method(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        with self.liar.lock:
            self.liar.keys.add(self.headers["Authorization"])
            self.route(self.command, self.path.partition("?")[0], body)

    do_GET = do_PUT = do_POST = any_method

    def route(self, method, path, body):
        liar = self.liar
        barrier = path.removeprefix("/v1/barriers/").partition("/")[0]
        match method, re.sub(r"(?<=/sales/)[^/]+|(?<=/buyers/)[^/]+|(?<=/barriers/)[^/]+|(?<=/reservations/)[^/]+", "*", path):
            case "GET", "/v1/sales" | "/v1/barriers":
                self.answer(200, {"items": [], "next": None})
            case "PUT", "/v1/sales/*":
                self.answer(201, {}, "created")
            case "GET", "/v1/sales/*/stock" if liar.lie == "the books are shut":
                self.answer(503, {"code": "store_unavailable"})
            case "GET", "/v1/sales/*/stock":
                self.answer(200, {"items": [{"sku": "sku-0", **liar.level()}], "next": None})
            case "GET", "/v1/sales/*":
                self.answer(200, {"totals": liar.totals()})
            case "POST", "/v1/sales/*/reservations":
                new, hold = liar.reserve(self.headers["Idempotency-Key"], body["lines"])
                self.answer(201 if new else 200, hold, "held" if new else "replayed", f"{path}/{hold['id']}")
            case "POST", "/v1/sales/*/reservations/*/confirm" if liar.lie == "payments get no answer":
                self.answer(503, {"code": "outcome_unknown"}, "outcome_unknown")
            case "POST", "/v1/sales/*/reservations/*/confirm" if liar.lie == "a strange refusal":
                self.answer(409, {"code": "sale_closed"}, "sale_closed")
            case "POST", "/v1/sales/*/reservations/*/confirm":
                liar.sold += liar.units[path.split("/")[5]]
                self.answer(200, {}, "confirmed")
            case "GET", "/v1/sales/*/buyers/*":
                self.answer(200, liar.buyer())
            case "PUT", "/v1/barriers/*":
                liar.arrived[barrier] = {}
                self.answer(201, {}, "created")
            case "POST", "/v1/barriers/*/arrivals":
                self.answer(200, {"fired": liar.fired(barrier, body["participant"])}, "completed")
            case "GET", "/v1/barriers/*":
                self.answer(200, {"status": "completed", "completed": len(liar.arrived[barrier])})
            case "GET", "/metrics":
                violations = 3 if liar.lie == "the audit found something" else 0
                self.answer(200, f"stockade_conservation_violations {violations}\n")
            case _:
                self.answer(404, {"code": "not_found"}, "not_found")

    def log_message(self, *_):
        pass
