"""Between the service and its Redis, and between the clients and the service."""

from matrix import Row, seconds
from plan import CLIENTS
from processes import own_address
from wire import Wire


class Wired(Row):
    """A service whose Redis is behind a wire, and something is wrong with that from time to time."""

    times = 3

    def draw(self, rng):
        return {"times": [{"after": seconds(rng, 0.2, 0.6), **self.how(rng)} for _ in range(self.times)]}

    def how(self, rng):
        return {}

    def play(self, run):
        redis = run.redis()
        wire = run.start(Wire(own_address(), redis.address))
        run.service(wire.url)
        run.open()
        for fault in run.faults["times"]:
            run.load(fault["after"])
            self.harm(run, wire, fault)
            run.over()

    def harm(self, run, wire, fault):
        raise NotImplementedError


class ReplyCut(Wired):
    name, fault, times = "reply-cut", "connection cut between commit and reply", 8
    is_quick = True

    def how(self, rng):
        return {"cuts": rng.randint(1, 12)}

    def harm(self, run, wire, fault):
        wire.cut_answers(fault["cuts"])


class OneByte(Wired):
    name, fault, times = "one-byte", "every byte in a packet of its own", 2

    def how(self, rng):
        return {"for": seconds(rng, 0.3, 1)}

    def harm(self, run, wire, fault):
        wire.mode = "bytes"
        run.load(fault["for"])
        wire.mode = None


class BlackHole(Wired):
    name, fault, times = "black-hole", "nothing arrives for 0.3 to 3 s, then all of it", 2

    def how(self, rng):
        return {"for": seconds(rng, 0.3, 3)}

    def harm(self, run, wire, fault):
        wire.mode = "hole"
        run.load(fault["for"])
        wire.mode = None


class Reset(Wired):
    name, fault, times = "reset", "RST on all connections to Redis", 6
    is_quick = True

    def harm(self, run, wire, fault):
        wire.reset()


class HalfClose(Wired):
    name, fault, times = "half-close", "half of all connections to Redis closed", 6

    def harm(self, run, wire, fault):
        wire.half_close()


class ClientsVanish(Row):
    name, fault = "clients-vanish", "clients gone in the middle of a request (FIN or RST), three in ten"
    is_quick = True

    def draw(self, rng):
        return {"load": seconds(rng, 1.5, 2.5), "vanish": [[self.how(rng) for _ in range(100)] for _ in range(CLIENTS)]}

    def how(self, rng):
        """How much of the request is sent, how long the client waits then, and how it goes."""
        if rng.random() >= 0.3:
            return None
        return {"share": rng.choice((0.5, 1, 1)), "ms": rng.randrange(8), "reset": rng.random() < 0.5}

    def play(self, run):
        redis = run.redis()
        run.service(redis.url)
        run.open(run.faults["vanish"])
        run.load(run.faults["load"])
        run.over()


ROWS = [ReplyCut(), OneByte(), BlackHole(), Reset(), HalfClose(), ClientsVanish()]
