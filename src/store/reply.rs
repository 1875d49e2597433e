//! What the scripts answer, read into the words of the domain. An unknown word is an error: script and service are
//! then of two versions.

mod barriers;
mod expired;
mod orders;

pub use expired::newly_expired;
pub use orders::{OrderRecord, order as order_record, status as order_status};

pub use barriers::{barrier, barrier_end, note as barrier_note, status as barrier_status};

use super::error::StoreError;
use super::ids;
use crate::domain::outcome::Retake;
use crate::domain::reservation::Metadata;
use crate::domain::*;
use redis::Value;
use std::str::FromStr;

/// The answer of a script that carries many requests.
#[derive(Debug)]
pub struct BatchReply {
    /// The script's time.
    pub now: Timestamp,
    /// Earliest deadline, when a request fell short.
    pub retry_at: Option<Timestamp>,
    /// Ids of overdue holds, when a request fell short.
    pub overdue: Vec<String>,
    /// One text a request.
    pub answers: Vec<String>,
}

/// Why a whole call was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRefusal {
    /// No such sale.
    UnknownSale,
    /// The sale is another incarnation than the caller thinks.
    StaleGeneration,
}

fn bad(what: &str) -> StoreError {
    StoreError::Reply(what.to_owned())
}

/// The texts of a flat array.
pub fn texts(value: Value) -> Result<Vec<String>, StoreError> {
    let Value::Array(items) = value else { return Err(bad("not an array")) };
    items
        .into_iter()
        .map(|item| match item {
            Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| bad("not UTF-8")),
            Value::SimpleString(text) => Ok(text),
            _ => Err(bad("not a text")),
        })
        .collect()
}

/// Reads `{"ok", now, retry_at, overdue, answer...}`.
pub fn batch(value: Value) -> Result<Result<BatchReply, CallRefusal>, StoreError> {
    batch_of(texts(value)?)
}

/// The same, of its texts.
pub fn batch_of(texts: Vec<String>) -> Result<Result<BatchReply, CallRefusal>, StoreError> {
    let mut items = texts.into_iter();
    match items.next().as_deref() {
        Some("ok") => {}
        Some("unknown_sale") => return Ok(Err(CallRefusal::UnknownSale)),
        Some("stale_generation") => return Ok(Err(CallRefusal::StaleGeneration)),
        _ => return Err(bad("unknown word for a call")),
    }
    let mut next = || items.next().ok_or_else(|| bad("answer too short"));
    let now = time(&next()?)?;
    let retry_at = optional(&next()?, time)?;
    let overdue = ids_of(&next()?);
    Ok(Ok(BatchReply { now, retry_at, overdue, answers: items.collect() }))
}

/// Ids joined by commas.
pub fn ids_of(text: &str) -> Vec<String> {
    text.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// A whole number.
pub fn number<N: FromStr>(text: &str) -> Result<N, StoreError> {
    text.parse().map_err(|_| bad("not a number"))
}

/// Milliseconds since 1970.
pub fn time(text: &str) -> Result<Timestamp, StoreError> {
    Timestamp::from_ms(number(text)?).ok_or_else(|| bad("not a time"))
}

/// Nothing, where the text is empty.
pub fn optional<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

fn name<T: FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| bad("not a name"))
}

fn order_id(text: &str) -> Result<OrderId, StoreError> {
    ids::long(text).map(OrderId).ok_or_else(|| bad("not an id"))
}

fn reservation_id(text: &str) -> Result<ReservationId, StoreError> {
    ids::long(text).map(ReservationId).ok_or_else(|| bad("not an id"))
}

/// The fields of a text, one a line.
pub struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    /// Over the lines of `text`.
    pub fn of(text: &'a str) -> Self {
        Self(text.split('\n'))
    }

    /// The next field.
    pub fn text(&mut self) -> Result<&'a str, StoreError> {
        self.0.next().ok_or_else(|| bad("too few fields"))
    }
}

/// Reads `id LF record` (18 fields: `lua/README.md`).
pub fn reservation(
    sale: &SaleId,
    now: Timestamp,
    fields: &mut Fields<'_>,
) -> Result<Reservation, StoreError> {
    let id = reservation_id(fields.text()?)?;
    let status: ReservationStatus = name(fields.text()?)?;
    let expires_at = time(fields.text()?)?;
    let created_at = time(fields.text()?)?;
    let ended_at = optional(fields.text()?, time)?;
    let extendable_until = time(fields.text()?)?;
    let _counted = fields.text()?;
    let replaces = optional(fields.text()?, reservation_id)?;
    let replaced_by = optional(fields.text()?, reservation_id)?;
    let retaken = !fields.text()?.is_empty();
    let (confirmed, returned) = (fields.text()?, fields.text()?);
    let (_extend_operation, _fingerprint) = (fields.text()?, fields.text()?);
    let order = optional(fields.text()?, order_id)?;
    let lines = reservation_lines(fields.text()?, confirmed, returned)?;
    let buyer = optional(fields.text()?, name)?;
    let reference = optional(fields.text()?, name)?;
    let metadata = optional(fields.text()?, |text| {
        serde_json::from_str::<Metadata>(text).map_err(|_| bad("not metadata"))
    })?;
    let has_deadline = status == ReservationStatus::Held && expires_at != Timestamp::NEVER;
    let expires_at = has_deadline.then_some(expires_at);
    Ok(Reservation {
        id,
        sale: sale.clone(),
        status,
        buyer,
        lines,
        reference,
        metadata,
        created_at,
        expires_at,
        extendable_until,
        ended_at,
        retaken,
        replaces,
        replaced_by,
        order,
        server_time: now,
    })
}

fn reservation_lines(
    lines: &str,
    confirmed: &str,
    returned: &str,
) -> Result<Vec<ReservationLine>, StoreError> {
    let (mut confirmed, mut returned) = (confirmed.split(','), returned.split(','));
    let units = |counts: &mut std::str::Split<'_, char>| match counts.next() {
        None | Some("") => Ok(0),
        Some(count) => number(count),
    };
    lines
        .split(',')
        .map(|line| {
            let (sku, quantity) = line.split_once('=').ok_or_else(|| bad("not a line"))?;
            Ok(ReservationLine {
                sku: name(sku)?,
                quantity: number(quantity)?,
                confirmed: units(&mut confirmed)?,
                returned: units(&mut returned)?,
            })
        })
        .collect()
}

/// Reads `sku LF a LF h LF s LF g LF limit`. Lua refuses to write a level that does not add up; we refuse to read one.
pub fn level(now: Timestamp, fields: &mut Fields<'_>) -> Result<Level, StoreError> {
    let level = Level {
        sku: name(fields.text()?)?,
        available: number(fields.text()?)?,
        held: number(fields.text()?)?,
        sold: number(fields.text()?)?,
        granted: number(fields.text()?)?,
        buyer_limit: optional(fields.text()?, number)?,
        as_of: now,
    };
    let balanced = level.available.checked_add(level.held).and_then(|sum| sum.checked_add(level.sold));
    if balanced == Some(level.granted) {
        Ok(level)
    } else {
        Err(StoreError::Corrupt(format!("stock of {}", level.sku)))
    }
}

/// Reads an entry of the ledger: `operation LF level LF delta LF reason LF reference LF at`.
pub fn adjustment(fields: &mut Fields<'_>) -> Result<Adjustment, StoreError> {
    let operation = fields.text()?;
    let mut level = level(Timestamp::default(), fields)?;
    let delta = number(fields.text()?)?;
    let reason = fields.text()?.to_owned();
    let reference = optional(fields.text()?, name)?;
    let created_at = time(fields.text()?)?;
    level.as_of = created_at;
    Ok(Adjustment {
        id: OperationId(ids::long(operation).ok_or_else(|| bad("not an id"))?),
        sku: level.sku.clone(),
        delta,
        reason,
        reference,
        created_at,
        level,
    })
}

/// Reads the eight rules of a sale, in the order of `RULES` of `lua/shared/_rules.lua`.
pub fn rules<'a>(mut next: impl FnMut() -> Result<&'a str, StoreError>) -> Result<SaleRules, StoreError> {
    let seconds = |text: &str| number::<u64>(text).map(|ms| ms / 1000);
    Ok(SaleRules {
        opens_at: optional(next()?, time)?,
        closes_at: optional(next()?, time)?,
        hold_seconds: seconds(next()?)?,
        hold_seconds_max: seconds(next()?)?,
        buyer_limit: optional(next()?, number)?,
        buyer_holds_max: optional(next()?, number)?,
        confirmed_retention_seconds: seconds(next()?)?,
        ended_retention_seconds: seconds(next()?)?,
    })
}

/// Reads a sale as `sale_text` of `lua/shared/_rules.lua` writes it.
pub fn sale(sale: &SaleId, now: Timestamp, fields: &mut Fields<'_>) -> Result<Sale, StoreError> {
    let generation = fields.text()?.to_owned();
    let version = number(fields.text()?)?;
    let switch = fields.text()?;
    let rules = rules(|| fields.text())?;
    let skus = number(fields.text()?)?;
    let totals = Totals {
        available: number(fields.text()?)?,
        held: number(fields.text()?)?,
        sold: number(fields.text()?)?,
        granted: number(fields.text()?)?,
    };
    let status = match switch {
        "closed" | "deleted" => SaleStatus::Closed,
        _ if rules.closes_at.is_some_and(|closes_at| now >= closes_at) => SaleStatus::Closed,
        "paused" => SaleStatus::Paused,
        _ if rules.opens_at.is_some_and(|opens_at| now < opens_at) => SaleStatus::Scheduled,
        "active" => SaleStatus::Open,
        _ => return Err(bad("unknown status of a sale")),
    };
    Ok(Sale {
        sale: sale.clone(),
        status,
        opens_at: rules.opens_at,
        closes_at: rules.closes_at,
        hold_seconds: rules.hold_seconds,
        hold_seconds_max: rules.hold_seconds_max,
        buyer_limit: rules.buyer_limit,
        buyer_holds_max: rules.buyer_holds_max,
        confirmed_retention_seconds: rules.confirmed_retention_seconds,
        ended_retention_seconds: rules.ended_retention_seconds,
        skus,
        totals,
        version,
        generation,
        is_deleted: switch == "deleted",
    })
}

/// Reads `sku=requested,available,held;...`.
pub fn shortfalls(text: &str) -> Result<Vec<Shortfall>, StoreError> {
    text.split(';')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (sku, counts) = line.split_once('=').ok_or_else(|| bad("not a shortfall"))?;
            let mut counts = counts.split(',').map(number);
            let mut next = || counts.next().unwrap_or_else(|| Err(bad("not a shortfall")));
            Ok(Shortfall { sku: name(sku)?, requested: next()?, available: next()?, held: next()? })
        })
        .collect()
}

/// Reads one answer about a reservation: a word, what belongs to it, and often `previous LF id LF record`.
pub fn decision(
    sale: &SaleId,
    now: Timestamp,
    retry_at: Option<Timestamp>,
    answer: &str,
) -> Result<Decision<Reservation>, StoreError> {
    let mut fields = Fields::of(answer);
    let word = fields.text()?;
    if let Some(outcome) = outcome(word) {
        fields.text()?;
        return Ok(Decision::Done(outcome, reservation(sale, now, &mut fields)?));
    }
    let mut concerned = || {
        fields.text()?;
        reservation(sale, now, &mut fields).map(Box::new)
    };
    let refusal = match word {
        "already_confirmed" => Refusal::AlreadyConfirmed(concerned()?),
        "already_released" => Refusal::AlreadyReleased(concerned()?),
        "already_returned" => Refusal::AlreadyReturned(concerned()?),
        "not_confirmed" => Refusal::NotConfirmed(concerned()?),
        "part_of_order" => Refusal::PartOfOrder(concerned()?),
        "quantity_exceeds_reservation" => Refusal::QuantityExceedsReservation(concerned()?),
        "hold_expired" => Refusal::HoldExpired(concerned()?, None),
        "confirm_expired" => {
            let possible = fields.text()? == "1";
            let shortfalls = shortfalls(fields.text()?)?;
            fields.text()?;
            let expired = reservation(sale, now, &mut fields)?;
            Refusal::HoldExpired(Box::new(expired), Some(Retake { possible, shortfalls }))
        }
        "retake_sold_out" => {
            let shortfalls = shortfalls(fields.text()?)?;
            fields.text()?;
            let expired = reservation(sale, now, &mut fields)?;
            Refusal::SoldOut { shortfalls, retry_at, reservation: Some(Box::new(expired)) }
        }
        "sold_out" => {
            Refusal::SoldOut { shortfalls: shortfalls(fields.text()?)?, retry_at, reservation: None }
        }
        "idempotency_key_reused" => Refusal::IdempotencyKeyReused,
        "stale_fence" => Refusal::StaleFence,
        "unknown_reservation" => Refusal::UnknownReservation,
        "unknown_sku" => Refusal::UnknownSku(name(fields.text()?)?),
        "sale_closed" => Refusal::SaleClosed,
        "sale_paused" => Refusal::SalePaused,
        "sale_not_open" => Refusal::SaleNotOpen { opens_at: optional(fields.text()?, time)? },
        "hold_too_long" => Refusal::HoldTooLong { extendable_until: time(fields.text()?)? },
        "buyer_required" => Refusal::BuyerRequired,
        "buyer_holds" => {
            Refusal::BuyerHolds { limit: number(fields.text()?)?, held: number(fields.text()?)?, retry_at }
        }
        "buyer_limit" => Refusal::BuyerLimit {
            sku: optional(fields.text()?, name)?,
            limit: number(fields.text()?)?,
            counted: number(fields.text()?)?,
            requested: number(fields.text()?)?,
        },
        "corrupt" => return Err(StoreError::Corrupt("record".into())),
        _ => return Err(bad("unknown word")),
    };
    Ok(Decision::Refused(refusal))
}

fn outcome(word: &str) -> Option<Outcome> {
    Some(match word {
        "held" => Outcome::Held,
        "replayed" => Outcome::Replayed,
        "pinned" => Outcome::Pinned,
        "confirmed" => Outcome::Confirmed,
        "retaken" => Outcome::Retaken,
        "released" => Outcome::Released,
        "expired" => Outcome::Expired,
        "extended" => Outcome::Extended,
        "returned" => Outcome::Returned,
        "found" => Outcome::Unchanged,
        _ => return None,
    })
}

/// Reads one answer about an adjustment.
pub fn adjust_decision(now: Timestamp, answer: &str) -> Result<Decision<Adjustment>, StoreError> {
    let mut fields = Fields::of(answer);
    let refusal = match fields.text()? {
        "adjusted" => return Ok(Decision::Done(Outcome::Adjusted, adjustment(&mut fields)?)),
        "replayed" => return Ok(Decision::Done(Outcome::Replayed, adjustment(&mut fields)?)),
        "idempotency_key_reused" => Refusal::IdempotencyKeyReused,
        "stale_fence" => Refusal::StaleFence,
        "unknown_sku" => Refusal::UnknownSku(name(fields.text()?)?),
        "too_many_units" => Refusal::TooManyUnits,
        "insufficient_available" => Refusal::InsufficientAvailable(Box::new(level(now, &mut fields)?)),
        "granted_changed" => Refusal::GrantedChanged(Box::new(level(now, &mut fields)?)),
        "corrupt" => return Err(StoreError::Corrupt("operation".into())),
        _ => return Err(bad("unknown word")),
    };
    Ok(Decision::Refused(refusal))
}

/// Whether an answer of `expire` or `archive` says that it did what it was asked for.
pub fn swept(answer: &str) -> Result<bool, StoreError> {
    match Fields::of(answer).text()? {
        "expired" | "archived" => Ok(true),
        "not_due" | "orphaned" => Ok(false),
        _ => Err(bad("unknown word")),
    }
}

/// Whether an answer says that a take fell short, so that it is worth another try once overdue holds are expired.
pub fn fell_short(answer: &str) -> bool {
    ["sold_out\n", "retake_sold_out\n", "buyer_holds\n", "buyer_limit\n"]
        .iter()
        .any(|word| answer.starts_with(word))
}
