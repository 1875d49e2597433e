//! Complex orders: lines over several sales, or with alternatives; all of them or none.

use super::answer::{Answer, carried_out, done, found};
use super::body::Body;
use super::extract::{At, Who};
use super::idempotency::Key;
use crate::domain::{ConfirmOrder, Order, OrderId, OrderRefusal, OrderRequest, Outcome, Refusal};
use crate::store::Store;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;

/// Order: all lines, or nothing
///
/// For carts that one script cannot hold: several sales, or a line that may be another SKU. 201 means that the units are
/// the buyer's until `expires_at`. Each sale has one reservation of the order, which moves with it alone. Send an
/// `Idempotency-Key`: a repeat then finds the same order. A refusal names the line, and is not stored.
#[utoipa::path(
    post, path = "/v1/orders", operation_id = "place_order", tag = "Orders",
    request_body = OrderRequest,
    responses(
        (status = 201, description = "Held", body = Order, headers(("Location" = String))),
        (status = 200, description = "A repeat: the order as it is now", body = Order),
    ),
)]
pub async fn place_order(
    store: Data<Store>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<OrderRequest>,
) -> Answer {
    request.check()?;
    if let Some(line) = request.lines.iter().position(|line| !caller.may_see(&line.sale)) {
        let sale = request.lines[line].sale.clone();
        let refusal = Box::new(Refusal::UnknownSale);
        return Err(Refusal::Order(OrderRefusal::Line { line, sale, refusal }).into());
    }
    let done = done(store.place_order(&caller, key.as_ref(), request).await)?;
    if done.outcome == Outcome::Replayed {
        return carried_out(StatusCode::OK, &done);
    }
    let mut answer = carried_out(StatusCode::CREATED, &done)?;
    if let Ok(location) = HeaderValue::try_from(format!("/v1/orders/{}", done.value.id)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Read an order
#[utoipa::path(
    get, path = "/v1/orders/{id}", operation_id = "order", tag = "Orders",
    params(("id" = OrderId, Path, description = "Id of the order")),
    responses((status = 200, description = "The order", body = Order)),
)]
pub async fn order(store: Data<Store>, Who(caller): Who, At(id): At<OrderId>) -> Answer {
    found(store.order(id, &caller).await)
}

/// Confirm an order: all its units are sold
///
/// In two phases, so that all parts are sold or none, whatever dies meanwhile. If one has expired all are given back, and
/// the answer is 410; with `if_expired` `retake` the expired ones are taken again, if they are there.
#[utoipa::path(
    post, path = "/v1/orders/{id}/confirm", operation_id = "confirm_order", tag = "Orders",
    params(("id" = OrderId, Path, description = "Id of the order")),
    request_body = Option<ConfirmOrder>,
    responses((status = 200, description = "Confirmed; a repeat gets the same", body = Order)),
)]
pub async fn confirm_order(
    store: Data<Store>,
    Who(caller): Who,
    At(id): At<OrderId>,
    _key: Key,
    Body(request): Body<ConfirmOrder>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.confirm_order(id, &caller, request).await)?)
}

/// Release an order: all its units can be sold to others
#[utoipa::path(
    post, path = "/v1/orders/{id}/release", operation_id = "release_order", tag = "Orders",
    params(("id" = OrderId, Path, description = "Id of the order")),
    responses((status = 200, description = "Released, or found expired; a repeat gets the same", body = Order)),
)]
pub async fn release_order(
    store: Data<Store>,
    Who(caller): Who,
    At(id): At<OrderId>,
    _key: Key,
    _body: Body<super::body::Nothing>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.release_order(id, &caller).await)?)
}
