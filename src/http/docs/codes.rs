//! Which problems an operation can answer with.

use crate::http::problem::Code;

/// Whatever touches the store.
pub const OF_THE_STORE: &[Code] = &[
    Code::StoreUnavailable,
    Code::StoreBusy,
    Code::StoreLoading,
    Code::SlotMoving,
    Code::OutcomeUnknown,
    Code::Corrupt,
    Code::Internal,
];
/// Whatever changes something.
pub const OF_A_MUTATION: &[Code] = &[
    Code::IdempotencyKeyInvalid,
    Code::InvalidRequest,
    Code::QueueFull,
    Code::Draining,
    Code::StoreFull,
    Code::StoreReadOnly,
];
/// Whatever has a body.
pub const OF_A_BODY: &[Code] =
    &[Code::MalformedJson, Code::UnsupportedMediaType, Code::PayloadTooLarge, Code::RequestTimeout];
const OF_A_SETTLEMENT: &[Code] =
    &[Code::UnknownSale, Code::UnknownReservation, Code::AlreadyReturned, Code::PartOfOrder];

/// The problems of one operation alone.
pub fn own(operation: &str) -> &'static [&'static [Code]] {
    use Code::*;
    match operation {
        "reserve" => &[
            &[UnknownSale, UnknownSku, UnknownReservation, SaleNotOpen, SalePaused, SaleClosed, SaleDeleting],
            &[StaleFence, HoldTooLong, BuyerRequired, BuyerHolds, BuyerLimit, SoldOut, IdempotencyKeyReused],
            &[HoldExpired, AlreadyConfirmed, AlreadyReleased, AlreadyReturned, PartOfOrder],
        ],
        "reserve_bulk" => &[&[UnknownSale]],
        "confirm" => &[
            OF_A_SETTLEMENT,
            &[HoldExpired, SoldOut, BuyerHolds, BuyerLimit, AlreadyConfirmed, AlreadyReleased],
            &[QuantityExceedsReservation, StaleFence],
        ],
        "release" => &[OF_A_SETTLEMENT, &[AlreadyConfirmed, StaleFence]],
        "extend" => &[
            OF_A_SETTLEMENT,
            &[HoldExpired, HoldTooLong, AlreadyConfirmed, AlreadyReleased, IdempotencyKeyReused],
        ],
        "return_reservation" => &[
            &[UnknownSale, UnknownReservation, NotConfirmed, QuantityExceedsReservation],
            &[IdempotencyKeyRequired, IdempotencyKeyReused],
        ],
        "place_order" => &[
            &[UnknownSale, UnknownSku, SaleNotOpen, SalePaused, SaleClosed, OrderBusy, OrderInProgress],
            &[HoldTooLong, BuyerRequired, BuyerHolds, BuyerLimit, SoldOut, IdempotencyKeyReused],
            &[HoldExpired, AlreadyReleased],
        ],
        "order" => &[&[UnknownOrder]],
        "confirm_order" => &[
            &[UnknownOrder, AlreadyReleased, HoldExpired, SoldOut, BuyerHolds, BuyerLimit],
            &[OrderBusy, OrderInProgress],
        ],
        "release_order" => &[&[UnknownOrder, AlreadyConfirmed, OrderInProgress, OrderBusy]],
        "put_sale" => &[&[
            UnknownSale,
            SaleDeleting,
            PreconditionFailed,
            StockExists,
            TooManySkus,
            TooManyUnits,
            IdempotencyKeyReused,
        ]],
        "patch_sale" => &[&[UnknownSale, SaleDeleting, PreconditionFailed, IdempotencyKeyReused]],
        "put_sku" => &[&[UnknownSale, SaleDeleting, StockExists, InitialRequired, TooManySkus, TooManyUnits]],
        "adjust" => &[
            &[UnknownSale, UnknownSku, SaleDeleting, InsufficientAvailable, GrantedChanged, TooManyUnits],
            &[IdempotencyKeyReused, StaleFence],
        ],
        "delete_sale" => &[&[UnknownSale, SaleNotEmpty, SaleDeleting]],
        "pause_sale" | "resume_sale" | "close_sale" => &[&[UnknownSale, SaleDeleting]],
        "level" | "adjustments" => &[&[UnknownSale, UnknownSku, InvalidRequest]],
        "reservation" => &[&[UnknownSale, UnknownReservation, InvalidRequest]],
        "reservations" => &[&[UnknownSale, InvalidRequest, IdempotencyKeyInvalid]],
        "acquire_lock" => &[&[LockHeld, LockExpired, TooManyStreams]],
        "acquire_sale_lock" => &[&[UnknownSale, LockHeld, LockExpired, TooManyStreams]],
        "renew_lock" | "release_lock" => &[&[NotOwner, LockExpired]],
        "renew_sale_lock" | "release_sale_lock" => &[&[UnknownSale, NotOwner, LockExpired]],
        "lock" => &[&[InvalidRequest]],
        "sale_lock" => &[&[UnknownSale, InvalidRequest]],
        "put_barrier" => &[&[BarrierExists, PreconditionFailed]],
        "barrier" | "wait_for_barrier" => &[&[UnknownBarrier, InvalidRequest, TooManyStreams]],
        "live_barrier" => &[&[UnknownBarrier, InvalidRequest, TooManyStreams, Draining]],
        "barriers" => &[&[InvalidRequest]],
        "cancel_barrier" | "extend_barrier" => &[&[UnknownBarrier, BarrierEnded]],
        "arrive" => &[&[UnknownBarrier, BarrierEnded, UnknownParticipant, TooManyParticipants]],
        "declare" => {
            &[&[UnknownBarrier, BarrierEnded, UnknownParticipant, TooManyParticipants, NamesNotKept]]
        }
        "seal" => &[&[UnknownBarrier, BarrierEnded, NothingDeclared, TooManyArrivals, AlreadySealed]],
        "participants" => &[&[UnknownBarrier, NamesNotKept, InvalidRequest]],
        "events" => &[&[UnknownSale, CursorExpired, InvalidRequest]],
        "live_events" => &[&[UnknownSale, CursorExpired, InvalidRequest, TooManyStreams, Draining]],
        "sale" | "levels" | "buyer" => &[&[UnknownSale, InvalidRequest]],
        "sales" => &[&[InvalidRequest]],
        "register_webhook" => &[&[ForbiddenTarget, TooManyWebhooks, IdempotencyKeyReused]],
        "webhooks" => &[&[InvalidRequest]],
        "webhook" | "delete_webhook" | "rotate_secret" | "test_webhook" => &[&[UnknownWebhook]],
        "patch_webhook" => &[&[UnknownWebhook, ForbiddenTarget]],
        "deliveries" => &[&[UnknownWebhook, InvalidRequest]],
        "redeliver" => &[&[UnknownWebhook, UnknownDelivery]],
        "readyz" => &[&[Draining]],
        "problem" | "docs" => &[&[NotFound]],
        _ => &[],
    }
}
