//! What the sweeper asks of the store.

mod buckets;

use super::keys::SaleKeys;
use super::{Store, StoreError, cache, intake, reply};
use crate::domain::{SaleId, Timestamp};

/// What is to be done in a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The script's time.
    pub now: Timestamp,
    /// The sale is a tombstone.
    pub is_deleted: bool,
    /// Since when.
    pub deleted_at: Option<Timestamp>,
    /// There is no such sale.
    pub is_unknown: bool,
    /// When something will be due; none when nothing is held or kept.
    pub next_at: Option<Timestamp>,
    /// Holds.
    pub holds_open: u64,
    /// Holds past their deadline.
    pub holds_overdue: u64,
    /// Ids without a good record.
    pub orphans: u64,
    /// Overdue holds: 22-character ids.
    pub overdue: Vec<String>,
    /// Records whose retention is over.
    pub ended: Vec<String>,
    /// Parts of orders that were pinned long ago: somebody must look after their orders.
    pub pinned: Vec<String>,
    /// Entries of the stream of events.
    pub event_entries: u64,
    /// Time of the oldest of them.
    pub oldest_event_at: Option<Timestamp>,
}

/// How much of its events a sale keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventsKept {
    /// None older than this.
    pub retention_ms: i64,
    /// No more entries of the stream than this; an entry holds the events of one script call.
    pub entries_max: u64,
}

impl EventsKept {
    /// Whether some have to go.
    pub fn is_exceeded(&self, due: &Due) -> bool {
        self.is_exceeded_by(due.now, due.event_entries, due.oldest_event_at)
    }

    /// The same of any stream: how many entries it has, and since when.
    pub fn is_exceeded_by(&self, now: Timestamp, entries: u64, oldest_at: Option<Timestamp>) -> bool {
        let is_old = |oldest: Timestamp| now.as_ms() - oldest.as_ms() > self.retention_ms;
        entries > self.entries_max || oldest_at.is_some_and(is_old)
    }
}

/// What one step of trimming removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Entries.
    pub entries: usize,
    /// Of these, entries that webhooks were still to hear of.
    pub skipped: u64,
}

/// How far the removal of a deleted sale has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// There is more to remove.
    Going,
    /// Nothing but the events, which are to be read, and what shows that they are there.
    Waiting,
    /// Nothing is left.
    Done,
}

/// So long a tombstone stays: a sale of the same name must not begin while a process may still show a level of this
/// one, which it has read before the deletion.
pub const TOMBSTONE_MS: i64 = 1_000;
const _: () = assert!(TOMBSTONE_MS > 2 * (cache::TTL_MS + cache::TTL_JITTER_MS) as i64);

/// Most records that one step of a purge removes: a request of another sale waits for one step at most.
pub const PURGE_IDS_MAX: usize = 100;
/// Most entries that one step of trimming removes.
const TRIM_ENTRIES_MAX: usize = 256;

impl Store {
    /// Asks what is due in a sale; at most `limit` ids of each kind.
    pub async fn due(&self, sale: &SaleId, limit: usize) -> Result<Due, StoreError> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().due;
        let mut cmd = script.call(6);
        cmd.arg(keys.rules()).arg(keys.due()).arg(keys.pinned()).arg(keys.done()).arg(keys.orphans());
        cmd.arg(keys.events());
        cmd.arg(self.offset_ms()).arg(limit);
        let texts = self.call(script, &cmd).await?;
        let [
            now,
            status,
            next,
            open,
            overdue_count,
            orphans,
            overdue,
            ended,
            entries,
            oldest,
            deleted_at,
            pinned,
        ] = &texts[..]
        else {
            return Err(StoreError::Reply("not what is due".into()));
        };
        Ok(Due {
            now: reply::time(now)?,
            is_deleted: status == "deleted",
            deleted_at: reply::optional(deleted_at, reply::time)?,
            is_unknown: status.is_empty(),
            next_at: reply::optional(next, reply::time)?,
            holds_open: reply::number(open)?,
            holds_overdue: reply::number(overdue_count)?,
            orphans: reply::number(orphans)?,
            overdue: reply::ids_of(overdue),
            ended: reply::ids_of(ended),
            pinned: reply::ids_of(pinned),
            event_entries: reply::number(entries)?,
            oldest_event_at: reply::optional(oldest, reply::time)?,
        })
    }

    /// One bounded step of trimming the events of a sale.
    pub async fn trim(
        &self,
        sale: &SaleId,
        generation: &str,
        kept: &EventsKept,
    ) -> Result<Trimmed, StoreError> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().trim;
        let mut cmd = script.call(2);
        cmd.arg(keys.rules()).arg(keys.events()).arg(self.offset_ms()).arg(generation);
        cmd.arg(kept.retention_ms).arg(kept.entries_max).arg(TRIM_ENTRIES_MAX);
        cmd.arg(intake::GROUP);
        let texts = self.call(script, &cmd).await?;
        match &texts[..] {
            [word, _, entries, skipped] if word == "trimmed" => {
                Ok(Trimmed { entries: reply::number(entries)?, skipped: reply::number(skipped)? })
            }
            [word, ..] if ["kept", "unknown_sale", "stale_generation"].contains(&&**word) => {
                Ok(Trimmed::default())
            }
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// One bounded step of removing what a deleted sale left.
    pub async fn purge(&self, sale: &SaleId, generation: &str) -> Result<Purge, StoreError> {
        self.purge_step(sale, generation, "").await
    }

    /// The same, but its events stay, and the tombstone with them.
    pub async fn purge_records(&self, sale: &SaleId, generation: &str) -> Result<Purge, StoreError> {
        self.purge_step(sale, generation, "1").await
    }

    async fn purge_step(
        &self,
        sale: &SaleId,
        generation: &str,
        keep_events: &str,
    ) -> Result<Purge, StoreError> {
        let keys = SaleKeys::new(sale);
        let mut ids = Vec::new();
        for key in [keys.done(), keys.orphans()] {
            if ids.len() == PURGE_IDS_MAX {
                break;
            }
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(key).arg(0).arg(PURGE_IDS_MAX - ids.len() - 1);
            ids.extend(reply::texts(self.query(&cmd).await?)?);
        }
        let script = &self.scripts().purge;
        let mut cmd = script.call(keys.fixed.len() + 3 + ids.len());
        for key in &keys.fixed {
            cmd.arg(key);
        }
        cmd.arg(&keys.skus).arg(&keys.adjustments).arg(&keys.fence);
        for id in &ids {
            cmd.arg(keys.record(id));
        }
        cmd.arg(generation).arg(keep_events);
        let texts = self.call(script, &cmd).await?;
        match texts.first().map(String::as_str) {
            Some("purging") if texts.get(1).is_some_and(|left| left == "0") => Ok(Purge::Waiting),
            Some("purging") => Ok(Purge::Going),
            // Another incarnation, or none: the entry stands for nothing.
            Some("purged" | "not_deleted") => {
                self.unregister(sale, generation).await?;
                Ok(Purge::Done)
            }
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }
}
