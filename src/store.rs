//! The only place that knows Redis. Every decision about stock is a script in `lua/`; this module declares its keys,
//! sends it, and reads its words.

pub mod audit;
pub mod barriers;
pub mod bulk;
pub mod cache;
pub mod checks;
mod clock;
pub mod deliveries;
pub mod durability;
pub mod error;
pub mod events;
pub mod group_commit;
pub mod health;
pub mod ids;
mod incarnations;
pub mod intake;
pub mod keys;
pub mod level_cache;
pub mod levels;
pub mod live;
pub mod locks;
pub mod orders;
mod parts;
pub mod pool;
pub mod reply;
pub mod reservations;
pub mod rules;
pub mod sale_list;
pub mod sales;
pub mod scripts;
pub mod stock;
pub mod sweep;
pub mod transaction;
pub mod watched;
pub mod webhooks;

pub use barriers::{BarrierFilter, Bucket, MustBeNew, Watching};
pub use clock::Clock;
pub use durability::Durability;
pub use error::StoreError;
pub use events::EventsAfter;
pub use incarnations::SaleHandle;
pub use live::Follower;
pub use pool::{Place, PoolConfig};
pub use reservations::ReservationFilter;
pub use sales::PutAnswer;

use crate::domain::{Decision, SaleId};
use crate::metrics::Metrics;
use group_commit::Committer;
use ids::IdMaker;
use incarnations::Loading;
use level_cache::{LevelCache, PageTimes};
use pool::{Pool, Slot, slot_of};
use quick_cache::sync::Cache;
use redis::{Cmd, Value};
use scripts::{Script, Scripts};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};

/// A decision, or why there is none.
pub type Decided<T> = Result<Decision<T>, StoreError>;

/// Incarnations of sales that a store remembers; what is forgotten is read again.
const SALES_REMEMBERED_MAX: usize = 10_000;

/// What all stores of a process share.
#[derive(Clone)]
pub struct Shared {
    /// Where Redis is.
    pub config: PoolConfig,
    /// The scripts.
    pub scripts: Arc<Scripts>,
    /// The offset of time.
    pub clock: Arc<Clock>,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Levels of a moment ago.
    pub cache: Arc<LevelCache>,
    /// How long pages of levels are shared.
    pub page_times: PageTimes,
    /// Who listens to events.
    pub live: Arc<live::Hub>,
    /// Who waits at barriers.
    pub watchers: Arc<barriers::Watchers>,
    /// Who waits for locks.
    pub locks: Arc<locks::LockQueues>,
    /// URLs of the servers that decide about free-standing locks; none: the store alone does.
    pub lock_nodes: Arc<[String]>,
    /// Ids and secrets of what belongs to no sale.
    pub ids: Arc<OnceCell<IdMaker>>,
}

impl Shared {
    /// For one Redis.
    pub fn new(config: PoolConfig, metrics: Arc<Metrics>) -> Self {
        let (scripts, cache) = (Arc::new(Scripts::new()), Arc::new(LevelCache::new(&metrics)));
        let page_times = PageTimes::default();
        Self {
            config,
            scripts,
            clock: Arc::default(),
            metrics,
            cache,
            page_times,
            live: Arc::default(),
            watchers: Arc::default(),
            locks: Arc::default(),
            lock_nodes: Arc::default(),
            ids: Arc::default(),
        }
    }
}

/// The stock, as callers see it. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    committer: Committer,
    sales: Arc<Cache<SaleId, Arc<SaleHandle>>>,
    /// Barriers, and the arrivals that wait for them.
    buckets: Arc<[Arc<Bucket>]>,
    live: Arc<live::Hub>,
    watchers: Arc<barriers::Watchers>,
    locks: Arc<locks::LockQueues>,
    redlock: Option<Arc<locks::Redlock>>,
    ids: Arc<OnceCell<IdMaker>>,
    /// Reads of incarnations that are under way.
    loading: Arc<Mutex<HashMap<SaleId, Loading>>>,
    cache: Arc<LevelCache>,
    page_times: PageTimes,
    /// Reads for the cache that may be under way, and how long others wait for a turn.
    turns: Arc<Semaphore>,
    turn_wait: Duration,
    /// Levels of a moment ago come from replicas.
    reads_replicas: bool,
    /// How long an audit rests after each page: so many times what the page took.
    audit_rests: u32,
}

impl Store {
    /// A store with a pool and queues of its own, whose rounds run on the present runtime: each worker thread has one
    /// (`docs/adr/0003-one-committer-a-worker.md`). Errors when the URL is not one.
    pub fn open(shared: &Shared) -> Result<Self, redis::RedisError> {
        let nodes = &shared.lock_nodes;
        let redlock = (!nodes.is_empty()).then(|| locks::Redlock::open(nodes));
        let committer = Committer {
            pool: Pool::open(&shared.config, &shared.metrics)?,
            scripts: Arc::clone(&shared.scripts),
            clock: Arc::clone(&shared.clock),
            metrics: Arc::clone(&shared.metrics),
            runtime: tokio::runtime::Handle::current(),
        };
        Ok(Self {
            committer,
            sales: Arc::new(Cache::new(SALES_REMEMBERED_MAX)),
            buckets: Bucket::all().into(),
            live: Arc::clone(&shared.live),
            watchers: Arc::clone(&shared.watchers),
            locks: Arc::clone(&shared.locks),
            redlock: redlock.transpose()?.map(Arc::new),
            ids: Arc::clone(&shared.ids),
            loading: Arc::default(),
            cache: Arc::clone(&shared.cache),
            page_times: shared.page_times,
            turns: Arc::new(Semaphore::new((shared.config.size as usize / 2).max(1))),
            turn_wait: shared.config.wait_timeout,
            reads_replicas: shared.config.reads_replicas,
            audit_rests: 0,
        })
    }

    fn scripts(&self) -> &Scripts {
        &self.committer.scripts
    }

    fn offset_ms(&self) -> i64 {
        self.committer.clock.offset_ms()
    }

    /// One command on a connection of the pool.
    async fn query(&self, cmd: &Cmd) -> Result<Value, StoreError> {
        let answer = self.committer.pool.get(slot_of(cmd)).await?.query(cmd).await;
        self.note(answer)
    }

    /// One script on a connection of the pool; for reads, and for what is rare.
    async fn call(&self, script: &Script, cmd: &Cmd) -> Result<Vec<String>, StoreError> {
        let answer = self.committer.pool.get(slot_of(cmd)).await?.call(script, cmd).await;
        reply::texts(self.note(answer)?)
    }

    /// One script that only reads, on a replica if such are read from. What that cannot answer its master does.
    async fn call_near(&self, script: &Script, cmd: &Cmd) -> Result<Vec<String>, StoreError> {
        if let Some(mut lease) = self.committer.pool.near(slot_of(cmd)).await
            && let Ok(answer) = lease.call(script, cmd).await
        {
            return reply::texts(answer);
        }
        self.call(script, cmd).await
    }

    /// Which server has a stream and what belongs to it, as far as is known.
    pub fn place_of(&self, source: &intake::Source) -> Place {
        self.committer.pool.place_of(Slot::for_key(source.key()))
    }

    /// Carries work to its end, even if whoever waits for it goes away.
    async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let working = self.committer.runtime.spawn(durability::carried(work));
        working.await.unwrap_or_else(|_| Err(StoreError::Unknown("the work was dropped".into())))
    }

    fn note<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.inspect_err(|error| self.committer.metrics.redis_error(error.code()))
    }

    /// Makes the ids and secrets of what belongs to no sale. Whichever process comes first makes what they follow from.
    pub async fn ids(&self) -> Result<&IdMaker, StoreError> {
        let learn = async {
            let mut make = redis::cmd("SET");
            make.arg(keys::SECRET).arg(ids::random_hex::<32>()).arg("NX");
            self.query(&make).await?;
            match self.query(redis::cmd("GET").arg(keys::SECRET)).await? {
                Value::BulkString(secret) => Ok(IdMaker::new(&secret)),
                _ => Err(StoreError::Corrupt("secret".into())),
            }
        };
        self.ids.get_or_try_init(|| learn).await
    }
}
