//! The consumer groups: made, watched, and removed.

use super::{GROUP, Source, Taken, TakenEntry};
use crate::store::events::EntryId;
use crate::store::pool::slot_of;
use crate::store::reply;
use crate::store::{Store, StoreError};
use redis::{FromRedisValue, Value, from_redis_value};
use std::collections::HashMap;

/// Entries that are claimed in one call.
const CLAIM_ENTRIES_MAX: usize = 64;

/// How far a group has come with its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Entries that are read and not acknowledged.
    pub pending: u64,
    /// Entries that nobody has read yet, where the server can tell.
    pub unread: u64,
    /// The last entry that was read.
    pub(in crate::store) read_to: EntryId,
}

impl Store {
    /// Makes the group of a stream, if there is none: it reads what was written from `since_ms` on. False: there is no
    /// such stream; those of buckets are made.
    pub async fn ensure_group(&self, source: &Source, since_ms: u64) -> Result<bool, StoreError> {
        let begin = match since_ms.checked_sub(1) {
            Some(before) => format!("{before}-{}", u64::MAX),
            None => "0-0".to_owned(),
        };
        let mut cmd = redis::cmd("XGROUP");
        cmd.arg("CREATE").arg(source.key()).arg(GROUP).arg(begin);
        if matches!(source, Source::Barriers(_) | Source::Orders(_)) {
            cmd.arg("MKSTREAM");
        }
        match self.committer.pool.get(slot_of(&cmd)).await?.query(&cmd).await {
            Ok(_) => Ok(true),
            Err(StoreError::Reply(text)) if text.starts_with("BUSYGROUP") => Ok(true),
            Err(StoreError::Reply(text)) if text.contains("requires the key to exist") => Ok(false),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Removes the group of a stream, with all that it had not acknowledged.
    pub async fn drop_group(&self, source: &Source) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("XGROUP");
        cmd.arg("DESTROY").arg(source.key()).arg(GROUP);
        match self.committer.pool.get(slot_of(&cmd)).await?.query(&cmd).await {
            Err(StoreError::Reply(text)) if text.contains("requires the key to exist") => Ok(()),
            answer => self.note(answer).map(drop),
        }
    }

    /// Takes over what was read so long ago, by the server's own clock, and never acknowledged.
    pub async fn claim_abandoned(
        &self,
        source: &Source,
        consumer: &str,
        idle_ms: u64,
    ) -> Result<Taken, StoreError> {
        let mut cmd = redis::cmd("XAUTOCLAIM");
        cmd.arg(source.key()).arg(GROUP).arg(consumer).arg(idle_ms).arg("0-0");
        cmd.arg("COUNT").arg(CLAIM_ENTRIES_MAX);
        let answer = match self.committer.pool.get(slot_of(&cmd)).await?.query(&cmd).await {
            Err(StoreError::Reply(text)) if text.starts_with("NOGROUP") => Value::Array(Vec::new()),
            answer => self.note(answer)?,
        };
        let Value::Array(parts) = answer else { return Err(StoreError::Reply("not a claim".into())) };
        let mut parts = parts.into_iter().skip(1);
        let entries = parts.next().unwrap_or(Value::Array(Vec::new()));
        let gone: Vec<String> = read(parts.next().unwrap_or(Value::Array(Vec::new())))?;
        let mut taken = self.taken(source.clone(), entries).await?;
        // They are off the list already; whoever counts must hear of them.
        taken.entries.extend(gone.into_iter().map(TakenEntry::trimmed));
        Ok(taken)
    }

    /// Forgets processes that have not asked for so long and left nothing; says how many.
    pub async fn dismiss_consumers(&self, source: &Source, idle_ms: u64) -> Result<u64, StoreError> {
        let script = &self.scripts().dismiss;
        let mut cmd = script.call(1);
        cmd.arg(source.key()).arg(GROUP).arg(idle_ms);
        match &self.call(script, &cmd).await?[..] {
            [word, number] if word == "dismissed" => reply::number(number),
            [word] if word == "no_group" => Ok(0),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// How far the group of a stream has come; none: there is no group.
    pub async fn progress(&self, source: &Source) -> Result<Option<Progress>, StoreError> {
        let mut cmd = redis::cmd("XINFO");
        cmd.arg("GROUPS").arg(source.key());
        let groups: Vec<HashMap<String, Value>> =
            match self.committer.pool.get(slot_of(&cmd)).await?.query(&cmd).await {
                Err(StoreError::Reply(text)) if text.contains("no such key") => return Ok(None),
                answer => read(self.note(answer)?)?,
            };
        let is_ours =
            |group: &HashMap<String, Value>| group.get("name").is_some_and(|name| text(name) == GROUP);
        let Some(mut group) = groups.into_iter().find(is_ours) else { return Ok(None) };
        let pending: u64 = read(group.remove("pending").unwrap_or(Value::Nil))?;
        let unread: Option<u64> = read(group.remove("lag").unwrap_or(Value::Nil))?;
        let read_to = group.get("last-delivered-id").map(text).unwrap_or_default();
        Ok(Some(Progress { pending, unread: unread.unwrap_or(0), read_to: EntryId::read(&read_to)? }))
    }

    /// Whether everything that was ever written is acknowledged.
    pub async fn is_all_acknowledged(&self, source: &Source) -> Result<bool, StoreError> {
        let Some(progress) = self.progress(source).await? else { return Ok(false) };
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(source.key()).arg("+").arg("-").arg("COUNT").arg(1);
        let last = match self.query(&cmd).await? {
            Value::Array(entries) => {
                entries.first().and_then(|entry| Some(text(entry.as_sequence()?.first()?)))
            }
            _ => None,
        };
        Ok(progress.pending == 0 && last.is_none_or(|last| last == progress.read_to.to_string()))
    }
}

impl TakenEntry {
    fn trimmed(id: String) -> Self {
        let ms = id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or_default();
        Self { id, ms, content: super::Content::Trimmed }
    }
}

fn text(value: &Value) -> String {
    from_redis_value(value.clone()).unwrap_or_default()
}

pub(in crate::store) fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    from_redis_value(value).map_err(|error| StoreError::Reply(error.to_string()))
}
