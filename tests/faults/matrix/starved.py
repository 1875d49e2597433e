"""Redis forgets its scripts, is full, may evict, or cannot write."""

import contextlib
import glob
import os
import resource

from clients import Client
from matrix import Row, seconds
from processes import Service, eventually, tail

NEVER = resource.RLIM_INFINITY


class ScriptFlush(Row):
    name, fault = "script-flush", "SCRIPT FLUSH every 100 ms"

    def draw(self, rng):
        return {"times": [seconds(rng, 0.05, 0.15) for _ in range(20)]}

    def play(self, run):
        redis = run.redis()
        run.service(redis.url)
        run.open()
        run.over()
        begun = len(run.crowd.journal.calls)
        for rest in run.faults["times"]:
            redis.call("SCRIPT", "FLUSH")
            run.load(rest)
        failed = [call for call in run.crowd.journal.calls[begun:] if call.status in (0, 503)]
        if failed:
            run.fail(f"{len(failed)} calls noticed, the first: {failed[0]}")
        run.over()


class MemoryFull(Row):
    name, fault = "memory-full", "Redis full: reserving stops, confirm, release and return go on"
    is_quick = True

    def draw(self, rng):
        return {"after": seconds(rng, 0.3, 0.8), "full": seconds(rng, 0.3, 1)}

    def play(self, run):
        redis = run.redis()
        run.service(redis.url)
        run.open()
        guest = Client(run.crowd, len(run.crowd.clients), [], None)
        held = [call for number in range(4) if (call := guest.hold(f"guest-{number}", {"a": 1})).is_good]
        run.load(run.faults["after"])
        redis.call("CONFIG", "SET", "maxmemory", int(redis.info()["used_memory"]) // 2)
        moment = len(run.crowd.journal.calls)
        for verb, call in zip(("confirm", "release", "confirm", "release"), held):
            guest.verb(verb, call.name, call.document["id"])
            if verb == "confirm":
                guest.verb("return", call.name, call.document["id"])
        eventually(lambda: told(run, moment, "store_full"), "somebody is told that the store is full")
        run.load(run.faults["full"])
        if any(call.kind in ("confirm", "release", "return") for call in told(run, moment, "store_full")):
            run.fail("something could not be settled while Redis was full")
        redis.call("CONFIG", "SET", "maxmemory", "512mb")
        run.over()


def told(run, since, code):
    """Calls that were told so."""
    return [call for call in run.crowd.journal.calls[since:] if call.document.get("code") == code]


class WrongPolicy(Row):
    name, fault = "wrong-policy", "`maxmemory-policy` that evicts: refuses to start"

    def draw(self, rng):
        return {"policy": rng.choice(("allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lru"))}

    def play(self, run):
        redis = run.redis("--maxmemory-policy", run.faults["policy"])
        service = Service(run.home, "refused", redis.url)
        service.start(ready=False)
        with contextlib.ExitStack() as stack:
            stack.callback(service.__exit__)
            eventually(service.has_ended, "it refuses to start")
            if service.child.returncode == 0 or "noeviction" not in tail(service.log):
                run.fail(f"it ended with {service.child.returncode}: {tail(service.log)}")
        redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
        run.service(redis.url)
        run.open()
        run.over()


class DiskFull(Row):
    """The files of Redis may not grow any further: a limit that the system sets to a process, as if the disk were full."""

    name, fault = "disk-full", "disk full (`everysec`): Redis refuses writes until there is room"
    is_quick = True
    settings = ("--appendfsync", "everysec")

    def draw(self, rng):
        return {"times": [{"after": seconds(rng, 0.3, 0.7), "bytes": rng.randrange(4_000), "full": seconds(rng, 0.5, 1.2)} for _ in range(2)]}

    def play(self, run):
        redis = run.redis(*self.settings, is_shielded=True)
        run.service(redis.url)
        run.open()
        for fault in run.faults["times"]:
            run.load(fault["after"])
            [log] = glob.glob(os.path.join(redis.home, "appendonlydir", "*.incr.aof"))
            resource.prlimit(redis.child.pid, resource.RLIMIT_FSIZE, (os.path.getsize(log) + fault["bytes"], NEVER))
            self.wait_full(run, redis)
            run.load(fault["full"])
            self.make_room(run, redis)
            run.over()

    def wait_full(self, run, redis):
        moment = len(run.crowd.journal.calls)
        eventually(lambda: told(run, moment, "store_read_only"), "somebody is told that nothing can be written")
        if redis.info()["aof_last_write_status"] == "ok":
            run.fail("Redis could write")

    def make_room(self, run, redis):
        resource.prlimit(redis.child.pid, resource.RLIMIT_FSIZE, (NEVER, NEVER))


class DiskFullAlways(DiskFull):
    name, fault = "disk-full-always", "disk full (`always`): Redis ends, and is started when there is room"
    is_quick = False
    settings = ()

    def wait_full(self, run, redis):
        eventually(redis.has_ended, "Redis ends rather than answer")

    def make_room(self, run, redis):
        redis.start(ready=False)


ROWS = [ScriptFlush(), MemoryFull(), WrongPolicy(), DiskFull(), DiskFullAlways()]
