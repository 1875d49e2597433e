//! What the sweeper asks of a bucket of barriers.

use crate::domain::*;
use crate::store::reply::{self, Fields};
use crate::store::{Store, StoreError};

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
}
