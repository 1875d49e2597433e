//! What the scripts can decide. Expected answers are values; errors are failures (`store::StoreError`).

use super::barrier::BarrierRefusal;
use super::event::Cursor;
use super::id::Sku;
use super::lock::LockRefusal;
use super::order::OrderRefusal;
use super::reservation::Reservation;
use super::sale::BadField;
use super::stock::{Level, Shortfall};
use super::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// How a mutation was carried out: the words of `Stockade-Outcome` and of the metric label `outcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Reserved.
    Held,
    /// Sold.
    Confirmed,
    /// Sold after its deadline.
    Retaken,
    /// Given back.
    Released,
    /// Found overdue, and given back for that.
    Expired,
    /// The deadline moved.
    Extended,
    /// A participant of a barrier is there, and its part is done.
    Completed,
    /// A participant of a barrier is there, and could not do its part.
    Failed,
    /// Participants are known that are still to come.
    Declared,
    /// It is settled how many a barrier waits for.
    Sealed,
    /// Ended before its time.
    Cancelled,
    /// A lock is the caller's now.
    Acquired,
    /// A lease lasts longer.
    Renewed,
    /// A part of an order waits for the order's decision, with no deadline.
    Pinned,
    /// Given back after the sale.
    Returned,
    /// The supply changed.
    Adjusted,
    /// Made.
    Created,
    /// Rules or limits changed, or a switch was moved.
    Changed,
    /// Nothing had to change.
    Unchanged,
    /// Deleted.
    Deleted,
    /// A repeat: the effect was there already.
    Replayed,
}

impl Outcome {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Retaken => "retaken",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Extended => "extended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Declared => "declared",
            Self::Sealed => "sealed",
            Self::Cancelled => "cancelled",
            Self::Acquired => "acquired",
            Self::Renewed => "renewed",
            Self::Pinned => "pinned",
            Self::Returned => "returned",
            Self::Adjusted => "adjusted",
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
            Self::Replayed => "replayed",
        }
    }
}

/// What a script decided about one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision<T> {
    /// Done, or done before (`Outcome::Replayed`).
    Done(Outcome, T),
    /// Refused; nothing changed (but for an overdue hold that was expired).
    Refused(Refusal),
}

impl<T> Decision<T> {
    /// The same decision about what `make` makes of the value; a refusal stays as it is.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Decision<U>, E> {
        Ok(match self {
            Self::Done(outcome, value) => Decision::Done(outcome, make(value)?),
            Self::Refused(refusal) => Decision::Refused(refusal),
        })
    }
}

/// Whether a late confirm could still have the units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Retake {
    /// `if_expired: "retake"` would succeed now.
    pub possible: bool,
    /// The lines that fall short.
    pub shortfalls: Vec<Shortfall>,
}

/// Why a request was refused. The code of the answer is `code()`, one word for one reason.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// No such sale.
    UnknownSale,
    /// No such SKU in the sale.
    UnknownSku(Sku),
    /// No such reservation: never made, archived, or somebody else's.
    UnknownReservation,
    /// The window has not begun.
    SaleNotOpen {
        /// When it begins.
        opens_at: Option<Timestamp>,
    },
    /// Paused by the operator.
    SalePaused,
    /// Closed, or past its window.
    SaleClosed,
    /// Being deleted.
    SaleDeleting,
    /// DELETE of a sale with units held, or sold and not closed.
    SaleNotEmpty {
        /// Units held.
        held: u64,
        /// Units sold.
        sold: u64,
    },
    /// `If-Match` or `If-None-Match` did not hold.
    PreconditionFailed,
    /// A patch would leave rules that are wrong.
    InvalidRules(BadField),
    /// PUT names another `initial` for a known SKU.
    StockExists {
        /// The SKU.
        sku: Sku,
        /// Its initial.
        initial: u64,
    },
    /// PUT of a new SKU needs `initial`.
    InitialRequired,
    /// More than 10,000 SKUs.
    TooManySkus,
    /// More than 10^12 units in the sale.
    TooManyUnits,
    /// The hold would end after what the sale allows.
    HoldTooLong {
        /// The latest deadline there can be.
        extendable_until: Timestamp,
    },
    /// A limit applies, and no buyer is named.
    BuyerRequired,
    /// The buyer has all the open holds he may have.
    BuyerHolds {
        /// The limit.
        limit: u64,
        /// Open holds.
        held: u64,
        /// Earliest deadline in the sale: something may come back then.
        retry_at: Option<Timestamp>,
    },
    /// The buyer has all the units he may have.
    BuyerLimit {
        /// The SKU whose limit it is; none: the sale's.
        sku: Option<Sku>,
        /// The limit.
        limit: u64,
        /// Units that count: held and bought.
        counted: u64,
        /// Units asked for.
        requested: u64,
    },
    /// Some line fell short; nothing was taken.
    SoldOut {
        /// The lines that fell short.
        shortfalls: Vec<Shortfall>,
        /// Earliest deadline in the sale; none when nothing is held.
        retry_at: Option<Timestamp>,
        /// The reservation, where one is concerned (retake).
        reservation: Option<Box<Reservation>>,
    },
    /// The key was used with another body.
    IdempotencyKeyReused,
    /// Return with lines needs a key.
    IdempotencyKeyRequired,
    /// The hold has expired.
    HoldExpired(Box<Reservation>, Option<Retake>),
    /// It was confirmed.
    AlreadyConfirmed(Box<Reservation>),
    /// It was released.
    AlreadyReleased(Box<Reservation>),
    /// All of it was returned.
    AlreadyReturned(Box<Reservation>),
    /// Only confirmed units can be returned.
    NotConfirmed(Box<Reservation>),
    /// Part of an order: it moves with the order.
    PartOfOrder(Box<Reservation>),
    /// More than the reservation has left.
    QuantityExceedsReservation(Box<Reservation>),
    /// Less is available than the adjustment takes away.
    InsufficientAvailable(Box<Level>),
    /// `granted` is not what the caller thinks.
    GrantedChanged(Box<Level>),
    /// No such webhook.
    UnknownWebhook,
    /// There are all the webhooks there may be.
    TooManyWebhooks,
    /// The write depends on a lease that is over, or another one's.
    StaleFence,
    /// Of a call about a lock.
    Lock(LockRefusal),
    /// Of a call about an order.
    Order(OrderRefusal),
    /// Of a call about a barrier.
    Barrier(BarrierRefusal),
    /// The cursor is older than what is kept, or of another generation.
    CursorExpired {
        /// The cursor right before the oldest event that is kept; none: it is the first there ever was.
        oldest: Option<Cursor>,
    },
}

impl Refusal {
    /// The reservation that the refusal is about.
    pub fn reservation(&self) -> Option<&Reservation> {
        match self {
            Self::HoldExpired(reservation, _)
            | Self::AlreadyConfirmed(reservation)
            | Self::AlreadyReleased(reservation)
            | Self::AlreadyReturned(reservation)
            | Self::NotConfirmed(reservation)
            | Self::PartOfOrder(reservation)
            | Self::QuantityExceedsReservation(reservation) => Some(reservation),
            Self::SoldOut { reservation, .. } => reservation.as_deref(),
            Self::Order(OrderRefusal::Line { refusal, .. }) => refusal.reservation(),
            _ => None,
        }
    }

    /// The word: `code` of the problem, `Stockade-Outcome`, label `outcome`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSale => "unknown_sale",
            Self::UnknownSku(_) => "unknown_sku",
            Self::UnknownReservation => "unknown_reservation",
            Self::SaleNotOpen { .. } => "sale_not_open",
            Self::SalePaused => "sale_paused",
            Self::SaleClosed => "sale_closed",
            Self::SaleDeleting => "sale_deleting",
            Self::SaleNotEmpty { .. } => "sale_not_empty",
            Self::PreconditionFailed => "precondition_failed",
            Self::InvalidRules(_) => "invalid_request",
            Self::StockExists { .. } => "stock_exists",
            Self::InitialRequired => "initial_required",
            Self::TooManySkus => "too_many_skus",
            Self::TooManyUnits => "too_many_units",
            Self::HoldTooLong { .. } => "hold_too_long",
            Self::BuyerRequired => "buyer_required",
            Self::BuyerHolds { .. } => "buyer_holds",
            Self::BuyerLimit { .. } => "buyer_limit",
            Self::SoldOut { .. } => "sold_out",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::IdempotencyKeyRequired => "idempotency_key_required",
            Self::HoldExpired(..) => "hold_expired",
            Self::AlreadyConfirmed(_) => "already_confirmed",
            Self::AlreadyReleased(_) => "already_released",
            Self::AlreadyReturned(_) => "already_returned",
            Self::NotConfirmed(_) => "not_confirmed",
            Self::PartOfOrder(_) => "part_of_order",
            Self::QuantityExceedsReservation(_) => "quantity_exceeds_reservation",
            Self::InsufficientAvailable(_) => "insufficient_available",
            Self::GrantedChanged(_) => "granted_changed",
            Self::UnknownWebhook => "unknown_webhook",
            Self::TooManyWebhooks => "too_many_webhooks",
            Self::StaleFence => "stale_fence",
            Self::Lock(refusal) => refusal.code(),
            Self::Order(refusal) => refusal.code(),
            Self::Barrier(refusal) => refusal.code(),
            Self::CursorExpired { .. } => "cursor_expired",
        }
    }
}
