//! Parts of orders: reservations that move with their order alone. Whoever works on an order names it; to everybody else
//! they answer `part_of_order`.

use super::{Decided, Store};
use crate::domain::*;

impl Store {
    /// Holds a part. The request carries the fence of the order's lock in this sale.
    pub(super) async fn reserve_part(
        &self,
        _sale: &SaleId,
        _part: ReservationId,
        _order: OrderId,
        _request: Reserve,
    ) -> Decided<Reservation> {
        todo!()
    }

    /// Takes the deadline off a part: from now on only its order decides. `Pinned`, or `Replayed` if it is pinned or
    /// confirmed; refused `HoldExpired`, `AlreadyReleased`, `AlreadyReturned`, `UnknownReservation`.
    pub(super) async fn pin_part(
        &self,
        _sale: &SaleId,
        _part: ReservationId,
        _order: OrderId,
    ) -> Decided<Reservation> {
        todo!()
    }

    /// Sells a part: `Confirmed` or `Replayed`.
    pub(super) async fn confirm_part(
        &self,
        _sale: &SaleId,
        _part: ReservationId,
        _order: OrderId,
    ) -> Decided<Reservation> {
        todo!()
    }

    /// Gives a part back, pinned or not: `Released`, `Expired`, `Replayed`; refused `UnknownReservation`,
    /// `AlreadyConfirmed`, `AlreadyReturned`.
    pub(super) async fn release_part(
        &self,
        _sale: &SaleId,
        _part: ReservationId,
        _order: OrderId,
    ) -> Decided<Reservation> {
        todo!()
    }
}
