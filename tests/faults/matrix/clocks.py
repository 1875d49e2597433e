"""The time of day jumps, either way: of Redis, which is the one clock of the stock, and of the service."""

import os
import pathlib
import struct
import subprocess
import time

from matrix import Row, seconds
from processes import eventually

HOUR = 3_600


class ClockJumps(Row):
    name, fault = "clock-jumps", "clock jumps by 1 to 3 hours, forth and back"
    is_quick = True
    may_expire = True

    def draw(self, rng):
        jumps, at = [], 0
        for _ in range(2):
            forth = rng.randint(HOUR, 3 * HOUR)
            jumps += [at + forth, at + forth - rng.randint(HOUR, 3 * HOUR)]
            at = jumps[-1]
        return {"jumps": [{"after": seconds(rng, 0.3, 0.6), "to": to} for to in jumps], "service": rng.random() < 0.5}

    def play(self, run):
        moved = Moved(run.home)
        redis = run.redis(more=moved.environment)
        start = int(redis.call("TIME")[0])
        service = run.service(redis.url)
        if run.faults["service"]:
            service.kill()
            service.environment |= moved.environment
            service.start()
        run.open()
        for jump in run.faults["jumps"]:
            run.load(jump["after"])
            moved.to(jump["to"])
            run.over()
        if abs(int(redis.call("TIME")[0]) - start - run.faults["jumps"][-1]["to"]) > 600:
            run.fail("the clock did not move")
        last = time.monotonic_ns()
        run.load(0.5)
        expire(run, redis)
        books = run.finish()
        self.check_early(run, books, last)

    def check_early(self, run, books, since):
        """Nothing that was held after the last jump, for an hour, has expired by now."""
        begun = {call.name: call.begun for call in run.crowd.journal.calls if call.kind == "reserve" and call.is_good and call.status == 201}
        early = [record["id"] for record in books.all if record["status"] == "expired" and begun.get(record["reference"], 0) > since]
        if early:
            run.fail(f"expired early: {early}")
        run.result.notes["holds expired"] = sum(record["status"] == "expired" for record in books.all)


class Moved:
    """A clock that can be moved, for processes that are started with it."""

    def __init__(self, home):
        library, self.file = os.path.join(home, "clock.so"), os.path.join(home, "clock")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, pathlib.Path(__file__).with_name("clock.c")], check=True)
        self.environment = {"LD_PRELOAD": library, "FAULTS_CLOCK": self.file}
        pathlib.Path(self.file).write_bytes(struct.pack("q", 0))

    def to(self, moved):
        """So many seconds from the true time."""
        with open(self.file, "r+b") as file:
            file.write(struct.pack("q", moved))


def expire(run, redis):
    """Waits until whatever ends within a minute has ended: no clock can change anything then."""
    def is_quiet():
        now_ms = int(redis.call("TIME")[0]) * 1_000
        return redis.call("ZCOUNT", "st:{drop}:due", "-inf", now_ms + 60_000) == 0

    run.crowd.stop()
    eventually(is_quiet, "what is overdue has expired")


ROWS = [ClockJumps()]
