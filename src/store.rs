//! The only place that knows Redis. Every decision about stock is a script in `lua/`; this module declares its keys,
//! sends it, and reads its words.

pub mod error;
pub mod keys;
pub mod ids;
pub mod scripts;
pub mod reply;
pub mod pool;
pub mod group_commit;
pub mod reservations;
pub mod sales;
pub mod stock;
pub mod events;
pub mod sweep;
pub mod audit;
pub mod checks;

pub use error::StoreError;
pub use events::EventsAfter;
pub use pool::PoolConfig;
pub use reservations::ReservationFilter;
pub use sales::PutAnswer;

use crate::domain::{Decision, Refusal, SaleId, Timestamp};
use crate::metrics::Metrics;
use group_commit::{Answered, Committer, Lane, Request};
use ids::IdMaker;
use keys::SaleKeys;
use quick_cache::sync::Cache;
use redis::{Cmd, Value};
use reply::CallRefusal;
use scripts::{Script, Scripts};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A decision, or why there is none.
pub type Decided<T> = Result<Decision<T>, StoreError>;

/// Incarnations of sales that a store remembers; what is forgotten is read again.
const SALES_REMEMBERED_MAX: usize = 10_000;

/// Time is the Redis server's, plus an offset that is 0 outside tests.
#[derive(Debug, Default)]
pub struct Clock(AtomicI64);

impl Clock {
    /// Milliseconds that every script adds to the server's time.
    pub fn offset_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Moves time, in tests.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

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
}

impl Shared {
    /// For one Redis.
    pub fn new(config: PoolConfig, metrics: Arc<Metrics>) -> Self {
        Self { config, scripts: Arc::new(Scripts::new()), clock: Arc::default(), metrics }
    }
}

/// One incarnation of a sale, as far as ids, keys and queues depend on it.
#[derive(Debug)]
pub struct SaleHandle {
    /// The incarnation.
    pub generation: String,
    /// Its keys.
    pub keys: SaleKeys,
    ids: IdMaker,
    lane: Lane,
}

/// The stock, as callers see it. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    committer: Committer,
    sales: Arc<Cache<SaleId, Arc<SaleHandle>>>,
}

impl Store {
    /// A store with a pool and queues of its own, whose rounds run on the present runtime: each worker thread has one
    /// (`docs/adr/0003-one-committer-a-worker.md`). Errors when the URL is not one.
    pub fn open(shared: &Shared) -> Result<Self, redis::RedisError> {
        let committer = Committer {
            pool: pool::open(&shared.config)?,
            scripts: Arc::clone(&shared.scripts),
            clock: Arc::clone(&shared.clock),
            metrics: Arc::clone(&shared.metrics),
            runtime: tokio::runtime::Handle::current(),
        };
        Ok(Self { committer, sales: Arc::new(Cache::new(SALES_REMEMBERED_MAX)) })
    }

    fn scripts(&self) -> &Scripts {
        &self.committer.scripts
    }

    fn offset_ms(&self) -> i64 {
        self.committer.clock.offset_ms()
    }

    /// One command on a connection of the pool.
    async fn query(&self, cmd: &Cmd) -> Result<Value, StoreError> {
        let answer = pool::get(&self.committer.pool).await?.query(cmd).await;
        self.note(answer)
    }

    /// One script on a connection of the pool; for reads, and for what is rare.
    async fn call(&self, script: &Script, cmd: &Cmd) -> Result<Vec<String>, StoreError> {
        let answer = pool::get(&self.committer.pool).await?.call(script, cmd).await;
        reply::texts(self.note(answer)?)
    }

    fn note<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.inspect_err(|error| self.committer.metrics.redis_error(error.code()))
    }

    /// The present incarnation of a sale, as far as this store knows.
    async fn handle(&self, sale: &SaleId) -> Result<Option<Arc<SaleHandle>>, StoreError> {
        if let Some(handle) = self.sales.get(sale) {
            return Ok(Some(handle));
        }
        let keys = SaleKeys::new(sale);
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys.rules()).arg(&["generation", "id_key", "status"]);
        let Value::Array(values) = self.query(&cmd).await? else {
            return Err(StoreError::Corrupt("rules".into()));
        };
        let [Value::BulkString(generation), Value::BulkString(id_key), Value::BulkString(status)] = &values[..] else {
            return Ok(None);
        };
        if status == b"deleted" {
            return Ok(None);
        }
        let generation = String::from_utf8(generation.clone()).map_err(|_| StoreError::Corrupt("rules".into()))?;
        let handle = Arc::new(SaleHandle { generation, keys, ids: IdMaker::new(id_key), lane: Lane::default() });
        self.sales.insert(sale.clone(), Arc::clone(&handle));
        Ok(Some(handle))
    }

    /// Carries a request to its sale; when the sale turns out to be another incarnation, once more to that one.
    async fn commit<T>(
        &self,
        sale: &SaleId,
        prepare: impl Fn(&SaleHandle) -> Request,
        read: impl FnOnce(Timestamp, Option<Timestamp>, &str) -> Decided<T>,
    ) -> Decided<T> {
        for _ in 0..2 {
            let Some(handle) = self.handle(sale).await? else { break };
            match self.committer.commit(&handle, prepare(&handle)).await? {
                Answered::Answer { now, retry_at, text } => return read(now, retry_at, &text),
                Answered::Refused(CallRefusal::UnknownSale | CallRefusal::StaleGeneration) => self.sales.remove(sale),
            };
        }
        Ok(Decision::Refused(Refusal::UnknownSale))
    }
}
