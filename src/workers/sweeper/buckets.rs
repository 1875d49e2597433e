//! Barriers: whose deadline has come, and who was kept long enough after its end.

use super::{Round, STEP_IDS_MAX, STEPS_MAX};
use crate::store::keys::BARRIER_BUCKETS;
use crate::store::sweep::{EventsKept, Trimmed};
use crate::store::{Store, StoreError};
use futures_util::future::join_all;
use tracing::warn;

/// Does what is due in all buckets, each for itself.
pub(super) async fn sweep(store: &Store, kept: &EventsKept) -> Vec<Result<Round, StoreError>> {
    join_all((0..BARRIER_BUCKETS).map(|bucket| sweep_one(store, bucket, kept))).await
}

async fn sweep_one(store: &Store, bucket: usize, kept: &EventsKept) -> Result<Round, StoreError> {
    let mut round = Round::default();
    for _ in 0..STEPS_MAX {
        let due = store.barriers_due(bucket, STEP_IDS_MAX).await?;
        let trimmed = match kept.is_exceeded_by(due.now, due.event_entries, due.oldest_event_at) {
            true => trim(store, bucket, kept).await?,
            false => Trimmed::default(),
        };
        round.trimmed += trimmed.entries;
        round.skipped += trimmed.skipped;
        if due.names.is_empty() && trimmed.entries == 0 {
            let wait =
                |at: crate::domain::Timestamp| u64::try_from(at.as_ms() - due.now.as_ms()).unwrap_or(0);
            round.next_in_ms = due.next_at.map(wait);
            return Ok(round);
        }
        if !due.names.is_empty() {
            let (timed_out, removed) = store.sweep_barriers(bucket, &due.names).await?;
            round.timed_out += timed_out;
            round.removed += removed;
        }
    }
    round.next_in_ms = Some(0); // there is more to do
    Ok(round)
}

/// A damaged entry of events must not keep barriers from timing out.
async fn trim(store: &Store, bucket: usize, kept: &EventsKept) -> Result<Trimmed, StoreError> {
    match store.trim_bucket(bucket, kept).await {
        Err(error @ StoreError::Corrupt(_)) => {
            warn!(%error, "The events of barriers could not be trimmed: {error}");
            Ok(Trimmed::default())
        }
        trimmed => trimmed,
    }
}
