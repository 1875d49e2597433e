//! How the document describes a problem.

use crate::domain::outcome::Retake;
use crate::domain::{Barrier, Level, Order, Reservation, SaleId, Shortfall, Sku, Timestamp};
use crate::http::problem::{Code, FieldError};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

/// Why a request was refused or failed (RFC 9457). Members beyond these depend on `code`.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// Page of the problem.
    #[serde(rename = "type")]
    #[schema(example = "/problems/sold_out")]
    uri: String,
    /// What happened; never changes.
    title: String,
    /// Status of the answer.
    status: u16,
    /// What happened here, for people.
    detail: String,
    /// The request's id.
    instance: String,
    /// The word that programs compare. New words may come.
    #[schema(schema_with = codes)]
    code: String,
    /// Whether the same request with the same key may be sent again as it is, after `Retry-After`.
    retryable: bool,
    /// For a 5xx: `not_applied`, or `unknown`.
    #[schema(required = false)]
    outcome: Option<String>,
    /// For a 422: the fields that are wrong.
    #[schema(required = false)]
    errors: Option<Vec<FieldError>>,
    /// The reservation that it is about.
    #[schema(required = false)]
    reservation: Option<Reservation>,
    /// `sold_out`: the lines that fall short.
    #[schema(required = false)]
    shortfalls: Option<Vec<Shortfall>>,
    /// `sold_out`: whether units are still held by others.
    #[schema(required = false)]
    may_return: Option<bool>,
    /// `sold_out`, `buyer_holds`: when something may come back.
    #[schema(required = false)]
    retry_at: Option<Timestamp>,
    /// `hold_expired`: whether `if_expired: "retake"` would succeed.
    #[schema(required = false)]
    retake: Option<Retake>,
    /// `unknown_sku`, `stock_exists`, `buyer_limit`: the SKU; null where the limit is the sale's.
    #[schema(required = false)]
    sku: Option<Sku>,
    /// `buyer_limit`, `buyer_holds`: the limit.
    #[schema(required = false)]
    limit: Option<u64>,
    /// `buyer_limit`: the buyer's units that count.
    #[schema(required = false)]
    counted: Option<u64>,
    /// `buyer_limit`: the units asked for.
    #[schema(required = false)]
    requested: Option<u64>,
    /// `buyer_holds`: the buyer's open holds. `sale_not_empty`: units held.
    #[schema(required = false)]
    held: Option<u64>,
    /// `sale_not_empty`: units sold.
    #[schema(required = false)]
    sold: Option<u64>,
    /// `sale_not_open`: when it opens.
    #[schema(required = false)]
    opens_at: Option<Timestamp>,
    /// `hold_too_long`: the latest deadline.
    #[schema(required = false)]
    extendable_until: Option<Timestamp>,
    /// `insufficient_available`, `granted_changed`: the level.
    #[schema(required = false)]
    level: Option<Level>,
    /// `stock_exists`: the units that the SKU began with.
    #[schema(required = false)]
    initial: Option<u64>,
    /// Of an order that has ended otherwise: the order.
    #[schema(required = false)]
    order: Option<Order>,
    /// Of an order that was refused: the place of the line, from 0.
    #[schema(required = false)]
    line: Option<usize>,
    /// Of an order that was refused: the sale of that line.
    #[schema(required = false)]
    sale: Option<SaleId>,
    /// `lock_held`: the end of the lease that there is.
    #[schema(required = false)]
    expires_at: Option<Timestamp>,
    /// `barrier_ended`, `barrier_exists`: the barrier.
    #[schema(required = false)]
    barrier: Option<Barrier>,
    /// `too_many_arrivals`: the participants that are known.
    #[schema(required = false)]
    declared: Option<u64>,
    /// `already_sealed`: how many it waits for.
    #[schema(required = false)]
    expected: Option<u64>,
    /// `cursor_expired`: the cursor right before the oldest event that is kept.
    #[schema(required = false)]
    oldest: Option<String>,
}

fn codes() -> Object {
    let words = Code::ALL.iter().map(|code| code.as_str());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}
