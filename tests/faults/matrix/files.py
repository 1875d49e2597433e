"""What Redis finds on disk after a crash."""

import concurrent.futures
import contextlib
import glob
import os
import shutil
import signal

from matrix import Row, seconds
from processes import audit

TAIL_BYTES = 2_000
#: Lengths a run, and how many of them at the same time.
LENGTHS, AT_ONCE = 100, 4
ZEROS = 64


class AofTorn(Row):
    """The books of each are read by `stockade audit`, which starts Redis on what is left. Twenty runs have tried all lengths."""

    name, fault = "aof-torn", f"log of Redis torn n bytes before its end, n of 1 to {TAIL_BYTES}"
    is_quick = True

    def draw(self, rng):
        lengths = list(range(1, TAIL_BYTES + 1))
        rng.of_all.shuffle(lengths)
        first = rng.number * LENGTHS % TAIL_BYTES
        return {"load": seconds(rng, 0.5, 1), "lengths": lengths[first:first + LENGTHS]}

    def play(self, run):
        service = run.service()
        run.open()
        run.load(run.faults["load"])
        run.finish()
        engine = service.engine_pid()
        service.kill()
        os.kill(engine, signal.SIGKILL)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = [why for why in pool.map(lambda length: torn(service, length), run.faults["lengths"]) if why]
        run.result.wrong += wrong
        run.result.drift += len(wrong)
        run.result.notes["lengths"] = len(run.faults["lengths"])
        with copied(service, "zeros") as data:
            with open(log_of(data), "ab") as log:
                log.write(bytes(ZEROS))
            if audit(data=data).returncode != 2:
                run.fail("a log that ends in zeros is taken for a good one")


def torn(service, length):
    """What is wrong with the books if the last so many bytes are missing."""
    with copied(service, f"torn-{length}") as data:
        os.truncate(log_of(data), os.path.getsize(log_of(data)) - length)
        done = audit(data=data)
    if done.returncode or not done.stdout.startswith("1 sales,"):
        return f"{length} bytes torn off: {done.stdout}{done.stderr}"
    return None


@contextlib.contextmanager
def copied(service, name):
    data = os.path.join(service.home, name)
    shutil.copytree(os.path.join(service.data, "appendonlydir"), os.path.join(data, "appendonlydir"))
    try:
        yield data
    finally:
        shutil.rmtree(data)


def log_of(data):
    [log] = glob.glob(os.path.join(data, "appendonlydir", "*.incr.aof"))
    return log


ROWS = [AofTorn()]
