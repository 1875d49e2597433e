"""The load: wrk as fast as it goes, redis-benchmark without HTTP, and a constant rate."""

import itertools
import json
import os
import re
import resource
import subprocess
import time

from sides import RELEASE, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = 256
# Of wrk for bulk calls: those of a few importers, not of a crowd.
BULK_CONNECTIONS = 16
BULK_REQUESTS = 200
# __rand_int__ is a number below this one, new at each place where it stands.
RANDOM_IDS = 2_000_000_000


def cpu_seconds(pids):
    """User and system time so far, of one process or of several together."""
    ticks = 0
    for pid in [pids] if isinstance(pids, int) else pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Cpu:
    """CPU seconds of the named processes, and of the load generator, while a block runs."""

    def __init__(self, **pids):
        self.pids = pids

    def __enter__(self):
        self.before = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        self.children = self._children()
        return self

    def __exit__(self, *_):
        self.seconds = {name: cpu_seconds(pid) - self.before[name] for name, pid in self.pids.items()}
        self.seconds["load"] = self._children() - self.children

    @staticmethod
    def _children():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[unit]


def wrk_reserve(side, sale, run, seconds, threads, pids, script="reserve.lua", connections=CONNECTIONS, env=None):
    """Reservations, each with a buyer and a key of its own. `env` holds further settings of the script."""
    env = {"SALE": sale, "SKU": "hot", "RUN": run, **(env or {})}
    what = ["-s", os.path.join(HERE, script), f"http://127.0.0.1:{side.port}/"]
    return wrk(side, what, seconds, threads, pids, env, connections)


def wrk(side, what, seconds, threads, pids, env=None, connections=CONNECTIONS):
    """One run of wrk. Counts come from its own summary; socket errors make the run void."""
    env = {**os.environ, **(env or {})}
    command = ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s", "--latency", *what]
    with Cpu(**pids) as cpu:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    out = done.stdout
    if done.returncode != 0:
        raise Failed(f"wrk failed: {out}{done.stderr}")
    requests, took, unit = re.search(r"(\d+) requests in ([\d.]+)(s|m)", out).groups()
    errors = re.search(r"Socket errors: (.*)", out)
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    result = {
        "requests": int(requests), "seconds": float(took) * (60 if unit == "m" else 1),
        "refused": int(refused.group(1)) if refused else 0,
        "p50_ms": milliseconds(re.search(r"(?m)^\s+50%\s+(\S+)", out).group(1)),
        "p99_ms": milliseconds(re.search(r"(?m)^\s+99%\s+(\S+)", out).group(1)),
        "cpu_seconds": cpu.seconds,
    }
    if errors:
        raise Failed(f"{side.name}: wrk saw socket errors: {errors.group(1)}")
    result["per_second"] = result["requests"] / result["seconds"]
    return result


def wrk_accepted(side, sale, run, seconds, threads, pids, connections=CONNECTIONS, env=None):
    """Every answer must be a success, and the stock must have moved by as many units.

    When wrk ends it drops what is under way (at most one request a connection): those may be held without being counted.
    """
    before = side.held(sale) if hasattr(side, "held") else None
    result = wrk_reserve(side, sale, run, seconds, threads, pids, connections=connections, env=env)
    if result["refused"]:
        raise Failed(f"{side.name}: {result['refused']} of {result['requests']} answers were not 2xx")
    if before is not None:
        time.sleep(0.5)
        result["held"] = side.held(sale) - before
        result["uncounted"] = result["held"] - result["requests"]
        if not 0 <= result["uncounted"] <= connections:
            raise Failed(f"{side.name}: {result['requests']} answers, but {result['held']} units held")
    return result


def wrk_bulk(side, sale, run, seconds, threads, pids, size=BULK_REQUESTS):
    """As `wrk_accepted`, with `size` requests a call: a call's 200 says nothing of them, so the stock must have moved by all."""
    before = side.held(sale)
    result = wrk_reserve(side, sale, run, seconds, threads, pids, "bulk.lua", BULK_CONNECTIONS, {"BULK": str(size)})
    if result["refused"]:
        raise Failed(f"{side.name}: {result['refused']} of {result['requests']} bulk answers were not 2xx")
    time.sleep(1)
    calls, result["requests"] = result["requests"], result["requests"] * size
    result["held"] = side.held(sale) - before
    result["uncounted"] = result["held"] - result["requests"]
    if not 0 <= result["uncounted"] <= BULK_CONNECTIONS * size:
        raise Failed(f"{side.name}: {calls} bulk answers, but {result['held']} units held")
    result["per_second"] = result["requests"] / result["seconds"]
    return result


def wrk_sold_out(side, sale, run, seconds, threads, pids):
    """Every answer must be a refusal, and the stock must not have moved."""
    before = side.level(sale)
    body = side.reserve(sale, f"{run}-probe", status=409)[1]
    if json.loads(body)["code"] != "sold_out":
        raise Failed(f"{side.name}: refused for another reason: {body!r}")
    result = wrk_reserve(side, sale, run, seconds, threads, pids)
    if result["refused"] != result["requests"]:
        raise Failed(f"{side.name}: {result['requests'] - result['refused']} sold-out answers were 2xx")
    after = side.level(sale)
    if any(before[name] != after[name] for name in ("available", "held", "sold", "granted")):
        raise Failed(f"{side.name}: refusals moved the stock: {before} -> {after}")
    return result


def wrk_level(side, sale, _run, seconds, threads, pids):
    """Reads of one level. Every answer must be a success; of the service, most must come from its cache."""
    before = side.cache_requests() if hasattr(side, "cache_requests") else None
    result = wrk(side, [f"http://127.0.0.1:{side.port}/v1/sales/{sale}/stock/hot"], seconds, threads, pids)
    if result["refused"]:
        raise Failed(f"{side.name}: {result['refused']} of {result['requests']} answers were not 2xx")
    if before is not None:
        hits, reads = (after - start for after, start in zip(side.cache_requests(), before))
        if not 0 <= reads - result["requests"] <= CONNECTIONS:
            raise Failed(f"{side.name}: {result['requests']} answers, but {reads} reads of the cache")
        result["hit_ratio"] = hits / reads
    return result


RUNS = itertools.count(1)


def redis_benchmark(redis, sale, requests):
    """The single-request script without HTTP, 50 clients. EVALSHA, so that Redis is not charged for the script's text."""
    with open(os.path.join(HERE, "single_reserve.lua")) as script:
        sha = redis.client.call("SCRIPT", "LOAD", script.read())
    # Its random numbers are seeded by time and process id, so two runs may draw the same: the number of the run tells them apart.
    run = f"{next(RUNS):010d}"
    names = ("rules", "stock", "buyers:0", "due", "events", f"r:__rand_int__{run}")
    keys = [f"st:{{{sale}}}:{name}" for name in names]
    arguments = [f"__rand_int__{run}", f"b-__rand_int__{run}", "hot", "1", "fingerprint"]
    before = int(redis.client.call("HGET", f"st:{{{sale}}}:stock", "hot:h"))
    command = ["redis-benchmark", "-s", redis.path, "-c", "50", "-n", str(requests), "-r", str(RANDOM_IDS), "--csv",
               "EVALSHA", sha, str(len(keys)), *keys, *arguments]
    with Cpu(redis=redis.pid) as cpu:
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or "rror" in done.stdout:
        raise Failed(f"redis-benchmark failed: {done.stdout}{done.stderr}")
    # "command","requests a second","average ms",...: the command has quotes and commas in it, so count from the end.
    per_second = float(re.findall(r'"([\d.]+)"', done.stdout.strip().splitlines()[-1])[-7])
    held = int(redis.client.call("HGET", f"st:{{{sale}}}:stock", "hot:h")) - before
    # Two random ids are the same now and then: a replay, which is not a failure.
    if held < requests * 0.999:
        raise Failed(f"redis-benchmark: {requests} calls held only {held} units")
    return {"requests": requests, "held": held, "per_second": per_second, "cpu_seconds": cpu.seconds}


class Unanswered(Failed):
    """A constant rate that some requests got no answer at, in time: too much for the side, if that is what was asked."""

    def __init__(self, side, result):
        super().__init__(f"{side.name}: {result['missing']} of {result['due']} requests got no answer")
        self.result = result


def generate(side, sale, run, rate, seconds, warmup_seconds=0, watch=None, settings=None):
    """What the generator of constant rates saw, whatever that was. `watch` is called again and again meanwhile."""
    env = {**os.environ, "ADDRESS": f"127.0.0.1:{side.port}", "REQUEST_PATH": f"/v1/sales/{sale}/reservations",
           "RATE": str(rate), "SECONDS": str(seconds), "WARMUP_SECONDS": str(warmup_seconds), "RUN": run,
           "CONNECTIONS": str(CONNECTIONS), **(settings or {})}
    began = time.monotonic()
    generator = subprocess.Popen([os.path.join(RELEASE, "rate")], env=env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while watch and generator.poll() is None:
            watch()
        out, complaints = generator.communicate()
    finally:
        generator.kill()
    result = json.loads(out) if out else {"missing": 0}
    if generator.returncode != 0 and (not result["missing"] or result["failure"]):
        raise Failed(f"{side.name}: {out}{complaints}")
    result["seconds"] = time.monotonic() - began
    return result


def constant_rate(side, sale, run, rate, seconds, warmup_seconds=2, expected=("201",), watch=None):
    """Latency at a constant rate, from when each request was due."""
    before = side.held(sale) if hasattr(side, "held") else None
    result = generate(side, sale, run, rate, seconds, warmup_seconds, watch)
    if set(result["statuses"]) - set(expected):
        raise Failed(f"{side.name}: unexpected answers at a constant rate: {result['statuses']}")
    if before is not None and expected == ("201",):
        # What is under way when the generator gives up may be held without being counted.
        time.sleep(0.5 if result["missing"] else 0)
        grown = side.held(sale) - before
        if not 0 <= grown - result["answered"] <= min(result["missing"], CONNECTIONS):
            raise Failed(f"{side.name}: {result['answered']} answers, but {grown} units held")
    if result["missing"]:
        raise Unanswered(side, result)
    return result
