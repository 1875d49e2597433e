//! Many reservations in one call.

use super::id::{Buyer, IdempotencyKey, Reference, ReservationId};
use super::lock::Fence;
use super::quantity::{Line, Lines};
use super::reservation::{Metadata, Reserve, hold_seconds};
use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;

/// Most requests of one call.
pub const BULK_REQUESTS_MAX: usize = 500;

/// Body of a bulk reserve.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveBulk {
    /// Each is decided by itself: all its lines, or nothing.
    #[serde(deserialize_with = "requests")]
    #[schema(min_items = 1, max_items = 500)]
    pub requests: Vec<BulkRequest>,
}

/// One request of a bulk reserve: the body of reserve, and its key.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// The text itself, without the header's quotes; the same key in a call of its own has the same reservation.
    /// Default: made from the header's key and the place of the request.
    #[serde(default)]
    pub idempotency_key: Option<IdempotencyKey>,
    /// Whose it will be; needed where a buyer limit applies.
    #[serde(default)]
    pub buyer: Option<Buyer>,
    /// What is wanted: all of it, or nothing.
    #[schema(value_type = Vec<Line>, min_items = 1, max_items = 100)]
    pub lines: Lines,
    /// How long; default as the sale says.
    #[serde(default, deserialize_with = "hold_seconds")]
    #[schema(minimum = 1, maximum = 86400)]
    pub hold_seconds: Option<u64>,
    /// The caller's own name for it.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// The caller's notes.
    #[serde(default)]
    pub metadata: Option<Metadata>,
    /// A hold of the same buyer whose place it takes.
    #[serde(default)]
    pub replaces: Option<ReservationId>,
    /// A lock of the sale that it depends on.
    #[serde(default)]
    pub fence: Option<Fence>,
}

impl BulkRequest {
    /// Its key, and what a call of its own would have in the body.
    pub fn into_parts(self) -> (Option<IdempotencyKey>, Reserve) {
        let Self { idempotency_key, buyer, lines, hold_seconds, reference, metadata, replaces, fence } = self;
        (idempotency_key, Reserve { buyer, lines, hold_seconds, reference, metadata, replaces, fence })
    }
}

fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BulkRequest>, D::Error> {
    let requests = Vec::deserialize(deserializer)?;
    if (1..=BULK_REQUESTS_MAX).contains(&requests.len()) {
        Ok(requests)
    } else {
        Err(de::Error::custom("must hold 1 to 500 requests"))
    }
}
