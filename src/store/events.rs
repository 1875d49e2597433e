//! The feed of events of a sale, read from its stream.

use super::keys::SaleKeys;
use super::reply::{self, Fields};
use super::stock::{hash_values, stream_entries};
use super::{Decided, Store, StoreError};
use crate::domain::id::TYPE_PREFIX;
use crate::domain::*;
use redis::{Cmd, Value};
use std::fmt;
use uuid::Uuid;

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

/// Reads what XRANGE answers, and XREAD for one stream.
pub(super) fn read_entries(
    sale: &SaleId,
    generation: &str,
    value: Value,
) -> Result<Vec<(EntryId, Vec<Event>)>, StoreError> {
    read_entries_with(generation, value, |cursor, time, text| read_event(sale, cursor, time, text))
}

/// The same of a bucket of barriers, whose events are of many sources. In buckets the generation is `0`.
pub fn read_barrier_entries(value: Value) -> Result<Vec<(EntryId, Vec<Event>)>, StoreError> {
    read_entries_with("0", value, read_barrier_event)
}

fn read_entries_with(
    generation: &str,
    value: Value,
    read: impl Fn(Cursor, Timestamp, &str) -> Result<Event, StoreError>,
) -> Result<Vec<(EntryId, Vec<Event>)>, StoreError> {
    let mut entries = Vec::new();
    for (id, fields) in stream_entries(value)? {
        let [_, at, _, texts] = &fields[..] else { return Err(corrupt()) };
        let (id, time) = (EntryId::read(&id)?, reply::time(at)?);
        let events = texts.split('\u{1e}').enumerate().map(|(n, text)| {
            read(Cursor { generation: generation.to_owned(), ms: id.ms, seq: id.seq, n }, time, text)
        });
        entries.push((id, events.collect::<Result<_, _>>()?));
    }
    Ok(entries)
}

/// Reads `<word> LF <previous status> LF <object>`.
fn read_event(sale: &SaleId, cursor: Cursor, time: Timestamp, text: &str) -> Result<Event, StoreError> {
    let mut fields = Fields::of(text);
    let (word, previous) = (fields.text()?, fields.text()?);
    let previous_status = (!previous.is_empty()).then(|| previous.to_owned());
    let (noun, subject, data) = match word {
        "held" | "extended" | "confirmed" | "released" | "expired" | "returned" | "retaken" => {
            let reservation = Box::new(reply::reservation(sale, time, &mut fields)?);
            let subject = Some(reservation.id.to_string());
            ("reservation", subject, EventKind::Reservation { reservation, previous_status })
        }
        "adjusted" => {
            let adjustment = Box::new(reply::adjustment(&mut fields)?);
            ("stock", Some(adjustment.sku.to_string()), EventKind::Adjustment(adjustment))
        }
        "sold_out" | "back_in_stock" => {
            let level = Box::new(reply::level(time, &mut fields)?);
            ("stock", Some(level.sku.to_string()), EventKind::Level(level))
        }
        "created" | "changed" | "paused" | "resumed" | "closed" | "deleted" => {
            let sale = Box::new(reply::sale(sale, time, &mut fields)?);
            ("sale", None, EventKind::Sale { sale, previous_status })
        }
        _ => return Err(StoreError::Reply("unknown word for an event".into())),
    };
    Ok(envelope(format!("/v1/sales/{sale}"), format!("{noun}.{word}"), cursor, time, subject, data))
}

/// Reads `<word> LF <previous status> LF <end of a barrier>`.
fn read_barrier_event(cursor: Cursor, time: Timestamp, text: &str) -> Result<Event, StoreError> {
    let mut fields = Fields::of(text);
    let (word, previous) = (fields.text()?, fields.text()?);
    let (end, notify) = reply::barrier_end(previous, &mut fields)?;
    if end.status.as_str() != word {
        return Err(corrupt());
    }
    let (source, subject) = (format!("/v1/barriers/{}", end.barrier), Some(end.barrier.to_string()));
    let data = EventKind::Barrier(Box::new(end));
    Ok(Event { notify, ..envelope(source, format!("barrier.{word}"), cursor, time, subject, data) })
}

fn envelope(
    source: String,
    kind: String,
    cursor: Cursor,
    time: Timestamp,
    subject: Option<String>,
    data: EventKind,
) -> Event {
    Event {
        specversion: "1.0",
        id: Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{source} {cursor}").as_bytes()),
        source,
        kind: format!("{TYPE_PREFIX}{kind}"),
        subject,
        time,
        datacontenttype: "application/json",
        cursor,
        data,
        notify: Vec::new(),
    }
}
