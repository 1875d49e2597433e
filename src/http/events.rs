//! Events: what happened in a sale, in order.

use super::answer::{Answer, done, found};
use super::extract::{At, Feed, LiveFrom, Query};
use super::layer::Draining;
use super::problem::{Code, Problem};
use super::streams::{self, Streams};
use crate::domain::{Event, Page, SaleId};
use crate::store::Store;
use actix_web::web::Data;
use futures_util::stream;

/// Path of the stream, and its label.
pub const LIVE: &str = "/v1/sales/{sale}/events/live";

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

/// Follow the events of a sale
///
/// Server-Sent Events: `id` is the cursor, `event` the type, `data` the same CloudEvent as in the list. First what is
/// kept after the cursor, then what happens, without gap or repeat. The stream ends after `sale.deleted`, when the
/// process stops, and when a listener is so slow that what it has not read yet is no longer kept. Come back with the last
/// `id` as `Last-Event-ID`; browsers do that by themselves.
#[utoipa::path(
    get, path = "/v1/sales/{sale}/events/live", operation_id = "live_events", tag = "Events",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"), super::docs::LiveParameters,
        ("Last-Event-ID" = Option<String>, Header, description = "The same, as browsers send it when they come back; it wins over `after`"),
    ),
    responses((status = 200, description = "A stream that ends with its sale", body = String, content_type = "text/event-stream")),
)]
pub async fn live(
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
    At(sale): At<SaleId>,
    LiveFrom(after): LiveFrom,
) -> Answer {
    if draining.has_begun() {
        return Err(Problem::new(Code::Draining));
    }
    let open = streams.into_inner().open(LIVE).ok_or_else(|| Problem::new(Code::TooManyStreams))?;
    let follower = done(store.follow(&sale, after).await)?.value;
    let events = stream::unfold(follower, |mut follower| async move {
        follower.next().await.map(|frames| (frames, follower))
    });
    Ok(streams::answer(open, draining.begun(), events))
}
