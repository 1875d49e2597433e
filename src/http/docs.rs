//! The OpenAPI document, generated from the handlers; what all handlers have in common is added here.

mod codes;
mod problem;
mod security;

pub use problem::ProblemDocument;

use super::bulk::{BulkAnswer, BulkResult};
use super::deliveries::{Redeliver, Redelivered};
use super::problem::page::ProblemType;
use super::problem::{Code, FieldError};
use super::webhooks::Tried;
use super::{barriers, bulk, deliveries, events, locks, ops, orders, reservations, sales, stock, webhooks};
use crate::domain::barrier::NotifyUrl;
use crate::domain::quantity::Line;
use crate::domain::sale::SkuSpec;
use crate::domain::webhook::{PatchWebhook, RegisterWebhook, Webhook, WebhookSecret};
use crate::domain::{
    AcquireLock, Adjust, Adjustment, Arrive, Barrier, BarrierEnd, BarrierParticipant, BarrierProgress,
    BulkRequest, BuyerSku, BuyerStanding, Confirm, ConfirmOrder, Declare, Delivery, Event, Extend,
    ExtendDeadline, FailedParticipant, Level, Lock, LockState, NotifyTarget, Order, OrderLine,
    OrderLineRequest, OrderRequest, PatchSale, PutBarrier, PutSale, PutSku, ReleaseLock, RenewLock,
    Reservation, ReservationLine, Reserve, ReserveBulk, Return, Sale, Seal, Shortfall, Totals,
};
use std::collections::BTreeMap;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, RefOr, Required};
use utoipa::{IntoParams, Modify, OpenApi};

/// Which page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `domain::PageRequest` reads")]
pub struct PageParameters {
    /// Most items of the page.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u16>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// How new levels must be.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `stock::Fresh` reads")]
pub struct FreshParameter {
    /// `true`: read them now, and not from a cache.
    #[param(default = false)]
    fresh: Option<bool>,
}

/// Which reservations.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::Wanted` reads")]
pub struct ReservationParameters {
    /// `held` (the default) or `ended`.
    #[param(pattern = "^(held|ended)$")]
    status: Option<String>,
    /// Only the one that this key made; not together with `status`.
    idempotency_key: Option<String>,
}

/// Which deliveries.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `deliveries::OfStatus` reads")]
pub struct DeliveryParameters {
    /// `pending` (the default), `delivered` or `dead`.
    #[param(pattern = "^(pending|delivered|dead)$")]
    status: Option<String>,
}

/// Which events.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::Feed` reads")]
pub struct EventParameters {
    /// Most events of the page.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u16>,
    /// Cursor of an event: what came after it. `latest`: what comes from now on. Default: from the oldest kept.
    after: Option<String>,
}

/// Which barriers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::BarrierList` reads")]
pub struct BarrierParameters {
    /// Only those of this status.
    #[param(pattern = "^(open|completed|failed|timed_out|cancelled)$")]
    status: Option<String>,
    /// Only those whose names begin so.
    prefix: Option<String>,
}

/// Which participants.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::ParticipantList` reads")]
pub struct ParticipantParameters {
    /// `missing` (the default), `arrived`, or of these only the `failed` ones.
    #[param(pattern = "^(missing|arrived|failed)$")]
    status: Option<String>,
}

/// How long to wait.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::WaitSeconds` reads")]
pub struct WaitParameter {
    /// Seconds.
    #[param(minimum = 0, maximum = 50, default = 30)]
    seconds: Option<u8>,
}

/// Where a stream of events begins.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `extract::LiveFrom` reads")]
pub struct LiveParameters {
    /// Cursor of an event: what came after it, then what comes. `latest`, the default: what comes from now on.
    after: Option<String>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stockade",
        description = "Sells a limited number of units to a crowd without selling one unit twice and without losing one. Every mutation may be repeated with the same `Idempotency-Key`. Clients must ignore fields that they do not know.",
    ),
    paths(
        reservations::reserve, reservations::reservations, reservations::reservation, reservations::confirm,
        reservations::release, reservations::extend, reservations::return_reservation, reservations::buyer,
        bulk::reserve_bulk,
        stock::levels, stock::level, stock::put_sku, stock::adjust, stock::adjustments,
        sales::sales, sales::sale, sales::put_sale, sales::patch_sale, sales::delete_sale, sales::pause_sale, sales::resume_sale,
        sales::close_sale, events::events, events::live, deliveries::deliveries, deliveries::redeliver,
        webhooks::register_webhook, webhooks::webhooks, webhooks::webhook, webhooks::patch_webhook,
        webhooks::delete_webhook, webhooks::rotate_secret, webhooks::test_webhook,
        barriers::barriers, barriers::barrier, barriers::put_barrier, barriers::cancel_barrier, barriers::arrive,
        barriers::declare, barriers::participants, barriers::seal, barriers::extend_barrier,
        barriers::wait_for_barrier, barriers::live_barrier,
        orders::place_order, orders::order, orders::confirm_order, orders::release_order,
        locks::acquire_lock, locks::lock, locks::renew_lock, locks::release_lock, locks::acquire_sale_lock,
        locks::sale_lock, locks::renew_sale_lock, locks::release_sale_lock,
        ops::livez, ops::readyz, ops::metrics, ops::openapi, ops::docs_page, ops::problems, ops::problem,
    ),
    components(schemas(
        Arrive, Barrier, BarrierEnd, BarrierParticipant, BarrierProgress, Declare, ExtendDeadline, FailedParticipant,
        NotifyTarget, NotifyUrl, PutBarrier, Seal, ConfirmOrder, Order, OrderLine, OrderLineRequest, OrderRequest,
        AcquireLock, Lock, LockState, ReleaseLock, RenewLock,
        Adjust, Adjustment, BulkAnswer, BulkRequest, BulkResult, BuyerSku, BuyerStanding, Confirm, Delivery, Event, Extend,
        FieldError, Level, Line, PatchSale, ProblemDocument, ProblemType, PutSale, PutSku, Redeliver, Redelivered, Reservation, ReservationLine,
        RegisterWebhook, PatchWebhook, Webhook, WebhookSecret, Tried, Reserve, ReserveBulk, Return, Sale, Shortfall, SkuSpec, Totals,
    )),
    tags(
        (name = "Reservations", description = "Take units, and settle what was taken"),
        (name = "Orders", description = "Carts over several sales, or with alternatives"),
        (name = "Locks", description = "Leases with a fence, for what must be computed outside"),
        (name = "Stock", description = "Levels, and the ledger of the supply"),
        (name = "Sales", description = "Rules and switches"),
        (name = "Barriers", description = "Wait until all have arrived, and be told once"),
        (name = "Events", description = "What happened, in order"),
        (name = "Webhooks", description = "What is sent to you"),
        (name = "Operations", description = "Probes, metrics, documents"),
    ),
    modifiers(&Common),
)]
struct Api;

/// The document as JSON.
pub fn openapi_json() -> String {
    Api::openapi().to_pretty_json().unwrap_or_default()
}

/// Adds to every operation what it shares with others: headers, problems.
struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut Document) {
        security::describe(document);
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in [
                ("GET", &mut item.get),
                ("PUT", &mut item.put),
                ("PATCH", &mut item.patch),
                ("POST", &mut item.post),
                ("DELETE", &mut item.delete),
            ] {
                if let Some(operation) = operation {
                    complete(path, method, operation);
                }
            }
        }
        if let Some(components) = &mut document.components {
            components.schemas.iter_mut().for_each(|(name, schema)| require_all(name, schema));
        }
    }
}

fn complete(path: &str, method: &str, operation: &mut Operation) {
    let name = operation.operation_id.clone().unwrap_or_default();
    let (mutates, needs) = (method != "GET", security::needs_of(method, path));
    security::require(operation, needs);
    let mut all: Vec<&[Code]> = codes::own(&name).to_vec();
    all.push(security::problems(needs));
    if path.starts_with("/v1") || name == "readyz" {
        all.push(codes::OF_THE_STORE);
    }
    if mutates {
        all.push(codes::OF_A_MUTATION);
        operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
        let header = |what: &str| RefOr::T(HeaderBuilder::new().description(Some(what)).build());
        for answer in operation.responses.responses.values_mut() {
            if let RefOr::T(answer) = answer {
                answer.headers.insert("Stockade-Outcome".into(), header("How it went, in one word"));
                answer.headers.insert("Stockade-Durability".into(), header(DURABILITY));
            }
        }
        if method != "DELETE" {
            all.push(codes::OF_A_BODY);
        }
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in all.iter().flat_map(|codes| codes.iter()) {
        by_status.entry(code.status()).or_default().push(code.as_str());
    }
    for (status, codes) in by_status {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let answer = ResponseBuilder::new()
            .description(format!("`{}`", codes.join("`, `")))
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.insert(status.to_string(), RefOr::T(answer));
    }
}

const DURABILITY: &str = "`local` where answers wait for a replica and none has what this one tells";

/// A bare key, or one in quotes.
const KEY_PATTERN: &str = r#"^([!#-:<-~]([ -:<-~]{0,253}[!-:<-~])?|"([ !#-\[\]-~]|\\["\\]){1,255}")$"#;

fn idempotency_key() -> Parameter {
    let key = ObjectBuilder::new().schema_type(Type::String).pattern(Some(KEY_PATTERN)).build();
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("Your name for this one effect: a repeat with the same key has no second one. 1-255 printable ASCII characters, bare or in double quotes"))
        .schema(Some(Schema::Object(key)))
        .build()
}

/// Answers always have all their fields: what is absent is null.
fn require_all(name: &str, schema: &mut RefOr<Schema>) {
    const ANSWERS: &[&str] = &[
        "Adjustment",
        "Barrier",
        "BarrierEnd",
        "BarrierParticipant",
        "BarrierProgress",
        "BulkAnswer",
        "BulkResult",
        "BuyerSku",
        "BuyerStanding",
        "Delivery",
        "Event",
        "FailedParticipant",
        "Level",
        "Lock",
        "LockState",
        "NotifyTarget",
        "Order",
        "ProblemType",
        "Redelivered",
        "Reservation",
        "Sale",
    ];
    if let (true, RefOr::T(Schema::Object(object))) =
        (ANSWERS.contains(&name) || name.starts_with("Page"), schema)
    {
        object.required = object.properties.keys().cloned().collect();
        // Generated clients then have one type for an item, wherever it stands.
        if let Some(item) = name.strip_prefix("Page_") {
            let items = ArrayBuilder::new().items(Ref::from_schema_name(item)).build();
            object.properties.insert("items".into(), RefOr::T(Schema::Array(items)));
        }
    }
}
