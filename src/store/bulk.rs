//! Many requests of one call: queued in steps, so that one call never fills a queue; each has its own answer.

use super::durability::carried;
use super::group_commit::{Answered, BATCH_REQUESTS_MAX, Class, Request};
use super::{Decided, SaleHandle, Store, StoreError, reply};
use crate::domain::*;

/// Most requests of one bulk call that wait at the same moment: what one script call carries.
const STEP_REQUESTS_MAX: usize = BATCH_REQUESTS_MAX;

impl Store {
    /// Reserves for each request, in their order, as calls of their own would. What has no key has one made from the
    /// call's key and its place. It goes on to its end even if the caller stops waiting.
    pub async fn reserve_bulk(
        &self,
        sale: SaleId,
        caller: Caller,
        key: Option<IdempotencyKey>,
        requests: Vec<BulkRequest>,
    ) -> Vec<Decided<Reservation>> {
        let (store, count) = (self.clone(), requests.len());
        let task = async move { store.reserve_in_steps(&sale, &caller, key.as_ref(), requests).await };
        let dropped = || Err(StoreError::Unknown("the call was dropped".into()));
        let done = self.committer.runtime.spawn(carried(task)).await;
        done.unwrap_or_else(|_| (0..count).map(|_| dropped()).collect())
    }

    async fn reserve_in_steps(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        requests: Vec<BulkRequest>,
    ) -> Vec<Decided<Reservation>> {
        let requests: Vec<_> = requests.into_iter().map(BulkRequest::into_parts).collect();
        let mut decided = Vec::with_capacity(requests.len());
        for step in requests.chunks(STEP_REQUESTS_MAX) {
            let first = decided.len();
            let prepare = |handle: &SaleHandle, n: usize| {
                let (own, request) = &step[n];
                let id = match (own, key) {
                    (None, Some(key)) => handle.ids.bulk_reservation(caller, key, first + n),
                    _ => handle.ids.reservation(caller, own.as_ref()),
                };
                request.prepared(id, None)
            };
            let read = |now, retry_at, text: &str| reply::decision(sale, now, retry_at, text);
            let answers = self.commit_all(sale, Class::Bulk, step.len(), prepare, read).await;
            decided.extend(answers.into_iter().map(|answer| self.count(sale, "reserve", answer)));
        }
        decided
    }

    /// Carries `count` requests to their sale at once; when it turns out to be another incarnation, once more to that
    /// one.
    pub(super) async fn commit_all<T>(
        &self,
        sale: &SaleId,
        class: Class,
        count: usize,
        prepare: impl Fn(&SaleHandle, usize) -> Request,
        read: impl Fn(Timestamp, Option<Timestamp>, &str) -> Decided<T>,
    ) -> Vec<Decided<T>> {
        let unknown_sale = || Ok(Decision::Refused(Refusal::UnknownSale));
        let mut decided: Vec<Decided<T>> = (0..count).map(|_| unknown_sale()).collect();
        let mut open: Vec<usize> = (0..count).collect();
        let mut handle = self.handle(sale).await;
        for _ in 0..2 {
            let present = match handle {
                Ok(Some(present)) => present,
                Ok(None) => break,
                Err(error) => {
                    open.iter().for_each(|n| decided[*n] = Err(error.clone()));
                    break;
                }
            };
            let requests = open.iter().map(|n| prepare(&present, *n)).collect();
            let waiting = self.committer.commit_all(&present, class, requests);
            let mut refused = Vec::new();
            for (n, waiting) in open.into_iter().zip(waiting) {
                match waiting.answer().await {
                    Ok(Answered::Answer { now, retry_at, text }) => decided[n] = read(now, retry_at, &text),
                    Ok(Answered::Refused(_)) => refused.push(n),
                    Err(error) => decided[n] = Err(error),
                }
            }
            open = refused;
            if open.is_empty() {
                break;
            }
            self.sales.remove_if(sale, |known| known.generation == present.generation);
            handle = self.load(sale).await;
        }
        decided
    }
}
