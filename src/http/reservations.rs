//! Reservations: taken in one call, settled in another; and what a buyer has.

use super::answer::{self, Answer, carried_out, done, found};
use super::body::Body;
use super::extract::{At, Query, Wanted, Who, Within};
use super::idempotency::Key;
use super::problem::Problem;
use crate::domain::page::is_reservation_cursor;
use crate::domain::{
    Buyer, BuyerStanding, Confirm, Decision, Extend, Outcome, Page, Refusal, Release, Reservation,
    ReservationId, Reserve, Return, SaleId,
};
use crate::store::Store;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;

/// Reserve: all lines, or nothing
///
/// 201 means that the units are the buyer's until `expires_at`. Send an `Idempotency-Key`: a repeat then finds the
/// same reservation, whatever became of the first answer. A refusal is not stored, so the same key may be tried again.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations", operation_id = "reserve", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    request_body = Reserve,
    responses(
        (status = 201, description = "Held", body = Reservation, headers(("Location" = String))),
        (status = 200, description = "A repeat: the reservation as it is now", body = Reservation),
    ),
)]
pub async fn reserve(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<Reserve>,
) -> Answer {
    let done = done(store.reserve(&sale, &caller, key.as_ref(), request).await)?;
    if done.outcome == Outcome::Replayed {
        return carried_out(StatusCode::OK, &done);
    }
    let mut answer = carried_out(StatusCode::CREATED, &done)?;
    let location = format!("/v1/sales/{sale}/reservations/{}", done.value.id);
    if let Ok(location) = HeaderValue::try_from(location) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// List the reservations of a sale, or find one by its key
///
/// With `idempotency_key` the page holds the reservation that this key made, or nothing. Otherwise those that are
/// held, or with `status=ended` those that have ended and are still kept.
#[utoipa::path(
    get, path = "/v1/sales/{sale}/reservations", operation_id = "reservations", tag = "Reservations",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        super::docs::ReservationParameters, super::docs::PageParameters,
    ),
    responses((status = 200, description = "A page of reservations", body = Page<Reservation>)),
)]
pub async fn reservations(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Who(caller): Who,
    Query(wanted): Query<Wanted>,
) -> Answer {
    match wanted {
        Wanted::Page(filter, page) => {
            page.check(is_reservation_cursor)?;
            found(store.reservations(&sale, filter, &page).await)
        }
        Wanted::ByKey(key) => match store.reservation_by_key(&sale, &caller, &key).await? {
            Decision::Done(_, reservation) => {
                answer::json(StatusCode::OK, &answer::page_of(Some(reservation)))
            }
            Decision::Refused(Refusal::UnknownReservation) => {
                answer::json(StatusCode::OK, &answer::page_of::<Reservation>(None))
            }
            Decision::Refused(refusal) => Err(Problem::from(refusal)),
        },
    }
}

/// Read a reservation
#[utoipa::path(
    get, path = "/v1/sales/{sale}/reservations/{id}", operation_id = "reservation", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("id" = ReservationId, Path, description = "Id of the reservation")),
    responses((status = 200, description = "The reservation", body = Reservation)),
)]
pub async fn reservation(store: Data<Store>, Within(sale, id): Within<SaleId, ReservationId>) -> Answer {
    found(store.reservation(&sale, id).await)
}

/// Confirm: the units are sold
///
/// Without a body all of them; with `lines` only those, and the rest is given back. After the deadline it is refused,
/// unless `if_expired` is `retake` and the units are still there.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations/{id}/confirm", operation_id = "confirm", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("id" = ReservationId, Path, description = "Id of the reservation")),
    request_body = Option<Confirm>,
    responses((status = 200, description = "Confirmed; a repeat gets the same", body = Reservation)),
)]
pub async fn confirm(
    store: Data<Store>,
    Within(sale, id): Within<SaleId, ReservationId>,
    _key: Key,
    Body(request): Body<Confirm>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.confirm(&sale, id, request).await)?)
}

/// Release: the units can be sold to others
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations/{id}/release", operation_id = "release", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("id" = ReservationId, Path, description = "Id of the reservation")),
    request_body = Option<Release>,
    responses((status = 200, description = "Released, or found expired; a repeat gets the same", body = Reservation)),
)]
pub async fn release(
    store: Data<Store>,
    Within(sale, id): Within<SaleId, ReservationId>,
    _key: Key,
    Body(request): Body<Release>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.release(&sale, id, request).await)?)
}

/// Extend: move the deadline
///
/// It becomes now + `hold_seconds`, if that is later, and never later than `extendable_until`.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations/{id}/extend", operation_id = "extend", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("id" = ReservationId, Path, description = "Id of the reservation")),
    request_body = Extend,
    responses((status = 200, description = "The reservation with its deadline", body = Reservation)),
)]
pub async fn extend(
    store: Data<Store>,
    Within(sale, id): Within<SaleId, ReservationId>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<Extend>,
) -> Answer {
    let done = done(store.extend(&sale, id, &caller, key.as_ref(), request).await)?;
    carried_out(StatusCode::OK, &done)
}

/// Return: give confirmed units back
///
/// Without `lines` all that is left, and then it may be repeated as it is. With `lines` it takes these units once
/// for each `Idempotency-Key`, which is then needed.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations/{id}/return", operation_id = "return_reservation", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("id" = ReservationId, Path, description = "Id of the reservation")),
    request_body = Option<Return>,
    responses((status = 200, description = "The reservation after it", body = Reservation)),
)]
pub async fn return_reservation(
    store: Data<Store>,
    Within(sale, id): Within<SaleId, ReservationId>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<Return>,
) -> Answer {
    let done = done(store.return_reservation(&sale, id, &caller, key.as_ref(), request).await)?;
    carried_out(StatusCode::OK, &done)
}

/// Read what a buyer has, and may still take
#[utoipa::path(
    get, path = "/v1/sales/{sale}/buyers/{buyer}", operation_id = "buyer", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("buyer" = Buyer, Path, description = "The buyer")),
    responses((status = 200, description = "Null where nothing is limited", body = BuyerStanding)),
)]
pub async fn buyer(store: Data<Store>, Within(sale, buyer): Within<SaleId, Buyer>) -> Answer {
    found(store.buyer(&sale, &buyer).await)
}
