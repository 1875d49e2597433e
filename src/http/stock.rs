//! Stock: the levels of SKUs, and the ledger of their supply.

use super::answer::{Answer, carried_out, done, found, found_json};
use super::body::Body;
use super::extract::{At, Parameters, Query, QueryParameters, Who, Within};
use super::idempotency::Key;
use super::problem::Problem;
use crate::domain::page::{is_adjustment_cursor, is_level_cursor};
use crate::domain::{Adjust, Adjustment, Level, Outcome, Page, PageRequest, PutSku, SaleId, Sku};
use crate::store::Store;
use actix_web::http::StatusCode;
use actix_web::web::Data;

/// Whether levels must be read now, and not from a cache.
pub struct Fresh(bool);

impl QueryParameters for Fresh {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        match parameters.take("fresh").as_deref() {
            None | Some("false") => Ok(Self(false)),
            Some("true") => Ok(Self(true)),
            Some(_) => Err(Problem::invalid("fresh", "must be true or false")),
        }
    }
}

/// Put a SKU on sale, or change its limit
///
/// A new SKU needs `initial`; a known one must repeat it, if it is given: its supply changes by adjustments only.
#[utoipa::path(
    put, path = "/v1/sales/{sale}/stock/{sku}", operation_id = "put_sku", tag = "Stock",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("sku" = Sku, Path, description = "Name of the SKU")),
    request_body = PutSku,
    responses(
        (status = 201, description = "It is new", body = Level),
        (status = 200, description = "It was there", body = Level),
    ),
)]
pub async fn put_sku(
    store: Data<Store>,
    Within(sale, sku): Within<SaleId, Sku>,
    _key: Key,
    Body(request): Body<PutSku>,
) -> Answer {
    request.check()?;
    let done = done(store.put_sku(&sale, &sku, request).await)?;
    carried_out(if done.outcome == Outcome::Created { StatusCode::CREATED } else { StatusCode::OK }, &done)
}

/// Read the level of a SKU
///
/// As it was a moment ago, at `as_of`; with `fresh=true` as it is now.
#[utoipa::path(
    get, path = "/v1/sales/{sale}/stock/{sku}", operation_id = "level", tag = "Stock",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"), ("sku" = Sku, Path, description = "Name of the SKU"),
        super::docs::FreshParameter,
    ),
    responses((status = 200, description = "Its level", body = Level)),
)]
pub async fn level(
    store: Data<Store>,
    Within(sale, sku): Within<SaleId, Sku>,
    Query(fresh): Query<Fresh>,
) -> Answer {
    if fresh.0 {
        return found(store.level(&sale, &sku).await);
    }
    found_json(store.recent_level(sale, sku).await)
}

/// List the levels of a sale
///
/// Each as it was a moment ago, at its `as_of`; with `fresh=true` as they are now.
#[utoipa::path(
    get, path = "/v1/sales/{sale}/stock", operation_id = "levels", tag = "Stock",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        super::docs::PageParameters, super::docs::FreshParameter,
    ),
    responses((status = 200, description = "A page of levels, by name of the SKU", body = Page<Level>)),
)]
pub async fn levels(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Query(asked): Query<(PageRequest, Fresh)>,
) -> Answer {
    let (page, Fresh(is_fresh)) = asked;
    page.check(is_level_cursor)?;
    if is_fresh {
        return found(store.levels(&sale, &page).await);
    }
    found_json(store.recent_levels(sale, &page).await)
}

/// Change the supply of a SKU
///
/// A signed change, never an absolute set. Only what is available can be taken away.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/stock/{sku}/adjustments", operation_id = "adjust", tag = "Stock",
    params(("sale" = SaleId, Path, description = "Name of the sale"), ("sku" = Sku, Path, description = "Name of the SKU")),
    request_body = Adjust,
    responses((status = 201, description = "The entry of the ledger; a repeat gets the same", body = Adjustment)),
)]
pub async fn adjust(
    store: Data<Store>,
    Within(sale, sku): Within<SaleId, Sku>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<Adjust>,
) -> Answer {
    let done = done(store.adjust(&sale, &caller, key.as_ref(), &sku, request).await)?;
    carried_out(StatusCode::CREATED, &done)
}

/// Read the ledger of a SKU's supply
#[utoipa::path(
    get, path = "/v1/sales/{sale}/stock/{sku}/adjustments", operation_id = "adjustments", tag = "Stock",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"), ("sku" = Sku, Path, description = "Name of the SKU"),
        super::docs::PageParameters,
    ),
    responses((status = 200, description = "A page of the ledger", body = Page<Adjustment>)),
)]
pub async fn adjustments(
    store: Data<Store>,
    Within(sale, sku): Within<SaleId, Sku>,
    Query(page): Query<PageRequest>,
) -> Answer {
    page.check(is_adjustment_cursor)?;
    found(store.adjustments(&sale, &sku, &page).await)
}
