//! What the service tells Prometheus.
//!
//! One `Metrics` a process, with a recorder of its own, so that tests can have several. Every handle is made at the
//! start: an event then costs one atomic addition, and every counter exists at 0 before it is first needed. The one
//! exception is a status of HTTP that a route rarely has: its counter appears with its first answer.

mod barriers;
mod caches;
pub mod catalogue;
mod labels;
mod locks;
mod page;
mod process;
mod requests;
mod sales;
mod store_wide;
mod streams;
mod webhooks;

pub use caches::CacheMetrics;
pub use page::Sample;
pub use requests::HttpMetrics;
pub use sales::SaleCounts;
pub use webhooks::WebhookMetrics;

use catalogue::{Kind, METRICS, OTHER};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{BuildError, PrometheusHandle, PrometheusRecorder};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const ORIGIN: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Counters and gauges of this process, and the store's, as a worker last saw them.
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    reservations: HashMap<(&'static str, &'static str), Counter>,
    units: HashMap<&'static str, Counter>,
    expiry_lag: Histogram,
    barriers: barriers::BarrierMetrics,
    locks: locks::LockMetrics,
    orders: HashMap<&'static str, Counter>,
    batch_size: Histogram,
    queue_depth: Gauge,
    commit_duration: HashMap<&'static str, Histogram>,
    connections: HashMap<&'static str, Gauge>,
    pool_wait: Histogram,
    redis_errors: HashMap<&'static str, Counter>,
    caches: HashMap<&'static str, CacheMetrics>,
    redis_up: Gauge,
    sales: sales::BusiestSales,
    store_wide: store_wide::StoreWide,
    webhooks: WebhookMetrics,
    streams_open: HashMap<&'static str, Gauge>,
    stream_seconds: HashMap<&'static str, Histogram>,
}

fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
    Key::from_parts(name, labels.iter().map(|(name, value)| Label::new(*name, *value)).collect::<Vec<_>>())
}

impl Metrics {
    /// Describes and registers everything.
    pub fn new() -> Result<Self, BuildError> {
        Self::with_sales_max(sales::SALES_MAX)
    }

    /// The same; at most `sales_max` sales get series of what they were answered.
    pub fn with_sales_max(sales_max: usize) -> Result<Self, BuildError> {
        let recorder = catalogue::builder()?.build_recorder();
        for metric in METRICS {
            let (name, help) = (metric.name.into(), metric.help().into());
            match metric.kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram(_) => recorder.describe_histogram(name, None, help),
            }
        }
        let counter = |name, labels: &[_]| recorder.register_counter(&key(name, labels), &ORIGIN);
        let gauge = |name, labels: &[_]| recorder.register_gauge(&key(name, labels), &ORIGIN);
        let histogram = |name, labels: &[_]| recorder.register_histogram(&key(name, labels), &ORIGIN);
        let counters = |name, label, values: &[&'static str]| {
            values.iter().map(|value| (*value, counter(name, &[(label, *value)]))).collect()
        };
        gauge(catalogue::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        Ok(Self {
            handle: recorder.handle(),
            reservations: catalogue::reservation_labels()
                .map(|(verb, outcome)| {
                    (
                        (verb, outcome),
                        counter(catalogue::RESERVATIONS, &[("verb", verb), ("outcome", outcome)]),
                    )
                })
                .collect(),
            units: counters(catalogue::RESERVATION_UNITS, "transition", catalogue::TRANSITIONS),
            barriers: barriers::BarrierMetrics::new(&recorder),
            locks: locks::LockMetrics::new(&recorder),
            orders: catalogue::order_labels()
                .map(|outcome| (outcome, counter(catalogue::ORDERS, &[("outcome", outcome)])))
                .collect(),
            expiry_lag: histogram(catalogue::EXPIRY_LAG, &[]),
            batch_size: histogram(catalogue::BATCH_SIZE, &[]),
            queue_depth: gauge(catalogue::QUEUE_DEPTH, &[]),
            commit_duration: catalogue::SCRIPTS
                .iter()
                .map(|script| (*script, histogram(catalogue::COMMIT_DURATION, &[("script", script)])))
                .collect(),
            connections: catalogue::CONNECTION_STATES
                .iter()
                .map(|state| (*state, gauge(catalogue::POOL_CONNECTIONS, &[("state", state)])))
                .collect(),
            pool_wait: histogram(catalogue::POOL_WAIT, &[]),
            redis_errors: counters(catalogue::REDIS_ERRORS, "kind", catalogue::REDIS_ERROR_KINDS),
            caches: catalogue::CACHES
                .iter()
                .map(|cache| (*cache, CacheMetrics::new(&recorder, cache)))
                .collect(),
            redis_up: gauge(catalogue::REDIS_UP, &[]),
            sales: sales::BusiestSales::new(sales_max),
            store_wide: store_wide::StoreWide::default(),
            webhooks: WebhookMetrics::new(&recorder),
            streams_open: catalogue::STREAM_ROUTES
                .iter()
                .map(|route| (*route, gauge(catalogue::HTTP_STREAMS_OPEN, &[("route", *route)])))
                .collect(),
            stream_seconds: catalogue::STREAM_ROUTES
                .iter()
                .map(|route| (*route, histogram(catalogue::HTTP_STREAM, &[("route", *route)])))
                .collect(),
            recorder: Arc::new(recorder),
        })
    }

    /// `count` reservations were answered `outcome` to `verb`.
    pub fn reservations(&self, verb: &'static str, outcome: &'static str, count: u64) {
        let known = self.reservations.get(&(verb, outcome)).or_else(|| self.reservations.get(&(verb, OTHER)));
        if let Some(counter) = known {
            counter.increment(count);
        }
    }

    /// One reservation was answered `outcome` to `verb`.
    pub fn reservation(&self, verb: &'static str, outcome: &'static str) {
        self.reservations(verb, outcome, 1);
    }

    /// Units were `held`, `confirmed`, `retaken`, `released`, `expired` or `returned`.
    pub fn units(&self, transition: &'static str, units: u64) {
        if let Some(counter) = self.units.get(transition) {
            counter.increment(units);
        }
    }

    /// A hold was expired so long after its deadline.
    pub fn expired_late_by(&self, lag: Duration) {
        self.expiry_lag.record(lag);
    }

    /// A call about an order was answered so, or recovery has finished one (`recovered`).
    pub fn order(&self, outcome: &'static str) {
        if let Some(counter) = self.orders.get(outcome).or_else(|| self.orders.get(OTHER)) {
            counter.increment(1);
        }
    }

    /// A script call carried `requests` and took so long.
    pub fn commit(&self, script: &'static str, requests: usize, duration: Duration) {
        self.batch_size.record(requests as f64);
        if let Some(histogram) = self.commit_duration.get(script).or_else(|| self.commit_duration.get(OTHER))
        {
            histogram.record(duration);
        }
    }

    /// `count` mutations more wait for their batch.
    pub fn queued(&self, count: usize) {
        self.queue_depth.increment(count as f64);
    }

    /// `count` mutations less wait for their batch.
    pub fn dequeued(&self, count: usize) {
        self.queue_depth.decrement(count as f64);
    }

    /// `change` connections more are `idle` or `in_use`.
    pub fn pool_connections(&self, state: &'static str, change: i8) {
        if let Some(gauge) = self.connections.get(state) {
            gauge.increment(f64::from(change));
        }
    }

    /// A connection of the pool came after so long.
    pub fn pool_wait(&self, waited: Duration) {
        self.pool_wait.record(waited);
    }

    /// A call of Redis failed.
    pub fn redis_error(&self, kind: &'static str) {
        if let Some(counter) = self.redis_errors.get(kind).or_else(|| self.redis_errors.get(OTHER)) {
            counter.increment(1);
        }
    }

    /// Counters of one of `catalogue::CACHES`; of another one none that anybody sees.
    pub fn cache(&self, cache: &'static str) -> CacheMetrics {
        self.caches.get(cache).cloned().unwrap_or_default()
    }

    /// Whether Redis answered just now.
    pub fn redis_up(&self, up: bool) {
        self.redis_up.set(if up { 1.0 } else { 0.0 });
    }

    /// Of webhooks.
    pub fn webhooks(&self) -> &WebhookMetrics {
        &self.webhooks
    }

    /// Counters of one method of one route, whose usual good answer has the status `success`.
    pub fn http(&self, route: &'static str, method: &'static str, success: u16) -> HttpMetrics {
        HttpMetrics::new(&self.recorder, route, method, &[success, 500, 503])
    }

    /// Counters of all methods that a route does not know: they appear when somebody uses one.
    pub fn http_unknown_methods(&self, route: &'static str) -> HttpMetrics {
        HttpMetrics::new(&self.recorder, route, catalogue::OTHER, &[])
    }

    /// The page that Prometheus reads.
    pub fn render(&self) -> String {
        let mut page = self.handle.render();
        self.sales.write(&mut page);
        self.store_wide.write(&mut page);
        process::write(&mut page);
        page
    }

    /// Moves what histograms have recorded into their buckets, and sees which sales are the busiest. To be called every
    /// few seconds: between two reads of the page samples pile up in memory otherwise.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
        self.sales.choose();
    }
}

#[cfg(test)]
mod tests;
