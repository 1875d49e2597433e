//! Incarnations of sales: which one a store knows, and what is asked of the present one.

use super::group_commit::{Answered, Lane, Request, SaleQueues};
use super::ids::IdMaker;
use super::keys::SaleKeys;
use super::reply::CallRefusal;
use super::{Decided, Store, StoreError};
use crate::domain::{Decision, Refusal, SaleId, Timestamp};
use crate::metrics::SaleCounts;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use redis::Value;
use std::sync::{Arc, PoisonError};

/// One incarnation of a sale, as far as ids, keys and queues depend on it.
#[derive(Debug)]
pub struct SaleHandle {
    /// The incarnation.
    pub generation: String,
    /// Its keys.
    pub keys: SaleKeys,
    pub(super) ids: IdMaker,
    pub(super) lane: Lane<SaleQueues>,
    /// What it was answered.
    pub(super) counts: Arc<SaleCounts>,
}

type Loaded = Result<Option<Arc<SaleHandle>>, StoreError>;
pub(super) type Loading = SharedFuture<BoxFuture<'static, Loaded>>;

/// Takes the read of a sale off the list when it is dropped.
struct Ended<'a>(&'a Store, &'a SaleId);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.loading.lock().unwrap_or_else(PoisonError::into_inner).remove(self.1);
    }
}

impl Store {
    /// The present incarnation of a sale, as far as this store knows. The crowd that meets a fresh store waits for one
    /// read; thousands would wait for a connection each, and some in vain.
    pub(super) async fn handle(&self, sale: &SaleId) -> Loaded {
        if let Some(handle) = self.sales.get(sale) {
            return Ok(Some(handle));
        }
        let (loading, is_ours) = self.loading(sale);
        match loading.await {
            // That read may have begun before the sale was made; only who began it knows better.
            Ok(None) if !is_ours => self.load(sale).await,
            loaded => loaded,
        }
    }

    fn loading(&self, sale: &SaleId) -> (Loading, bool) {
        let mut all = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loading) = all.get(sale) {
            return (loading.clone(), false);
        }
        let (store, name) = (self.clone(), sale.clone());
        let load = self.committer.runtime.spawn(async move {
            // It is no longer under way when the task ends, however it ends.
            let _ended = Ended(&store, &name);
            store.load(&name).await
        });
        let dropped = |_| Err(StoreError::Unknown("the read was dropped".into()));
        let loading = load.map(move |loaded| loaded.unwrap_or_else(dropped)).boxed().shared();
        all.insert(sale.clone(), loading.clone());
        (loading, true)
    }

    /// Reads the present incarnation of a sale, and remembers it.
    pub(super) async fn load(&self, sale: &SaleId) -> Loaded {
        let keys = SaleKeys::new(sale);
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys.rules()).arg(&["generation", "id_key", "status"]);
        let Value::Array(values) = self.query(&cmd).await? else {
            return Err(StoreError::Corrupt("rules".into()));
        };
        let [Value::BulkString(generation), Value::BulkString(id_key), Value::BulkString(status)] =
            &values[..]
        else {
            return Ok(None);
        };
        if status == b"deleted" {
            return Ok(None);
        }
        let generation =
            String::from_utf8(generation.clone()).map_err(|_| StoreError::Corrupt("rules".into()))?;
        if let Some(known) = self.sales.get(sale).filter(|known| known.generation == generation) {
            return Ok(Some(known)); // it has the queues that others wait in
        }
        let (ids, counts) = (IdMaker::new(id_key), self.committer.metrics.sale(sale.as_str()));
        let handle = Arc::new(SaleHandle { generation, keys, ids, lane: Lane::default(), counts });
        self.sales.insert(sale.clone(), Arc::clone(&handle));
        Ok(Some(handle))
    }

    /// Carries a request to its sale; when the sale turns out to be another incarnation, once more to that one.
    pub(super) async fn commit<T>(
        &self,
        sale: &SaleId,
        prepare: impl Fn(&SaleHandle) -> Request,
        read: impl FnOnce(Timestamp, Option<Timestamp>, &str) -> Decided<T>,
    ) -> Decided<T> {
        let mut handle = self.handle(sale).await?;
        for _ in 0..2 {
            let Some(present) = handle else { break };
            match self.committer.commit(&present, prepare(&present)).await? {
                Answered::Answer { now, retry_at, text } => return read(now, retry_at, &text),
                Answered::Refused(CallRefusal::UnknownSale | CallRefusal::StaleGeneration) => {
                    self.sales.remove_if(sale, |known| known.generation == present.generation);
                    handle = self.load(sale).await?;
                }
            };
        }
        Ok(Decision::Refused(Refusal::UnknownSale))
    }
}
