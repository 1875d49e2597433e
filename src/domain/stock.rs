//! Levels of a SKU, and changes of the supply.

use super::id::{Buyer, OperationId, Reference, Sku};
use super::lock::Fence;
use super::quantity::SALE_UNITS_MAX;
use super::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::ToSchema;

/// What a SKU has: `available + held + sold = granted`, always.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Level {
    /// The SKU.
    pub sku: Sku,
    /// Units that can be taken now.
    pub available: u64,
    /// Units in held reservations.
    pub held: u64,
    /// Units confirmed and not returned.
    pub sold: u64,
    /// Net supply: the sum of all adjustments, the initial one included.
    pub granted: u64,
    /// Most units of this SKU a buyer may have held and bought; null: no limit.
    pub buyer_limit: Option<u64>,
    /// When this was true.
    pub as_of: Timestamp,
}

/// A line that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Shortfall {
    /// The SKU that fell short.
    pub sku: Sku,
    /// Units asked for.
    pub requested: u64,
    /// Units there were.
    pub available: u64,
    /// Units that others hold, and that may come back.
    pub held: u64,
}

/// A signed change of the supply; never an absolute set.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adjust {
    /// Units to add, or to take away from what is available; not 0.
    #[serde(deserialize_with = "delta")]
    #[schema(minimum = -1_000_000_000_000i64, maximum = 1_000_000_000_000i64)]
    pub delta: i64,
    /// Why, for the ledger.
    pub reason: Reference,
    /// The caller's own name for it.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// Apply only if `granted` is this now.
    #[serde(default, deserialize_with = "if_granted")]
    #[schema(maximum = 1_000_000_000_000i64)]
    pub if_granted: Option<u64>,
    /// A lock of the sale that it depends on.
    #[serde(default)]
    pub fence: Option<Fence>,
}

fn delta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let delta = i64::deserialize(deserializer)?;
    if delta == 0 || delta.unsigned_abs() > SALE_UNITS_MAX {
        return Err(de::Error::custom("must be an integer other than 0, at most 1000000000000 either way"));
    }
    Ok(delta)
}

fn if_granted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let units = Option::<u64>::deserialize(deserializer)?;
    if units.is_some_and(|units| units > SALE_UNITS_MAX) {
        return Err(de::Error::custom("must be an integer from 0 to 1000000000000"));
    }
    Ok(units)
}

/// An entry of the ledger of supply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Adjustment {
    /// Id of the operation.
    pub id: OperationId,
    /// The SKU.
    pub sku: Sku,
    /// Units added, or taken away where negative.
    pub delta: i64,
    /// Why: `initial`, `damaged` (returned without restock), `repair` (by an audit), or the caller's reason.
    pub reason: String,
    /// The caller's own name for it.
    pub reference: Option<Reference>,
    /// When.
    pub created_at: Timestamp,
    /// The level right after it.
    pub level: Level,
}

/// What a buyer has and may still take; null where nothing is limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BuyerStanding {
    /// The buyer.
    pub buyer: Buyer,
    /// Open holds that count.
    pub open: Option<u64>,
    /// Units held and bought that count for the sale's limit.
    pub units: Option<u64>,
    /// The sale's limit of units a buyer.
    pub limit: Option<u64>,
    /// Units that the buyer may still take of the sale.
    pub remaining: Option<u64>,
    /// SKUs with a limit of their own, of which the buyer has some.
    pub skus: Vec<BuyerSku>,
}

/// What a buyer has of one SKU that has a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BuyerSku {
    /// The SKU.
    pub sku: Sku,
    /// Units held and bought that count.
    pub units: u64,
    /// The SKU's limit now; null if it was removed meanwhile.
    pub limit: Option<u64>,
    /// Units that the buyer may still take.
    pub remaining: Option<u64>,
}
