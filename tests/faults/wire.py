"""Stands between a service and its Redis, and does to their bytes what it is told. It knows nothing of what they mean."""

import socket
import struct
import threading
import time

PIECE = 65_536
RESET = struct.pack("ii", 1, 0)     # SO_LINGER: close with RST


class Wire:
    """A listener that leads to a server. Each connection has two threads, one a direction."""

    def __init__(self, address, target):
        self.address, self.target = address, target
        self.pairs, self.lock = set(), threading.Lock()
        #: What becomes of all bytes from now on. `None`: as they come. `bytes`: one a write. `hole`: they wait until it is over.
        self.mode = None
        self.cuts = 0
        self.is_closed = False
        self.listener = socket.create_server(address)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return "redis://{}:{}".format(*self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_closed = True
        self.listener.close()
        for pair in self.all():
            pair.end()

    def all(self):
        with self.lock:
            return list(self.pairs)

    def cut_answers(self, count):
        """What is asked is forwarded; in place of the next so many answers the connection ends."""
        with self.lock:
            self.cuts = count

    def reset(self):
        """RST on all connections, on either side."""
        for pair in self.all():
            pair.end(reset=True)

    def half_close(self):
        """Tells the service that nothing more will be answered, and goes on to listen to it."""
        for pair in self.all():
            quietly(pair.near.shutdown, socket.SHUT_WR)

    def accept(self):
        while not self.is_closed:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, timeout=5)
            except OSError:
                Pair(near, near).end(reset=True)
                continue
            far.settimeout(None)
            for side in (near, far):
                quietly(side.setsockopt, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Pair(near, far)
            with self.lock:
                self.pairs.add(pair)
            for source, drain in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(pair, source, drain), daemon=True).start()

    def carry(self, pair, source, drain):
        try:
            while data := source.recv(PIECE):
                while self.mode == "hole" and not self.is_closed:
                    time.sleep(0.005)
                if source is pair.far and self.is_cut():
                    break
                step = 1 if self.mode == "bytes" else len(data)
                for at in range(0, len(data), step):
                    drain.sendall(data[at:at + step])
        except OSError:
            pass
        with self.lock:
            self.pairs.discard(pair)
        pair.end()
        pair.close()

    def is_cut(self):
        with self.lock:
            self.cuts -= (was := self.cuts) > 0
            return was > 0


class Pair:
    """One connection: what the service sees of it, and what the server sees."""

    def __init__(self, near, far):
        self.near, self.far, self.is_reset = near, far, False

    def end(self, reset=False):
        """Wakes both threads, which close. A socket is not closed while somebody reads from it."""
        self.is_reset |= reset
        for side in (self.near, self.far):
            if self.is_reset:
                quietly(side.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            quietly(side.shutdown, socket.SHUT_RD if self.is_reset else socket.SHUT_RDWR)
        if self.near is self.far:
            self.close()

    def close(self):
        quietly(self.near.close)
        quietly(self.far.close)


def quietly(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        pass
