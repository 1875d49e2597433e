//! What is counted of webhooks.

use super::{ORIGIN, catalogue, key};
use metrics::{Counter, Histogram, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::collections::HashMap;
use std::time::Duration;

/// What is counted of deliveries.
pub struct WebhookMetrics {
    deliveries: HashMap<&'static str, Counter>,
    delay: Histogram,
    skipped: Counter,
}

impl WebhookMetrics {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        let counter = |name, labels: &[_]| recorder.register_counter(&key(name, labels), &ORIGIN);
        Self {
            deliveries: catalogue::DELIVERY_OUTCOMES
                .iter()
                .map(|outcome| (*outcome, counter(catalogue::WEBHOOK_DELIVERIES, &[("outcome", *outcome)])))
                .collect(),
            delay: recorder.register_histogram(&key(catalogue::WEBHOOK_DELAY, &[]), &ORIGIN),
            skipped: counter(catalogue::WEBHOOK_SKIPPED, &[]),
        }
    }

    /// A try ended `delivered`, `retried`, `dead` or `gone`.
    pub fn tried(&self, outcome: &'static str) {
        if let Some(counter) = self.deliveries.get(outcome) {
            counter.increment(1);
        }
    }

    /// An event was delivered so long after it happened.
    pub fn delivered_after(&self, delay: Duration) {
        self.delay.record(delay);
    }

    /// So many events will not reach an endpoint, or so many entries any.
    pub fn skipped(&self, count: u64) {
        self.skipped.increment(count);
    }
}
