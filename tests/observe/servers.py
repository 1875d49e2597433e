"""The real thing for the dashboards: a Redis, two instances of the service on it, and a Prometheus that scrapes both."""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from engine import TARGET, Caller, Process, Redis, folder, free_port  # noqa: E402

PROMETHEUS = ROOT / ".tools/bin/prometheus"
RULES = ROOT / "grafana/prometheus/alerts.yml"
SCRAPE_SECONDS = 1
AUDIT_SECONDS = 5
DEADLINE_SECONDS = 60
# Where tests keep what Redis writes: they are not about this machine's disk, and what else writes to it.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def binary(profile):
    """The service to look at: STOCKADE_BINARY, or what cargo has built."""
    path = os.environ.get("STOCKADE_BINARY") or os.path.join(TARGET, profile, "stockade")
    if not os.path.exists(path):
        raise SystemExit(f"{path} is not there: run `cargo build`, or name it in STOCKADE_BINARY")
    return path


def eventually(look, what, seconds=DEADLINE_SECONDS):
    """Waits until `look` answers something that is true, and answers that."""
    deadline = time.monotonic() + seconds
    while True:
        if seen := look():
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)


class Instance(Process):
    """One `stockade serve` on a Redis that others use, too. Options of this machine's environment do not reach it."""

    def __init__(self, home, program, redis_url, name, options=()):
        self.port, self.name = free_port(), name
        self.address = f"127.0.0.1:{self.port}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STOCKADE_")}
        super().__init__([program, "serve", "--listen", self.address, "--redis-url", redis_url, "--drain-seconds", "1",
                          "--audit-interval-seconds", str(AUDIT_SECONDS), *options],
                         os.path.join(home, f"{name}.log"), environment)

    def wait_ready(self):
        wait_ready(self, "/readyz", restarts_on="store_unavailable")

    def page(self):
        """What Prometheus scrapes."""
        answer, raw = Caller(self.port).fetch("GET", "/metrics")
        assert answer.status == 200, raw
        return raw.decode()


class Prometheus(Process):
    """Scrapes each second what it is told, and evaluates the alerts if there are any."""

    def __init__(self, home, addresses, name="prometheus"):
        self.port, self.addresses = free_port(), list(addresses)
        config = {"global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
                  "rule_files": [str(RULES)] if RULES.exists() else [],
                  "scrape_configs": [{"job_name": "stockade", "static_configs": [{"targets": self.addresses}]}]}
        path = os.path.join(home, f"{name}.json")
        with open(path, "w") as file:
            json.dump(config, file)  # JSON is YAML
        super().__init__([PROMETHEUS, f"--config.file={path}", f"--storage.tsdb.path={home}/{name}",
                          f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
                         os.path.join(home, f"{name}.log"))

    def wait_ready(self):
        wait_ready(self, "/-/ready")

    def get(self, path, **query):
        answer, raw = Caller(self.port).fetch("GET", f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
        document = json.loads(raw)
        if document["status"] != "success":
            raise ValueError(f"{document['error']}: {query}")
        return document["data"]

    def query(self, expr, at=None):
        """The samples of an expression: labels and value. A scalar is one sample without labels."""
        data = self.get("query", query=expr, **({} if at is None else {"time": f"{at:.3f}"}))
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        assert data["resultType"] == "vector", f"{expr} is a {data['resultType']}"
        return [(sample["metric"], float(sample["value"][1])) for sample in data["result"]]

    def query_range(self, expr, start, end, step):
        """The series of an expression: labels, and pairs of time and value."""
        data = self.get("query_range", query=expr, start=f"{start:.3f}", end=f"{end:.3f}", step=step)
        return [(series["metric"], [(at, float(value)) for at, value in series["values"]]) for series in data["result"]]

    def wait_scraped(self, times=1):
        """Waits until every target has been scraped so often from now on, and answers the time then."""
        seen = collections.defaultdict(set)

        def look():
            for target in self.get("targets", state="active")["activeTargets"]:
                assert not target["lastError"], target["lastError"]
                seen[target["scrapeUrl"]].add(target["lastScrape"])
            # The first that is seen is over, and the second may have begun before this call.
            return len(seen) == len(self.addresses) and all(len(scrapes) > times + 1 for scrapes in seen.values())

        eventually(look, lambda: f"{times} scrapes of {self.addresses}: {dict(seen)}")
        return time.time()


def wait_ready(process, path, restarts_on=None):
    """Waits until it answers 200. If it ends for a reason that may pass it is started again, as a supervisor would."""
    def look():
        if process.child.poll() is not None:
            said = pathlib.Path(process.log).read_text()
            if not restarts_on or restarts_on not in said:
                raise AssertionError(f"{process.command[0]} ended:\n{said}")
            process.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return Caller(process.port).fetch("GET", path)[0].status == 200

    eventually(look, f"{process.command[0]} answers 200 to {path}: see {process.log}")


class Servers:
    """What `running` starts."""

    def __init__(self, home, redis, instances, prometheus):
        self.home, self.redis, self.instances, self.prometheus = home, redis, instances, prometheus


@contextlib.contextmanager
def running(profile, redis_folder=None):
    """Redis, two instances, Prometheus; all of them, and their files, are gone afterwards."""
    program = binary(profile)
    with contextlib.ExitStack() as stack:
        home, data = stack.enter_context(folder()), stack.enter_context(folder(redis_folder))
        # As in production: durable, and with a limit.
        redis = stack.enter_context(Redis(data, "--maxmemory", "512mb", "--maxmemory-policy", "noeviction"))
        instances = [stack.enter_context(Instance(home, program, f"unix://{redis.path}", name)) for name in ("one", "two")]
        prometheus = stack.enter_context(Prometheus(home, [instance.address for instance in instances]))
        prometheus.wait_scraped()
        yield Servers(home, redis, instances, prometheus)
