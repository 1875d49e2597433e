//! Barriers: whose deadline has come, and who was kept long enough after its end. Events of barriers and of orders: what
//! is too old, or too much.

use super::{Round, STEP_IDS_MAX, STEPS_MAX};
use crate::store::intake::Source;
use crate::store::keys::BARRIER_BUCKETS;
use crate::store::sweep::{EventsKept, Trimmed};
use crate::store::{Place, Store, StoreError};
use futures_util::future::{join, join_all};
use tracing::warn;

/// Does what is due in all buckets, each for itself.
pub(super) async fn sweep(store: &Store, kept: &EventsKept) -> Vec<(Place, Result<Round, StoreError>)> {
    let barriers = join_all((0..BARRIER_BUCKETS).map(async |bucket| {
        let place = store.place_of(&Source::Barriers(bucket));
        (place, sweep_barriers(store, bucket, kept).await)
    }));
    let orders = join_all(
        Source::orders().map(async |source| (store.place_of(&source), trim_all(store, source, kept).await)),
    );
    let (mut swept, trimmed) = join(barriers, orders).await;
    swept.extend(trimmed);
    swept
}

async fn sweep_barriers(store: &Store, bucket: usize, kept: &EventsKept) -> Result<Round, StoreError> {
    let mut round = Round::default();
    for _ in 0..STEPS_MAX {
        let due = store.barriers_due(bucket, STEP_IDS_MAX).await?;
        let trimmed = match kept.is_exceeded_by(due.now, due.event_entries, due.oldest_event_at) {
            true => trim(store, &Source::Barriers(bucket), kept).await?,
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

/// Trims the events of a bucket where nothing else is to be done.
async fn trim_all(store: &Store, source: Source, kept: &EventsKept) -> Result<Round, StoreError> {
    let mut round = Round::default();
    for _ in 0..STEPS_MAX {
        let trimmed = trim(store, &source, kept).await?;
        round.trimmed += trimmed.entries;
        round.skipped += trimmed.skipped;
        if trimmed.entries == 0 {
            return Ok(round);
        }
    }
    round.next_in_ms = Some(0); // there is more to do
    Ok(round)
}

/// What is damaged must not keep barriers from timing out, nor other buckets from being trimmed.
async fn trim(store: &Store, source: &Source, kept: &EventsKept) -> Result<Trimmed, StoreError> {
    match store.trim_bucket(source, kept).await {
        Err(error @ (StoreError::Corrupt(_) | StoreError::Reply(_))) => {
            warn!(?source, %error, "The events of a bucket could not be trimmed: {error}");
            Ok(Trimmed::default())
        }
        trimmed => trimmed,
    }
}
