//! A reservation: lines of one buyer in one status.

use super::id::{Buyer, OrderId, Reference, ReservationId, SaleId, Sku};
use super::lock::Fence;
use super::quantity::{Line, Lines};
use super::sale::HOLD_SECONDS_MAX;
use super::time::Timestamp;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// Most pairs of metadata.
pub const METADATA_PAIRS_MAX: usize = 8;
/// Most bytes of metadata, keys and values together.
pub const METADATA_BYTES_MAX: usize = 1_024;

/// Where a reservation is in its one life: held -> confirmed (-> returned) | released | expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReservationStatus {
    /// The units are the buyer's until `expires_at`.
    Held,
    /// Sold.
    Confirmed,
    /// Given back by the caller.
    Released,
    /// Given back because the deadline passed.
    Expired,
    /// Sold, and then all given back.
    Returned,
}

impl ReservationStatus {
    /// The word, as in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Returned => "returned",
        }
    }
}

impl std::str::FromStr for ReservationStatus {
    type Err = ();
    fn from_str(word: &str) -> Result<Self, ()> {
        [Self::Held, Self::Confirmed, Self::Released, Self::Expired, Self::Returned]
            .into_iter()
            .find(|status| status.as_str() == word)
            .ok_or(())
    }
}

/// One line of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReservationLine {
    /// The SKU.
    pub sku: Sku,
    /// Units reserved.
    pub quantity: u64,
    /// Units confirmed.
    pub confirmed: u64,
    /// Units returned after that.
    pub returned: u64,
}

/// Lines of one buyer in one status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reservation {
    /// Its id.
    pub id: ReservationId,
    /// Its sale.
    pub sale: SaleId,
    /// Where it is in its life.
    pub status: ReservationStatus,
    /// Whose it is.
    pub buyer: Option<Buyer>,
    /// What it is made of, sorted by SKU.
    pub lines: Vec<ReservationLine>,
    /// The caller's own name for it.
    pub reference: Option<Reference>,
    /// The caller's notes.
    pub metadata: Option<Metadata>,
    /// When it was first held.
    pub created_at: Timestamp,
    /// The deadline of the hold; null once it has ended, and while its order is being confirmed.
    pub expires_at: Option<Timestamp>,
    /// The latest deadline that extend can give.
    pub extendable_until: Timestamp,
    /// When it took its present status; null while held.
    pub ended_at: Option<Timestamp>,
    /// Whether it was confirmed after its deadline.
    pub retaken: bool,
    /// The hold that it took the place of.
    pub replaces: Option<ReservationId>,
    /// The hold that took its place.
    pub replaced_by: Option<ReservationId>,
    /// The complex order that it is a part of.
    pub order: Option<OrderId>,
    /// The server's time of this answer.
    pub server_time: Timestamp,
}

/// Notes of the caller: at most 8 pairs of strings, 1 KB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Metadata(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut pairs = BTreeMap::new();
                let mut bytes = 0;
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    bytes += name.len() + value.len();
                    if pairs.insert(name, value).is_some() {
                        return Err(de::Error::custom("names a key twice"));
                    }
                    if pairs.len() > METADATA_PAIRS_MAX || bytes > METADATA_BYTES_MAX {
                        return Err(de::Error::custom("must hold at most 8 pairs and 1024 bytes"));
                    }
                }
                Ok(Metadata(pairs))
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}

pub(super) fn hold_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let seconds = Option::<u64>::deserialize(deserializer)?;
    if seconds.is_some_and(|seconds| !(1..=HOLD_SECONDS_MAX).contains(&seconds)) {
        return Err(de::Error::custom("must be an integer from 1 to 86400"));
    }
    Ok(seconds)
}

fn hold_seconds_needed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    hold_seconds(deserializer)?.ok_or_else(|| de::Error::custom("must be an integer from 1 to 86400"))
}

/// Body of reserve.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
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

/// What to do when the deadline has passed before the money came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfExpired {
    /// Answer 410, and say whether a retake is possible.
    #[default]
    Refuse,
    /// Take the units again, if they are there.
    Retake,
}

/// Body of confirm.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// Only these; what remains is given back. Default: all.
    #[schema(value_type = Option<Vec<Line>>, min_items = 1, max_items = 100)]
    #[serde(default)]
    pub lines: Option<Lines>,
    /// Takes the place of the reservation's reference.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// What to do when the hold has expired.
    #[serde(default)]
    pub if_expired: IfExpired,
    /// A lock of the sale that it depends on.
    #[serde(default)]
    pub fence: Option<Fence>,
}

/// Body of release.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// A lock of the sale that it depends on.
    #[serde(default)]
    pub fence: Option<Fence>,
}

/// Body of extend.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extend {
    /// The deadline becomes now + this, if that is later than it is.
    #[serde(deserialize_with = "hold_seconds_needed")]
    #[schema(minimum = 1, maximum = 86400)]
    pub hold_seconds: u64,
}

/// Body of return.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Return {
    /// Only these, and then an idempotency key is needed. Default: all that is left.
    #[schema(value_type = Option<Vec<Line>>, min_items = 1, max_items = 100)]
    #[serde(default)]
    pub lines: Option<Lines>,
    /// Whether the units can be sold again; false takes them out of the supply.
    #[serde(default = "yes")]
    pub restock: bool,
}

impl Default for Return {
    fn default() -> Self {
        Self { lines: None, restock: true }
    }
}

fn yes() -> bool {
    true
}
