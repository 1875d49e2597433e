//! Who has which slot of a Redis Cluster. What is known is used until a server says otherwise, or cannot be reached; then
//! all servers that are known are asked.

use super::address::{self, Address};
use super::connection::Node;
use super::{PoolConfig, Shard, Slot};
use crate::metrics::Metrics;
use crate::store::error::StoreError;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// While slots move one after another each says so: the servers are asked only so often.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The servers of a cluster.
pub struct Cluster {
    /// Where to begin; user, password and TLS are those of every server.
    seeds: Vec<ConnectionInfo>,
    config: PoolConfig,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
    /// A server has said something else.
    is_stale: AtomicBool,
    /// When the servers were asked last; held while they are asked.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// Names are `host:port`.
#[derive(Default)]
struct Known {
    slots: HashMap<Slot, Arc<Node>>,
    nodes: HashMap<String, Arc<Node>>,
    /// Also of replicas, which can be asked, too.
    names: Vec<String>,
    /// By the name of their master.
    replicas: HashMap<String, Vec<String>>,
}

/// An answer to CLUSTER SLOTS: first and last slot, and the servers that have them, the master first.
type Ranges = Vec<(u16, u16, Vec<String>)>;

impl Cluster {
    /// Asks nobody yet.
    pub fn new(seeds: Vec<ConnectionInfo>, config: &PoolConfig, metrics: &Arc<Metrics>) -> Self {
        Self {
            seeds,
            config: config.clone(),
            metrics: Arc::clone(metrics),
            known: Mutex::default(),
            is_stale: AtomicBool::new(true),
            asked: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose the slot was when somebody last said so.
    pub fn known_owner(&self, slot: Slot) -> Option<Arc<Node>> {
        self.known().slots.get(&slot).cloned()
    }

    /// Somebody who has it, too, if replicas are read from.
    pub async fn replica(&self, slot: Slot) -> Option<Arc<Node>> {
        if !self.config.reads_replicas {
            return None;
        }
        let master = self.owner(slot).await.ok()?;
        let names = self.known().replicas.get(&master.name).cloned().unwrap_or_default();
        let random = usize::try_from(getrandom::u32().ok()?).ok()?;
        let node = random.checked_rem(names.len()).and_then(|at| self.node(&names[at]));
        let node = node.filter(|node| node.is_promising());
        // There may be others meanwhile.
        self.is_stale.fetch_or(node.is_none(), Ordering::Relaxed);
        node
    }

    /// Whose the slot is; not applied where nobody has it.
    pub async fn owner(&self, slot: Slot) -> Result<Arc<Node>, StoreError> {
        let known = self.known_owner(slot);
        match known.filter(|_| !self.is_stale.load(Ordering::Relaxed)) {
            Some(node) => Ok(node),
            None => Box::pin(self.asked(slot, Instant::now().checked_sub(ASK_EVERY))).await,
        }
    }

    /// The same, by what the servers say now.
    pub async fn owner_anew(&self, slot: Slot) -> Result<Arc<Node>, StoreError> {
        Box::pin(self.asked(slot, Some(Instant::now()))).await
    }

    /// Asks, unless somebody has after that time: whoever waits for an answer shares it, also if there is none.
    async fn asked(&self, slot: Slot, after: Option<Instant>) -> Result<Arc<Node>, StoreError> {
        let mut asked = self.asked.lock().await;
        if asked.zip(after).is_none_or(|(at, after)| at < after) {
            *asked = Some(Instant::now());
            self.ask_all().await?;
        }
        self.known_owner(slot).ok_or_else(StoreError::unreachable)
    }

    /// A node that has slots each.
    pub async fn shards(&self) -> Result<Vec<Shard>, StoreError> {
        self.owner(Slot::for_key(""))
            .await
            .map(drop)
            .or_else(|error| if self.known().slots.is_empty() { Err(error) } else { Ok(()) })?;
        let known = self.known();
        let named = known.slots.iter().map(|(slot, node)| (node.name.clone(), *slot));
        let shards: BTreeMap<String, Slot> = named.collect();
        Ok(shards.into_iter().map(|(name, slot)| Shard { name, slot }).collect())
    }

    /// What an error says about slots; whether that was news.
    pub fn heed(&self, error: &RedisError) -> bool {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => {
                // Where one slot has gone, others may have.
                self.is_stale.store(true, Ordering::Relaxed);
                let Some((slot, name)) = self.redirection(error) else { return false };
                let Some(node) = self.node(&name) else { return false };
                let before = self.known().slots.insert(slot, Arc::clone(&node));
                before.is_none_or(|before| before.name != node.name)
            }
            ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::Ask) => false,
            _ => {
                self.is_stale.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Who is to be asked just this once, while a slot is on its way.
    pub fn sent_to(&self, error: &RedisError) -> Option<Arc<Node>> {
        if error.kind() != ErrorKind::Server(ServerErrorKind::Ask) {
            return None;
        }
        self.node(&self.redirection(error)?.1)
    }

    fn redirection(&self, error: &RedisError) -> Option<(Slot, String)> {
        let (name, slot) = error.redirect_node()?;
        let slot = Slot::new(slot)?;
        // A server that does not know its peer's name means its own host.
        let name = match name.strip_prefix(':') {
            Some(port) => format!("{}:{port}", self.known_owner(slot)?.name.rsplit_once(':')?.0),
            None => name.to_owned(),
        };
        Some((slot, name))
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        let mut known = self.known();
        if let Some(node) = known.nodes.get(name) {
            return Some(Arc::clone(node));
        }
        let client = Client::open(address::like(self.seeds.first()?, name)?).ok()?;
        let reads = self.config.reads_replicas;
        let address = if reads { Address::Reader(client) } else { Address::Server(client) };
        let node = Node::open(name.to_owned(), address, &self.config, &self.metrics);
        known.nodes.insert(name.to_owned(), Arc::clone(&node));
        Some(node)
    }

    /// Asks every server that is known. The first that is content with its cluster is believed; if none is, any.
    async fn ask_all(&self) -> Result<(), StoreError> {
        let names = self.known().names.clone();
        let of_names = names.iter().filter_map(|name| address::like(self.seeds.first()?, name));
        let asked: FuturesUnordered<_> =
            of_names.chain(self.seeds.iter().cloned()).map(|info| self.ask(info)).collect();
        let mut answers = std::pin::pin!(asked.filter_map(async |answer| match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::debug!(%error, "A server of the cluster does not say who has which slot");
                None
            }
        }));
        let mut believed = None;
        while let Some((is_content, ranges)) = answers.next().await {
            if is_content || believed.is_none() {
                believed = Some(ranges);
            }
            if is_content {
                break;
            }
        }
        self.learn(believed.ok_or_else(StoreError::unreachable)?);
        Ok(())
    }

    async fn ask(&self, info: ConnectionInfo) -> RedisResult<(bool, Ranges)> {
        let host = address::host(&info);
        let timeouts = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.config.wait_timeout))
            .set_response_timeout(Some(self.config.wait_timeout));
        let client = Client::open(info)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&timeouts).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
        type Server = (Option<String>, u16);
        let (slots, info): (Vec<Vec<redis::Value>>, String) = pipeline.query_async(&mut connection).await?;
        let range = |range: Vec<redis::Value>| {
            let mut parts = range.into_iter();
            let mut next = || parts.next().unwrap_or(redis::Value::Nil);
            let (first, last) = (redis::from_redis_value(next())?, redis::from_redis_value(next())?);
            let servers = parts.filter_map(|server| {
                let mut parts = server.into_sequence().ok()?;
                parts.truncate(2);
                let (name, port): Server = redis::from_redis_value(redis::Value::Array(parts)).ok()?;
                let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| host.clone());
                (name != "?").then(|| format!("{name}:{port}"))
            });
            Ok((first, last, servers.collect()))
        };
        let ranges = slots.into_iter().map(range).collect::<RedisResult<Ranges>>()?;
        Ok((info.contains("cluster_state:ok"), ranges))
    }

    fn learn(&self, ranges: Ranges) {
        // First: what is said from now on is newer.
        self.is_stale.store(false, Ordering::Relaxed);
        let mut slots = HashMap::new();
        for (first, last, servers) in &ranges {
            let Some(node) = servers.first().and_then(|master| self.node(master)) else { continue };
            slots.extend((*first..=*last).filter_map(Slot::new).map(|slot| (slot, Arc::clone(&node))));
        }
        let mut known = self.known();
        known.slots = slots;
        known.replicas = ranges
            .iter()
            .filter_map(|(_, _, servers)| servers.split_first())
            .map(|(master, replicas)| (master.clone(), replicas.to_vec()))
            .collect();
        known.names = ranges.into_iter().flat_map(|(_, _, servers)| servers).collect();
        known.names.sort_unstable();
        known.names.dedup();
        // Whoever has left is forgotten, with its connections.
        let Known { nodes, names, .. } = &mut *known;
        nodes.retain(|name, _| names.contains(name));
    }
}
