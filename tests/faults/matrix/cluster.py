"""Three masters and their replicas: the shard that has the sale fails over, dies, or hands its slot to another one, under load."""

import os
import time

from clients import SALE
from matrix import Row, seconds
from matrix.sentinel import Replicated
from processes import Redis, eventually
from redis_cluster import SETTINGS, Cluster, slot_of

MASTERS, NODES = 3, 6


class Clustered(Row):
    #: Of the service: a row of another durability is a class with this line.
    options = ()

    def draw(self, rng):
        return {"after": seconds(rng, 0.5, 1.5), "away": seconds(rng, 0.5, 1.5)}

    def play(self, run):
        cluster = Cluster([run.start(node(run, number)) for number in range(NODES)], MASTERS).create()
        run.service(cluster.url, *self.options)
        run.open()
        run.load(run.faults["after"])
        moment = time.monotonic_ns()
        self.harm(run, cluster, cluster.owner(slot_of(f"{{{SALE}}}")))
        cluster.until_whole()
        run.load(run.faults["away"])
        run.longest_silence(moment)

    def harm(self, run, cluster, master):
        raise NotImplementedError


def node(run, number):
    server = Redis(os.path.join(run.home, f"node-{number}"), *SETTINGS)
    server.command += ["--cluster-announce-ip", server.host]
    return server


class ClusterFailover(Clustered):
    name, fault = "cluster-failover", "Cluster: `CLUSTER FAILOVER` of the sale's shard"
    may_lose = True

    def harm(self, run, cluster, master):
        cluster.failover(master)


class ClusterKilled(Clustered):
    name, fault = "cluster-killed", "Cluster: kill -9 of the sale's master, which comes back as a replica"
    may_lose = True

    def harm(self, run, cluster, master):
        master.kill()
        eventually(lambda: cluster.owner(slot_of(f"{{{SALE}}}")) is not master, "its replica has taken over")
        run.load(run.faults["away"])
        master.start()


class ClusterResharded(Clustered):
    name, fault = "cluster-resharded", "Cluster: the sale's slot moves to another master and back, key by key"

    def harm(self, run, cluster, master):
        slot = slot_of(f"{{{SALE}}}")
        other = next(node for node in cluster.nodes[:MASTERS] if node is not master)
        for to in (other, master):
            cluster.move_slot(slot, to)
            run.load(run.faults["away"])


class ReplicatedCluster(Replicated, ClusterKilled):
    name, fault = "replicated-cluster", "Cluster, `--durability replicated`: kill -9 of the sale's master"


ROWS = [ClusterFailover(), ClusterKilled(), ClusterResharded(), ReplicatedCluster()]
