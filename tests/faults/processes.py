"""The service and its servers as processes of their own that can be killed, frozen and started again."""

import contextlib
import functools
import http.client
import itertools
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import engine  # noqa: E402
from engine import Caller, Process, eventually  # noqa: E402
from resp import Client  # noqa: E402

PORTS = itertools.count(20_000)
# What is measured here is not this machine's disk, and what else writes to it.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@functools.cache
def program():
    """The service: STOCKADE_BINARY, or what cargo has built last for tests."""
    path = os.environ.get("STOCKADE_BINARY") or os.path.join(engine.TARGET, "debug", "stockade")
    if not os.path.exists(path):
        raise SystemExit(f"{path} is not there: run `cargo build`, or name it in STOCKADE_BINARY")
    return path


def own_address():
    """One that nobody else uses: all of 127.0.0.0/8 is this machine, so each process takes an IP for itself, and a port for each that
    listens."""
    high, low = divmod(os.getpid() % 65_536, 256)
    return f"127.{128 + os.getpid() // 65_536 % 64}.{high}.{max(low, 1)}", next(PORTS)


def environment(**more):
    """Options of this machine's environment do not reach what is tested."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOCKADE_")}
    return kept | {name: os.environ[name] for name in ("STOCKADE_REDIS_SERVER",) if name in os.environ} | more


class Child(Process):
    """One that may be frozen, and ends with its block whatever state it is in."""

    frozen = False

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)
        self.frozen = False

    def start(self, ready=True):
        super().start()
        if ready:
            self.wait_ready()

    def has_ended(self):
        return self.child.poll() is not None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.frozen:
            self.thaw()
        self.child.terminate()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()


class Redis(Child):
    """A server with the settings that Stockade ships, on a port and on a socket."""

    def __init__(self, home, *settings, more=(), is_shielded=False):
        self.home = home
        os.makedirs(home, exist_ok=True)
        self.host, self.port = own_address()
        self.path = os.path.join(home, "redis.sock")
        self.settings = ["--bind", self.host, "--port", str(self.port), "--maxmemory", "512mb", "--maxmemory-policy", "noeviction", *settings]
        bare = engine.Redis(home, *self.settings)
        # Where a limit on the size of its files is to be an error, and not its end.
        shield = ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"] if is_shielded else []
        super().__init__([*shield, *bare.command], os.path.join(home, "redis.log"), environment(**dict(more)))

    @property
    def address(self):
        return self.host, self.port

    @property
    def url(self):
        return f"redis://{self.host}:{self.port}"

    def client(self):
        return Client(self.path)

    def call(self, *words):
        with contextlib.closing(self.client()) as client:
            return client.call(*words)

    def info(self):
        with contextlib.closing(self.client()) as client:
            return client.info()

    def answers(self):
        if self.has_ended():
            raise RuntimeError(f"Redis has ended:\n{tail(self.log)}")
        try:
            return self.call("PING") == "PONG"
        except Exception:   # not there yet, or still loading
            return False

    def wait_ready(self):
        eventually(self.answers, f"Redis answers, see {self.log}")


class Service(Child):
    """`stockade serve`, on a Redis or with its embedded engine."""

    def __init__(self, home, name, url=None, *options):
        self.home, self.name, self.url = home, name, url
        self.host, self.port = own_address()
        self.data = os.path.join(home, f"{name}-data")
        where = ["--redis-url", url] if url else ["--data-dir", self.data]
        command = [program(), "serve", "--listen", f"{self.host}:{self.port}", "--drain-seconds", "5", *where, *options]
        super().__init__(command, os.path.join(home, f"{name}.log"), environment(RUST_LOG="info"))

    def caller(self, timeout=10):
        return Direct(self.host, self.port, timeout)

    def is_ready(self):
        if self.has_ended():
            if "store_" not in tail(self.log):
                raise RuntimeError(f"{self.name} has ended:\n{tail(self.log)}")
            Process.start(self)    # as a supervisor would: its Redis was not there yet
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(self.caller()) as caller:
            return caller.fetch("GET", "/readyz")[0].status == 200

    def wait_ready(self):
        eventually(self.is_ready, f"{self.name} is ready, see {self.log}")

    @property
    def socket(self):
        return os.path.join(self.data, "stockade.sock")

    def engine_pid(self):
        with contextlib.closing(Client(self.socket)) as client:
            return int(client.info()["process_id"])

    def __exit__(self, *_):
        super().__exit__()
        if not self.url:
            with contextlib.suppress(OSError):
                os.kill(self.engine_pid(), signal.SIGKILL)     # left alone where the service had been killed last


class Direct(Caller):
    """A client with one kept connection, at any address."""

    def __init__(self, host, port, timeout):
        super().__init__(port)
        self.host, self.timeout = host, timeout

    def fetch(self, method, path, body=None, key=None):
        if not self.connection:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            connection.connect()    # a refused one has asked for nothing
            self.connection = connection
        return super().fetch(method, path, body, key)


def audit(url=None, data=None, sale=None):
    """`stockade audit`, of one sale or of all."""
    where = ["--redis-url", url] if url else ["--data-dir", data]
    return subprocess.run([program(), "audit", *([sale] if sale else []), *where], capture_output=True, text=True, env=environment())


def tail(path, lines=15):
    with contextlib.suppress(OSError):
        return "".join(pathlib.Path(path).read_text(errors="replace").splitlines(True)[-lines:])
    return ""
