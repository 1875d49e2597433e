//! Webhook endpoints: who wants to hear of which events, and with which secrets the messages are signed.

use super::event::Event;
use super::id::{SaleId, SalePattern, TypePattern, WebhookUrl};
use super::order::Order;
use super::rules::given;
use super::sale::BadField;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;
use uuid::Uuid;

/// Id of an endpoint: a UUIDv8 made from the store's secret, the caller and the idempotency key; of a target of
/// `notify`, from its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = "uuid")]
pub struct WebhookId(pub Uuid);

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// `whsec_` and 32 bytes in base64, as Standard Webhooks has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret {
    /// The text that the receiver knows.
    pub secret: String,
    /// Messages are signed with it until then; none: with no end.
    pub until: Option<Timestamp>,
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecret").field("until", &self.until).finish_non_exhaustive()
    }
}

/// One endpoint, as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its id.
    pub id: WebhookId,
    /// Where messages go.
    pub url: WebhookUrl,
    /// Which types of events it wants; none: all.
    pub types: Option<Vec<TypePattern>>,
    /// Of which sales, and orders with one of them; none: all, and what belongs to no sale.
    pub sales: Option<Vec<SalePattern>>,
    /// The newest first.
    pub secrets: Vec<SigningSecret>,
    /// Since when nothing is sent any more, and nothing new is kept for it.
    pub disabled_at: Option<Timestamp>,
    /// Events from then on are meant for it.
    pub created_at: Timestamp,
    /// Milliseconds of the Redis server's own clock at `created_at`: ids of stream entries go by it.
    pub since_ms: u64,
    /// One more with each change.
    pub version: u64,
}

impl Endpoint {
    /// Whether it wants events of this sale at all.
    pub fn wants_sale(&self, sale: &SaleId) -> bool {
        self.disabled_at.is_none()
            && self.sales.as_ref().is_none_or(|sales| sales.iter().any(|pattern| pattern.matches(sale)))
    }

    /// Whether it wants events of this order: one of its sales is enough.
    pub fn wants_order(&self, order: &Order) -> bool {
        order.lines.iter().any(|line| self.wants_sale(&line.sale))
    }

    /// Whether it may want events of some order.
    pub fn wants_orders(&self) -> bool {
        self.disabled_at.is_none()
    }

    /// Whether it wants what belongs to no sale.
    pub fn wants_others(&self) -> bool {
        self.disabled_at.is_none() && self.sales.is_none()
    }

    /// Whether it wants this type.
    pub fn wants_type(&self, event: &Event) -> bool {
        self.types.as_ref().is_none_or(|types| types.iter().any(|pattern| pattern.matches(&event.kind)))
    }
}

/// Most endpoints of a store: each is looked at with every event.
pub const WEBHOOKS_MAX: usize = 100;
/// Most patterns of a filter.
pub const PATTERNS_MAX: usize = 50;

/// Body of POST webhooks.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterWebhook {
    /// Where messages go.
    pub url: WebhookUrl,
    /// Types of events that are wanted, such as `barrier.*`; default: all.
    #[schema(min_items = 1, max_items = 50)]
    pub types: Option<Vec<TypePattern>>,
    /// Names of the sales whose events are wanted, such as `drop-*`, and those of orders with one of these sales; default:
    /// all, and what belongs to no sale.
    #[schema(min_items = 1, max_items = 50)]
    pub sales: Option<Vec<SalePattern>>,
}

/// Body of PATCH webhook, a merge patch (RFC 7396).
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchWebhook {
    /// Where messages go from now on.
    #[serde(default, deserialize_with = "given")]
    pub url: Option<WebhookUrl>,
    /// Types of events that are wanted; null: all.
    #[schema(value_type = Option<Vec<TypePattern>>, min_items = 1, max_items = 50)]
    #[serde(default, deserialize_with = "given")]
    pub types: Option<Option<Vec<TypePattern>>>,
    /// Sales whose events are wanted, and those of orders with one of these sales; null: all, and what belongs to no
    /// sale.
    #[schema(value_type = Option<Vec<SalePattern>>, min_items = 1, max_items = 50)]
    #[serde(default, deserialize_with = "given")]
    pub sales: Option<Option<Vec<SalePattern>>>,
    /// True: nothing is sent, and nothing new is kept for it. False: what happens from now on is.
    #[serde(default, deserialize_with = "given")]
    pub disabled: Option<bool>,
}

fn check_patterns<T>(patterns: Option<&Vec<T>>, field: &str) -> Result<(), BadField> {
    let legal = patterns.is_none_or(|some| (1..=PATTERNS_MAX).contains(&some.len()));
    BadField::unless(legal, field, "must have 1 to 50 items; leave it out for all")
}

impl RegisterWebhook {
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), BadField> {
        check_patterns(self.types.as_ref(), "/types")?;
        check_patterns(self.sales.as_ref(), "/sales")
    }
}

impl PatchWebhook {
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), BadField> {
        check_patterns(self.types.as_ref().and_then(Option::as_ref), "/types")?;
        check_patterns(self.sales.as_ref().and_then(Option::as_ref), "/sales")
    }

    /// Changes what is given.
    pub fn apply(&self, endpoint: &mut Endpoint, now: Timestamp, server_ms: u64) {
        if let Some(url) = &self.url {
            endpoint.url = url.clone();
        }
        if let Some(types) = &self.types {
            endpoint.types = types.clone();
        }
        if let Some(sales) = &self.sales {
            endpoint.sales = sales.clone();
        }
        match (self.disabled, endpoint.disabled_at) {
            (Some(true), None) => endpoint.disabled_at = Some(now),
            (Some(false), Some(_)) => (endpoint.disabled_at, endpoint.since_ms) = (None, server_ms),
            _ => {}
        }
    }
}

/// Whether anything is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookStatus {
    /// Yes.
    Enabled,
    /// No: somebody has said so, or the receiver has, with 410.
    Disabled,
}

/// An endpoint as callers see it: without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Where messages go.
    pub url: WebhookUrl,
    /// Types of events that are wanted; null: all.
    pub types: Option<Vec<TypePattern>>,
    /// Sales whose events are wanted, and those of orders with one of these sales; null: all, and what belongs to no
    /// sale.
    pub sales: Option<Vec<SalePattern>>,
    /// Whether anything is sent.
    pub status: WebhookStatus,
    /// Since when nothing is.
    pub disabled_at: Option<Timestamp>,
    /// Since when it is registered.
    pub created_at: Timestamp,
}

impl From<&Endpoint> for Webhook {
    fn from(endpoint: &Endpoint) -> Self {
        let Endpoint { id, url, types, sales, disabled_at, created_at, .. } = endpoint.clone();
        let status = if disabled_at.is_some() { WebhookStatus::Disabled } else { WebhookStatus::Enabled };
        Self { id, url, types, sales, status, disabled_at, created_at }
    }
}

/// The same, with what signs its messages: told when it is made, and to nobody else.
#[derive(Clone, Serialize, ToSchema)]
pub struct WebhookSecret {
    /// The endpoint.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// Signs its messages from now on: `whsec_` and base64.
    pub secret: String,
    /// Until then the secret before it signs as well; null if there is none.
    pub previous_until: Option<Timestamp>,
}

impl From<&Endpoint> for WebhookSecret {
    fn from(endpoint: &Endpoint) -> Self {
        let secret = endpoint.secrets.first().map(|newest| newest.secret.clone()).unwrap_or_default();
        let previous_until = endpoint.secrets.get(1).and_then(|previous| previous.until);
        Self { webhook: endpoint.into(), secret, previous_until }
    }
}
