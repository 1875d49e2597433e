//! Entries of streams of events, as the scripts write them: `t`, the time, and `e`, the events of one call.

use super::{EntryId, corrupt};
use crate::domain::id::TYPE_PREFIX;
use crate::domain::*;
use crate::store::StoreError;
use crate::store::reply::{self, Fields};
use crate::store::stock::stream_entries;
use redis::Value;
use uuid::Uuid;

/// Reads what XRANGE answers, and XREAD for one stream.
pub(in crate::store) fn read_entries(
    sale: &SaleId,
    generation: &str,
    value: Value,
) -> Result<Vec<(EntryId, Vec<Event>)>, StoreError> {
    read_entries_with(generation, value, |cursor, time, text| read_event(sale, cursor, time, text))
}

/// The same of a bucket of barriers or of orders, whose events are of many sources. In buckets the generation is `0`.
pub fn read_bucket_entries(value: Value) -> Result<Vec<(EntryId, Vec<Event>)>, StoreError> {
    read_entries_with("0", value, read_bucket_event)
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

/// Reads `<word> LF <previous status> LF <end of a barrier, or order>`.
fn read_bucket_event(cursor: Cursor, time: Timestamp, text: &str) -> Result<Event, StoreError> {
    let mut fields = Fields::of(text);
    let (word, previous) = (fields.text()?, fields.text()?);
    match word {
        "completed" | "failed" | "timed_out" | "cancelled" => {
            let (end, notify) = reply::barrier_end(previous, &mut fields)?;
            if end.status.as_str() != word {
                return Err(corrupt());
            }
            let (source, subject) = (format!("/v1/barriers/{}", end.barrier), Some(end.barrier.to_string()));
            let data = EventKind::Barrier(Box::new(end));
            Ok(Event { notify, ..envelope(source, format!("barrier.{word}"), cursor, time, subject, data) })
        }
        "held" | "confirmed" | "released" | "expired" => {
            let order = Box::new(reply::order_record(time, &mut fields)?.order);
            if order.status.as_str() != word {
                return Err(corrupt());
            }
            let previous = reply::optional(previous, reply::order_status)?;
            let (source, subject) = (format!("/v1/orders/{}", order.id), Some(order.id.to_string()));
            let data = EventKind::Order {
                order,
                previous_status: previous.map(|status| status.as_str().to_owned()),
            };
            Ok(envelope(source, format!("order.{word}"), cursor, time, subject, data))
        }
        _ => Err(StoreError::Reply("unknown word for an event".into())),
    }
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
