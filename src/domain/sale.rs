//! A sale: a pool of stock sold under one set of rules.

use super::id::{SaleId, Sku};
use super::rules::SaleRules;
use super::time::Timestamp;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// Seconds a hold lasts unless the rules or the request say otherwise.
pub const HOLD_SECONDS_DEFAULT: u64 = 600;
/// Longest hold, extensions included, in seconds.
pub const HOLD_SECONDS_MAX: u64 = 86_400;
/// `hold_seconds_max` of a sale that does not set it, unless `hold_seconds` is larger.
pub const HOLD_SECONDS_MAX_DEFAULT: u64 = 3_600;
/// Records of confirmed reservations are kept this long by default.
pub const CONFIRMED_RETENTION_SECONDS_DEFAULT: u64 = 30 * 86_400;
/// Records of other ended reservations are kept this long by default; also the least retention.
pub const ENDED_RETENTION_SECONDS_DEFAULT: u64 = 86_400;
/// Longest retention: ten years.
pub const RETENTION_SECONDS_MAX: u64 = 10 * 365 * 86_400;
/// Largest limit of units or holds a buyer.
pub const BUYER_LIMIT_MAX: u64 = 1_000_000;
/// Most SKUs in one PUT of a sale.
pub const PUT_SKUS_MAX: usize = 1_000;
/// Most SKUs of a sale.
pub const SALE_SKUS_MAX: usize = 10_000;

/// What a sale does with a request to reserve now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaleStatus {
    /// Closed by the operator, or past `closes_at`.
    Closed,
    /// Paused by the operator.
    Paused,
    /// Before `opens_at`.
    Scheduled,
    /// Takes reservations.
    Open,
}

impl SaleStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Scheduled, Self::Open, Self::Paused, Self::Closed];

    /// The word of JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Paused => "paused",
            Self::Scheduled => "scheduled",
            Self::Open => "open",
        }
    }
}

/// The operator's switch of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Stop taking, for now.
    Pause,
    /// Take again; reopens a closed sale, too.
    Resume,
    /// Stop taking.
    Close,
}

/// Units of a whole sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Totals {
    /// Units that can be taken now.
    pub available: u64,
    /// Units in held reservations.
    pub held: u64,
    /// Units confirmed and not returned.
    pub sold: u64,
    /// Net supply.
    pub granted: u64,
}

/// A sale, its rules and its totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Sale {
    /// The sale.
    pub sale: SaleId,
    /// What it does with a request to reserve now.
    pub status: SaleStatus,
    /// Reservations are taken from then on; null: at once.
    pub opens_at: Option<Timestamp>,
    /// And until then; null: for ever.
    pub closes_at: Option<Timestamp>,
    /// Seconds a hold lasts unless the request says otherwise.
    pub hold_seconds: u64,
    /// Longest hold, extensions included, counted from the first hold.
    pub hold_seconds_max: u64,
    /// Most units of the sale a buyer may have held and bought; null: no limit.
    pub buyer_limit: Option<u64>,
    /// Most open holds of a buyer; null: no limit.
    pub buyer_holds_max: Option<u64>,
    /// Records of confirmed reservations are kept so long.
    pub confirmed_retention_seconds: u64,
    /// Records of other ended reservations are kept so long.
    pub ended_retention_seconds: u64,
    /// How many SKUs it has.
    pub skus: u64,
    /// Units over all its SKUs.
    pub totals: Totals,
    /// Grows with every change of the rules or of the SKUs' list and limits.
    pub version: u64,
    /// The incarnation: a deleted and re-created sale is another one. With `version` it is the ETag.
    #[serde(skip)]
    pub generation: String,
    /// Deleted, and not purged yet; callers see it as unknown.
    #[serde(skip)]
    pub is_deleted: bool,
}

/// Body of PUT sale: all its rules, and SKUs to add.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSale {
    /// Reservations are taken from then on; null: at once.
    #[serde(default)]
    pub opens_at: Option<Timestamp>,
    /// And until then; null: for ever.
    #[serde(default)]
    pub closes_at: Option<Timestamp>,
    /// Seconds a hold lasts unless the request says otherwise: 1-86400, default 600.
    #[schema(minimum = 1, maximum = 86400)]
    #[serde(default)]
    pub hold_seconds: Option<u64>,
    /// Longest hold, extensions included: default the larger of 3600 and `hold_seconds`, at most 86400.
    #[schema(minimum = 1, maximum = 86400)]
    #[serde(default)]
    pub hold_seconds_max: Option<u64>,
    /// Most units of the sale a buyer may have held and bought; null: no limit.
    #[schema(minimum = 1, maximum = 1000000)]
    #[serde(default)]
    pub buyer_limit: Option<u64>,
    /// Most open holds of a buyer; null: no limit.
    #[schema(minimum = 1, maximum = 1000000)]
    #[serde(default)]
    pub buyer_holds_max: Option<u64>,
    /// Records of confirmed reservations are kept so long: at least 86400, default 30 days.
    #[schema(minimum = 86400, maximum = 315360000)]
    #[serde(default)]
    pub confirmed_retention_seconds: Option<u64>,
    /// Records of other ended reservations are kept so long: at least 86400, the default.
    #[schema(minimum = 86400, maximum = 315360000)]
    #[serde(default)]
    pub ended_retention_seconds: Option<u64>,
    /// SKUs to add; a known one must repeat its `initial`; others stay as they are.
    #[serde(default)]
    pub stock: Skus,
}

/// SKUs to put on sale, each once.
#[derive(Debug, Clone, Default, ToSchema)]
#[schema(value_type = std::collections::BTreeMap<String, SkuSpec>)]
pub struct Skus(pub BTreeMap<Sku, SkuSpec>);

/// One SKU to put on sale.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkuSpec {
    /// Units at the start.
    #[schema(maximum = 1_000_000_000_000i64)]
    pub initial: u64,
    /// Most units of it a buyer may have held and bought; null: no limit.
    #[schema(minimum = 1, maximum = 1000000)]
    #[serde(default)]
    pub buyer_limit: Option<u64>,
}

/// Body of PUT stock/{sku}.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSku {
    /// Units at the start; needed for a new SKU, and must be repeated for a known one if given.
    #[schema(maximum = 1_000_000_000_000i64)]
    #[serde(default)]
    pub initial: Option<u64>,
    /// Most units of it a buyer may have held and bought; null: no limit.
    #[schema(minimum = 1, maximum = 1000000)]
    #[serde(default)]
    pub buyer_limit: Option<u64>,
}

/// A field that is wrong by itself or beside others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadField {
    /// JSON pointer of the field.
    pub field: String,
    /// What it must be.
    pub message: String,
}

impl BadField {
    pub(super) fn unless(legal: bool, field: impl Into<String>, message: &str) -> Result<(), Self> {
        if legal { Ok(()) } else { Err(Self { field: field.into(), message: message.to_owned() }) }
    }
}

impl PutSale {
    /// The rules with their defaults, or the first field that is wrong.
    pub fn rules(&self) -> Result<SaleRules, BadField> {
        let hold_seconds = self.hold_seconds.unwrap_or(HOLD_SECONDS_DEFAULT);
        let rules = SaleRules {
            opens_at: self.opens_at,
            closes_at: self.closes_at,
            hold_seconds,
            hold_seconds_max: self.hold_seconds_max.unwrap_or(HOLD_SECONDS_MAX_DEFAULT.max(hold_seconds)),
            buyer_limit: self.buyer_limit,
            buyer_holds_max: self.buyer_holds_max,
            confirmed_retention_seconds: self
                .confirmed_retention_seconds
                .unwrap_or(CONFIRMED_RETENTION_SECONDS_DEFAULT),
            ended_retention_seconds: self.ended_retention_seconds.unwrap_or(ENDED_RETENTION_SECONDS_DEFAULT),
        };
        rules.check()?;
        for (sku, spec) in &self.stock.0 {
            spec.check(&format!("/stock/{sku}"))?;
        }
        Ok(rules)
    }
}

pub(super) const LIMIT_MESSAGE: &str = "must be null or 1 to 1000000";
const INITIAL_MESSAGE: &str = "must be an integer from 0 to 1000000000000";

pub(super) fn limit_is_legal(limit: Option<u64>) -> bool {
    limit.is_none_or(|units| (1..=BUYER_LIMIT_MAX).contains(&units))
}

impl SkuSpec {
    fn check(&self, at: &str) -> Result<(), BadField> {
        let initial_is_legal = self.initial <= super::quantity::SALE_UNITS_MAX;
        BadField::unless(initial_is_legal, format!("{at}/initial"), INITIAL_MESSAGE)?;
        BadField::unless(limit_is_legal(self.buyer_limit), format!("{at}/buyer_limit"), LIMIT_MESSAGE)
    }
}

impl PutSku {
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), BadField> {
        SkuSpec { initial: self.initial.unwrap_or(0), buyer_limit: self.buyer_limit }.check("")
    }
}

impl<'de> Deserialize<'de> for Skus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SkusVisitor;
        impl<'de> Visitor<'de> for SkusVisitor {
            type Value = Skus;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of SKUs")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Skus, A::Error> {
                let mut skus = BTreeMap::new();
                while let Some((sku, spec)) = map.next_entry::<Sku, SkuSpec>()? {
                    if skus.insert(sku, spec).is_some() {
                        return Err(de::Error::custom("names a SKU twice"));
                    }
                    if skus.len() > PUT_SKUS_MAX {
                        return Err(de::Error::custom("must hold at most 1000 SKUs a call"));
                    }
                }
                Ok(Skus(skus))
            }
        }
        deserializer.deserialize_map(SkusVisitor)
    }
}
