//! Sales: their rules, and the operator's switches.

use super::answer::{self, Answer, Done, done};
use super::body::{Body, Nothing};
use super::extract::{At, Query, Who};
use super::idempotency::Key;
use super::precondition::Precondition;
use crate::domain::page::is_sale_cursor;
use crate::domain::{Page, PageRequest, PatchSale, PutSale, Sale, SaleId, Switch};
use crate::store::{PutAnswer, Store};
use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;

/// Make a sale, or replace its rules
///
/// Replaces all rules: one that is left out returns to its default. `stock` adds SKUs; a known one must repeat its
/// `initial`, those not listed stay as they are. Never touches whether the sale is paused or closed.
#[utoipa::path(
    put, path = "/v1/sales/{sale}", operation_id = "put_sale", tag = "Sales",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("If-Match" = Option<String>, Header, pattern = "^(\\*|\"[!#-~]+\"(, *\"[!#-~]+\")*)$", description = "Only if the sale has one of these ETags; `*`: only if there is a sale"),
        ("If-None-Match" = Option<String>, Header, pattern = "^\\*$", description = "`*`: only if there is no such sale"),
    ),
    request_body = PutSale,
    responses(
        (status = 201, description = "The sale was made", body = Sale, headers(("ETag" = String))),
        (status = 200, description = "The sale as it is now; unchanged rules keep their version", body = Sale, headers(("ETag" = String))),
    ),
)]
pub async fn put_sale(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Who(caller): Who,
    Key(key): Key,
    Precondition(expect): Precondition,
    Body(request): Body<PutSale>,
) -> Answer {
    let rules = request.rules()?;
    let done = done(store.put_sale(&sale, &caller, key.as_ref(), &expect, rules, request.stock).await)?;
    let status = if done.value.created { StatusCode::CREATED } else { StatusCode::OK };
    changed(status, &done)
}

/// Change some rules of a sale
///
/// A merge patch (RFC 7396): a rule that is left out stays as it is, null returns it to its default. Stock is no rule:
/// put SKUs with PUT, change their supply with adjustments. Never touches whether the sale is paused or closed.
#[utoipa::path(
    patch, path = "/v1/sales/{sale}", operation_id = "patch_sale", tag = "Sales",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("If-Match" = Option<String>, Header, pattern = "^(\\*|\"[!#-~]+\"(, *\"[!#-~]+\")*)$", description = "Only if the sale has one of these ETags; `*`: only if there is a sale"),
        ("If-None-Match" = Option<String>, Header, pattern = "^\\*$", description = "`*`: only if there is no such sale, which no patch can want"),
    ),
    request_body(content((PatchSale = "application/merge-patch+json"), (PatchSale = "application/json"))),
    responses((status = 200, description = "The sale as it is now; unchanged rules keep their version", body = Sale, headers(("ETag" = String)))),
)]
pub async fn patch_sale(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Who(caller): Who,
    Key(key): Key,
    Precondition(expect): Precondition,
    Body(patch): Body<PatchSale>,
) -> Answer {
    let done = done(store.patch_sale(&sale, &caller, key.as_ref(), &expect, patch).await)?;
    changed(StatusCode::OK, &done)
}

/// Answer to a change of rules.
fn changed(status: StatusCode, done: &Done<PutAnswer>) -> Answer {
    let mut answer = answer::json(status, &done.value.sale)?;
    answer::say_outcome(&mut answer, done.outcome);
    answer::sale(answer, &done.value.sale)
}

/// Read a sale
#[utoipa::path(
    get, path = "/v1/sales/{sale}", operation_id = "sale", tag = "Sales",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    responses((status = 200, description = "Its rules, status and totals", body = Sale, headers(("ETag" = String)))),
)]
pub async fn sale(store: Data<Store>, At(sale): At<SaleId>) -> Answer {
    let found = done(store.sale(&sale).await)?.value;
    answer::sale(answer::json(StatusCode::OK, &found)?, &found)
}

/// List the sales
///
/// Those that the key may see.
#[utoipa::path(
    get, path = "/v1/sales", operation_id = "sales", tag = "Sales",
    params(super::docs::PageParameters),
    responses((status = 200, description = "A page of sales", body = Page<Sale>)),
)]
pub async fn sales(store: Data<Store>, Who(caller): Who, Query(page): Query<PageRequest>) -> Answer {
    page.check(is_sale_cursor)?;
    answer::json(StatusCode::OK, &store.sales(&caller, &page).await?)
}

/// Delete a sale
///
/// Refused while units are held, or sold and the sale is not closed. Its records go soon after; until then its name
/// cannot be used again.
#[utoipa::path(
    delete, path = "/v1/sales/{sale}", operation_id = "delete_sale", tag = "Sales",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    responses((status = 202, description = "The sale is gone, and its records will be")),
)]
pub async fn delete_sale(store: Data<Store>, At(sale): At<SaleId>, _key: Key) -> Answer {
    let done = done(store.delete_sale(&sale).await)?;
    let mut answer = HttpResponse::new(StatusCode::ACCEPTED);
    answer::say_outcome(&mut answer, done.outcome);
    Ok(answer)
}

async fn switch(store: &Store, sale: &SaleId, switch: Switch) -> Answer {
    let done = done(store.switch_sale(sale, switch).await)?;
    answer::sale(answer::carried_out(StatusCode::OK, &done)?, &done.value)
}

/// Stop taking reservations for now
///
/// Holds go on: they can be confirmed, released and extended.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/pause", operation_id = "pause_sale", tag = "Sales",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    responses((status = 200, description = "The sale as it is now", body = Sale, headers(("ETag" = String)))),
)]
pub async fn pause_sale(store: Data<Store>, At(sale): At<SaleId>, _key: Key, _body: Body<Nothing>) -> Answer {
    switch(&store, &sale, Switch::Pause).await
}

/// Take reservations again
///
/// Also reopens a sale that was closed.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/resume", operation_id = "resume_sale", tag = "Sales",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    responses((status = 200, description = "The sale as it is now", body = Sale, headers(("ETag" = String)))),
)]
pub async fn resume_sale(
    store: Data<Store>,
    At(sale): At<SaleId>,
    _key: Key,
    _body: Body<Nothing>,
) -> Answer {
    switch(&store, &sale, Switch::Resume).await
}

/// Stop taking reservations
#[utoipa::path(
    post, path = "/v1/sales/{sale}/close", operation_id = "close_sale", tag = "Sales",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    responses((status = 200, description = "The sale as it is now", body = Sale, headers(("ETag" = String)))),
)]
pub async fn close_sale(store: Data<Store>, At(sale): At<SaleId>, _key: Key, _body: Body<Nothing>) -> Answer {
    switch(&store, &sale, Switch::Close).await
}
