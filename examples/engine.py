"""Starts what the demos need: a `stockade` with its own folder and port, and a bare Redis. Standard library only."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
STOCKADE = os.environ.get("STOCKADE_BINARY", os.path.join(TARGET, "release", "stockade"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from resp import Client  # noqa: E402


@contextlib.contextmanager
def folder(where=None):
    """A folder that is gone afterwards."""
    path = tempfile.mkdtemp(prefix="stockade-demo-", dir=where)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


#: However slow the machine is.
DEADLINE_SECONDS = 60


def eventually(look, what, seconds=DEADLINE_SECONDS):
    """Waits until `look` answers something that is true, and answers that."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.01)
    return seen


class Process:
    """A child that can be killed as if the power had gone, and started again on the same files. It ends with its block."""

    def __init__(self, command, log, environment=None):
        self.command, self.log, self.environment = command, log, environment

    def start(self):
        with open(self.log, "ab") as log:
            # A session of its own: Ctrl-C is for whoever runs the demo, and ends this in its turn.
            self.child = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=self.environment, start_new_session=True)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def __enter__(self):
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()


class Stockade(Process):
    """`stockade serve` with its embedded engine."""

    def __init__(self, home, port=None):
        if not os.path.exists(STOCKADE):
            raise SystemExit(f"{STOCKADE} is not there: use `make demo`, `make demo-lua` or `make load`")
        self.data, self.port = os.path.join(home, "data"), port or free_port()
        super().__init__([STOCKADE, "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", self.data],
                         os.path.join(home, "stockade.log"))

    def wait_ready(self):
        for _ in range(3000):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/readyz")[0] == 200:
                    return
            time.sleep(0.01)
        raise SystemExit(f"the service does not become ready: {self.log}")

    def call(self, method, path, body=None, key=None):
        """One request on a connection of its own: status and document."""
        return Caller(self.port).call(method, path, body, key)

    def kill_engine(self):
        """Kills the private Redis; the service starts it again."""
        client = Client(os.path.join(self.data, "stockade.sock"))
        os.kill(int(client.info()["process_id"]), signal.SIGKILL)
        client.close()

    def __exit__(self, *_):
        super().__exit__()
        with contextlib.suppress(OSError):
            self.kill_engine()  # left alone where the service had been killed last

    def audit(self, *sale):
        """Exit code and text of `stockade audit`, of one sale or of all. It attaches to the engine that runs."""
        done = subprocess.run([STOCKADE, "audit", *sale, "--data-dir", self.data], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).strip()


class Caller:
    """A client with one kept connection, as a storefront has."""

    def __init__(self, port, token=None):
        self.port, self.token, self.connection = port, token, None

    def call(self, method, path, body=None, key=None):
        answer, raw = self.fetch(method, path, body, key)
        return answer.status, json.loads(raw or b"null")

    def fetch(self, method, path, body=None, key=None):
        """The answer (status and headers) and its body as it is."""
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        raw = None if body is None else json.dumps(body)
        try:
            self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.connection.request(method, path, raw, headers)
            answer = self.connection.getresponse()
            return answer, answer.read()
        except BaseException:
            self.close()
            raise

    def until_known(self, method, path, body, key):
        """The same call with the same key until its outcome is known: what makes a retry safe."""
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, document = self.call(method, path, body, key)
                if status < 500:
                    return status, document
            time.sleep(0.05)

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def server():
    """The program of a Redis or a Valkey."""
    local = os.path.join(ROOT, ".tools", "bin", "valkey-server")
    named = os.environ.get("STOCKADE_REDIS_SERVER")
    return named or shutil.which("redis-server") or shutil.which("valkey-server") or local


class Redis(Process):
    """A bare Redis with the durable settings that Stockade ships, so that the comparison is about the script."""

    def __init__(self, home, *settings):
        self.path = os.path.join(home, "redis.sock")
        super().__init__([server(), "--port", "0", "--unixsocket", self.path, "--dir", home, "--appendonly", "yes",
                          "--appendfsync", "always", "--save", "", *settings], os.path.join(home, "redis.log"))

    def wait_ready(self):
        self.client()

    def client(self):
        """A connection to a server that answers."""
        for _ in range(1000):
            try:
                client = Client(self.path)
                client.call("PING")
                return client
            except Exception:  # not there yet, or still loading
                time.sleep(0.01)
        raise SystemExit(f"Redis does not answer: {self.log}")
