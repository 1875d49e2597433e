//! What is counted of locks.

use super::catalogue::{self, OTHER};
use super::{Metrics, ORIGIN, key};
use metrics::{Counter, Histogram, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::collections::HashMap;
use std::time::Duration;

/// Calls about locks, and how long they are waited for and held.
pub(super) struct LockMetrics {
    calls: HashMap<(&'static str, &'static str), Counter>,
    wait: Histogram,
    held: Histogram,
}

impl LockMetrics {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        let counter = |(operation, outcome)| {
            let key = key(catalogue::LOCKS, &[("operation", operation), ("outcome", outcome)]);
            ((operation, outcome), recorder.register_counter(&key, &ORIGIN))
        };
        let histogram = |name| recorder.register_histogram(&key(name, &[]), &ORIGIN);
        let calls = catalogue::lock_labels().map(counter).collect();
        Self { calls, wait: histogram(catalogue::LOCK_WAIT), held: histogram(catalogue::LOCK_HELD) }
    }
}

impl Metrics {
    /// A call about a lock (`acquire`, `renew`, `release`) was answered so.
    pub fn lock(&self, operation: &'static str, outcome: &'static str) {
        let calls = &self.locks.calls;
        if let Some(counter) = calls.get(&(operation, outcome)).or_else(|| calls.get(&(operation, OTHER))) {
            counter.increment(1);
        }
    }

    /// Somebody got a lock after so long.
    pub fn lock_waited(&self, waited: Duration) {
        self.locks.wait.record(waited);
    }

    /// A lock was given back after so long.
    pub fn lock_held(&self, held: Duration) {
        self.locks.held.record(held);
    }
}
