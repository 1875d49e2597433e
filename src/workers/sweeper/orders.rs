//! Orders: those whose step nobody has finished, whose time is over, or that were kept long enough.

use super::{Round, STEP_IDS_MAX, STEPS_MAX};
use crate::domain::{OrderId, SaleId};
use crate::store::keys::{ORDER_BUCKETS, OrderKeys};
use crate::store::{Store, StoreError, ids};
use futures_util::future::join_all;
use tracing::warn;

/// Does what is due in all buckets, each for itself.
pub(super) async fn sweep(store: &Store) -> Vec<Result<Round, StoreError>> {
    join_all((0..ORDER_BUCKETS).map(|bucket| sweep_one(store, bucket))).await
}

async fn sweep_one(store: &Store, bucket: usize) -> Result<Round, StoreError> {
    let (keys, mut round) = (OrderKeys::new(bucket), Round::default());
    for _ in 0..STEPS_MAX {
        let due = store.orders_due(&keys, STEP_IDS_MAX).await?;
        if !due.ended.is_empty() {
            round.forgotten += store.forget_orders(&keys, &due.ended).await?;
        }
        let recovered = recover(store, &due.unfinished).await;
        round.recovered += recovered;
        if due.ended.is_empty() && recovered == 0 {
            let wait =
                |at: crate::domain::Timestamp| u64::try_from(at.as_ms() - due.now.as_ms()).unwrap_or(0);
            round.next_in_ms = due.next_at.map(wait);
            return Ok(round);
        }
    }
    round.next_in_ms = Some(0); // there is more to do
    Ok(round)
}

/// One that cannot be finished now must not keep the others waiting: its lease begins anew, and it comes again.
async fn recover(store: &Store, unfinished: &[String]) -> usize {
    let mut recovered = 0;
    for id in unfinished.iter().filter_map(|id| ids::long(id)) {
        match store.recover_order(OrderId(id)).await {
            Ok(true) => recovered += 1,
            Ok(false) => {}
            Err(error) => warn!(order = %id, %error, "An order could not be finished: {error}"),
        }
    }
    recovered
}

/// Parts that were pinned, and whose order should have decided by now.
pub(super) async fn resolve(store: &Store, sale: &SaleId, parts: &[String]) {
    for part in parts {
        if let Err(error) = store.resolve_part(sale, part).await {
            warn!(%sale, part, %error, "A part of an order could not be resolved: {error}");
        }
    }
}
