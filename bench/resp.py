"""Just enough of the Redis protocol to set a server up and to read it out, and to start and stop a private one."""

import os
import socket
import subprocess
import time


def encode(*words):
    """One command in RESP."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
    return b"".join(parts)


class RedisError(Exception):
    """An error reply."""


class Client:
    """A blocking connection over a unix socket: one command, one reply."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.reader = self.socket.makefile("rb")

    def call(self, *words):
        self.send(encode(*words))
        return self.read()

    def send(self, raw):
        self.socket.sendall(raw)

    def read(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.reader.read(size + 2)[:-2].decode()
        if kind == b"*":
            return [self.read() for _ in range(int(rest))] if int(rest) >= 0 else None
        raise RedisError(f"unknown reply {line!r}")

    def info(self):
        """INFO everything, as a flat dictionary of strings."""
        pairs = (line.split(":", 1) for line in self.call("INFO", "everything").splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def close(self):
        self.reader.close()
        self.socket.close()


class Server:
    """A private redis-server with the settings that Stockade ships: append-only, fsync always, no eviction.

    It can be killed and started again on what it left on disk. `client` is then another connection.
    """

    def __init__(self, folder, port=0, binary="redis-server", appendfsync="always"):
        self.folder = folder
        self.path = os.path.join(folder, "redis.sock")
        self.command = [
            binary, "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", "redis.sock", "--dir", folder,
            "--save", "", "--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", "noeviction",
            # A rewrite in the middle of a run would be measured as if it were reservations.
            "--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--logfile", "redis.log"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.client = Client(self.path)
                return
            except (FileNotFoundError, ConnectionRefusedError):     # not there yet, or that of one that was killed
                time.sleep(0.02)
            if self.process.poll() is not None:
                break
        raise RuntimeError(f"{self.command[0]} does not start, see {self.folder}/redis.log")

    @property
    def pid(self):
        return self.process.pid

    def wait_loaded(self, seconds=120):
        """Until it has read its log, and does what it is asked."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.client.call("PING")
                return
            except RedisError:
                time.sleep(0.005)
        raise RuntimeError(f"{self.command[0]} does not get ready, see {self.folder}/redis.log")

    def log_bytes(self):
        """What the append-only files take."""
        folder = os.path.join(self.folder, "appendonlydir")
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))

    def kill(self):
        """As if it had crashed: SIGKILL."""
        self.client.close()
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()     # nothing in it is worth a clean end
