//! Webhook endpoints: who is told what. What became of each event is in `deliveries`.

use super::answer::{self, Answer, Done, carried_out, done};
use super::body::{Body, Document, Nothing};
use super::extract::{At, Query, Who};
use super::idempotency::Key;
use super::problem::{Code, Problem};
use super::trace_parent::CallerSpan;
use crate::domain::webhook::{PatchWebhook, RegisterWebhook, Webhook, WebhookSecret};
use crate::domain::{Caller, Endpoint, Event, Outcome, Page, PageRequest, WebhookId, WebhookUrl};
use crate::store::Store;
use crate::webhooks::{Message, Sender, signature};
use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use serde::Serialize;
use std::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

impl Document for RegisterWebhook {}
impl Document for PatchWebhook {
    const MEDIA_TYPE: &str = "application/merge-patch+json";
}

/// What became of a message that was sent to try an endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tried {
    /// The receiver has it: it answered 2xx.
    delivered: bool,
    /// HTTP status of the answer; null if there was none.
    status: Option<u16>,
    /// What went wrong, in a few words; null where nothing did.
    error: Option<&'static str>,
    /// Milliseconds until that was known.
    duration_ms: u64,
}

/// An endpoint may hear of any sale: who may not see all sales sees none of them.
pub(super) fn check_caller(caller: &Caller) -> Result<(), Problem> {
    if caller.may_see_all() { Ok(()) } else { Err(Problem::new(Code::Forbidden)) }
}

/// A name is judged when it is called; what the URL itself says, now.
fn check_target(sender: &Sender, url: Option<&WebhookUrl>) -> Result<(), Problem> {
    match url.map(|url| sender.check(url)) {
        Some(Err(forbidden)) => Err(Problem::of_field(Code::ForbiddenTarget, "/url", forbidden.0)),
        _ => Ok(()),
    }
}

/// Register a webhook
///
/// Every event that is wanted, from now on, is sent there by POST: signed as Standard Webhooks has it, at least once,
/// with a `webhook-id` that stays the same. The secret is told here alone. The same `Idempotency-Key` is the same
/// webhook.
#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "register_webhook", tag = "Webhooks",
    request_body = RegisterWebhook,
    responses(
        (status = 201, description = "It is registered", body = WebhookSecret, headers(("Location" = String))),
        (status = 200, description = "It was registered by this key before", body = WebhookSecret),
    ),
)]
pub async fn register_webhook(
    store: Data<Store>,
    sender: Data<Sender>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<RegisterWebhook>,
) -> Answer {
    check_caller(&caller)?;
    request.check()?;
    check_target(&sender, Some(&request.url))?;
    let secret = signature::new_secret();
    let done = done(store.register_webhook(&caller, key.as_ref(), request, secret).await)?;
    let is_new = done.outcome == Outcome::Created;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/v1/webhooks/{}", done.value.id);
    let mut answer = carried_out(status, &done.map(|endpoint| WebhookSecret::from(&endpoint)))?;
    let location = HeaderValue::try_from(location).map_err(|_| Problem::new(Code::Internal))?;
    answer.headers_mut().insert(header::LOCATION, location);
    Ok(answer)
}

/// List the webhooks
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "webhooks", tag = "Webhooks",
    params(super::docs::PageParameters),
    responses((status = 200, description = "A page of webhooks", body = Page<Webhook>)),
)]
pub async fn webhooks(store: Data<Store>, Who(caller): Who, Query(page): Query<PageRequest>) -> Answer {
    check_caller(&caller)?;
    page.check(|text| Uuid::try_parse(text).is_ok())?;
    let after = page.after.as_deref().and_then(|text| Uuid::try_parse(text).ok());
    let all = store.webhooks().await?;
    let mut items: Vec<Webhook> =
        all.iter().filter(|endpoint| Some(endpoint.id.0) > after).map(Webhook::from).collect();
    let has_more = items.len() > page.limit;
    items.truncate(page.limit);
    let next = items.last().filter(|_| has_more).map(|last| last.id.to_string());
    answer::json(StatusCode::OK, &Page { items, next })
}

/// Read a webhook
#[utoipa::path(
    get, path = "/v1/webhooks/{webhook}", operation_id = "webhook", tag = "Webhooks",
    params(("webhook" = WebhookId, Path, description = "Id of the webhook")),
    responses((status = 200, description = "The webhook, without its secret", body = Webhook)),
)]
pub async fn webhook(store: Data<Store>, Who(caller): Who, At(webhook): At<WebhookId>) -> Answer {
    check_caller(&caller)?;
    answer::json(StatusCode::OK, &Webhook::from(&done(store.webhook(webhook).await)?.value))
}

/// Change a webhook
///
/// A merge patch: what is left out stays. One that is enabled again hears of what happens from then on.
#[utoipa::path(
    patch, path = "/v1/webhooks/{webhook}", operation_id = "patch_webhook", tag = "Webhooks",
    params(("webhook" = WebhookId, Path, description = "Id of the webhook")),
    request_body(content = PatchWebhook, content_type = "application/merge-patch+json"),
    responses((status = 200, description = "The webhook as it is now", body = Webhook)),
)]
pub async fn patch_webhook(
    store: Data<Store>,
    sender: Data<Sender>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    _key: Key,
    Body(patch): Body<PatchWebhook>,
) -> Answer {
    check_caller(&caller)?;
    patch.check()?;
    check_target(&sender, patch.url.as_ref())?;
    let done = done(store.patch_webhook(webhook, patch).await)?;
    carried_out(StatusCode::OK, &done.map(|endpoint| Webhook::from(&endpoint)))
}

/// Delete a webhook
///
/// What was not delivered yet will not be.
#[utoipa::path(
    delete, path = "/v1/webhooks/{webhook}", operation_id = "delete_webhook", tag = "Webhooks",
    params(("webhook" = WebhookId, Path, description = "Id of the webhook")),
    responses((status = 204, description = "It is gone")),
)]
pub async fn delete_webhook(
    store: Data<Store>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    _key: Key,
) -> Answer {
    check_caller(&caller)?;
    let done = done(store.delete_webhook(webhook).await)?;
    let mut answer = HttpResponse::new(StatusCode::NO_CONTENT);
    answer::say_outcome(&mut answer, done.outcome);
    Ok(answer)
}

/// Rotate the secret of a webhook
///
/// From now on messages carry a signature of the new secret, and for a day one of the secret before it as well: time to
/// tell the receiver.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook}/rotate-secret", operation_id = "rotate_secret", tag = "Webhooks",
    params(("webhook" = WebhookId, Path, description = "Id of the webhook")),
    responses((status = 200, description = "The webhook with its new secret", body = WebhookSecret)),
)]
pub async fn rotate_secret(
    store: Data<Store>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    Key(key): Key,
    _body: Body<Nothing>,
) -> Answer {
    check_caller(&caller)?;
    let secret = signature::new_secret();
    let done = done(store.rotate_secret(webhook, &caller, key.as_ref(), secret).await)?;
    carried_out(StatusCode::OK, &done.map(|endpoint| WebhookSecret::from(&endpoint)))
}

/// Try a webhook
///
/// Sends one `dev.stockade.webhook.test` now, also to one that is disabled, and says what became of it. It is not tried
/// again, and nothing of the receiver's answer but its status is shown. The same `Idempotency-Key` sends the same
/// `webhook-id`.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook}/test", operation_id = "test_webhook", tag = "Webhooks",
    params(("webhook" = WebhookId, Path, description = "Id of the webhook")),
    responses((status = 200, description = "What became of the message", body = Tried)),
)]
pub async fn test_webhook(
    store: Data<Store>,
    sender: Data<Sender>,
    Who(caller): Who,
    At(webhook): At<WebhookId>,
    Key(key): Key,
    CallerSpan(parent): CallerSpan,
    _body: Body<Nothing>,
) -> Answer {
    check_caller(&caller)?;
    let endpoint: Endpoint = done(store.webhook(webhook).await)?.value;
    let at = store.now().await?;
    let id = store.ids().await?.operation(&format!("test {webhook}"), &caller, key.as_ref());
    let event = Event::test(id.0, Webhook::from(&endpoint), at);
    let body = serde_json::to_vec(&event).map_err(|_| Problem::new(Code::Internal))?;
    let begun = Instant::now();
    let message = Message { id: event.id.to_string(), at, body: body.into(), parent };
    let sent = sender.send(&endpoint, &message).await;
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (status, error) = sent.said();
    let value = Tried { delivered: error.is_none(), status, error, duration_ms };
    carried_out(StatusCode::OK, &Done { outcome: Outcome::Unchanged, value })
}
