//! Events: one transition each, written by the same script that made it.

use super::barrier::BarrierEnd;
use super::id::{TYPE_PREFIX, WebhookUrl};
use super::order::Order;
use super::reservation::Reservation;
use super::sale::Sale;
use super::stock::{Adjustment, Level};
use super::time::Timestamp;
use super::webhook::Webhook;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;
use uuid::Uuid;

/// Place of an event in its stream: `<generation>-<ms>-<seq>-<n>`; n is the place in the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Incarnation of the sale.
    pub generation: String,
    /// First half of the stream entry's id.
    pub ms: u64,
    /// Second half.
    pub seq: u64,
    /// Place in the entry.
    pub n: usize,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.generation, self.ms, self.seq, self.n)
    }
}

impl FromStr for Cursor {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.rsplitn(4, '-');
        let mut next = || parts.next().ok_or(());
        let n = next()?.parse().map_err(|_| ())?;
        let seq = next()?.parse().map_err(|_| ())?;
        let ms = next()?.parse().map_err(|_| ())?;
        let generation = next()?.to_owned();
        let legal = !generation.is_empty() && generation.bytes().all(|b| b.is_ascii_alphanumeric());
        let cursor = Self { generation, ms, seq, n };
        // Numbers can be written in more ways, with a plus or with zeros before them; an event has one cursor.
        if legal && cursor.to_string() == text { Ok(cursor) } else { Err(()) }
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventKind {
    /// `reservation.*`: the reservation after it.
    Reservation {
        /// The whole reservation.
        #[serde(flatten)]
        reservation: Box<Reservation>,
        /// Its status before; null where it is new.
        previous_status: Option<String>,
    },
    /// `stock.adjusted`: the entry of the ledger.
    Adjustment(Box<Adjustment>),
    /// `stock.sold_out`, `stock.back_in_stock`: the level after it.
    Level(Box<Level>),
    /// `sale.*`: the sale after it.
    Sale {
        /// The whole sale.
        #[serde(flatten)]
        sale: Box<Sale>,
        /// Its switch before; null where it is new.
        previous_status: Option<String>,
    },
    /// `barrier.*`: how it ended.
    Barrier(Box<BarrierEnd>),
    /// `order.*`: the order after it.
    Order {
        /// The whole order.
        #[serde(flatten)]
        order: Box<Order>,
        /// Its status before; null where it is new.
        previous_status: Option<String>,
    },
    /// `webhook.test`: the endpoint that is tried.
    Webhook(Box<Webhook>),
}

/// A CloudEvents 1.0 envelope.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Always `1.0`.
    pub specversion: &'static str,
    /// UUIDv5 of source and cursor: the same event has the same id for ever.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// `/v1/sales/{sale}`, `/v1/barriers/{barrier}`, `/v1/orders/{order}`, `/v1/webhooks/{webhook}`.
    pub source: String,
    /// `dev.stockade.reservation.held` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Id of the reservation or the order, or name of the SKU or the barrier; null for the sale itself.
    pub subject: Option<String>,
    /// When.
    pub time: Timestamp,
    /// Always `application/json`.
    pub datacontenttype: &'static str,
    /// Place in the stream: pass it as `after`.
    #[schema(value_type = String)]
    pub cursor: Cursor,
    /// The whole object after the transition.
    pub data: EventKind,
    /// Targets that hear of this one event, whether or not they are registered (`notify` of a barrier).
    #[serde(skip)]
    pub notify: Vec<WebhookUrl>,
}

impl Event {
    /// As an event of Server-Sent Events: its cursor, its type, and the JSON document in one line.
    pub fn frame(&self) -> Bytes {
        let mut frame = format!("id: {}\nevent: {}\ndata: ", self.cursor, self.kind).into_bytes();
        // Writing to memory fails only where a map's key is no string, and all keys here are.
        if serde_json::to_writer(&mut frame, self).is_err() {
            frame.clear();
        }
        frame.extend_from_slice(b"\n\n");
        frame.into()
    }

    /// What is sent to try an endpoint. It is in no stream.
    pub fn test(id: Uuid, webhook: Webhook, time: Timestamp) -> Self {
        Self {
            specversion: "1.0",
            id,
            source: format!("/v1/webhooks/{}", webhook.id),
            kind: format!("{TYPE_PREFIX}webhook.test"),
            subject: Some(webhook.id.to_string()),
            time,
            datacontenttype: "application/json",
            cursor: Cursor { generation: "0".to_owned(), ms: 0, seq: 0, n: 0 },
            data: EventKind::Webhook(Box::new(webhook)),
            notify: Vec::new(),
        }
    }

    /// Whether nothing comes after it: its sale is deleted.
    pub fn is_last(&self) -> bool {
        self.kind == "dev.stockade.sale.deleted"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_what_it_writes() {
        let cursor: Cursor = "9f3c-1764518400000-3-17".parse().unwrap();
        assert_eq!(cursor, Cursor { generation: "9f3c".into(), ms: 1_764_518_400_000, seq: 3, n: 17 });
        assert_eq!(cursor.to_string(), "9f3c-1764518400000-3-17");
        for bad in [
            "",
            "1-2-3",
            "-1-2-3",
            "g-1-2-x",
            "g-99999999999999999999-1-1",
            "a b-1-2-3",
            "g-1-+2-3",
            "g-1-02-3",
        ] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad:?}");
        }
    }
}
