//! Finishes or undoes orders that nobody works on, ends those whose time is over, and forgets old ones.
//!
//! Any number of processes may: a script gives each order to one of them. It is no part of the sweeper, since it waits for
//! the locks of sales, and holds must expire meanwhile.

use super::pace;
use crate::domain::{OrderId, Timestamp};
use crate::store::keys::{ORDER_BUCKETS, OrderKeys};
use crate::store::{Store, StoreError, ids};
use futures_util::future::join_all;
use std::time::Instant;
use tracing::{debug, warn};

/// Ids of one kind that a step handles.
const STEP_IDS_MAX: usize = 100;
/// Steps of one bucket in a round.
const STEPS_MAX: usize = 50;

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Orders that were finished or undone.
    pub recovered: usize,
    /// Orders whose records were deleted.
    pub forgotten: usize,
    /// Milliseconds until something is due, if anything is known to be.
    pub next_in_ms: Option<u64>,
}

/// Recovers until it is dropped.
pub async fn run(store: Store) {
    loop {
        let begun = Instant::now();
        let pause = match round(&store).await {
            Ok(done) => {
                if done.recovered + done.forgotten > 0 {
                    debug!(?done, "Recovered {} orders", done.recovered);
                }
                pace::until_due(done.next_in_ms)
            }
            Err(error) => {
                warn!(%error, "Orders could not be looked after: {error}");
                pace::PAUSE_MAX
            }
        };
        pace::rest(begun, pause).await;
    }
}

/// One round over all buckets, each for itself.
pub async fn round(store: &Store) -> Result<Round, StoreError> {
    let mut sum = Round::default();
    for done in join_all((0..ORDER_BUCKETS).map(|bucket| look_after(store, bucket))).await {
        let done = match done {
            // One bad bucket must not stop the others.
            Err(error @ StoreError::Corrupt(_)) => {
                warn!(%error, "A bucket of orders could not be looked after: {error}");
                continue;
            }
            done => done?,
        };
        sum.recovered += done.recovered;
        sum.forgotten += done.forgotten;
        sum.next_in_ms = sum.next_in_ms.into_iter().chain(done.next_in_ms).min();
    }
    Ok(sum)
}

async fn look_after(store: &Store, bucket: usize) -> Result<Round, StoreError> {
    let (keys, mut round) = (OrderKeys::new(bucket), Round::default());
    for _ in 0..STEPS_MAX {
        let due = store.orders_due(&keys, STEP_IDS_MAX).await?;
        if !due.ended.is_empty() {
            round.forgotten += store.forget_orders(&keys, &due.ended).await?;
        }
        let recovered = recover(store, &due.unfinished).await;
        round.recovered += recovered;
        if due.ended.is_empty() && recovered == 0 {
            let wait = |at: Timestamp| u64::try_from(at.as_ms() - due.now.as_ms()).unwrap_or(0);
            round.next_in_ms = due.next_at.map(wait);
            return Ok(round);
        }
    }
    round.next_in_ms = Some(0); // there is more to do
    Ok(round)
}

/// One that cannot be finished now must not keep the others waiting: its lease has begun anew, and it comes again.
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
