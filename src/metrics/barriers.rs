//! What is counted of barriers.

use super::catalogue::{self, OTHER};
use super::{Metrics, ORIGIN, key};
use metrics::{Counter, Histogram, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::collections::HashMap;
use std::time::Duration;

/// Barriers, arrivals, and how long barriers are open.
pub(super) struct BarrierMetrics {
    barriers: HashMap<&'static str, Counter>,
    arrivals: HashMap<&'static str, Counter>,
    open: Histogram,
}

impl BarrierMetrics {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        let counter = |name, outcome| {
            (outcome, recorder.register_counter(&key(name, &[("outcome", outcome)]), &ORIGIN))
        };
        let barriers =
            catalogue::BARRIER_OUTCOMES.iter().map(|outcome| counter(catalogue::BARRIERS, *outcome));
        let arrivals =
            catalogue::arrival_labels().map(|outcome| counter(catalogue::BARRIER_ARRIVALS, outcome));
        let open = recorder.register_histogram(&key(catalogue::BARRIER_OPEN, &[]), &ORIGIN);
        Self { barriers: barriers.collect(), arrivals: arrivals.collect(), open }
    }
}

impl Metrics {
    /// A barrier was made, or ended so.
    pub fn barrier(&self, outcome: &'static str) {
        if let Some(counter) = self.barriers.barriers.get(outcome) {
            counter.increment(1);
        }
    }

    /// An arrival was answered so.
    pub fn barrier_arrival(&self, outcome: &'static str) {
        let arrivals = &self.barriers.arrivals;
        if let Some(counter) = arrivals.get(outcome).or_else(|| arrivals.get(OTHER)) {
            counter.increment(1);
        }
    }

    /// A barrier has ended so long after its creation.
    pub fn barrier_open(&self, duration: Duration) {
        self.barriers.open.record(duration);
    }
}
