//! What the sweeper asks of a bucket of barriers.

use crate::domain::*;
use crate::store::events::EntryId;
use crate::store::intake::Source;
use crate::store::reply::{self, Fields};
use crate::store::stock::stream_entries;
use crate::store::sweep::{EventsKept, Trimmed};
use crate::store::{Store, StoreError};

/// Entries of events that one step of trimming looks at: each may hold many barriers.
const TRIM_ENTRIES_MAX: usize = 32;

/// What is to be done in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketDue {
    /// The script's time.
    pub now: Timestamp,
    /// When something will be due; none when there is no barrier.
    pub next_at: Option<Timestamp>,
    /// Entries of the stream of events.
    pub event_entries: u64,
    /// Time of the oldest of them.
    pub oldest_event_at: Option<Timestamp>,
    /// Barriers that are late, or were kept long enough.
    pub names: Vec<String>,
}

impl Store {
    /// Asks what is due in a bucket; at most `limit` names.
    pub async fn barriers_due(&self, bucket: usize, limit: usize) -> Result<BucketDue, StoreError> {
        let (script, keys) = (&self.scripts().barriers_due, &self.buckets[bucket].keys);
        let mut cmd = script.call(2);
        cmd.arg(&keys.due).arg(&keys.events).arg(self.offset_ms()).arg(limit);
        let texts = self.call(script, &cmd).await?;
        let [now, next, entries, oldest, names @ ..] = &texts[..] else {
            return Err(StoreError::Reply("not what is due".into()));
        };
        Ok(BucketDue {
            now: reply::time(now)?,
            next_at: reply::optional(next, reply::time)?,
            event_entries: reply::number(entries)?,
            oldest_event_at: reply::optional(oldest, reply::time)?,
            names: names.to_vec(),
        })
    }

    /// Times out those of these that are late, and removes those that were kept long enough: how many of each.
    pub async fn sweep_barriers(
        &self,
        bucket: usize,
        names: &[String],
    ) -> Result<(usize, usize), StoreError> {
        let (script, keys) = (&self.scripts().sweep_barriers, &self.buckets[bucket].keys);
        let mut cmd = script.call(3 + 4 * names.len());
        cmd.arg(&keys.due).arg(&keys.events).arg(&keys.index);
        for name in names {
            cmd.arg(&keys.barrier(name));
        }
        cmd.arg(self.offset_ms());
        let Ok(swept) = reply::batch_of(self.call(script, &cmd).await?)? else {
            return Err(StoreError::Reply("unknown word for a call".into()));
        };
        let (mut timed_out, mut removed) = (Vec::new(), 0);
        for (name, answer) in names.iter().zip(&swept.answers) {
            let mut fields = Fields::of(answer);
            match fields.text()? {
                "timed_out" => {
                    let (previous, _fired) = (fields.text()?, fields.text()?);
                    let barrier = reply::barrier(swept.now, &mut fields)?;
                    if super::has_ended(previous, &barrier) {
                        self.committer.count_end(&barrier);
                    }
                    timed_out.push(name.as_str());
                }
                "removed" => removed += 1,
                "not_due" => {}
                "corrupt" => {
                    tracing::warn!(barrier = %name, "A barrier is corrupt: it neither ends nor goes")
                }
                _ => return Err(StoreError::Reply("unknown word".into())),
            }
        }
        if !timed_out.is_empty() {
            self.hint(&timed_out).await;
        }
        Ok((timed_out.len(), removed))
    }

    /// One bounded step of trimming the events of a bucket. Nobody reads a bucket by cursors, so
    /// nothing has to be written beside; an entry that was old stays old, so what is read first may be removed after.
    pub async fn trim_bucket(&self, bucket: usize, kept: &EventsKept) -> Result<Trimmed, StoreError> {
        let due = self.barriers_due(bucket, 0).await?;
        let events = &self.buckets[bucket].keys.events;
        let mut read = redis::cmd("XRANGE");
        read.arg(events).arg("-").arg("+").arg("COUNT").arg(TRIM_ENTRIES_MAX);
        // What was read and not finished is counted by whoever finds it gone.
        let read_to = self.progress(&Source::Barriers(bucket)).await?.map(|progress| progress.read_to);
        let (mut last, mut skipped): (Option<EntryId>, u64) = (None, 0);
        for (n, (id, fields)) in stream_entries(self.query(&read).await?)?.into_iter().enumerate() {
            let id = EntryId::read(&id)?;
            // A damaged one is as old as its id.
            let at = fields.get(1).and_then(|at| at.parse().ok()).unwrap_or(id.ms as i64);
            let left = due.event_entries.saturating_sub(n as u64);
            if left <= kept.entries_max && due.now.as_ms() - at <= kept.retention_ms {
                break;
            }
            skipped += u64::from(read_to.is_some_and(|read_to| read_to < id));
            last = Some(id);
        }
        let Some(last) = last else { return Ok(Trimmed::default()) };
        let stays = EntryId { seq: last.seq + 1, ..last };
        let mut cmd = redis::cmd("XTRIM");
        cmd.arg(events).arg("MINID").arg("=").arg(stays.to_string());
        let trimmed: redis::Value = self.query(&cmd).await?;
        let entries =
            redis::from_redis_value(trimmed).map_err(|error| StoreError::Reply(error.to_string()))?;
        Ok(Trimmed { entries, skipped })
    }
}
