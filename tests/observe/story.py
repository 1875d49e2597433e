"""A story with everything in it that a dashboard shows: a crowd, locks, orders, barriers, webhooks, streams, and mistakes.

Each act is a thread that does the same again until the story is told to stop, so that no rate falls to zero while somebody
looks. What it asks for follows from the seed. Every answer is checked, and counted as Stockade counts.
"""

import collections
import contextlib
import random
import socket
import threading

from acts import Acts
from client import Client, Wrong
from receiver import Receiver
from servers import eventually

CROWD_THREADS = 3


class Story(Acts):
    """Tells itself to these instances while its block runs."""

    def __init__(self, instances, seed=7):
        self.ports, self.seed = [instance.port for instance in instances], seed
        self.seen, self.rounds, self.failures = collections.Counter(), collections.Counter(), []
        self.stopped, self.threads, self.lock = threading.Event(), [], threading.Lock()
        self.stream, self.units_returned = None, 0
        self.acts = {f"crowd {n}": self.crowd for n in range(CROWD_THREADS)}
        self.acts |= {"bulk": self.bulk, "refusals": self.refusals, "restock": self.restock, "readers": self.readers,
                      "locks": self.locks, "orders": self.orders, "barriers": self.barriers, "waiter": self.waiter,
                      "webhooks": self.webhooks, "listener": self.listener}

    def __enter__(self):
        self.receiver = Receiver().__enter__()
        try:
            with self.clients() as (one, _):
                self.prepare(one)
            for name, act in self.acts.items():
                thread = threading.Thread(target=self.repeat, args=(name, act), name=name, daemon=True)
                self.threads.append(thread)
                thread.start()
            return self
        except BaseException:
            self.receiver.__exit__()
            raise

    def __exit__(self, *_):
        self.end()
        self.receiver.__exit__()

    @contextlib.contextmanager
    def clients(self):
        """One client of each instance; what they saw is counted with the rest at the end."""
        seen = collections.Counter()
        clients = [Client(port, seen) for port in self.ports]
        try:
            yield clients
        finally:
            for client in clients:
                client.close()
            with self.lock:
                self.seen.update(seen)

    def repeat(self, name, act):
        """Rounds of one act, each beginning at the other instance."""
        chance, number = random.Random(f"{self.seed} {name}"), 0
        try:
            with self.clients() as clients:
                while not self.stopped.is_set():
                    act(f"{name.replace(' ', '')}-{self.seed}-{number}", chance, *(clients if number % 2 else clients[::-1]))
                    number += 1
                    with self.lock:
                        self.rounds[name] = number
                    self.stopped.wait(0.05)  # a crowd, not a benchmark
        except Exception as failure:
            self.failures.append((name, number, failure))
            self.stopped.set()

    def check(self):
        if self.failures:
            raise Wrong(f"the story went wrong: {self.failures}") from self.failures[0][2]

    def wait_told(self, times=2):
        """Waits until each act has been played so often."""
        def look():
            self.check()
            with self.lock:
                return all(self.rounds[name] >= times for name in self.acts)

        eventually(look, lambda: f"{times} rounds of each act: {dict(self.rounds)}", seconds=120)

    def stop(self):
        """Ends it, and says if something went wrong."""
        self.end()
        self.check()

    def end(self):
        """Ends all acts after their present round."""
        self.stopped.set()
        if self.stream:
            with contextlib.suppress(OSError):
                self.stream.shutdown(socket.SHUT_RDWR)  # it may be waiting for an event
        for thread in self.threads:
            thread.join()

    def settled(self, client):
        """Waits until nothing is held any more and nothing waits for delivery."""
        def held():
            return sum(sale["totals"]["held"] for sale in client.expect("200", "GET", "/v1/sales")[1]["items"])

        eventually(lambda: held() == 0, lambda: f"{held()} units are still held")

        def pending():
            hooks = client.expect("200", "GET", "/v1/webhooks")[1]["items"]
            return sum(len(client.expect("200", "GET", f"/v1/webhooks/{hook['id']}/deliveries?status=pending")[1]["items"])
                       for hook in hooks)

        eventually(lambda: pending() == 0, lambda: f"{pending()} deliveries are still pending")
