//! Trimming the events of buckets, of barriers and of orders. Nobody reads them by cursors, so nothing is written down of
//! what goes; an entry that was old stays old, so what is read first may be removed after.

use super::{EventsKept, Trimmed};
use crate::domain::Timestamp;
use crate::store::events::EntryId;
use crate::store::intake::{self, Source};
use crate::store::stock::stream_entries;
use crate::store::{Store, StoreError, reply};
use redis::Value;

/// Entries that one step of trimming looks at: each may hold many barriers.
const TRIM_ENTRIES_MAX: usize = 32;

/// The beginning of a stream.
struct Oldest {
    now: Timestamp,
    /// How many entries there are in all.
    length: u64,
    /// The oldest of them, and when they were written.
    entries: Vec<(EntryId, Timestamp)>,
}

impl Oldest {
    /// Those that have to go.
    fn exceed(&self, kept: &EventsKept) -> impl Iterator<Item = EntryId> {
        let exceeds = |(n, (_, at)): &(usize, &(EntryId, Timestamp))| {
            kept.is_exceeded_by(self.now, self.length.saturating_sub(*n as u64), Some(*at))
        };
        self.entries.iter().enumerate().take_while(exceeds).map(|(_, (id, _))| *id)
    }
}

impl Store {
    /// One bounded step of trimming the events of a bucket; where nothing has to go it costs one short look.
    pub async fn trim_bucket(&self, source: &Source, kept: &EventsKept) -> Result<Trimmed, StoreError> {
        if self.oldest(source, 1).await?.exceed(kept).next().is_none() {
            return Ok(Trimmed::default());
        }
        // What was read and not finished is counted by whoever finds it gone.
        let read_to = self.progress(source).await?.map(|progress| progress.read_to);
        let (mut last, mut skipped): (Option<EntryId>, u64) = (None, 0);
        for id in self.oldest(source, TRIM_ENTRIES_MAX).await?.exceed(kept) {
            skipped += u64::from(read_to.is_some_and(|read_to| read_to < id));
            last = Some(id);
        }
        let Some(last) = last else { return Ok(Trimmed::default()) };
        let stays = EntryId { seq: last.seq + 1, ..last };
        let mut cmd = redis::cmd("XTRIM");
        cmd.arg(source.key()).arg("MINID").arg("=").arg(stays.to_string());
        Ok(Trimmed { entries: intake::read(self.query(&cmd).await?)?, skipped })
    }

    async fn oldest(&self, source: &Source, limit: usize) -> Result<Oldest, StoreError> {
        let (mut range, mut length) = (redis::cmd("XRANGE"), redis::cmd("XLEN"));
        range.arg(source.key()).arg("-").arg("+").arg("COUNT").arg(limit);
        // Counted after they are read: what another process has removed in between does not count.
        length.arg(source.key());
        let answers = self.committer.pool.query_all(&[range, length]).await;
        let mut answers = answers.into_iter().map(|answer| self.note(answer));
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let (range, length) = (stream_entries(next()?)?, intake::read(next()?)?);
        let mut entries = Vec::with_capacity(range.len());
        for (id, fields) in range {
            let id = EntryId::read(&id)?;
            // A damaged one is as old as its id.
            let at = fields.get(1).and_then(|at| reply::time(at).ok());
            let at = at.or_else(|| Timestamp::from_ms(i64::try_from(id.ms).ok()?));
            entries.push((id, at.unwrap_or_default()));
        }
        let now = if entries.is_empty() { Timestamp::default() } else { self.now().await? };
        Ok(Oldest { now, length, entries })
    }
}
