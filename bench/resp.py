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
    """A private redis-server with the settings that Stockade ships: append-only, fsync always, no eviction."""

    def __init__(self, folder, port=0, binary="redis-server", appendfsync="always"):
        self.folder = folder
        self.path = os.path.join(folder, "redis.sock")
        self.process = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", "redis.sock", "--dir", folder,
             "--save", "", "--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", "noeviction",
             # A rewrite in the middle of a run would be measured as if it were reservations.
             "--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--logfile", "redis.log"],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.exists(self.path):
                break
            if self.process.poll() is not None:
                raise RuntimeError(f"{binary} ended at once, see {folder}/redis.log")
            time.sleep(0.02)
        self.client = Client(self.path)

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        self.client.close()
        self.process.kill()     # nothing in it is worth a clean end
        self.process.wait()
