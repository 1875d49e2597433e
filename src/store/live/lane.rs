//! One connection that blocks in XREAD, and the sales that it follows.

use super::{ENTRIES_BEHIND_MAX, Hub, LiveEntry};
use crate::domain::{Event, EventKind, SaleId};
use crate::metrics::Metrics;
use crate::store::StoreError;
use crate::store::events::{EntryId, Feed, Place, read_entries};
use crate::store::pool::{Pool, Slot};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, broadcast};

/// How long Redis may keep one call waiting.
const BLOCK: Duration = Duration::from_secs(5);
/// So often the reader looks whether its sales are still there: XREAD does not tell when a stream is removed.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// Sales that are joined within this are followed in one go.
const GATHER: Duration = Duration::from_millis(20);
/// While Redis is away.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Entries of one call over all its sales, and the fewest of one sale.
const ENTRIES_A_CALL: usize = 64;
const ENTRIES_A_SALE: usize = 4;

#[derive(Debug)]
struct Channel {
    feed: Arc<Feed>,
    read_to: EntryId,
    sender: broadcast::Sender<LiveEntry>,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    channels: Mutex<HashMap<SaleId, Channel>>,
    /// A sale came, or the last one went.
    changed: Notify,
}

/// A sale as a call found it.
struct Followed {
    feed: Arc<Feed>,
    from: EntryId,
}

struct Connection {
    inner: MultiplexedConnection,
    checked: Option<Instant>,
}

impl Lane {
    fn channels(&self) -> MutexGuard<'_, HashMap<SaleId, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, sale: &SaleId) -> bool {
        self.channels().contains_key(sale)
    }

    pub(super) fn len(&self) -> usize {
        self.channels().len()
    }

    pub(super) fn join(&self, feed: &Arc<Feed>, place: EntryId) -> (EntryId, broadcast::Receiver<LiveEntry>) {
        let mut channels = self.channels();
        let there = channels.get(&feed.sale).filter(|channel| channel.feed.generation == feed.generation);
        if let Some(channel) = there {
            return (channel.read_to, channel.sender.subscribe());
        }
        // Also if another incarnation was followed: its listeners are told by the end of their streams.
        let (sender, receiver) = broadcast::channel(ENTRIES_BEHIND_MAX);
        let channel = Channel { feed: Arc::clone(feed), read_to: place, sender };
        channels.insert(feed.sale.clone(), channel);
        self.changed.notify_one();
        (place, receiver)
    }

    pub(super) fn leave(&self, sale: &SaleId) {
        let mut channels = self.channels();
        if channels.get(sale).is_some_and(|channel| channel.sender.receiver_count() == 0) {
            channels.remove(sale);
        }
        if channels.is_empty() {
            self.changed.notify_one();
        }
    }

    /// What is followed now.
    fn followed(&self) -> Vec<Followed> {
        // What had changed before is in the list.
        let _ = self.changed.notified().now_or_never();
        let channels = self.channels();
        channels
            .values()
            .map(|channel| Followed { feed: Arc::clone(&channel.feed), from: channel.read_to })
            .collect()
    }

    /// Ends the streams of all who listen to this incarnation.
    fn end(&self, feed: &Arc<Feed>) {
        let mut channels = self.channels();
        if channels.get(&feed.sale).is_some_and(|channel| Arc::ptr_eq(&channel.feed, feed)) {
            channels.remove(&feed.sale);
        }
        if channels.is_empty() {
            self.changed.notify_one();
        }
    }

    /// One call: until there is something new, or something else to follow.
    async fn step(
        &self,
        connection: &mut Option<Connection>,
        followed: &[Followed],
        pool: &Pool,
    ) -> Result<(), StoreError> {
        let known = match connection {
            Some(known) => known,
            None => {
                // In a cluster a lane has one sale.
                let slot = followed.first().map(|sale| Slot::for_key(sale.feed.keys.events()));
                let inner = pool.alone(slot.unwrap_or(Slot::for_key("")), BLOCK).await?;
                connection.insert(Connection { inner, checked: None })
            }
        };
        if known.checked.is_none_or(|at| at.elapsed() >= CHECK_EVERY) {
            self.check(&mut known.inner, followed).await?;
            known.checked = Some(Instant::now());
        }
        let count = (ENTRIES_A_CALL / followed.len()).max(ENTRIES_A_SALE);
        let mut cmd = redis::cmd("XREAD");
        cmd.arg("COUNT").arg(count).arg("BLOCK").arg(BLOCK.as_millis() as u64).arg("STREAMS");
        cmd.arg(followed.iter().map(|sale| sale.feed.keys.events()).collect::<Vec<_>>());
        cmd.arg(followed.iter().map(|sale| sale.from.to_string()).collect::<Vec<_>>());
        let mut read = known.inner.req_packed_command(&cmd);
        let answer = tokio::select! {
            answer = &mut read => answer,
            () = self.changed.notified() => match tokio::time::timeout(GATHER, &mut read).await {
                Ok(answer) => answer,
                Err(_) => {
                    // Nothing can be asked on a connection that waits: the next call needs another one.
                    drop(read);
                    *connection = None;
                    return Ok(());
                }
            },
        };
        drop(read);
        let answer = answer.and_then(Value::extract_error).inspect_err(|error| pool.heed(error));
        let streams = match answer? {
            Value::Nil => Vec::new(),
            value => redis::from_redis_value::<Vec<(String, Value)>>(value)
                .map_err(|error| StoreError::Reply(error.to_string()))?,
        };
        let is_full = |entries: &Value| entries.as_sequence().is_some_and(|some| some.len() >= count);
        if streams.iter().any(|(_, entries)| is_full(entries)) {
            // So far behind that the trimmer may have overtaken.
            self.check(&mut known.inner, followed).await?;
        }
        for (key, entries) in streams {
            if let Some(sale) = followed.iter().find(|sale| sale.feed.keys.events() == key) {
                self.deliver(sale, entries);
            }
        }
        Ok(())
    }

    /// Ends the streams of sales that are gone, are others by now, or have lost what was not read yet.
    async fn check(
        &self,
        connection: &mut MultiplexedConnection,
        followed: &[Followed],
    ) -> Result<(), StoreError> {
        let mut pipe = redis::pipe();
        for sale in followed {
            pipe.add_command(Feed::ask(&sale.feed.keys));
        }
        let answers: Vec<Value> = pipe.query_async(connection).await?;
        for (sale, answer) in followed.iter().zip(answers) {
            let goes_on =
                |now: Feed| now.generation == sale.feed.generation && now.trimmed.entry <= sale.from;
            if !Feed::read(&sale.feed.sale, answer)?.is_some_and(goes_on) {
                self.end(&sale.feed);
            }
        }
        Ok(())
    }

    /// Gives to all listeners of a sale what the reader found behind `sale.from`.
    fn deliver(&self, sale: &Followed, entries: Value) {
        let entries = match read_entries(&sale.feed.sale, &sale.feed.generation, entries) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(%error, sale.id = %sale.feed.sale, "The events of a sale cannot be followed");
                return self.end(&sale.feed);
            }
        };
        let is_other = |event: &Event| match &event.data {
            EventKind::Sale { sale: of, .. } => of.generation != sale.feed.generation,
            _ => false,
        };
        let entries: Vec<(LiveEntry, bool)> = entries
            .into_iter()
            .map(|(id, events)| {
                let is_last = events.iter().any(Event::is_last);
                let place = Place { entry: id, events: events.len() };
                (LiveEntry { place, frames: frames(&events), is_last }, events.iter().any(is_other))
            })
            .collect();
        let mut channels = self.channels();
        // Whoever joined anew meanwhile may have begun elsewhere: the next call reads from there.
        let is_same =
            |channel: &&mut Channel| Arc::ptr_eq(&channel.feed, &sale.feed) && channel.read_to == sale.from;
        let Some(channel) = channels.get_mut(&sale.feed.sale).filter(is_same) else { return };
        let mut has_ended = false;
        for (entry, is_of_another) in entries {
            has_ended |= entry.is_last || is_of_another;
            if is_of_another {
                break;
            }
            channel.read_to = entry.place.entry;
            // Fails when everybody has just gone.
            let _ = channel.sender.send(entry);
        }
        if has_ended {
            channels.remove(&sale.feed.sale);
        }
    }
}

/// Events as they are sent, in one piece.
pub(super) fn frames(events: &[Event]) -> Bytes {
    let mut frames = BytesMut::new();
    events.iter().for_each(|event| frames.extend_from_slice(&event.frame()));
    frames.freeze()
}

/// Reads for the listeners of a lane until there are none.
pub(super) async fn read(hub: &Hub, lane: Arc<Lane>, pool: &Pool, metrics: &Metrics) {
    let mut connection = None;
    let mut is_failing = false;
    loop {
        let followed = lane.followed();
        if followed.is_empty() {
            if hub.has_ended(&lane) {
                return;
            }
            continue;
        }
        match lane.step(&mut connection, &followed, pool).await {
            Ok(()) => is_failing = false,
            Err(error) => {
                connection = None;
                metrics.redis_error(error.code());
                if !is_failing {
                    tracing::warn!(%error, "Live events pause: {error}");
                }
                is_failing = true;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}
