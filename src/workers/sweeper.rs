//! Gives the units of overdue holds back, forgets what is old, trims events, and removes deleted sales; times out
//! barriers, and removes those that have ended (`buckets`).
//!
//! Any number of processes may sweep: each step is a script that decides anew. Nothing correct depends on it: a take
//! that falls short expires overdue holds itself, and a settle verb that meets one does.

mod buckets;

use super::pace;
use crate::domain::{PageRequest, SaleId, Switch};
use crate::metrics::Metrics;
use crate::store::intake::Source;
use crate::store::sweep::{Due, EventsKept, Purge, TOMBSTONE_MS, Trimmed};
use crate::store::{Place, Store, StoreError, checks};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tracing::{debug, warn};

/// Ids of one kind that a step handles.
const STEP_IDS_MAX: usize = 100;
/// Steps of one sale in a round, so that a large one cannot keep the others waiting.
const STEPS_MAX: usize = 50;
/// Steps that remove a deleted sale in a round. Nobody waits for it, so it gets little of each round.
pub const PURGE_STEPS_MAX: usize = 10;
/// Sales asked at the same time.
const SALES_AT_ONCE: usize = 8;
/// Sales of one page of the registry.
const PAGE_SALES: usize = 200;

/// What one round saw and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Holds that were expired.
    pub expired: usize,
    /// Records that were forgotten.
    pub archived: usize,
    /// Entries of events that were removed.
    pub trimmed: usize,
    /// Of these, entries that webhooks were still to hear of.
    pub skipped: u64,
    /// Deleted sales that were removed.
    pub purged: usize,
    /// Barriers whose deadline has come.
    pub timed_out: usize,
    /// Ended barriers that were removed.
    pub removed: usize,
    /// Milliseconds until something is due, if anything is known to be.
    pub next_in_ms: Option<u64>,
}

impl Round {
    fn has_done(&self) -> bool {
        let of_barriers = self.timed_out + self.removed;
        self.expired + self.archived + self.trimmed + self.purged + of_barriers > 0
    }

    fn add(&mut self, other: Round) {
        self.expired += other.expired;
        self.archived += other.archived;
        self.trimmed += other.trimmed;
        self.skipped += other.skipped;
        self.purged += other.purged;
        self.timed_out += other.timed_out;
        self.removed += other.removed;
        self.next_in_ms = match (self.next_in_ms, other.next_in_ms) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Sweeps until it is dropped.
pub async fn run(store: Store, metrics: Arc<Metrics>, kept: EventsKept) {
    loop {
        let begun = Instant::now();
        let pause = match round(&store, &kept).await {
            Ok(done) => {
                if done.skipped > 0 {
                    let skipped = done.skipped;
                    metrics.webhooks().skipped(skipped);
                    warn!(skipped, "{skipped} entries of events went before webhooks had heard of them");
                }
                if done.has_done() {
                    debug!(?done, "Swept: {} holds expired", done.expired);
                }
                pace::until_due(done.next_in_ms)
            }
            Err(error) => {
                warn!(%error, "The sweeper could not finish its round: {error}");
                pace::PAUSE_MAX
            }
        };
        pace::rest(begun, pause).await;
    }
}

/// One round over all sales and barriers. A server that fails is left alone for the rest of it, the others are not.
/// Errors when nothing could be swept.
pub async fn round(store: &Store, kept: &EventsKept) -> Result<Round, StoreError> {
    let mut sum = Round::default();
    let mut failed: HashMap<Place, StoreError> = HashMap::new();
    let mut is_nothing_swept = true;
    let mut page = PageRequest { limit: PAGE_SALES, after: None };
    loop {
        let (entries, next) = store.sale_entries(&page).await?;
        for some in entries.chunks(SALES_AT_ONCE) {
            let placed = some.iter().map(|entry| (store.place_of(&Source::Sale(entry.0.clone())), entry));
            let placed = placed.filter(|(place, _)| !failed.contains_key(place));
            let sweeps = placed
                .map(async |(place, (sale, generation))| (place, sweep(store, sale, generation, kept).await));
            for (place, swept) in futures_util::future::join_all(sweeps).await {
                match swept {
                    Ok(swept) => {
                        sum.add(swept);
                        is_nothing_swept = false;
                    }
                    // One bad sale must not stop the others.
                    Err(error @ StoreError::Corrupt(_)) => {
                        warn!(%error, "A sale could not be swept: {error}")
                    }
                    Err(error) => drop(failed.insert(place, error)),
                }
            }
        }
        match next {
            Some(_) => page.after = next,
            None => break,
        }
    }
    for (place, swept) in buckets::sweep(store, kept).await {
        match swept {
            Ok(swept) => {
                sum.add(swept);
                is_nothing_swept = false;
            }
            Err(error @ StoreError::Corrupt(_)) => warn!(%error, "A bucket could not be swept: {error}"),
            Err(error) => drop(failed.insert(place, error)),
        }
    }
    for (place, error) in failed {
        if is_nothing_swept {
            return Err(error);
        }
        warn!(%error, "What {} has could not be swept: {error}", place.as_deref().unwrap_or("Redis"));
    }
    Ok(sum)
}

/// Does what is due in one sale.
async fn sweep(
    store: &Store,
    sale: &SaleId,
    generation: &str,
    kept: &EventsKept,
) -> Result<Round, StoreError> {
    let mut round = Round::default();
    for _ in 0..STEPS_MAX {
        let due = store.due(sale, STEP_IDS_MAX).await?;
        if due.is_unknown {
            store.unregister_absent(sale, generation).await?;
            return Ok(round);
        }
        if due.is_deleted {
            let stays_ms = due.deleted_at.map_or(0, |at| at.as_ms() + TOMBSTONE_MS - due.now.as_ms());
            if stays_ms > 0 {
                round.next_in_ms = u64::try_from(stays_ms).ok();
                return Ok(round);
            }
            let keep_events = are_events_awaited(store, sale, &due, kept).await?;
            return purge(store, sale, generation, keep_events).await;
        }
        for part in &due.pinned {
            match store.resolve_part(sale, part).await {
                Err(error @ (StoreError::Corrupt(_) | StoreError::Reply(_))) => {
                    warn!(%error, part, "A part of an order could not be resolved: {error}");
                }
                resolved => resolved?,
            }
        }
        let trimmed = match kept.is_exceeded(&due) {
            true => trim(store, sale, generation, kept).await?,
            false => Trimmed::default(),
        };
        round.trimmed += trimmed.entries;
        round.skipped += trimmed.skipped;
        if due.overdue.is_empty() && due.ended.is_empty() && trimmed.entries == 0 {
            let wait =
                |at: crate::domain::Timestamp| u64::try_from(at.as_ms() - due.now.as_ms()).unwrap_or(0);
            round.next_in_ms = due.next_at.map(wait);
            if checks::is_abandoned(sale, due.now) {
                store.switch_sale(sale, Switch::Close).await?;
                store.delete_sale(sale).await?;
            }
            return Ok(round);
        }
        round.expired += store.expire(sale, &due.overdue).await?;
        round.archived += store.archive(sale, &due.ended).await?;
    }
    round.next_in_ms = Some(0); // there is more to do
    Ok(round)
}

/// Whether webhooks are still to hear of what happened in a deleted sale. As everywhere, only for as long as events are
/// kept; where nobody wants them its name is free at once.
async fn are_events_awaited(
    store: &Store,
    sale: &SaleId,
    due: &Due,
    kept: &EventsKept,
) -> Result<bool, StoreError> {
    let is_over = due.deleted_at.is_none_or(|at| due.now.as_ms() - at.as_ms() >= kept.retention_ms);
    if is_over || checks::is_internal(sale) {
        return Ok(false);
    }
    if !store.webhooks().await?.iter().any(|endpoint| endpoint.wants_sale(sale)) {
        return Ok(false);
    }
    Ok(!store.is_all_acknowledged(&Source::Sale(sale.clone())).await?)
}

/// Removes a part of what a deleted sale left. Each step begins with what is there, so it does not matter where the
/// one before has ended, or been ended.
async fn purge(
    store: &Store,
    sale: &SaleId,
    generation: &str,
    keep_events: bool,
) -> Result<Round, StoreError> {
    for _ in 0..PURGE_STEPS_MAX {
        let step = match keep_events {
            true => store.purge_records(sale, generation).await?,
            false => store.purge(sale, generation).await?,
        };
        match step {
            Purge::Going => {}
            Purge::Waiting => return Ok(Round::default()),
            Purge::Done => return Ok(Round { purged: 1, ..Round::default() }),
        }
    }
    Ok(Round { next_in_ms: Some(0), ..Round::default() })
}

/// A damaged entry of events must not keep holds from expiring.
async fn trim(
    store: &Store,
    sale: &SaleId,
    generation: &str,
    kept: &EventsKept,
) -> Result<Trimmed, StoreError> {
    match store.trim(sale, generation, kept).await {
        Err(error @ StoreError::Corrupt(_)) => {
            warn!(%error, "The events of a sale could not be trimmed: {error}");
            Ok(Trimmed::default())
        }
        trimmed => trimmed,
    }
}
