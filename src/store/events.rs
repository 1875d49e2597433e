//! The feed of events of a sale, read from its stream.

use super::keys::SaleKeys;
use super::reply::{self, Fields};
use super::stock::stream_entries;
use super::{Decided, Store, StoreError};
use crate::domain::*;
use redis::Value;
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

impl Store {
    /// A page of events. `next` is the cursor of the last one, or the caller's own when there is nothing new yet.
    pub async fn events(&self, sale: &SaleId, after: EventsAfter, limit: usize) -> Decided<Page<Event>> {
        let keys = SaleKeys::new(sale);
        let Some(generation) = self.generation(&keys).await? else {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        };
        let (mut from, skip) = match &after {
            EventsAfter::Oldest => ("-".to_owned(), 0),
            EventsAfter::Latest => {
                let last = self.last_event(sale, &keys, &generation).await?;
                let next = last.map(|event| event.cursor.to_string());
                return Ok(Decision::Done(Outcome::Unchanged, Page { items: Vec::new(), next }));
            }
            EventsAfter::Cursor(cursor) => {
                if cursor.generation != generation || !self.entry_is_kept(&keys, cursor).await? {
                    let oldest = self.range(sale, &keys, &generation, "-", 1).await?.0;
                    let oldest = oldest.into_iter().next().map(|event| event.cursor);
                    return Ok(Decision::Refused(Refusal::CursorExpired { oldest }));
                }
                (format!("{}-{}", cursor.ms, cursor.seq), cursor.n + 1)
            }
        };
        let mut items = Vec::new();
        let mut skip = skip;
        while items.len() < limit {
            let (events, last) = self.range(sale, &keys, &generation, &from, ENTRIES_A_READ).await?;
            items.extend(events.into_iter().skip(skip));
            skip = 0;
            match last {
                Some(last) => from = format!("({last}"),
                None => break,
            }
        }
        items.truncate(limit);
        let next = match (items.last(), after) {
            (Some(event), _) => Some(event.cursor.to_string()),
            (None, EventsAfter::Cursor(cursor)) => Some(cursor.to_string()),
            (None, _) => None,
        };
        Ok(Decision::Done(Outcome::Unchanged, Page { items, next }))
    }

    async fn generation(&self, keys: &SaleKeys) -> Result<Option<String>, StoreError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys.rules()).arg("generation");
        redis::from_redis_value(self.query(&cmd).await?).map_err(|error| StoreError::Reply(error.to_string()))
    }

    async fn entry_is_kept(&self, keys: &SaleKeys, cursor: &Cursor) -> Result<bool, StoreError> {
        let id = format!("{}-{}", cursor.ms, cursor.seq);
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(keys.events()).arg(&id).arg(&id);
        Ok(!stream_entries(self.query(&cmd).await?)?.is_empty())
    }

    async fn last_event(
        &self,
        sale: &SaleId,
        keys: &SaleKeys,
        generation: &str,
    ) -> Result<Option<Event>, StoreError> {
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(keys.events()).arg("+").arg("-").arg("COUNT").arg(1);
        Ok(read_entries(sale, generation, self.query(&cmd).await?)?.0.pop())
    }

    /// Events of up to `count` entries, and the id of the last entry when there may be more.
    async fn range(
        &self,
        sale: &SaleId,
        keys: &SaleKeys,
        generation: &str,
        from: &str,
        count: usize,
    ) -> Result<(Vec<Event>, Option<String>), StoreError> {
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(keys.events()).arg(from).arg("+").arg("COUNT").arg(count);
        let (events, ids) = read_entries(sale, generation, self.query(&cmd).await?)?;
        let last = if ids.len() == count { ids.into_iter().next_back() } else { None };
        Ok((events, last))
    }
}

fn read_entries(
    sale: &SaleId,
    generation: &str,
    value: Value,
) -> Result<(Vec<Event>, Vec<String>), StoreError> {
    let corrupt = || StoreError::Corrupt("events".into());
    let (mut events, mut ids) = (Vec::new(), Vec::new());
    for (id, fields) in stream_entries(value)? {
        let [_, at, _, texts] = &fields[..] else { return Err(corrupt()) };
        let (ms, seq) = id.split_once('-').ok_or_else(corrupt)?;
        let (ms, seq) = (reply::number(ms)?, reply::number(seq)?);
        let time = reply::time(at)?;
        for (n, text) in texts.split('\u{1e}').enumerate() {
            let cursor = Cursor { generation: generation.to_owned(), ms, seq, n };
            events.push(read_event(sale, cursor, time, text)?);
        }
        ids.push(id);
    }
    Ok((events, ids))
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
    let source = format!("/v1/sales/{sale}");
    Ok(Event {
        specversion: "1.0",
        id: Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{source} {cursor}").as_bytes()),
        source,
        kind: format!("dev.stockade.{noun}.{word}"),
        subject,
        time,
        datacontenttype: "application/json",
        cursor,
        data,
    })
}
