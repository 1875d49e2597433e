//! The code of each refusal and failure.

use super::Code;
use crate::domain::Refusal;
use crate::store::StoreError;

impl From<&Refusal> for Code {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::UnknownSale => Self::UnknownSale,
            Refusal::UnknownSku(_) => Self::UnknownSku,
            Refusal::UnknownReservation => Self::UnknownReservation,
            Refusal::SaleNotOpen { .. } => Self::SaleNotOpen,
            Refusal::SalePaused => Self::SalePaused,
            Refusal::SaleClosed => Self::SaleClosed,
            Refusal::SaleDeleting => Self::SaleDeleting,
            Refusal::SaleNotEmpty { .. } => Self::SaleNotEmpty,
            Refusal::PreconditionFailed => Self::PreconditionFailed,
            Refusal::InvalidRules(_) => Self::InvalidRequest,
            Refusal::StockExists { .. } => Self::StockExists,
            Refusal::InitialRequired => Self::InitialRequired,
            Refusal::TooManySkus => Self::TooManySkus,
            Refusal::TooManyUnits => Self::TooManyUnits,
            Refusal::HoldTooLong { .. } => Self::HoldTooLong,
            Refusal::BuyerRequired => Self::BuyerRequired,
            Refusal::BuyerHolds { .. } => Self::BuyerHolds,
            Refusal::BuyerLimit { .. } => Self::BuyerLimit,
            Refusal::SoldOut { .. } => Self::SoldOut,
            Refusal::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            Refusal::IdempotencyKeyRequired => Self::IdempotencyKeyRequired,
            Refusal::HoldExpired(..) => Self::HoldExpired,
            Refusal::AlreadyConfirmed(_) => Self::AlreadyConfirmed,
            Refusal::AlreadyReleased(_) => Self::AlreadyReleased,
            Refusal::AlreadyReturned(_) => Self::AlreadyReturned,
            Refusal::NotConfirmed(_) => Self::NotConfirmed,
            Refusal::PartOfOrder(_) => Self::PartOfOrder,
            Refusal::QuantityExceedsReservation(_) => Self::QuantityExceedsReservation,
            Refusal::InsufficientAvailable(_) => Self::InsufficientAvailable,
            Refusal::GrantedChanged(_) => Self::GrantedChanged,
            Refusal::UnknownWebhook => Self::UnknownWebhook,
            Refusal::TooManyWebhooks => Self::TooManyWebhooks,
            Refusal::StaleFence => Self::StaleFence,
            Refusal::Lock(refusal) => refusal.into(),
            Refusal::Order(refusal) => refusal.into(),
            Refusal::Barrier(refusal) => refusal.into(),
            Refusal::CursorExpired { .. } => Self::CursorExpired,
        }
    }
}

impl From<&StoreError> for Code {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::NotApplied(word) => Self::from_word(word).unwrap_or(Self::StoreUnavailable),
            StoreError::Unknown(_) => Self::OutcomeUnknown,
            StoreError::Corrupt(_) => Self::Corrupt,
            StoreError::Reply(_) => Self::Internal,
        }
    }
}
