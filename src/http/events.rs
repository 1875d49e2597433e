//! Events: what happened in a sale, in order.

use super::answer::{Answer, found};
use super::extract::{At, Feed, Query};
use crate::domain::{Event, Page, SaleId};
use crate::store::Store;
use actix_web::web::Data;

/// Read the events of a sale
///
/// CloudEvents 1.0, in the order in which they happened. Pass `next` as `after` to go on: a page without items means
/// that there is nothing newer yet.
#[utoipa::path(
    get, path = "/v1/sales/{sale}/events", operation_id = "events", tag = "Events",
    params(("sale" = SaleId, Path, description = "Name of the sale"), super::docs::EventParameters),
    responses((status = 200, description = "A page of events", body = Page<Event>)),
)]
pub async fn events(store: Data<Store>, At(sale): At<SaleId>, Query(feed): Query<Feed>) -> Answer {
    found(store.events(&sale, feed.after, feed.limit).await)
}
