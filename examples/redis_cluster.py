"""Makes one Redis Cluster of servers that run, and does with it what happens to clusters: replicas take over, slots move. Standard
library only."""

import binascii
import contextlib
import os
import time

import engine
from engine import eventually
from resp import Client, RedisError

SLOTS = 16_384
#: What a node needs beside the settings that Stockade ships. A master that is silent for so long is followed by its replica; one dead
#: shard leaves the others in service; a replica that was not linked lately may follow all the same, and none changes its master by itself.
SETTINGS = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
            "--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]
#: The bus of a node listens so many ports above the node.
BUS_ABOVE = 10_000
#: A node that says nothing for so long is away.
AWAY_SECONDS = 2


def slot_of(key):
    """CRC16 (XMODEM) of the key, or of its hash tag, as the cluster's specification has it."""
    _, _, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return binascii.crc_hqx((tag if closed and tag else key).encode(), 0) % SLOTS


class Node(engine.Redis):
    """A server that may become part of a cluster, in a folder of its own. One that is there is kept as it is."""

    def __init__(self, home, host, port, *settings):
        home = os.path.abspath(home)
        os.makedirs(home, exist_ok=True)
        self.host, self.port = host, port
        super().__init__(home, "--bind", host, "--port", str(port), "--cluster-announce-ip", host, "--maxmemory", "256mb",
                         "--maxmemory-policy", "noeviction", *SETTINGS, *settings)

    def start(self):
        with contextlib.suppress(OSError), contextlib.closing(Client(self.path)) as client:
            raise SystemExit(f"a server that nobody waits for is on {self.path}: end process {client.info()['process_id']}")
        super().start()

    def client(self):
        """A connection to a server that answers."""
        def look():
            if self.child.poll() is not None:
                raise SystemExit(f"Redis has ended, see {self.log}")
            with contextlib.suppress(OSError, RedisError):  # not there yet, or still loading
                client = Client(self.path)
                client.call("PING")
                return client
        return eventually(look, f"Redis answers, see {self.log}")


class Cluster:
    """Of servers that run with `SETTINGS`: `host` and `port` of each, and `path`, its socket. First the masters, then the replicas of the
    first one, of the second one, and so on."""

    def __init__(self, nodes, masters):
        self.nodes, self.masters = nodes, masters
        self.ids = {}

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    def create(self):
        """Unless they are one already."""
        known = {self.field(node, "cluster_known_nodes") for node in self.nodes}
        if known == {"1"}:
            self.join()
        elif known != {str(len(self.nodes))}:
            raise RuntimeError(f"these {len(self.nodes)} servers are parts of other clusters")
        self.until_whole()
        return self

    def join(self):
        for number, node in enumerate(self.nodes):
            # Given out here: with equal ones the nodes would need rounds to agree.
            self.ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self.masters:
                first, after = (part * SLOTS // self.masters for part in (number, number + 1))
                self.ask(node, "CLUSTER", "ADDSLOTSRANGE", first, after - 1)
        for node in self.nodes[1:]:
            self.ask(self.nodes[0], "CLUSTER", "MEET", node.host, node.port, node.port + BUS_ABOVE)
        eventually(lambda: all(self.sees_all(node) for node in self.nodes), "the nodes know each other")
        replicas = len(self.nodes) // self.masters - 1
        for number, node in enumerate(self.nodes[self.masters:]):
            self.ask(node, "CLUSTER", "REPLICATE", self.id(self.nodes[number // replicas]))
        eventually(lambda: all(self.count_replicas(node) == replicas * self.masters for node in self.nodes), "each replica has its master")

    def count_replicas(self, node):
        return sum(line[3] != "-" for line in self.lines(node))

    def sees_all(self, node):
        lines = self.lines(node)
        return {line[0] for line in lines} == {self.id(other) for other in self.nodes} and all(line[7] == "connected" for line in lines)

    def until_whole(self):
        """Until every node that is not away says that all is well, and every replica is linked to its master."""
        def is_whole(node):
            linked = "master_link_status:down" not in self.ask(node, "INFO", "replication")
            return linked and self.field(node, "cluster_state") == "ok" and self.field(node, "cluster_slots_ok") == str(SLOTS)
        eventually(lambda: all(is_whole(node) for node in self.there()), "the cluster is whole")

    def owner(self, slot):
        """The node that has the slot. Waits for one, where its master has been killed."""
        def look():
            found = []
            for number, node in enumerate(self.there()):
                line = self.line(node)
                if "master" in line[2] and any(first <= slot <= last for first, last in ranges(line)):
                    found.append((int(line[6]), number, node))
            # A master of yesterday may not have heard of it yet.
            return max(found)[2] if found else None
        return eventually(look, f"slot {slot} has a master")

    def replicas_of(self, master):
        return [node for node in self.there() if self.line(node)[3] == self.id(master)]

    def role(self, node):
        """`master` or `slave`, as it sees itself."""
        return self.ask(node, "ROLE")[0]

    def failover(self, master):
        """Lets a replica take over without loss, and says which."""
        replica = eventually(lambda: self.replicas_of(master), "there is a replica")[0]
        asked = None

        def has_followed():
            nonlocal asked
            # It gives up by itself after five seconds, for instance when the others were too busy to vote.
            if asked is None or time.monotonic() - asked > 6:
                self.ask(replica, "CLUSTER", "FAILOVER")
                asked = time.monotonic()
            return self.role(replica) == "master"
        eventually(has_followed, "the replica is the master")
        eventually(lambda: self.role(master) == "slave", "the master is a replica")
        return replica

    def move_slot(self, slot, to, batch=10, between=None):
        """A whole move, as `redis-cli --cluster reshard` does it. `between` is told after each batch how many keys have gone."""
        move, gone = self.begin_move(slot, to), 0
        while moved := self.move_keys(move, batch):
            gone += moved
            if between:
                between(gone)
        self.end_move(move)

    def begin_move(self, slot, to):
        """From now on keys that are not at the old owner are the new one's. Answers what `move_keys` and `end_move` need."""
        source = self.owner(slot)
        self.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(to))
        return slot, source, to

    def move_keys(self, move, limit):
        """Moves so many keys at most, and says how many it has moved: 0 once there are none."""
        slot, source, to = move
        keys = self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, limit)
        if keys:
            self.ask(source, "MIGRATE", to.host, to.port, "", 0, 30_000, "KEYS", *keys, seconds=35)
        return len(keys)

    def end_move(self, move):
        """Moves the rest, and lets all know."""
        slot, source, to = move
        while self.move_keys(move, 10):
            pass
        # The new owner first: the old one would send callers in circles.
        for node in [to, source] + [node for node in self.there() if node not in (to, source)]:
            if self.role(node) == "master":
                self.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", self.id(to))

    def there(self):
        """The nodes that answer."""
        found = []
        for node in self.nodes:
            with contextlib.suppress(OSError, RedisError):
                self.ask(node, "PING")
                found.append(node)
        return found

    def id(self, node):
        """What the nodes call it."""
        if node not in self.ids:
            self.ids[node] = self.ask(node, "CLUSTER", "MYID")
        return self.ids[node]

    def field(self, node, name):
        fields = dict(line.split(":", 1) for line in self.ask(node, "CLUSTER", "INFO").splitlines() if ":" in line)
        return fields.get(name)

    def lines(self, node):
        """`id address flags master ping pong epoch link slots...` of each node, as this one sees them."""
        return [line.split(" ") for line in self.ask(node, "CLUSTER", "NODES").splitlines()]

    def line(self, node):
        return next(line for line in self.lines(node) if "myself" in line[2])

    @staticmethod
    def ask(node, *words, seconds=AWAY_SECONDS):
        with contextlib.closing(Client(node.path)) as client:
            client.socket.settimeout(seconds)
            return client.call(*words)


def ranges(line):
    """First and last slot of each range that a line names."""
    pairs = (word.split("-") for word in line[8:] if not word.startswith("["))
    return [(int(pair[0]), int(pair[-1])) for pair in pairs]
