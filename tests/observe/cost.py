"""What a scrape costs while the service watches as many SKUs as it gives series of their own."""

import contextlib
import os
import statistics
import time
from dataclasses import dataclass

from servers import Caller, eventually

WATCHED_SKUS = 100
SCRAPES, BATCHES = 20, 5
EVERY_SECONDS = 5


@dataclass(frozen=True)
class Cost:
    """Of one scrape."""

    milliseconds: float
    size: int
    skus: int
    cpu_milliseconds: float

    def lines(self):
        share = self.cpu_milliseconds / 1000 / EVERY_SECONDS
        yield (f"A scrape at {self.skus} watched SKUs takes {self.milliseconds:.1f} ms (median of {SCRAPES * BATCHES}) "
               f"and has {self.size:,} bytes.")
        yield (f"It costs the process {self.cpu_milliseconds:.1f} ms of CPU (median of {BATCHES} x {SCRAPES}): "
               f"{share:.2%} of a core at one scrape in {EVERY_SECONDS} s.")


def watched(page):
    return page.count('stockade_stock_units{') // 4  # a series for each state


@contextlib.contextmanager
def all_places_taken(instance):
    """With a sale of as many SKUs as are watched, beside those that are there."""
    stock = {f"size-{number}": {"initial": 10} for number in range(WATCHED_SKUS)}
    status, document = Caller(instance.port).call("PUT", "/v1/sales/wide", {"stock": stock})
    assert status == 201, document
    eventually(lambda: watched(instance.page()) == WATCHED_SKUS, lambda: f"{watched(instance.page())} SKUs are watched")
    yield
    assert Caller(instance.port).call("DELETE", "/v1/sales/wide")[0] == 202


def cpu_seconds(pid):
    """User and system time of a process until now."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(instance):
    """Scrapes one process again and again. Its other work meanwhile counts as the scrapes'."""
    with all_places_taken(instance):
        return scrape(instance)


def scrape(instance):
    caller, times, cpu = Caller(instance.port), [], []
    for _ in range(BATCHES):
        before = cpu_seconds(instance.child.pid)
        for _ in range(SCRAPES):
            begun = time.perf_counter()
            answer, raw = caller.fetch("GET", "/metrics")
            times.append(time.perf_counter() - begun)
            assert answer.status == 200, raw
        cpu.append((cpu_seconds(instance.child.pid) - before) / SCRAPES)
    caller.close()
    return Cost(statistics.median(times) * 1000, len(raw), watched(raw.decode()), statistics.median(cpu) * 1000)
