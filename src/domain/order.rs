//! Complex orders: lines over several sales, or with alternatives. An order is made of reservations, its parts: one a
//! sale, and all of them or none.

mod choice;

pub use choice::choose;

use super::id::{Buyer, OrderId, Reference, ReservationId, SaleId, Sku};
use super::outcome::Refusal;
use super::quantity::Quantity;
use super::reservation::{IfExpired, Metadata, hold_seconds};
use super::sale::BadField;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Most lines of an order.
pub const ORDER_LINES_MAX: usize = 20;
/// Most alternatives of a line.
pub const ALTERNATIVES_MAX: usize = 10;

/// One line that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderLineRequest {
    /// The sale.
    pub sale: SaleId,
    /// What is wanted first.
    pub sku: Sku,
    /// How many units.
    #[schema(value_type = u64, minimum = 1, maximum = 1000000)]
    pub quantity: Quantity,
    /// What is taken instead when it is sold out, the best first: other SKUs of the same sale.
    #[serde(default)]
    #[schema(max_items = 10)]
    pub alternatives: Vec<Sku>,
}

/// Body of POST orders.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// Whose it will be; needed where a buyer limit applies.
    #[serde(default)]
    pub buyer: Option<Buyer>,
    /// What is wanted: all of it, or nothing.
    #[schema(min_items = 1, max_items = 20)]
    pub lines: Vec<OrderLineRequest>,
    /// How long it is held; default: the smallest of its sales.
    #[serde(default, deserialize_with = "hold_seconds")]
    #[schema(minimum = 1, maximum = 86400)]
    pub hold_seconds: Option<u64>,
    /// The caller's own name for it.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// The caller's notes.
    #[serde(default)]
    pub metadata: Option<Metadata>,
}

impl OrderRequest {
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), BadField> {
        let count = self.lines.len();
        BadField::unless((1..=ORDER_LINES_MAX).contains(&count), "/lines", "must have 1 to 20 items")?;
        for (n, line) in self.lines.iter().enumerate() {
            let field = format!("/lines/{n}/alternatives");
            let count = line.alternatives.len();
            BadField::unless(count <= ALTERNATIVES_MAX, &field, "must have at most 10 items")?;
            let names: BTreeSet<&Sku> = line.alternatives.iter().chain([&line.sku]).collect();
            BadField::unless(
                names.len() == count + 1,
                &field,
                "must name each SKU once, and not that of the line",
            )?;
        }
        Ok(())
    }
}

impl OrderLineRequest {
    /// The SKU that is asked for, then the alternatives.
    pub fn sku_at(&self, n: usize) -> &Sku {
        n.checked_sub(1).and_then(|n| self.alternatives.get(n)).unwrap_or(&self.sku)
    }

    /// How many SKUs it could take.
    pub fn sku_count(&self) -> usize {
        1 + self.alternatives.len()
    }
}

/// Body of confirm order.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmOrder {
    /// What to do when the order, or a part of it, has expired.
    #[serde(default)]
    pub if_expired: IfExpired,
}

/// Where an order is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderStatus {
    /// Its parts are being held.
    Holding,
    /// All parts are held.
    Held,
    /// Its parts lose their deadlines, before it is decided that it is confirmed.
    Pinning,
    /// It is decided, and its parts are being confirmed.
    Confirming,
    /// All parts are sold.
    Confirmed,
    /// Its parts are being given back.
    Aborting,
    /// All parts were given back.
    Released,
    /// They were given back because its time was over.
    Expired,
}

impl OrderStatus {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Holding,
        Self::Held,
        Self::Pinning,
        Self::Confirming,
        Self::Confirmed,
        Self::Aborting,
        Self::Released,
        Self::Expired,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holding => "holding",
            Self::Held => "held",
            Self::Pinning => "pinning",
            Self::Confirming => "confirming",
            Self::Confirmed => "confirmed",
            Self::Aborting => "aborting",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }

    /// The status that a word says.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether somebody is, or should be, at work on it.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Holding | Self::Pinning | Self::Confirming | Self::Aborting)
    }
}

/// One line of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct OrderLine {
    /// The sale.
    pub sale: SaleId,
    /// The SKU that was taken.
    pub sku: Sku,
    /// The SKU that was wanted first.
    pub asked_sku: Sku,
    /// How many units.
    pub quantity: u64,
    /// The part of the order that this line is in: the same for all lines of one sale.
    pub reservation: ReservationId,
}

/// A complex order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Where it is in its life.
    pub status: OrderStatus,
    /// Whose it is.
    pub buyer: Option<Buyer>,
    /// What it is made of, in the order of the request.
    pub lines: Vec<OrderLine>,
    /// The caller's own name for it.
    pub reference: Option<Reference>,
    /// The caller's notes.
    pub metadata: Option<Metadata>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The earliest deadline of its parts; null unless it is held.
    pub expires_at: Option<Timestamp>,
    /// When it took its last status; null before.
    pub ended_at: Option<Timestamp>,
    /// The server's time of this answer.
    pub server_time: Timestamp,
}

/// Why a call about an order was refused.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderRefusal {
    /// No such order: never made, refused, forgotten, or somebody else's.
    Unknown,
    /// It was confirmed.
    AlreadyConfirmed(Box<Order>),
    /// It was released.
    AlreadyReleased(Box<Order>),
    /// Its time was over.
    Expired(Box<Order>),
    /// A line cannot be had; nothing is held.
    Line {
        /// Its place in the request, from 0.
        line: usize,
        /// Its sale.
        sale: SaleId,
        /// What that sale says.
        refusal: Box<Refusal>,
    },
}

impl OrderRefusal {
    /// The word: `code` of the problem, `Stockade-Outcome`, label `outcome`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_order",
            Self::AlreadyConfirmed(_) => "already_confirmed",
            Self::AlreadyReleased(_) => "already_released",
            Self::Expired(_) => "hold_expired",
            Self::Line { refusal, .. } => refusal.code(),
        }
    }
}
