"""A master, its replica and three Sentinels: what a failover costs. Redis replicates after it has answered, so that acknowledged writes
may be lost; how many is measured."""

import contextlib
import os
import time

from matrix import Row, seconds
from processes import Child, engine, environment, eventually, own_address
from resp import Client

SENTINELS = 3
DOWN_AFTER_MS = 1_000


class Sentinel(Child):
    """One of them. It answers on a socket, too, so that it can be asked without a name of its own."""

    def __init__(self, home, number, master):
        self.home = os.path.join(home, f"sentinel-{number}")
        os.makedirs(self.home)
        self.host, self.port = own_address()
        self.path = os.path.join(self.home, "sentinel.sock")
        settings = os.path.join(self.home, "sentinel.conf")
        with open(settings, "w") as file:
            file.write(f"bind {self.host}\nport {self.port}\nunixsocket {self.path}\nsentinel announce-ip {self.host}\n"
                       f"sentinel monitor main {master.host} {master.port} 2\nsentinel down-after-milliseconds main {DOWN_AFTER_MS}\n"
                       "sentinel failover-timeout main 3000\n")
        super().__init__([engine.server(), settings, "--sentinel"], os.path.join(self.home, "sentinel.log"), environment())

    def call(self, *words):
        with contextlib.closing(Client(self.path)) as client:
            return client.call(*words)

    def answers(self):
        with contextlib.suppress(Exception):    # not there yet
            return self.call("PING") == "PONG"

    def wait_ready(self):
        eventually(self.answers, f"Sentinel answers, see {self.log}")

    def sees_all(self):
        """Whether it knows the others, and a replica that can be promoted."""
        master = fields(self.call("SENTINEL", "MASTER", "main"))
        replicas = [fields(replica) for replica in self.call("SENTINEL", "REPLICAS", "main")]
        return (master["flags"] == "master" and int(master["num-other-sentinels"]) == SENTINELS - 1
                and [(replica["flags"], replica["master-link-status"]) for replica in replicas] == [("slave", "ok")])


def fields(flat):
    return dict(zip(flat[::2], flat[1::2]))


class Set:
    """Two servers, one the other's replica, under three Sentinels."""

    def __init__(self, run):
        first = self.server(run, "redis-0")
        second = self.server(run, "redis-1", "--replicaof", f"{first.host} {first.port}")
        self.servers = [first, second]
        self.sentinels = [run.start(Sentinel(run.home, number, first)) for number in range(SENTINELS)]
        eventually(lambda: all(sentinel.sees_all() for sentinel in self.sentinels), "the Sentinels know the replica and each other")

    def server(self, run, name, *settings):
        return run.redis("--replica-announce-ip", own_address()[0], "--repl-diskless-sync-delay", "0", *settings, name=name)

    @property
    def url(self):
        return f"redis+sentinel://{','.join(f'{one.host}:{one.port}' for one in self.sentinels)}/main"

    def role(self, at):
        with contextlib.suppress(OSError):
            return self.servers[at].call("ROLE")[0]

    def wait_promoted(self):
        eventually(lambda: self.role(1) == "master", "the replica is the master")

    def wait_rejoined(self):
        eventually(lambda: self.role(0) == "slave", "the old master is a replica")


class Failover(Row):
    may_lose = True
    #: Of the service.
    options = ()

    def draw(self, rng):
        return {"after": seconds(rng, 0.5, 1.5), "away": seconds(rng, 0.5, 1.5)}

    def play(self, run):
        servers = Set(run)
        run.service(servers.url, *self.options)
        run.open()
        run.load(run.faults["after"])
        moment = time.monotonic_ns()
        self.harm(run, servers)
        servers.wait_promoted()
        run.load(run.faults["away"])
        self.mend(run, servers)
        servers.wait_rejoined()
        run.over()
        run.result.recovered.clear()
        run.longest_silence(moment)

    def harm(self, run, servers):
        raise NotImplementedError

    def mend(self, run, servers):
        pass


class FailoverPlanned(Failover):
    name, fault = "failover-planned", "Sentinel: `SENTINEL FAILOVER`"

    def harm(self, run, servers):
        servers.sentinels[0].call("SENTINEL", "FAILOVER", "main")


class FailoverKilled(Failover):
    name, fault = "failover-killed", "Sentinel: kill -9 of the master, which comes back as a replica"

    def harm(self, run, servers):
        servers.servers[0].kill()

    def mend(self, run, servers):
        servers.servers[0].start()


class FailoverZombie(Failover):
    name, fault = "failover-zombie", "Sentinel: master frozen until its replica is the master, then thawed"

    def harm(self, run, servers):
        servers.servers[0].freeze()

    def mend(self, run, servers):
        servers.servers[0].thaw()


class Replicated:
    """What the service did not call local a replica has, so nothing of that is lost."""

    keeps_replicated = True
    options = ("--durability", "replicated")

    def play(self, run):
        super().play(run)
        run.result.notes["answered as not yet on a replica"] = sum(
            call.is_good and not call.is_durable for call in run.crowd.journal.calls)


class ReplicatedPlanned(Replicated, FailoverPlanned):
    name, fault = "replicated-planned", "Sentinel, `--durability replicated`: `SENTINEL FAILOVER`"


class ReplicatedKilled(Replicated, FailoverKilled):
    name, fault = "replicated-killed", "Sentinel, `--durability replicated`: kill -9 of the master"


class ReplicatedZombie(Replicated, FailoverZombie):
    name, fault = "replicated-zombie", "Sentinel, `--durability replicated`: master frozen, then thawed"


ROWS = [FailoverPlanned(), FailoverKilled(), FailoverZombie(), ReplicatedPlanned(), ReplicatedKilled(), ReplicatedZombie()]
