"""SIGSTOP, and SIGCONT some time later: a process that is neither gone nor there."""

import contextlib
import os
import signal

from matrix import Row, seconds


def pauses(rng):
    """Shorter and longer than a call may take, and sometimes much longer."""
    chosen = [0.3, 0.7, *([5] if rng.random() < 0.4 else [])]
    rng.shuffle(chosen)
    return [{"after": seconds(rng, 0.2, 0.6), "down": down} for down in chosen]


class RedisFrozen(Row):
    name, fault = "redis-frozen", "Redis frozen for 0.3, 0.7 or 5 s"

    def draw(self, rng):
        return {"pauses": pauses(rng)}

    def play(self, run):
        redis = run.redis()
        run.service(redis.url)
        run.open()
        for pause in run.faults["pauses"]:
            run.load(pause["after"])
            redis.freeze()
            run.load(pause["down"])
            redis.thaw()
            run.over()


class EngineFrozen(Row):
    name, fault = "engine-frozen", "embedded Redis frozen, the service perhaps killed and started meanwhile"

    def draw(self, rng):
        return {"pauses": [{**pause, "restart": rng.random() < 0.4} for pause in pauses(rng)]}

    def play(self, run):
        service = run.service()
        run.open()
        engine = service.engine_pid()
        for pause in run.faults["pauses"]:
            run.load(pause["after"])
            with frozen(engine):
                if pause["restart"]:
                    service.kill()
                    service.start(ready=False)
                run.load(pause["down"])
            if pause["restart"]:
                service.wait_ready()
            run.over()
        if service.engine_pid() != engine:
            run.fail("a second engine was started beside the frozen one")


class ServiceFrozen(Row):
    name, fault = "service-frozen", "one of two services frozen for 0.3 to 3 s"

    def draw(self, rng):
        return {"pauses": [{"after": seconds(rng, 0.2, 0.6), "down": seconds(rng, 0.3, 3), "who": rng.randrange(2)} for _ in range(2)]}

    def play(self, run):
        redis = run.redis()
        services = [run.service(redis.url), run.service(redis.url)]
        run.open()
        for pause in run.faults["pauses"]:
            run.load(pause["after"])
            services[pause["who"]].freeze()
            run.load(pause["down"])
            services[pause["who"]].thaw()
            run.over()


@contextlib.contextmanager
def frozen(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


ROWS = [RedisFrozen(), EngineFrozen(), ServiceFrozen()]
