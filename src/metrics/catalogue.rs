//! Every metric there is: name, kind, help. The closed sets of labels are in `labels`.

pub use super::labels::*;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// What a metric is, with the buckets of a histogram.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size; the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// Whom a number is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This process: sums over processes mean something.
    Process,
    /// The store: every process says the same, so a sum would count it several times.
    Store,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the prefix.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Whom it is about.
    pub scope: Scope,
    /// What it says.
    pub text: &'static str,
}

impl Metric {
    /// Its `# HELP` line: what it says, and of whom.
    pub fn help(&self) -> String {
        let scope = match self.scope {
            Scope::Process => "process",
            Scope::Store => "store-wide",
        };
        format!("{} [{scope}]", self.text)
    }
}

macro_rules! catalogue {
    ($($constant:ident $name:literal $scope:ident $kind:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $constant: &str = $name;)*

        /// All of them.
        pub const METRICS: &[Metric] =
            &[$(Metric { name: $name, kind: $kind, scope: Scope::$scope, text: $text },)*];
    };
}

/// From one trip to Redis on the same machine to where every client has given up.
const SECONDS: Kind = Kind::Histogram(&[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);
/// The sweeper is due several times a second: what is late by more is a fault.
const LAG_SECONDS: Kind = Kind::Histogram(&[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]);
/// Streams last as long as their listeners want.
const LONG_SECONDS: Kind =
    Kind::Histogram(&[0.1, 1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0]);
/// From one trip through Redis to the end of all tries.
const LONG_DELAY_SECONDS: Kind = Kind::Histogram(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0,
]);
/// A batch holds at most 256 requests.
const BATCH: Kind = Kind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);

catalogue! {
    HTTP_REQUESTS "stockade_http_requests_total" Process Kind::Counter,
        "HTTP requests by route, method and status of the answer.";
    HTTP_DURATION "stockade_http_request_duration_seconds" Process SECONDS,
        "Time from the head of a request to its answer; streams are not in it.";
    HTTP_STREAM "stockade_http_stream_seconds" Process LONG_SECONDS,
        "How long streams were open that have ended, by route.";
    HTTP_STREAMS_OPEN "stockade_http_streams_open" Process Kind::Gauge,
        "Streams that are open, by route.";
    RESERVATIONS "stockade_reservations_total" Process Kind::Counter,
        "Reservation verbs by the word of their answer.";
    RESERVATION_UNITS "stockade_reservation_units_total" Process Kind::Counter,
        "Units moved by reservations, by transition. What is returned shows in stock and events.";
    EXPIRY_LAG "stockade_hold_expiry_lag_seconds" Process LAG_SECONDS,
        "Time between a deadline and the moment its hold was expired.";
    BATCH_SIZE "stockade_commit_batch_size" Process BATCH,
        "Requests carried by one script call.";
    QUEUE_DEPTH "stockade_commit_queue_depth" Process Kind::Gauge,
        "Mutations that wait for their batch.";
    COMMIT_DURATION "stockade_commit_duration_seconds" Process SECONDS,
        "Time from sending a batch to its answers, by script.";
    POOL_CONNECTIONS "stockade_redis_pool_connections" Process Kind::Gauge,
        "Connections to Redis by state.";
    POOL_WAIT "stockade_redis_pool_wait_seconds" Process SECONDS,
        "Time spent waiting for a connection of the pool.";
    REDIS_ERRORS "stockade_redis_errors_total" Process Kind::Counter,
        "Failed calls of Redis by kind.";
    CACHE_REQUESTS "stockade_cache_requests_total" Process Kind::Counter,
        "Reads of levels by cache (levels: of this process; pages: shared by all) and result.";
    WEBHOOK_DELIVERIES "stockade_webhook_deliveries_total" Process Kind::Counter,
        "Tries to deliver an event to a webhook endpoint, by outcome (retried: it failed and is tried again).";
    WEBHOOK_DELAY "stockade_webhook_delay_seconds" Process LONG_DELAY_SECONDS,
        "Time from an event to its delivery.";
    WEBHOOK_SKIPPED "stockade_webhook_events_skipped_total" Process Kind::Counter,
        "Events that an endpoint will not get: trimmed too early, damaged, its queue full, or dead ones beyond the number kept.";
    WEBHOOK_BACKLOG "stockade_webhook_backlog" Store Kind::Gauge,
        "Deliveries that wait in the store, and entries of events that are not turned into deliveries yet.";
    LOCKS "stockade_locks_total" Process Kind::Counter,
        "Calls about locks by operation and the word of their answer, those of orders included.";
    LOCK_WAIT "stockade_lock_wait_seconds" Process SECONDS,
        "Time from the call to the lease, of those who got one.";
    LOCK_HELD "stockade_lock_held_seconds" Process LONG_SECONDS,
        "Time from acquire to release, where both were calls of this process.";
    ORDERS "stockade_orders_total" Process Kind::Counter,
        "Calls that change orders by the word of their answer, and orders that recovery has finished or undone.";
    BARRIERS "stockade_barriers_total" Process Kind::Counter,
        "Barriers by what became of them: created, and how they ended.";
    BARRIER_ARRIVALS "stockade_barrier_arrivals_total" Process Kind::Counter,
        "Arrivals at barriers by the word of their answer.";
    BARRIER_OPEN "stockade_barrier_open_seconds" Process LONG_SECONDS,
        "Time from the creation of a barrier to its end.";
    BUILD_INFO "stockade_build_info" Process Kind::Gauge,
        "Always 1; the version is in the label.";
    HOLDS_OPEN "stockade_holds_open" Store Kind::Gauge,
        "Open holds in the store, over all sales.";
    HOLDS_OVERDUE "stockade_holds_overdue" Store Kind::Gauge,
        "Open holds past their deadline in the store, over all sales.";
    REDIS_UP "stockade_redis_up" Process Kind::Gauge,
        "1 while Redis answers this process.";
    ORPHANS "stockade_orphans" Store Kind::Gauge,
        "Reservation ids whose record is missing or corrupt, over all sales.";
    CONSERVATION_VIOLATIONS "stockade_conservation_violations" Store Kind::Gauge,
        "SKUs, buyers and ids that the last background audit found wrong, over all sales.";
    LAST_AUDIT "stockade_audit_last_success_timestamp_seconds" Store Kind::Gauge,
        "When a background audit of all sales last came to its end; 0 before the first.";
    SALE_RESERVATIONS "stockade_sale_reservations_total" Process Kind::Counter,
        "Answers of the busiest sales by their word, whatever the verb; of all other sales together as `other`.";
    SALE_UNITS "stockade_sale_units" Store Kind::Gauge,
        "Units of a sale over all its SKUs, by state: available + held + sold = granted.";
    STOCK_UNITS "stockade_stock_units" Store Kind::Gauge,
        "Units of a SKU, by state: available + held + sold = granted.";
    SALE_STATUS "stockade_sale_status" Store Kind::Gauge,
        "1 for the status that a sale has, 0 for the others.";
    SALE_OPENS_AT "stockade_sale_opens_at_seconds" Store Kind::Gauge,
        "When the doors of a sale open, if it says so, since unix epoch in seconds.";
    SALES_LEFT_OUT "stockade_sales_left_out" Store Kind::Gauge,
        "Sales without series of their own, because there are more than the limit.";
    SALES_UNREADABLE "stockade_sales_unreadable" Store Kind::Gauge,
        "Sales that cannot be shown: their stock does not add up, or holds what no script wrote.";
    SKUS_LEFT_OUT "stockade_skus_left_out" Store Kind::Gauge,
        "SKUs without series of their own, because there are more than the limit.";
    REDIS_INFO "stockade_redis_info" Store Kind::Gauge,
        "Always 1; version and role of Redis are in the labels.";
    REDIS_UPTIME "stockade_redis_uptime_seconds" Store Kind::Gauge,
        "Time since Redis was started.";
    REDIS_CLIENTS "stockade_redis_clients" Store Kind::Gauge,
        "Connections that Redis has.";
    REDIS_BLOCKED_CLIENTS "stockade_redis_blocked_clients" Store Kind::Gauge,
        "Connections that wait in a blocking call: readers of live events and of webhooks do.";
    REDIS_CLIENT_BUFFER "stockade_redis_client_buffer_bytes" Store Kind::Gauge,
        "The largest buffer of any connection, by direction; not where there are more than 200 connections.";
    REDIS_KEYS "stockade_redis_keys" Store Kind::Gauge,
        "Keys in the database.";
    REDIS_REPLICAS "stockade_redis_replicas" Store Kind::Gauge,
        "Connected replicas.";
    REDIS_MEMORY "stockade_redis_memory_bytes" Store Kind::Gauge,
        "Memory of Redis by kind; max is the limit, 0 if there is none.";
    REDIS_CPU "stockade_redis_cpu_seconds_total" Store Kind::Counter,
        "CPU time of Redis by mode.";
    REDIS_COMMANDS "stockade_redis_commands_total" Store Kind::Counter,
        "Commands that Redis carried out.";
    REDIS_ERROR_REPLIES "stockade_redis_error_replies_total" Store Kind::Counter,
        "Error replies of Redis, to anybody.";
    REDIS_NETWORK "stockade_redis_network_bytes_total" Store Kind::Counter,
        "Bytes that Redis received (input) and sent (output).";
    REDIS_EVICTED_KEYS "stockade_redis_evicted_keys_total" Store Kind::Counter,
        "Keys that Redis evicted: each may be stock lost, so it must stay 0.";
    REDIS_REJECTED_CONNECTIONS "stockade_redis_rejected_connections_total" Store Kind::Counter,
        "Connections that Redis refused, because it had as many as it may have.";
    REDIS_SLOWLOG_ENTRIES "stockade_redis_slowlog_entries_total" Store Kind::Counter,
        "Commands that were slower than slowlog-log-slower-than.";
    REDIS_LATENCY "stockade_redis_latency_seconds" Store Kind::Gauge,
        "The last spike that the latency monitor of Redis saw, if that was within a minute, else 0, by event.";
    REDIS_PERSISTENCE_OK "stockade_redis_persistence_ok" Store Kind::Gauge,
        "1 if the last write of the append-only file, its last rewrite, the last snapshot went well, else 0.";
    REDIS_AOF_BYTES "stockade_redis_aof_bytes" Store Kind::Gauge,
        "Size of the append-only file.";
    REDIS_FORK "stockade_redis_fork_seconds" Store Kind::Gauge,
        "How long the last fork took, which keeps everybody waiting.";
}

/// A builder that knows the buckets of every histogram.
pub fn builder() -> Result<PrometheusBuilder, BuildError> {
    METRICS.iter().try_fold(PrometheusBuilder::new(), |builder, metric| match metric.kind {
        Kind::Histogram(buckets) => {
            builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
        }
        Kind::Counter | Kind::Gauge => Ok(builder),
    })
}
