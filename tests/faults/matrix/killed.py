"""kill -9, and again from what is on disk."""

import os
import signal

from matrix import Row, seconds


def kills(rng, count=2):
    """When, and for how long it stays away."""
    return [{"after": seconds(rng, 0.2, 0.8), "down": seconds(rng, 0, 0.3)} for _ in range(count)]


class ServiceKilled(Row):
    name, fault = "service-killed", "kill -9 of the service, start"
    is_quick = True

    def draw(self, rng):
        return {"embedded": rng.random() < 0.5, "kills": kills(rng, 3)}

    def play(self, run):
        url = None if run.faults["embedded"] else run.redis().url
        service = run.service(url)
        run.open()
        for kill in run.faults["kills"]:
            run.load(kill["after"])
            service.kill()
            run.load(kill["down"])
            service.start(ready=False)
            run.over()
        service.wait_ready()


class RedisKilled(Row):
    name, fault = "redis-killed", "kill -9 of Redis (`always`), start"
    is_quick = True
    settings = ()

    def draw(self, rng):
        return {"kills": kills(rng, 3)}

    def play(self, run):
        redis = run.redis(*self.settings)
        run.service(redis.url)
        run.open()
        for kill in run.faults["kills"]:
            run.load(kill["after"])
            redis.kill()
            run.load(kill["down"])
            redis.start(ready=False)
            run.over()


class RedisKilledEverysec(RedisKilled):
    name, fault = "redis-killed-everysec", "kill -9 of Redis (`everysec`), start"
    may_lose, is_quick = True, False
    settings = ("--appendfsync", "everysec")


class EngineKilled(Row):
    name, fault = "engine-killed", "kill -9 of the embedded Redis: the service starts it again"

    def draw(self, rng):
        return {"kills": kills(rng, 2)}

    def play(self, run):
        service = run.service()
        run.open()
        for kill in run.faults["kills"]:
            run.load(kill["after"])
            os.kill(service.engine_pid(), signal.SIGKILL)
            run.over()


class BothKilled(Row):
    name, fault = "both-killed", "kill -9 of the service and of its embedded Redis, start"
    is_quick = True

    def draw(self, rng):
        return {"kills": kills(rng, 2)}

    def play(self, run):
        service = run.service()
        run.open()
        for kill in run.faults["kills"]:
            run.load(kill["after"])
            engine = service.engine_pid()
            service.kill()
            os.kill(engine, signal.SIGKILL)
            run.load(kill["down"])
            service.start(ready=False)
            run.over()
        service.wait_ready()


ROWS = [ServiceKilled(), RedisKilled(), RedisKilledEverysec(), EngineKilled(), BothKilled()]
