//! Webhook endpoints: who wants to hear of which events, and with which secrets the messages are signed.

use super::event::Event;
use super::id::{SaleId, SalePattern, TypePattern, WebhookUrl};
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
    /// Of which sales; none: all, and what belongs to no sale.
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

    /// Whether it wants what belongs to no sale.
    pub fn wants_others(&self) -> bool {
        self.disabled_at.is_none() && self.sales.is_none()
    }

    /// Whether it wants this type.
    pub fn wants_type(&self, event: &Event) -> bool {
        self.types.as_ref().is_none_or(|types| types.iter().any(|pattern| pattern.matches(&event.kind)))
    }
}
