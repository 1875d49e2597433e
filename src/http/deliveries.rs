//! Deliveries of a webhook endpoint: what became of each event, and another try.

use super::answer::{self, Answer, Done, carried_out};
use super::body::{Body, Document};
use super::extract::{At, Parameters, Query, QueryParameters, Who};
use super::problem::{Code, Problem};
use super::webhooks::check_caller;
use crate::domain::page::is_reservation_cursor;
use crate::domain::{Caller, Delivery, DeliveryStatus, Outcome, Page, PageRequest, WebhookId};
use crate::store::Store;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Which deliveries are asked for.
pub struct OfStatus(DeliveryStatus);

impl QueryParameters for OfStatus {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let Some(status) = parameters.take("status") else { return Ok(Self(DeliveryStatus::Pending)) };
        let read = status.parse().map(Self);
        read.map_err(|()| Problem::invalid("status", "must be pending, delivered or dead"))
    }
}

/// Which deliveries are to begin anew.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Redeliver {
    /// The event, whatever became of it. Without it: all dead letters.
    #[schema(value_type = Option<String>, format = "uuid")]
    event: Option<Uuid>,
}

impl Document for Redeliver {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}

/// How many deliveries begin anew.
#[derive(Debug, Serialize, ToSchema)]
pub struct Redelivered {
    /// So many.
    redelivered: usize,
    /// There are more dead letters: call again.
    more: bool,
}

async fn check(store: &Store, caller: &Caller, webhook: WebhookId) -> Result<(), Problem> {
    check_caller(caller)?;
    if store.has_queue(webhook).await? { Ok(()) } else { Err(Problem::new(Code::UnknownWebhook)) }
}

/// List the deliveries of a webhook
///
/// Those that wait, by the time of their next try (the default), those that were delivered in the last 24 hours, or dead
/// letters, which are kept for 30 days; at most 10,000 of either. A target of `notify` is known by its id while it has
/// any.
#[utoipa::path(
    get, path = "/v1/webhooks/{webhook}/deliveries", operation_id = "deliveries", tag = "Webhooks",
    params(
        ("webhook" = String, Path, format = "uuid", description = "Id of the webhook"),
        super::docs::DeliveryParameters, super::docs::PageParameters,
    ),
    responses((status = 200, description = "A page of deliveries", body = Page<Delivery>)),
)]
pub async fn deliveries(
    store: Data<Store>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    Query(wanted): Query<(OfStatus, PageRequest)>,
) -> Answer {
    let (OfStatus(status), page) = wanted;
    page.check(is_reservation_cursor)?;
    check(&store, &caller, webhook).await?;
    answer::json(StatusCode::OK, &store.deliveries(webhook, status, &page).await?)
}

/// Deliver again
///
/// One event, or all dead letters, as if they had just happened: at once, and then with all pauses. The message has the
/// same `webhook-id`. What is sent at this very moment is left alone. The endpoint must not be disabled, or they are
/// dead again.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook}/redeliver", operation_id = "redeliver", tag = "Webhooks",
    params(("webhook" = String, Path, format = "uuid", description = "Id of the webhook")),
    request_body = Option<Redeliver>,
    responses((status = 200, description = "How many begin anew", body = Redelivered)),
)]
pub async fn redeliver(
    store: Data<Store>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    Body(Redeliver { event }): Body<Redeliver>,
) -> Answer {
    check(&store, &caller, webhook).await?;
    let value = match event {
        Some(event) => {
            let requeued = store.redeliver_event(webhook, event).await?;
            if requeued.unknown > 0 {
                return Err(Problem::new(Code::UnknownDelivery));
            }
            Redelivered { redelivered: requeued.requeued, more: false }
        }
        None => {
            let (redelivered, more) = store.redeliver_dead(webhook).await?;
            Redelivered { redelivered, more }
        }
    };
    let outcome = if value.redelivered > 0 { Outcome::Changed } else { Outcome::Unchanged };
    carried_out(StatusCode::OK, &Done { outcome, value })
}
