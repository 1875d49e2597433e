//! One connection that blocks until one of its streams has something new.

use super::groups::read;
use super::{GROUP, Source, Taken};
use crate::store::pool::Slot;
use crate::store::{Store, StoreError, ids};
use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use std::time::Duration;

/// How long Redis may keep one call waiting.
const BLOCK: Duration = Duration::from_secs(5);
/// Entries of one call over all its streams, and the fewest of one stream.
const ENTRIES_A_CALL: usize = 64;
const ENTRIES_A_STREAM: usize = 4;

/// Reads for the group, as one consumer of it. What it gives out is its own until it is acknowledged; after any failure
/// it begins with what was left so.
pub struct Reader {
    store: Store,
    consumer: String,
    connection: Option<MultiplexedConnection>,
    /// Nothing is left of an earlier connection.
    has_caught_up: bool,
}

/// A name that no other process has.
pub fn consumer_name() -> String {
    ids::random_hex::<8>()
}

impl Reader {
    /// With a connection of its own, made when it is first needed.
    pub fn new(store: Store, consumer: String) -> Self {
        Self { store, consumer, connection: None, has_caught_up: false }
    }

    /// Begins anew, with what was given out and not acknowledged.
    pub fn begin_anew(&mut self) {
        self.connection = None;
        self.has_caught_up = false;
    }

    /// Waits for entries of these streams, all of which must have the group. May be dropped while it waits.
    pub async fn next(&mut self, sources: &[Source]) -> Result<Vec<Taken>, StoreError> {
        let pool = &self.store.committer.pool;
        // On a connection that waits nothing else can be asked: whoever drops this drops it, and with it what may be on
        // its way to us, which stays ours in the group.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.has_caught_up = false;
                // In a cluster a reader has one stream.
                let slot = Slot::for_key(sources.first().map(Source::key).unwrap_or_default());
                pool.alone(slot, BLOCK).await?
            }
        };
        let count = (ENTRIES_A_CALL / sources.len().max(1)).max(ENTRIES_A_STREAM);
        let mut cmd = redis::cmd("XREADGROUP");
        cmd.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(count);
        if self.has_caught_up {
            cmd.arg("BLOCK").arg(BLOCK.as_millis() as u64);
        }
        let keys: Vec<String> = sources.iter().map(Source::key).collect();
        cmd.arg("STREAMS").arg(&keys);
        let begin = if self.has_caught_up { ">" } else { "0" };
        keys.iter().for_each(|_| {
            cmd.arg(begin);
        });
        let answer = connection.req_packed_command(&cmd).await.and_then(Value::extract_error);
        let answer = answer.inspect_err(|error| pool.heed(error))?;
        let streams: Vec<(String, Value)> = match answer {
            Value::Nil => Vec::new(),
            answer => read(answer)?,
        };
        let mut all = Vec::new();
        for (key, entries) in streams {
            if let Some(at) = keys.iter().position(|one| *one == key) {
                let taken = self.store.taken(sources[at].clone(), entries).await?;
                if !taken.entries.is_empty() {
                    all.push(taken);
                }
            }
        }
        self.has_caught_up |= all.is_empty();
        self.connection = Some(connection);
        Ok(all)
    }
}
