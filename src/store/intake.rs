//! What the notifier reads: streams of events, by one consumer group that all processes share. An entry that a process
//! has read is its own until it acknowledges it; when the process dies, another one claims it.

mod groups;
mod reader;
mod targets;

pub use groups::Progress;
pub(super) use groups::read;
pub use reader::{Reader, consumer_name};
pub use targets::Target;

use super::events::{EntryId, read_bucket_entries, read_entries};
use super::keys::{BARRIER_BUCKETS, BucketKeys, ORDER_BUCKETS, OrderKeys, SaleKeys};
use super::{Store, StoreError};
use crate::domain::{Event, SaleId};
use redis::Value;

/// The consumer group.
pub const GROUP: &str = "notifier";

/// A stream of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Of a sale.
    Sale(SaleId),
    /// Of a bucket of barriers.
    Barriers(usize),
    /// Of a bucket of orders.
    Orders(usize),
}

impl Source {
    /// The buckets of barriers.
    pub fn barriers() -> impl Iterator<Item = Self> {
        (0..BARRIER_BUCKETS).map(Self::Barriers)
    }

    /// The buckets of orders.
    pub fn orders() -> impl Iterator<Item = Self> {
        (0..ORDER_BUCKETS).map(Self::Orders)
    }

    pub(super) fn key(&self) -> String {
        match self {
            Self::Sale(sale) => SaleKeys::new(sale).events().to_owned(),
            Self::Barriers(bucket) => BucketKeys::new(*bucket).events,
            Self::Orders(bucket) => OrderKeys::new(*bucket).events().to_owned(),
        }
    }
}

/// Entries of one stream that are ours until they are acknowledged.
#[derive(Debug)]
pub struct Taken {
    /// Of which stream.
    pub source: Source,
    /// In its order.
    pub entries: Vec<TakenEntry>,
}

/// One of them.
#[derive(Debug)]
pub struct TakenEntry {
    id: String,
    /// When it was written, by the server's own clock.
    pub ms: u64,
    /// What is in it.
    pub content: Content,
}

/// What is in an entry.
#[derive(Debug)]
pub enum Content {
    /// Events.
    Events(Vec<Event>),
    /// Nothing any more: it was trimmed before it was acknowledged.
    Trimmed,
    /// What no script wrote.
    Corrupt,
}

impl Store {
    /// Reads what a call gave of one stream.
    async fn taken(&self, source: Source, entries: Value) -> Result<Taken, StoreError> {
        let Value::Array(items) = entries else { return Ok(Taken { source, entries: Vec::new() }) };
        // Asked after the entries were read: an incarnation goes only when they are acknowledged, or nobody wants them.
        let generation = match (&source, items.is_empty()) {
            (Source::Sale(sale), false) => match self.feed(sale).await {
                Ok(feed) => feed.map(|feed| feed.generation),
                Err(StoreError::Corrupt(_) | StoreError::Reply(_)) => None,
                Err(error) => return Err(error),
            },
            _ => None,
        };
        let entries = items.into_iter().filter_map(|item| entry(&source, generation.as_deref(), item));
        Ok(Taken { entries: entries.collect(), source })
    }

    /// Says that entries are dealt with.
    pub async fn acknowledge(&self, taken: &Taken) -> Result<(), StoreError> {
        if taken.entries.is_empty() {
            return Ok(());
        }
        let mut cmd = redis::cmd("XACK");
        cmd.arg(taken.source.key()).arg(GROUP);
        taken.entries.iter().for_each(|entry| {
            cmd.arg(&entry.id);
        });
        self.query(&cmd).await.map(drop)
    }
}

/// One damaged entry must not keep the others from being read.
fn entry(source: &Source, generation: Option<&str>, item: Value) -> Option<TakenEntry> {
    let (id, is_gone) = match item.as_sequence()? {
        [Value::BulkString(id), fields] => (String::from_utf8(id.clone()).ok()?, *fields == Value::Nil),
        _ => return None,
    };
    let ms = id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or_default();
    if is_gone {
        return Some(TakenEntry { id, ms, content: Content::Trimmed });
    }
    let one = Value::Array(vec![item]);
    let read: Result<Vec<(EntryId, Vec<Event>)>, StoreError> = match (source, generation) {
        (Source::Barriers(_) | Source::Orders(_), _) => read_bucket_entries(one),
        (Source::Sale(sale), Some(generation)) => read_entries(sale, generation, one),
        (Source::Sale(_), None) => Err(StoreError::Corrupt("rules".into())),
    };
    let content = match read {
        Ok(entries) => Content::Events(entries.into_iter().flat_map(|(_, events)| events).collect()),
        Err(_) => Content::Corrupt,
    };
    Some(TakenEntry { id, ms, content })
}
