//! Counters of a cache, at hand where each request is counted.

use super::{ORIGIN, catalogue, key};
use metrics::{Counter, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

/// What the requests of one cache met.
#[derive(Clone)]
pub struct CacheMetrics {
    /// What was asked for was there, or on its way.
    pub hit: Counter,
    /// It had to be read.
    pub miss: Counter,
    /// An old one was there, and somebody else was making a new one.
    pub stale: Counter,
}

impl CacheMetrics {
    pub(super) fn new(recorder: &PrometheusRecorder, cache: &'static str) -> Self {
        let counter = |result| {
            let labels = [("cache", cache), ("result", result)];
            recorder.register_counter(&key(catalogue::CACHE_REQUESTS, &labels), &ORIGIN)
        };
        let [hit, miss, stale] = catalogue::CACHE_RESULTS.map(counter);
        Self { hit, miss, stale }
    }
}

impl Default for CacheMetrics {
    fn default() -> Self {
        Self { hit: Counter::noop(), miss: Counter::noop(), stale: Counter::noop() }
    }
}
