//! Connections to one server, or to the shards of a Redis Cluster. A pool of our own a server, because bb8-redis 0.26
//! cannot see a broken connection, cannot set timeouts, and leaves TCP_NODELAY off; and no cluster client of the crate,
//! because that sends again what may have run (`docs/adr/0028-cluster.md`).

mod address;
mod call;
mod cluster;
mod connection;
mod lease;
mod slot;

pub use call::Call;
pub use connection::Connection;
pub use lease::Lease;
pub use slot::{Slot, slot_of};

use super::error::StoreError;
use crate::metrics::Metrics;
use address::Address;
use cluster::Cluster;
use connection::Node;
use futures_util::{Stream, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Where Redis is, and how long we wait for it.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// `redis://`, `rediss://`, `unix://`, `redis+sentinel://` or `redis+cluster://`.
    pub url: String,
    /// Most connections to one server (a process has so many a worker thread).
    pub size: u32,
    /// An answer later than this is an unknown outcome.
    pub response_timeout: Duration,
    /// A call that gets no connection within this is not applied.
    pub wait_timeout: Duration,
    /// How long a script that writes waits until a replica has it; none: it does not.
    pub replica_timeout: Option<Duration>,
    /// Levels of a moment ago are read from replicas, where there are any.
    pub reads_replicas: bool,
}

/// A bounded set of connections to each server. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    servers: Arc<Servers>,
    replica_timeout: Option<Duration>,
}

enum Servers {
    /// Has every slot. Beside it a replica of it, if such are read from.
    One(Arc<Node>, Option<Arc<Node>>),
    Cluster(Box<Cluster>),
}

/// A server by its host and port. The only one has no name.
pub type Place = Option<String>;

/// A part of the slots that one server has.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Host and port of its master.
    pub name: String,
    /// One of its slots.
    pub slot: Slot,
}

impl Pool {
    /// Connects when it is first used. Errors when the URL is not one.
    pub fn open(config: &PoolConfig, metrics: &Arc<Metrics>) -> Result<Self, RedisError> {
        let servers = match address::seeds(&config.url)? {
            Some(seeds) => Servers::Cluster(Box::new(Cluster::new(seeds, config, metrics))),
            None => {
                let node = |address| Node::open("redis".to_owned(), address, config, metrics);
                let replica = Address::of_replica(&config.url)?.filter(|_| config.reads_replicas);
                Servers::One(node(Address::of(&config.url)?), replica.map(node))
            }
        };
        Ok(Self { servers: Arc::new(servers), replica_timeout: config.replica_timeout })
    }

    /// A connection to whoever has the slot; not applied when none can be had in time.
    pub async fn get(&self, slot: Slot) -> Result<Lease, StoreError> {
        Ok(Lease::new(self.clone(), slot, self.servers.connection(slot).await?))
    }

    /// A connection to a replica of whoever has the slot, if such are read from and one can be had at once. It may be
    /// behind, and where it knows better it sends to its master.
    pub async fn near(&self, slot: Slot) -> Option<Lease> {
        let node = match &*self.servers {
            Servers::One(_, replica) => replica.clone().filter(|node| node.is_promising()),
            Servers::Cluster(cluster) => cluster.replica(slot).await,
        };
        let held = node?.connection().await.ok()?;
        Some(Lease::new(self.clone(), slot, held))
    }

    /// Several commands, in one write to each server that is concerned; each has its own answer.
    pub async fn query_all(&self, cmds: &[Cmd]) -> Vec<Result<Value, StoreError>> {
        let mut places: HashMap<Place, Vec<usize>> = HashMap::new();
        for (at, cmd) in cmds.iter().enumerate() {
            places.entry(self.place_of(slot_of(cmd))).or_default().push(at);
        }
        let sent = places.into_values().map(async |places| {
            let some: Vec<&Cmd> = places.iter().map(|at| &cmds[*at]).collect();
            let answers = match self.get(slot_of(some[0])).await {
                Ok(mut lease) => lease.query_all(&some).await,
                Err(error) => vec![Err(error); some.len()],
            };
            places.into_iter().zip(answers)
        });
        let mut answers: Vec<_> = futures_util::future::join_all(sent).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Whether scripts that write wait until a replica has what they wrote.
    pub fn waits_for_replicas(&self) -> bool {
        self.replica_timeout.is_some()
    }

    /// A command that another server refused so.
    async fn query_again(&self, cmd: &Cmd, error: &RedisError) -> Result<Value, StoreError> {
        self.heed(error);
        self.get(slot_of(cmd)).await?.query(cmd).await
    }

    /// A connection outside any pool to whoever has the slot, for calls that may block it for up to `blocking`.
    pub async fn alone(&self, slot: Slot, blocking: Duration) -> Result<MultiplexedConnection, StoreError> {
        self.servers.owner(slot).await?.alone(blocking).await.map_err(|_| StoreError::unreachable())
    }

    /// To be told of what failed on such a connection: the slot may have moved.
    pub fn heed(&self, error: &RedisError) {
        if let Servers::Cluster(cluster) = &*self.servers {
            cluster.heed(error);
        }
    }

    /// Messages of a channel, on a connection outside any pool, until that ends. In a cluster any server tells them.
    pub async fn subscribe(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = String> + Unpin + use<>, StoreError> {
        let subscriber = self.servers.owner(Slot::for_key(channel)).await?.subscribe(channel).await;
        let text = |message: redis::Msg| message.get_payload::<String>().unwrap_or_default();
        Ok(subscriber.map_err(|_| StoreError::unreachable())?.into_on_message().map(text))
    }

    /// Whose the slot was, as far as is known without asking.
    pub fn place_of(&self, slot: Slot) -> Place {
        match &*self.servers {
            Servers::One(..) => None,
            Servers::Cluster(cluster) => cluster.known_owner(slot).map(|node| node.name.clone()),
        }
    }

    /// All servers that have slots, as far as is known.
    pub async fn shards(&self) -> Result<Vec<Shard>, StoreError> {
        match &*self.servers {
            Servers::One(node, _) => Ok(vec![Shard { name: node.name.clone(), slot: Slot::for_key("") }]),
            Servers::Cluster(cluster) => cluster.shards().await,
        }
    }
}

impl Servers {
    /// Whose the slot is.
    async fn owner(&self, slot: Slot) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::One(node, _) => Ok(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.owner(slot).await,
        }
    }

    async fn connection(&self, slot: Slot) -> Result<connection::Held, StoreError> {
        let node = self.owner(slot).await?;
        match (node.connection().await, self) {
            // It may have been replaced meanwhile.
            (Err(error), Self::Cluster(cluster)) => {
                let other = cluster.owner_anew(slot).await?;
                if other.name == node.name { Err(error) } else { other.connection().await }
            }
            (connection, _) => connection,
        }
    }
}
