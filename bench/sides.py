"""The programs that are compared, each started on its own: the service, the no-op, the plain pool, and their Redis."""

import http.client
import json
import os
import re
import socket
import subprocess
import time

from resp import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
HOLD_SECONDS = 3600
BUYER_LIMIT = 4
HOT_UNITS = 100_000_000
# What actix-web writes by itself, or what belongs to one connection.
OWN_HEADERS = {"content-length", "date", "connection", "keep-alive", "transfer-encoding"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Failed(Exception):
    """A run that does not count: something answered what it should not have."""


def release(binary):
    path = os.path.join(RELEASE, binary)
    if not os.path.exists(path):
        raise Failed(f"{path} is not there: run `make bench`, or cargo build --release --workspace")
    return path


class Side:
    """One program that listens on a port of its own."""

    def __init__(self, name, command, folder, env):
        self.name, self.port = name, free_port()
        self.log_path = os.path.join(folder, f"{name}.log")
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            command, env={**os.environ, **env(self.port)}, stdout=self.log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def wait_until_ready(self):
        for _ in range(500):
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended at once:\n{self.said()[-2000:]}")
            if self.is_ready():
                return
            time.sleep(0.02)
        raise Failed(f"{self.name} does not become ready on {self.port}")

    def is_ready(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def said(self):
        with open(self.log_path) as log:
            return log.read()

    def request(self, method, path, body=None, headers=None):
        """One request; the status, the headers and the raw body of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        raw = json.dumps(body) if body is not None else None
        connection.request(method, path, raw, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        result = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return result

    def expect(self, status, method, path, body=None, headers=None):
        got, answer_headers, raw = self.request(method, path, body, headers)
        if got != status:
            raise Failed(f"{self.name}: {method} {path} answered {got} instead of {status}: {raw[:500]!r}")
        return answer_headers, raw

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def reservation(run, sku="hot"):
    """Body and headers of one reservation by hand, in the shape that the load generators send."""
    return {"buyer": f"b-{run}-0-000000000", "lines": [{"sku": sku, "quantity": 1}]}, {"Idempotency-Key": f"k-{run}-0-000000000"}


class Service(Side):
    """Stockade, on a Redis that this run can configure and read out."""
    # The background audit reads whatever earlier benches have left, at times of its own: it would be counted with what is measured.
    settings = {"STOCKADE_AUDIT_INTERVAL_SECONDS": "0"}

    def __init__(self, folder, transport, redis_binary):
        self.command = [release("stockade"), "serve"]
        self.redis, self.redis_url = private_redis(folder, "service-redis", transport, redis_binary)
        self.start(folder, "service")

    def start(self, folder, name):
        data = os.path.join(folder, f"{name}-data")
        os.makedirs(data)
        super().__init__(name, self.command, folder, lambda port: {
            "STOCKADE_LISTEN": f"127.0.0.1:{port}", "STOCKADE_DATA_DIR": data,
            "STOCKADE_REDIS_URL": self.redis_url, "STOCKADE_LOG": "json", **self.settings})

    def is_ready(self):
        return super().is_ready() and self.request("GET", "/readyz")[0] == 200

    def put_sale(self, sale, initial, hold_seconds=HOLD_SECONDS):
        rules = {"buyer_limit": BUYER_LIMIT, "hold_seconds": hold_seconds, "stock": {"hot": {"initial": initial}}}
        self.expect(201, "PUT", f"/v1/sales/{sale}", rules)

    def level(self, sale):
        _, raw = self.expect(200, "GET", f"/v1/sales/{sale}/stock/hot?fresh=true")
        level = json.loads(raw)
        if level["available"] + level["held"] + level["sold"] != level["granted"]:
            raise Failed(f"units were made or lost: {level}")
        return level

    def cached_level(self, sale):
        return self.expect(200, "GET", f"/v1/sales/{sale}/stock/hot")

    def cache_requests(self):
        """Reads of levels that this process answered so far: from its cache, and all."""
        _, raw = self.expect(200, "GET", "/metrics")
        counts = {result: int(count) for result, count in
                  re.findall(r'stockade_cache_requests_total\{cache="levels",result="(\w+)"\} (\d+)', raw.decode())}
        return counts["hit"], sum(counts.values())

    def held(self, sale):
        """Units that are held of all SKUs."""
        _, raw = self.expect(200, "GET", f"/v1/sales/{sale}")
        totals = json.loads(raw)["totals"]
        if totals["available"] + totals["held"] + totals["sold"] != totals["granted"]:
            raise Failed(f"units were made or lost: {totals}")
        return totals["held"]

    def audit(self, sale):
        """What `stockade audit` says of it: the ended process, with its output."""
        return subprocess.run([release("stockade"), "audit", sale], capture_output=True, text=True,
                              env={**os.environ, "STOCKADE_REDIS_URL": self.redis_url})

    def batches(self):
        """Script calls of group commit so far, and the requests that they carried."""
        _, raw = self.expect(200, "GET", "/metrics")
        return [float(re.search(rf"(?m)^stockade_commit_batch_size_{what}(?:{{[^}}]*}})? (\S+)", raw.decode()).group(1))
                for what in ("count", "sum")]

    def reserve(self, sale, run, status=201):
        body, headers = reservation(run)
        return self.expect(status, "POST", f"/v1/sales/{sale}/reservations", body, headers)

    def stop(self):
        super().stop()
        self.redis.stop()


class Sibling(Service):
    """One more process on the Redis of a service."""

    def __init__(self, folder, service, number):
        self.command, self.redis, self.redis_url = service.command, service.redis, service.redis_url
        self.start(folder, f"service-{number}")

    def stop(self):
        self.process.kill()     # what it was asked to do is done
        Side.stop(self)


class OneScript(Side):
    """A service whose sales are those of single_reserve.lua, on a Redis that this run can read out."""

    def __init__(self, name, command, folder, transport, redis_binary, env):
        self.redis, url = private_redis(folder, f"{name}-redis", transport, redis_binary)
        super().__init__(name, command, folder, lambda port: {"LISTEN": f"127.0.0.1:{port}", "REDIS_URL": url, **env})

    def put_sale(self, sale, initial):
        seed_sale(self.redis, sale, initial)

    def held(self, sale):
        return self.level(sale)["held"]

    def level(self, sale):
        available, held = (int(units) for units in self.redis.client.call("HMGET", f"st:{{{sale}}}:stock", "hot:a", "hot:h"))
        return {"available": available, "held": held, "sold": 0, "granted": available + held}

    def reserve(self, sale, run, status=201):
        body, headers = reservation(run)
        return self.expect(status, "POST", f"/v1/sales/{sale}/reservations", body, headers)

    def stop(self):
        super().stop()
        self.redis.stop()


class Plain(OneScript):
    """One EVALSHA a request through a plain pool. `tuned` drops the PING at check-out and takes more connections."""

    def __init__(self, folder, transport, redis_binary, tuned=False):
        pool = {"POOL_SIZE": "64", "POOL_TEST": "false"} if tuned else {}
        super().__init__("plain-tuned" if tuned else "plain", [release("plain_pool")], folder, transport, redis_binary, pool)


class Noop(Side):
    """actix-web with an answer of the same size and headers as `sample`, one real answer of the service."""

    def __init__(self, folder, sample, name="noop", status=201):
        headers, body = sample
        body_file, headers_file = os.path.join(folder, f"{name}-answer"), os.path.join(folder, f"{name}-headers")
        with open(body_file, "wb") as out:
            out.write(body)
        with open(headers_file, "w") as out:
            out.writelines(f"{name}: {value}\n" for name, value in headers if name.lower() not in OWN_HEADERS)
        super().__init__(name, [release("noop")], folder, lambda port: {
            "LISTEN": f"127.0.0.1:{port}", "STATUS": str(status), "ANSWER_FILE": body_file, "HEADERS_FILE": headers_file})


def seed_sale(redis, sale, initial):
    """A sale for the single-request script, whose rules and stock are written by hand."""
    redis.client.call("HSET", f"st:{{{sale}}}:rules", "status", "active", "hold_ms", HOLD_SECONDS * 1000,
                      "hold_ms_max", HOLD_SECONDS * 1000, "buyer_limit", BUYER_LIMIT)
    redis.client.call("HSET", f"st:{{{sale}}}:stock", "hot:a", initial, "hot:h", 0, ":a", initial, ":h", 0)


def private_redis(folder, name, transport, binary):
    """A Redis of its own and its URL, over the transport that all sides share."""
    home = os.path.join(folder, name)
    os.makedirs(home)
    port = free_port() if transport == "tcp" else 0
    server = Server(home, port=port, binary=binary)
    url = f"redis://127.0.0.1:{port}" if port else f"unix://{server.path}"
    return server, url
