//! Parts of orders: reservations that move with their order alone. Whoever works on an order names it; to everybody else
//! they answer `part_of_order`.

use super::group_commit::{Body, Entry, Request, Verb};
use super::reservations::check_id;
use super::{Decided, SaleHandle, Store, ids, reply};
use crate::domain::*;

impl Store {
    /// Holds a part. The request carries the fence of the order's lock in this sale.
    pub async fn reserve_part(
        &self,
        sale: &SaleId,
        part: ReservationId,
        order: OrderId,
        request: Reserve,
    ) -> Decided<Reservation> {
        let prepare = |_: &SaleHandle| request.prepared(part, Some(order));
        self.take_part(sale, part, prepare).await
    }

    /// Holds a part in the place of one that has expired: whether the sale is open does not matter, the money is there.
    pub async fn retake_part(
        &self,
        sale: &SaleId,
        part: ReservationId,
        order: OrderId,
        request: Reserve,
    ) -> Decided<Reservation> {
        let prepare = |_: &SaleHandle| {
            let mut prepared = request.prepared(part, Some(order));
            if let Body::Take(take) = &mut prepared.body {
                take.entry = Entry::Paid;
            }
            prepared
        };
        self.take_part(sale, part, prepare).await
    }

    async fn take_part(
        &self,
        sale: &SaleId,
        part: ReservationId,
        prepare: impl Fn(&SaleHandle) -> Request,
    ) -> Decided<Reservation> {
        let decided = self.commit(sale, prepare, |now, at, text| reply::decision(sale, now, at, text)).await;
        self.count(sale, "reserve", decided.and_then(|decision| check_id(decision, part)))
    }

    /// Takes the deadline off a part: from now on only its order decides. `Pinned`, or `Replayed` if it is pinned or
    /// confirmed; refused `HoldExpired`, `AlreadyReleased`, `AlreadyReturned`, `UnknownReservation`.
    pub async fn pin_part(&self, sale: &SaleId, part: ReservationId, order: OrderId) -> Decided<Reservation> {
        self.settle_part("pin", Verb::Pin, sale, part, &[&ids::short(order.0)]).await
    }

    /// Sells a part: `Confirmed` or `Replayed`.
    pub async fn confirm_part(
        &self,
        sale: &SaleId,
        part: ReservationId,
        order: OrderId,
    ) -> Decided<Reservation> {
        self.settle_part("confirm", Verb::Confirm, sale, part, &["refuse", "", "", &ids::short(order.0)])
            .await
    }

    /// Gives a part back, pinned or not: `Released`, `Expired`, `Replayed`; refused `UnknownReservation`,
    /// `AlreadyConfirmed`, `AlreadyReturned`.
    pub async fn release_part(
        &self,
        sale: &SaleId,
        part: ReservationId,
        order: OrderId,
    ) -> Decided<Reservation> {
        self.settle_part("release", Verb::Release, sale, part, &[&ids::short(order.0)]).await
    }

    async fn settle_part(
        &self,
        counted_as: &'static str,
        verb: Verb,
        sale: &SaleId,
        part: ReservationId,
        args: &[&str],
    ) -> Decided<Reservation> {
        let args = |_: &SaleHandle| args.iter().map(|arg| (*arg).to_owned()).collect();
        self.count(sale, counted_as, self.settle(verb, sale, part, None, |_| None, args).await)
    }
}
