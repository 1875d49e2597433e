//! The feed of events of a sale, read from its stream.

mod entries;

pub use entries::read_bucket_entries;
pub(super) use entries::read_entries;

use super::keys::SaleKeys;
use super::reply;
use super::stock::hash_values;
use super::{Decided, Store, StoreError};
use crate::domain::*;
use redis::{Cmd, Value};
use std::fmt;

/// Stream entries read at a time; each holds the events of one script call.
const ENTRIES_A_READ: usize = 16;

/// Where a feed begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsAfter {
    /// With the oldest event that is kept.
    Oldest,
    /// With the next one.
    Latest,
    /// After this one.
    Cursor(Cursor),
}

/// Id of an entry of the stream; zero comes before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    pub(super) ms: u64,
    pub(super) seq: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl EntryId {
    pub(super) fn read(text: &str) -> Result<Self, StoreError> {
        let (ms, seq) = text.split_once('-').ok_or_else(corrupt)?;
        Ok(Self { ms: reply::number(ms)?, seq: reply::number(seq)? })
    }
}

/// How far somebody has read: so many events of an entry, and all before it. The default is the very beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) entry: EntryId,
    pub(super) events: usize,
}

impl Place {
    /// Behind the event of this cursor.
    pub(super) fn after(cursor: &Cursor) -> Self {
        let entry = EntryId { ms: cursor.ms, seq: cursor.seq };
        Self { entry, events: cursor.n.saturating_add(1) }
    }
}

/// The stream of one incarnation of a sale.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) sale: SaleId,
    pub(super) keys: SaleKeys,
    pub(super) generation: String,
    /// Nothing will be added any more.
    pub(super) is_deleted: bool,
    /// How far the trimmer has come: nothing behind this place is missing.
    pub(super) trimmed: Place,
}

impl Feed {
    /// Asks for what `read` needs.
    pub(super) fn ask(keys: &SaleKeys) -> Cmd {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys.rules()).arg(&["generation", "status", "events_trimmed"]);
        cmd
    }

    pub(super) fn read(sale: &SaleId, answer: Value) -> Result<Option<Self>, StoreError> {
        let mut values = hash_values(answer)?.into_iter();
        let mut next = || values.next().flatten();
        let (Some(generation), status, trimmed) = (next(), next(), next()) else { return Ok(None) };
        let trimmed = match trimmed {
            Some(text) => Place::after(&format!("{generation}-{text}").parse().map_err(|()| corrupt())?),
            None => Place::default(),
        };
        let (sale, keys) = (sale.clone(), SaleKeys::new(sale));
        let is_deleted = status.is_some_and(|status| status == "deleted");
        Ok(Some(Self { sale, keys, generation, is_deleted, trimmed }))
    }

    fn cursor(&self, place: Place) -> Option<Cursor> {
        let Place { entry: EntryId { ms, seq }, events } = place;
        let n = events.checked_sub(1)?;
        Some(Cursor { generation: self.generation.clone(), ms, seq, n })
    }

    pub(super) fn expired(&self) -> Refusal {
        Refusal::CursorExpired { oldest: self.cursor(self.trimmed) }
    }
}

/// Events that follow each other.
pub(super) struct Stretch {
    pub(super) events: Vec<Event>,
    /// There were no more when they were read.
    pub(super) at_end: bool,
}

impl Store {
    /// A page of events. `next` is the cursor of the last one, or the caller's own when there is nothing new yet.
    pub async fn events(&self, sale: &SaleId, after: EventsAfter, limit: usize) -> Decided<Page<Event>> {
        let Some(feed) = self.feed(sale).await? else {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        };
        let begin = match &after {
            EventsAfter::Oldest => None,
            EventsAfter::Latest => {
                let next = feed.cursor(self.end(&feed).await?).map(|cursor| cursor.to_string());
                return Ok(Decision::Done(Outcome::Unchanged, Page { items: Vec::new(), next }));
            }
            EventsAfter::Cursor(cursor) if cursor.generation == feed.generation => Some(Place::after(cursor)),
            EventsAfter::Cursor(_) => return Ok(Decision::Refused(feed.expired())),
        };
        let mut items: Vec<Event> = Vec::new();
        loop {
            let place = items.last().map(|last| Place::after(&last.cursor)).or(begin);
            match self.stretch(&feed, place).await? {
                Ok(Stretch { events, at_end }) => {
                    items.extend(events);
                    if at_end || items.len() >= limit {
                        break;
                    }
                }
                // Trimmed meanwhile: the next page says so.
                Err(_) if !items.is_empty() => break,
                Err(refusal) => return Ok(Decision::Refused(refusal)),
            }
        }
        items.truncate(limit);
        let next = match (items.last(), after) {
            (Some(event), _) => Some(event.cursor.clone()),
            (None, EventsAfter::Cursor(cursor)) => Some(cursor),
            (None, _) => feed.cursor(feed.trimmed),
        };
        Ok(Decision::Done(Outcome::Unchanged, Page { items, next: next.map(|next| next.to_string()) }))
    }

    /// The stream of a sale, also of a deleted one that is not purged yet.
    pub(super) async fn feed(&self, sale: &SaleId) -> Result<Option<Feed>, StoreError> {
        Feed::read(sale, self.query(&Feed::ask(&SaleKeys::new(sale))).await?)
    }

    /// Behind the last event there is.
    pub(super) async fn end(&self, feed: &Feed) -> Result<Place, StoreError> {
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(feed.keys.events()).arg("+").arg("-").arg("COUNT").arg(1);
        let mut entries = read_entries(&feed.sale, &feed.generation, self.query(&cmd).await?)?;
        let last = entries.pop().and_then(|(_, mut events)| events.pop());
        Ok(last.map_or(feed.trimmed, |last| Place::after(&last.cursor)))
    }

    /// What follows a place (none: what there is), at least one event if there is any; or why nobody can tell: a place
    /// behind which something is missing, or that never was.
    pub(super) async fn stretch(
        &self,
        feed: &Feed,
        place: Option<Place>,
    ) -> Result<Result<Stretch, Refusal>, StoreError> {
        // The entry itself comes first if it is there; its neighbours alone would not show that others are gone.
        let from = place.map_or("-".to_owned(), |place| place.entry.to_string());
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(feed.keys.events()).arg(from).arg("+").arg("COUNT").arg(ENTRIES_A_READ + 1);
        let mut entries = read_entries(&feed.sale, &feed.generation, self.query(&cmd).await?)?;
        let at_end = entries.len() <= ENTRIES_A_READ;
        match (place, entries.first_mut()) {
            (None, _) => {}
            (Some(place), Some((id, events))) if *id == place.entry && place.events <= events.len() => {
                events.drain(..place.events);
            }
            (Some(place), _) => match self.feed(&feed.sale).await? {
                // Trimmed, and read to its end before.
                Some(now) if now.generation == feed.generation && now.trimmed == place => {}
                Some(now) => return Ok(Err(now.expired())),
                None => return Ok(Err(Refusal::UnknownSale)),
            },
        }
        let events = entries.into_iter().flat_map(|(_, events)| events).collect();
        Ok(Ok(Stretch { events, at_end }))
    }
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("events".into())
}
