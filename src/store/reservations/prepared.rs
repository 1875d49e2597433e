//! Requests, prepared as far as they do not depend on the store's state.

use crate::domain::*;
use crate::store::group_commit::{Body, Entry, Request, Take, Verb};
use crate::store::ids;

/// What callers of their own are part of: their calls do not move parts of orders.
pub(super) const NO_ORDER: &str = "";

/// `sku=units,...`, as records and scripts have it.
pub(super) fn lines_text(lines: &Lines) -> String {
    let mut text = String::with_capacity(lines.count() * 16);
    for (sku, units) in lines.iter() {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(sku.as_str());
        text.push('=');
        text.push_str(&units.to_string());
    }
    text
}

impl Reserve {
    /// The record from its fingerprint on: what does not depend on the store's state.
    fn tail(&self, lines: &str, order: Option<OrderId>) -> String {
        let buyer = self.buyer.as_ref().map_or("", Buyer::as_str);
        let reference = self.reference.as_ref().map_or("", Reference::as_str);
        let metadata =
            self.metadata.as_ref().and_then(|pairs| serde_json::to_string(pairs).ok()).unwrap_or_default();
        let hold = self.hold_seconds.unwrap_or_default().to_le_bytes();
        let replaces = self.replaces.map(|id| id.0.into_bytes());
        let fingerprint = ids::fingerprint([
            lines.as_bytes(),
            buyer.as_bytes(),
            reference.as_bytes(),
            metadata.as_bytes(),
            &hold,
            replaces.as_ref().map_or(&[][..], |bytes| &bytes[..]),
        ]);
        let order = order.map(|order| ids::short(order.0)).unwrap_or_default();
        [&fingerprint, &order, lines, buyer, reference, &metadata].join("\n")
    }

    /// As the committer carries it; `order`: what it will be a part of.
    pub(in crate::store) fn prepared(&self, id: ReservationId, order: Option<OrderId>) -> Request {
        let lines = lines_text(&self.lines);
        let take = Take {
            buyer: self.buyer.as_ref().map(|buyer| (ids::bucket(buyer.as_str()), buyer.to_string())),
            hold_ms: self.hold_seconds.map(|seconds| seconds * 1000),
            entry: self.replaces.map_or(Entry::Plain, |id| Entry::Replaces(ids::short(id.0))),
            tail: self.tail(&lines, order),
            lines,
            line_count: self.lines.count(),
        };
        Request {
            verb: Verb::Reserve,
            id: ids::short(id.0),
            fence: self.fence.clone(),
            body: Body::Take(take),
        }
    }
}
