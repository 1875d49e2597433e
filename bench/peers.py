"""What a user would take instead: a service in Node, and PostgreSQL. See bench/peers/README.md for what each is given.

A peer whose programs are not installed is `Missing`: its rows say so, and the run goes on.
"""

import glob
import itertools
import math
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import load
from sides import BUYER_LIMIT, HOLD_SECONDS, HOT_UNITS, Failed, OneScript

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
NODE_MAJOR, WARM_UP_SECONDS = 20, 6
#: Clients of PostgreSQL: an ordinary pool, and as few as the row of a hot SKU is fastest with.
MANY, FEW = 50, 2
#: How long transactions may be outstanding after the last one was due, as in `rate`.
GRACE_SECONDS = 10
#: What a run must move as one, as `Postgres.books` counts it.
BOOKS = ("units gone", "units held", "reservations", "units of buyers", "events")


class Missing(Exception):
    """A program that is not installed: no fault of the run."""


def children(parent):
    """The processes that a process has started, as they are now, each with the clock ticks that it has used."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as stat:
                pid, rest = stat.read().split(" ", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue    # ended meanwhile
        fields = rest.rsplit(")", 1)[1].split()
        if int(fields[1]) == parent:
            found[int(pid)] = int(fields[11]) + int(fields[12])
    return found


class Node(OneScript):
    """fastify and ioredis, a worker a core: one EVALSHA a request."""

    def __init__(self, folder, transport, redis_binary):
        version = node_version()
        if not version or version[0] < NODE_MAJOR:
            raise Missing(f"no Node {NODE_MAJOR} or newer")
        if not os.path.isdir(f"{PEERS}/node/node_modules/fastify"):
            raise Missing("no packages in bench/peers/node: scripts/setup.sh bench")
        workers = len(os.sched_getaffinity(0))
        command, settings = ["node", f"{PEERS}/node/server.js"], {"WORKERS": str(workers), "NODE_ENV": "production"}
        super().__init__("node", command, folder, transport, redis_binary, settings)
        self.pids = [self.process.pid, *children(self.process.pid)]
        try:
            self.warm_up()
        except BaseException:
            self.stop()
            raise

    def warm_up(self):
        """V8 compiles what runs often, in the midst of it: half as much is accepted in the first seconds."""
        self.put_sale("warm-up", HOT_UNITS)
        load.wrk_reserve(self, "warm-up", "w", WARM_UP_SECONDS, 2, {})

    def is_ready(self):
        return "ready" in self.said()


def node_version():
    if not shutil.which("node"):
        return None
    said = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    return [int(number) for number in re.findall(r"\d+", said)]


def postgres_programs():
    """The folder with the newest server that is installed along with all that it takes."""
    folders = glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin")
    folders.sort(key=lambda folder: int(re.search(r"\d+", folder).group()), reverse=True)
    if shutil.which("pg_config"):
        folders.insert(0, subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip())
    for folder in [*folders, "/usr/bin", "/usr/local/bin"]:
        if all(os.access(f"{folder}/{program}", os.X_OK) for program in ("initdb", "postgres", "psql", "pgbench")):
            return folder
    return None


class Postgres:
    """A cluster of its own, that is as durable as it comes, with pgbench in place of a service in front."""

    def __init__(self):
        self.name, self.programs, self.runs = "postgres", postgres_programs(), itertools.count(1)
        if not self.programs:
            raise Missing("no PostgreSQL server with pgbench")
        # PostgreSQL refuses to run as root.
        self.user = {}
        if os.getuid() == 0:
            try:
                user = pwd.getpwnam("postgres")
                self.user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            except KeyError:
                raise Missing("no user `postgres`, and PostgreSQL does not run as root") from None
        # Not below the run's folder, which this user cannot enter.
        self.home = tempfile.TemporaryDirectory(prefix="stockade-bench-postgres-", ignore_cleanup_errors=True)
        self.folder, self.process = self.home.name, None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        if self.user:
            os.chown(self.folder, self.user["user"], self.user["group"])
        data = f"{self.folder}/data"
        self.said(self.programs + "/initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8",
                  "--locale", "C", "--no-sync", **self.user)
        # A checkpoint in the middle of a run would be measured as if it were reservations. fsync, full_page_writes and
        # synchronous_commit are on as they come.
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "max_connections": "100", "fsync": "on",
                    "synchronous_commit": "on", "shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen([self.programs + "/postgres", "-D", data, *options], cwd=self.folder,
                                            stdout=log, stderr=log, **self.user)
        for _ in range(500):
            if self.process.poll() is not None:
                with open(f"{self.folder}/log") as log:
                    raise Failed(f"postgres ended at once:\n{log.read()[-2000:]}")
            if subprocess.run([*self.client("psql"), "-c", "SELECT 1"], capture_output=True).returncode == 0:
                break
            time.sleep(0.02)
        self.query("--file", f"{PEERS}/postgres/schema.sql")

    def client(self, program):
        return [f"{self.programs}/{program}", "--host", self.folder, "--username", "postgres"]

    def said(self, *command, **how):
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **how)
        if done.returncode != 0:
            raise Failed(f"{os.path.basename(command[0])} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def query(self, *what):
        return self.said(*self.client("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
                         "--set", "ON_ERROR_STOP=1", *what).strip()

    def put_sale(self, sale, initial):
        self.query("--command", f"INSERT INTO rules VALUES ('{sale}', '{HOLD_SECONDS} s', {BUYER_LIMIT})",
                   "--command", f"INSERT INTO stock VALUES ('{sale}', 'hot', {initial})")

    def reserve(self, sale, key):
        """One by hand; what came of it."""
        return self.query("--command", f"SELECT outcome FROM reserve('{sale}', 'hot', 'b-{key}', 1, 'k-{key}')")

    def books(self, sale):
        """Counts of BOOKS: the stock, and what is written beside it."""
        row = self.query("--command", f"""
            SELECT -available, held,
                (SELECT count(*) FROM reservation WHERE sale = '{sale}' AND status = 'held'),
                (SELECT coalesce(sum(units), 0) FROM buyer WHERE sale = '{sale}'),
                (SELECT count(*) FROM event)
            FROM stock WHERE sale = '{sale}'""")
        return [int(count) for count in row.split("|")]

    def cpu_seconds(self):
        """Of the server so far: its processes that live, and those that have ended, which its first one has waited for."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:15]))
        return (ticks + sum(children(self.process.pid).values())) / os.sysconf("SC_CLK_TCK")

    def accepted(self, seconds, sale="bench", clients=MANY):
        """As many reservations as are accepted."""
        return self.pgbench(sale, clients, held=True, length=["--time", str(seconds)])[0]

    def sold_out(self, seconds, sale="bench-gone"):
        """As many refusals as a sale without a unit left can answer."""
        if self.reserve(sale, "probe") != "sold_out":
            raise Failed(f"postgres: {sale} is not sold out")
        return self.pgbench(sale, MANY, held=False, length=["--time", str(seconds)])[0]

    def constant_rate(self, rate, seconds, warmup_seconds=2, sale="bench", clients=FEW):
        """Latency at a constant rate on average, from when each transaction was due. Every one that is due is waited for."""
        each = max(1, round(rate * (seconds + warmup_seconds) / clients))
        due, until = each * clients, seconds + warmup_seconds + GRACE_SECONDS
        length = ["--transactions", str(each), "--rate", str(rate)]
        result, log = self.pgbench(sale, clients, held=True, length=length, until=until)
        first = min(began for began, _ in log)
        # One that was given up in the midst of its warm-up has shown enough.
        counted = [latency for began, latency in log if began - first >= warmup_seconds * 1e6] or [latency for _, latency in log]
        counted.sort()
        figures = {"rate": rate, "due": due, "answered": result["requests"], "missing": due - result["requests"],
                   "seconds": result["seconds"], "counted": len(counted), "max_us": counted[-1],
                   **{name: quantile(counted, share) for name, share in
                      (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999))}}
        if figures["missing"]:
            raise load.Unanswered(self, figures)
        return figures

    def pgbench(self, sale, clients, held, length, until=None):
        """One run, whose books must balance; and for each transaction when it was due and its latency, in microseconds."""
        log, before, cpu_before = f"{self.folder}/transactions", self.books(sale), self.cpu_seconds()
        threads = str(min(clients, 2))
        command = [*self.client("pgbench"), "--no-vacuum", "--protocol", "prepared", "--client", str(clients), "--jobs", threads,
                   *length, "--log", "--log-prefix", log, "--file", f"{PEERS}/postgres/reserve.sql",
                   "--define", f"sale={sale}", "--define", f"run=p{next(self.runs)}", "--define", "n=0", "postgres"]
        try:
            with load.Cpu() as cpu:
                done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=until)
        except subprocess.TimeoutExpired:
            done = None
        if done and (done.returncode != 0 or re.search(r"failed transactions: [1-9]", done.stdout)):
            raise Failed(f"pgbench failed: {done.stdout}{done.stderr}")
        self.wait_for_clients()
        server_cpu = self.cpu_seconds() - cpu_before
        grown = [after - start for start, after in zip(before, self.books(sale))]
        if done:
            requests = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
            per_second = float(re.search(r"tps = ([\d.]+) \((?:without|excluding)", done.stdout).group(1))
        else:   # given up: what was written is what was done
            requests, per_second = grown[0], grown[0] / until
        if grown != [requests if held else 0] * len(grown):
            raise Failed(f"postgres: {requests} transactions, but the books grew by {dict(zip(BOOKS, grown))}")
        lines = read_log(log)
        latencies = sorted(latency for _, latency in lines)
        return {"requests": requests, "refused": 0 if held else requests, "seconds": requests / per_second, "per_second": per_second,
                "p50_ms": quantile(latencies, 0.5) / 1000, "p99_ms": quantile(latencies, 0.99) / 1000,
                "cpu_seconds": {"store": server_cpu, "load": cpu.seconds["load"]}}, lines

    def wait_for_clients(self):
        """Until the server has done with those of a run that has ended, however it did."""
        others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        while self.query("--command", others) != "0":
            time.sleep(0.02)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGQUIT)     # at once: nothing in it is worth a clean end
            try:
                self.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.process.kill()     # its children see that, and end
                self.process.wait()
        self.home.cleanup()


def read_log(prefix):
    """Of each transaction when it was due, and its latency, which counts from then; the files are removed."""
    found = []
    for path in glob.glob(glob.escape(prefix) + ".*"):
        with open(path) as log:
            for line in log:
                fields = line.split()
                # The last line of a run that was given up may be cut off.
                if len(fields) >= 6 and line.endswith("\n"):
                    latency = int(fields[2])
                    found.append((int(fields[4]) * 1_000_000 + int(fields[5]) - latency, latency))
        os.remove(path)
    if not found:
        raise Failed("pgbench has logged no transaction")
    return found


def quantile(ordered, share):
    return ordered[max(1, math.ceil(share * len(ordered))) - 1]


def versions():
    """Of the peers that are installed."""
    node, postgres = node_version(), postgres_programs()
    said = subprocess.run([f"{postgres}/postgres", "--version"], capture_output=True, text=True).stdout if postgres else ""
    found = {"node": ".".join(map(str, node)) if node else None, "postgres": " ".join(said.split()[2:3])}
    return {name: version for name, version in found.items() if version}
