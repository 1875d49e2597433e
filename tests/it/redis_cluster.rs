//! A real Redis Cluster for tests, whose masters they may kill and whose slots they may move.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::redis_server::{RedisServer, ServerOptions};
use crate::sandbox::{eventually, own_address};
use crate::shop::redis_cmd;

const SLOTS: u16 = 16_384;
/// A master that is silent for so long is followed by its replica. Short, but a busy machine must not look like a dead one.
const NODE_TIMEOUT_MS: &str = "5000";
/// How long a planned failover may take.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(6);
/// Keys that one MIGRATE takes along, unless the test says otherwise.
const KEYS_A_MIGRATE: usize = 10;

/// Masters with an equal share of the slots each, and their replicas. A node is known by its number: first come those that
/// began as masters, then the replicas of the first one, of the second one, and so on.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    running: Vec<bool>,
    addresses: Vec<SocketAddr>,
    /// What the nodes call each other.
    ids: Vec<String>,
    masters: usize,
    replicas_per_master: usize,
}

/// A slot on its way: its keys are at the old owner or at the new one.
#[derive(Debug)]
pub struct SlotMove {
    slot: u16,
    from: usize,
    to: usize,
}

/// One line of `CLUSTER NODES`.
struct NodeLine {
    id: String,
    flags: Vec<String>,
    master_id: String,
    epoch: u64,
    linked: bool,
    /// First and last of each range.
    slots: Vec<(u16, u16)>,
}

/// CRC16 (XMODEM) of the key, or of its hash tag, as the cluster's specification has it.
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    });
    crc % SLOTS
}

impl RedisCluster {
    pub async fn start(masters: usize, replicas_per_master: usize) -> Self {
        Self::with(masters, replicas_per_master, &[]).await
    }

    /// The same, with more settings for each node, as on the command line.
    pub async fn with(masters: usize, replicas_per_master: usize, args: &[&str]) -> Self {
        let count = masters * (1 + replicas_per_master);
        let addresses: Vec<SocketAddr> = (0..count).map(|_| own_address()).collect();
        let nodes: Vec<RedisServer> = addresses.iter().map(|address| start_node(*address, args)).collect();
        let mut ids = Vec::new();
        for node in &nodes {
            ids.push(redis_cmd(&mut node.connection().await, &["CLUSTER", "MYID"]).await);
        }
        let cluster =
            Self { nodes, running: vec![true; count], addresses, ids, masters, replicas_per_master };
        cluster.join().await;
        cluster
    }

    async fn join(&self) {
        let share = usize::from(SLOTS) / self.masters;
        for node in 0..self.nodes.len() {
            // Given out here: with equal ones the nodes would need rounds to agree.
            self.ask::<()>(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(node + 1).to_string()]).await;
            if node < self.masters {
                let last = if node + 1 == self.masters { usize::from(SLOTS) } else { (node + 1) * share } - 1;
                let range = [(node * share).to_string(), last.to_string()];
                self.ask::<()>(node, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]).await;
            }
        }
        for address in &self.addresses[1..] {
            let meet = [address.ip().to_string(), address.port().to_string()];
            self.ask::<()>(0, &["CLUSTER", "MEET", &meet[0], &meet[1]]).await;
        }
        eventually("the nodes know each other", async || self.do_all_see(|line| line.linked).await).await;
        for replica in self.masters..self.nodes.len() {
            let master = &self.ids[(replica - self.masters) / self.replicas_per_master];
            self.ask::<()>(replica, &["CLUSTER", "REPLICATE", master]).await;
        }
        let replicas = self.masters * self.replicas_per_master;
        eventually("each replica has its master", async || {
            for node in 0..self.nodes.len() {
                let lines = self.lines(node).await;
                if lines.iter().filter(|line| self.ids.contains(&line.master_id)).count() != replicas {
                    return false;
                }
            }
            true
        })
        .await;
        self.until_whole().await;
    }

    /// Waits until every node that runs says that all is well, and every replica that runs is linked to its master.
    pub async fn until_whole(&self) {
        eventually("the cluster is whole", async || {
            for node in self.running() {
                let info: String = self.ask(node, &["CLUSTER", "INFO"]).await;
                let replication: String = self.ask(node, &["INFO", "replication"]).await;
                if !info.contains("cluster_state:ok")
                    || !info.contains("cluster_slots_ok:16384")
                    || replication.contains("master_link_status:down")
                {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// Names every node: `redis+cluster://host:port,host:port,...`
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    pub fn address(&self, node: usize) -> SocketAddr {
        self.addresses[node]
    }

    pub async fn connection(&self, node: usize) -> MultiplexedConnection {
        self.nodes[node].connection().await
    }

    /// One command to one node, by hand.
    pub async fn ask<T: redis::FromRedisValue>(&self, node: usize, words: &[&str]) -> T {
        redis_cmd(&mut self.connection(node).await, words).await
    }

    /// The node that owns the slot now. Waits for one, where its master has been killed.
    pub async fn master_of(&self, slot: u16) -> usize {
        let mut owner = None;
        eventually("the slot has a master", async || {
            let mut newest = 0;
            for node in self.running() {
                let line = self.line_of(node, node).await;
                let owns = line.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot));
                // A master of yesterday may not have heard of it yet.
                if owns && line.flags.iter().any(|flag| flag == "master") && line.epoch >= newest {
                    (newest, owner) = (line.epoch, Some(node));
                }
            }
            owner.is_some()
        })
        .await;
        owner.unwrap()
    }

    /// The nodes that run and copy this one, as they say themselves.
    pub async fn replicas_of(&self, master: usize) -> Vec<usize> {
        let mut replicas = Vec::new();
        for node in self.running() {
            if self.line_of(node, node).await.master_id == self.ids[master] {
                replicas.push(node);
            }
        }
        replicas
    }

    /// kill -9.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
        self.running[node] = false;
    }

    /// Again, with what it had. See [`RedisCluster::until_whole`].
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
        self.running[node] = true;
    }

    /// It keeps its connections and answers nothing, and its replica follows it.
    pub fn freeze(&mut self, node: usize) {
        self.nodes[node].freeze();
        self.running[node] = false;
    }

    /// It goes on where it was, as the master that it believes to be.
    pub fn thaw(&mut self, node: usize) {
        self.nodes[node].thaw();
        self.running[node] = true;
    }

    /// Lets a replica take over without loss, and says which.
    ///
    /// Not one that was elected in the last four node timeouts: Redis 7.0 counts the votes of that election again, and the
    /// replica is for a moment a master that nobody follows, which loses what it takes.
    pub async fn failover(&self, master: usize) -> usize {
        let replica = self.replicas_of(master).await[0];
        let mut asked: Option<Instant> = None;
        eventually("the replica is the master", async || {
            // It gives up by itself after five seconds, for instance when the others were too busy to vote.
            if asked.is_none_or(|at| at.elapsed() > GIVEN_UP_AFTER) {
                self.ask::<()>(replica, &["CLUSTER", "FAILOVER"]).await;
                asked = Some(Instant::now());
            }
            self.role(replica).await == "master"
        })
        .await;
        eventually("the master is a replica", async || self.role(master).await == "slave").await;
        self.until_whole().await;
        replica
    }

    /// `master` or `slave`, as the node sees itself.
    pub async fn role(&self, node: usize) -> String {
        let role: Vec<redis::Value> = self.ask(node, &["ROLE"]).await;
        redis::from_redis_value(role[0].clone()).unwrap()
    }

    /// A whole move, as `redis-cli --cluster reshard` does it.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to).await;
        self.end_move(moving).await;
    }

    /// From now on keys that are not at the old owner are the new one's.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove {
        let from = self.master_of(slot).await;
        assert_ne!(from, to, "the slot is there");
        self.set_slot(to, slot, &["IMPORTING", &self.ids[from]]).await;
        self.set_slot(from, slot, &["MIGRATING", &self.ids[to]]).await;
        SlotMove { slot, from, to }
    }

    /// Moves so many keys at most, and says how many it has moved: 0 once there are none.
    pub async fn move_keys(&self, moving: &SlotMove, limit: usize) -> usize {
        let slot = moving.slot.to_string();
        let keys: Vec<Vec<u8>> =
            self.ask(moving.from, &["CLUSTER", "GETKEYSINSLOT", &slot, &limit.to_string()]).await;
        if keys.is_empty() {
            return 0;
        }
        let to = self.addresses[moving.to];
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg(to.ip().to_string()).arg(to.port()).arg("").arg(0).arg(30_000).arg("KEYS").arg(&keys);
        let () = migrate.query_async(&mut self.connection(moving.from).await).await.unwrap();
        keys.len()
    }

    /// Moves the rest, and lets all know.
    pub async fn end_move(&self, moving: SlotMove) {
        while self.move_keys(&moving, KEYS_A_MIGRATE).await > 0 {}
        // The new owner first: the old one would send callers in circles.
        let mut told = vec![moving.to, moving.from];
        told.extend(self.running().filter(|node| ![moving.to, moving.from].contains(node)));
        for node in told {
            if self.role(node).await == "master" {
                self.set_slot(node, moving.slot, &["NODE", &self.ids[moving.to]]).await;
            }
        }
    }

    async fn set_slot(&self, node: usize, slot: u16, words: &[&str]) {
        let slot = slot.to_string();
        self.ask::<()>(node, &[&["CLUSTER", "SETSLOT", slot.as_str()], words].concat()).await;
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| self.running[*node])
    }

    /// Whether every node knows every other one, and this of it.
    async fn do_all_see(&self, this: impl Fn(&NodeLine) -> bool) -> bool {
        for node in 0..self.nodes.len() {
            let lines = self.lines(node).await;
            if lines.len() != self.nodes.len()
                || lines.iter().any(|line| !self.ids.contains(&line.id) || !this(line))
            {
                return false;
            }
        }
        true
    }

    /// How one node sees another.
    async fn line_of(&self, node: usize, other: usize) -> NodeLine {
        let lines = self.lines(node).await;
        lines.into_iter().find(|line| line.id == self.ids[other]).expect("it knows the other")
    }

    async fn lines(&self, node: usize) -> Vec<NodeLine> {
        let text: String = self.ask(node, &["CLUSTER", "NODES"]).await;
        text.lines().map(NodeLine::of).collect()
    }
}

impl NodeLine {
    /// `id address flags master ping pong epoch link slot slot-slot [slot->-id] ...`
    fn of(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let ranges = words[8..].iter().filter(|word| !word.starts_with('['));
        let slots = ranges.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (first.parse().unwrap(), last.parse().unwrap())
        });
        Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(str::to_owned).collect(),
            master_id: words[3].to_owned(),
            epoch: words[6].parse().unwrap(),
            linked: words[7] == "connected",
            slots: slots.collect(),
        }
    }
}

fn start_node(address: SocketAddr, more: &[&str]) -> RedisServer {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    // The bus is 10,000 ports further up: no address of ours is, and the IP is nobody else's.
    let mut args = vec!["--port", &port, "--bind", &ip];
    args.extend(["--cluster-enabled", "yes", "--cluster-announce-ip", &ip]);
    args.extend(["--cluster-node-timeout", NODE_TIMEOUT_MS]);
    // One dead shard leaves the others in service, a replica that was not linked lately may follow all the same, and
    // none changes its master by itself.
    args.extend(["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]);
    args.extend(["--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]);
    args.extend(more);
    let args = args.into_iter().map(str::to_owned).collect();
    RedisServer::with(ServerOptions { args, ..ServerOptions::default() })
}

async fn error_of(cluster: &RedisCluster, node: usize, words: &[&str]) -> String {
    let mut cmd = redis::cmd(words[0]);
    let answer = cmd.arg(&words[1..]).query_async::<()>(&mut cluster.connection(node).await).await;
    answer.unwrap_err().code().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_slot_moves_key_by_key() {
    let cluster = RedisCluster::start(2, 0).await;
    let url = cluster.url();
    assert!(url.starts_with("redis+cluster://") && url.ends_with(&cluster.address(1).to_string()), "{url}");
    let keys: Vec<String> = (0..25).map(|number| format!("key:{{sale}}:{number}")).collect();
    for key in [keys[0].as_str(), "123456789", "{}sale", "a{}{sale}", "a{b", "a{b{c}}"] {
        assert_eq!(slot_of(key), cluster.ask::<u16>(0, &["CLUSTER", "KEYSLOT", key]).await, "{key}");
    }
    let slot = slot_of("sale");
    let from = cluster.master_of(slot).await;
    let to = 1 - from;
    for key in &keys {
        cluster.ask::<()>(from, &["SET", key, "value"]).await;
        assert_eq!(error_of(&cluster, to, &["GET", key]).await, "MOVED");
    }

    let moving = cluster.begin_move(slot, to).await;
    assert_eq!(cluster.move_keys(&moving, 5).await, 5);
    assert_eq!(cluster.master_of(slot).await, from);
    let mut asked = 0;
    for key in &keys {
        let mut get = redis::cmd("GET");
        match get.arg(key).query_async::<String>(&mut cluster.connection(from).await).await {
            Ok(value) => assert_eq!(value, "value"),
            Err(error) => {
                assert_eq!(error.code(), Some("ASK"));
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 5);
    cluster.end_move(moving).await;
    assert_eq!(cluster.master_of(slot).await, to);
    for key in &keys {
        assert_eq!(cluster.ask::<String>(to, &["GET", key]).await, "value");
        assert_eq!(error_of(&cluster, from, &["GET", key]).await, "MOVED");
    }
    cluster.move_slot(slot, from).await;
    assert_eq!(cluster.master_of(slot).await, from);
    assert_eq!(cluster.ask::<String>(from, &["GET", &keys[0]]).await, "value");
}

#[tokio::test]
async fn a_replica_takes_over() {
    let mut cluster = RedisCluster::start(3, 1).await;
    let slot = slot_of("key");
    let first = cluster.master_of(slot).await;
    assert_eq!(cluster.replicas_of(first).await, [3 + first]);
    cluster.ask::<()>(first, &["SET", "key", "value"]).await;
    // Asked to step back, it hands over all that it has.
    let second = cluster.failover(first).await;
    assert_eq!((second, cluster.master_of(slot).await), (3 + first, second));
    let mut connection = cluster.connection(second).await;
    let () = redis_cmd(&mut connection, &["APPEND", "key", "s"]).await;
    assert_eq!(redis_cmd::<u64>(&mut connection, &["WAIT", "1", "0"]).await, 1);

    cluster.kill(second);
    eventually("the replica is the master", async || cluster.role(first).await == "master").await;
    assert_eq!(cluster.master_of(slot).await, first);
    assert_eq!(cluster.ask::<String>(first, &["GET", "key"]).await, "values");
    cluster.restart(second);
    eventually("the old master is a replica", async || cluster.role(second).await == "slave").await;
    cluster.until_whole().await;
    assert_eq!(cluster.replicas_of(first).await, [second]);

    cluster.freeze(first);
    eventually("the replica is the master", async || cluster.role(second).await == "master").await;
    cluster.thaw(first);
    eventually("the old master is a replica", async || cluster.role(first).await == "slave").await;
}
