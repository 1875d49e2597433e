//! Every metric there is: name, kind, help, and the closed sets of its labels.

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

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the prefix.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its `# HELP` line.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($constant:ident $name:literal $kind:expr, $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        /// All of them.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, kind: $kind, help: $help },)*];
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
/// A batch holds at most 128 requests.
const BATCH: Kind = Kind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]);

catalogue! {
    HTTP_REQUESTS "stockade_http_requests_total" Kind::Counter,
        "HTTP requests by route, method and status of the answer.";
    HTTP_DURATION "stockade_http_request_duration_seconds" SECONDS,
        "Time from the head of a request to its answer; streams are not in it.";
    HTTP_STREAM "stockade_http_stream_seconds" LONG_SECONDS,
        "How long streams were open that have ended, by route.";
    HTTP_STREAMS_OPEN "stockade_http_streams_open" Kind::Gauge,
        "Streams that are open, by route.";
    RESERVATIONS "stockade_reservations_total" Kind::Counter,
        "Reservation verbs by the word of their answer.";
    RESERVATION_UNITS "stockade_reservation_units_total" Kind::Counter,
        "Units moved by reservations, by transition. What is returned shows in stock and events.";
    EXPIRY_LAG "stockade_hold_expiry_lag_seconds" LAG_SECONDS,
        "Time between a deadline and the moment its hold was expired.";
    BATCH_SIZE "stockade_commit_batch_size" BATCH,
        "Requests carried by one script call.";
    QUEUE_DEPTH "stockade_commit_queue_depth" Kind::Gauge,
        "Mutations that wait for their batch.";
    COMMIT_DURATION "stockade_commit_duration_seconds" SECONDS,
        "Time from sending a batch to its answers, by script.";
    POOL_CONNECTIONS "stockade_redis_pool_connections" Kind::Gauge,
        "Connections to Redis by state.";
    POOL_WAIT "stockade_redis_pool_wait_seconds" SECONDS,
        "Time spent waiting for a connection of the pool.";
    REDIS_ERRORS "stockade_redis_errors_total" Kind::Counter,
        "Failed calls of Redis by kind.";
    CACHE_REQUESTS "stockade_cache_requests_total" Kind::Counter,
        "Reads of levels by cache (levels: of this process; pages: shared by all) and result.";
    WEBHOOK_DELIVERIES "stockade_webhook_deliveries_total" Kind::Counter,
        "Tries to deliver an event to a webhook endpoint, by outcome (retried: it failed and is tried again).";
    WEBHOOK_DELAY "stockade_webhook_delay_seconds" LONG_DELAY_SECONDS,
        "Time from an event to its delivery.";
    WEBHOOK_SKIPPED "stockade_webhook_events_skipped_total" Kind::Counter,
        "Events that an endpoint will not get: trimmed too early, damaged, its queue full, or dead ones beyond the number kept.";
    WEBHOOK_BACKLOG "stockade_webhook_backlog" Kind::Gauge,
        "Deliveries that wait in the store, and entries of events that are not turned into deliveries yet.";
    LOCKS "stockade_locks_total" Kind::Counter,
        "Calls about locks by operation and the word of their answer.";
    LOCK_WAIT "stockade_lock_wait_seconds" SECONDS,
        "Time from the call to the lease, of those who got one.";
    LOCK_HELD "stockade_lock_held_seconds" LONG_SECONDS,
        "Time from acquire to release, where both were calls of this process.";
    ORDERS "stockade_orders_total" Kind::Counter,
        "Calls that change orders by the word of their answer, and orders that recovery has finished or undone.";
    BARRIERS "stockade_barriers_total" Kind::Counter,
        "Barriers by what became of them: created, and how they ended.";
    BARRIER_ARRIVALS "stockade_barrier_arrivals_total" Kind::Counter,
        "Arrivals at barriers by the word of their answer.";
    BARRIER_OPEN "stockade_barrier_open_seconds" LONG_SECONDS,
        "Time from the creation of a barrier to its end.";
    BUILD_INFO "stockade_build_info" Kind::Gauge,
        "Always 1; the version is in the label.";
    HOLDS_OPEN "stockade_holds_open" Kind::Gauge,
        "Open holds in the store, over all sales.";
    HOLDS_OVERDUE "stockade_holds_overdue" Kind::Gauge,
        "Open holds past their deadline in the store, over all sales.";
    REDIS_UP "stockade_redis_up" Kind::Gauge,
        "1 while Redis answers.";
    ORPHANS "stockade_orphans" Kind::Gauge,
        "Reservation ids whose record is missing or corrupt, over all sales.";
    CONSERVATION_VIOLATIONS "stockade_conservation_violations" Kind::Gauge,
        "SKUs, buyers and ids that the last background audit found wrong, over all sales.";
    LAST_AUDIT "stockade_audit_last_success_timestamp_seconds" Kind::Gauge,
        "When a background audit of all sales last came to its end; 0 before the first.";
}

/// Stands for any label value outside its closed set, so that a new word is counted and never makes a new series.
pub const OTHER: &str = "other";

/// Routes that answer with streams, or only when something has happened.
pub const STREAM_ROUTES: &[&str] = &[
    "/v1/sales/{sale}/events/live",
    "/v1/barriers/{barrier}/live",
    "/v1/barriers/{barrier}/wait",
    "/v1/locks/{name}",
    "/v1/sales/{sale}/locks/{name}",
];
/// What is done with locks, and the words of the answers; besides, whatever a call can fail with.
const LOCK_ANSWERS: &[(&str, &[&str])] = &[
    ("acquire", &["acquired", "replayed", "lock_held", "lock_expired", "unknown_sale"]),
    ("renew", &["renewed", "not_owner", "lock_expired", "unknown_sale"]),
    ("release", &["released", "replayed", "not_owner", "lock_expired", "unknown_sale"]),
];
/// Values of `outcome` of a call about an order; besides, whatever a call can fail with.
const ORDER_OUTCOMES: &[&str] = &[
    "held",
    "confirmed",
    "released",
    "expired",
    "replayed",
    "recovered",
    "order_busy",
    "order_in_progress",
    "unknown_order",
    "unknown_sale",
    "unknown_sku",
    "sale_not_open",
    "sale_paused",
    "sale_closed",
    "hold_too_long",
    "buyer_required",
    "buyer_holds",
    "buyer_limit",
    "sold_out",
    "idempotency_key_reused",
    "hold_expired",
    "already_confirmed",
    "already_released",
];
/// Values of `outcome` of a barrier.
pub const BARRIER_OUTCOMES: &[&str] = &["created", "completed", "failed", "timed_out", "cancelled"];
/// Values of `outcome` of an arrival; besides, whatever a call can fail with.
const ARRIVAL_OUTCOMES: &[&str] = &[
    "completed",
    "failed",
    "replayed",
    "unknown_barrier",
    "barrier_ended",
    "unknown_participant",
    "too_many_participants",
];
/// Values of `outcome` of a delivery: taken by the receiver, failed and to be tried again, given up, refused for good.
pub const DELIVERY_OUTCOMES: &[&str] = &["delivered", "retried", "dead", "gone"];
/// Values of `transition`.
pub const TRANSITIONS: &[&str] = &["held", "confirmed", "retaken", "released", "expired"];
/// Values of `script`.
pub const SCRIPTS: &[&str] = &[
    "reserve",
    "pin",
    "confirm",
    "release",
    "extend",
    "return_reservation",
    "expire",
    "adjust",
    "archive",
    "arrive",
    OTHER,
];
/// Values of `state` of a connection.
pub const CONNECTION_STATES: &[&str] = &["idle", "in_use"];
/// Values of `cache`.
pub const CACHES: &[&str] = &["levels", "pages"];
/// Values of `result` of a cache: it had it, it did not, it had an old one that somebody else was making anew.
pub const CACHE_RESULTS: [&str; 3] = ["hit", "miss", "stale"];
/// Values of `kind` of a Redis error.
pub const REDIS_ERROR_KINDS: &[&str] = &[
    "store_full",
    "store_unavailable",
    "store_read_only",
    "store_busy",
    "store_loading",
    "outcome_unknown",
    "corrupt",
    "internal",
    OTHER,
];

/// What any verb can fail with before Redis is asked; after that, with any of `REDIS_ERROR_KINDS`.
const REFUSED_BEFORE: &[&str] = &["queue_full", "draining"];
/// What each verb can be answered with besides.
const ANSWERS: &[(&str, &[&str])] = &[
    (
        "reserve",
        &[
            "held",
            "replayed",
            "sold_out",
            "unknown_sale",
            "sale_not_open",
            "sale_paused",
            "sale_closed",
            "sale_deleting",
            "stale_fence",
            "hold_too_long",
            "unknown_sku",
            "unknown_reservation",
            "buyer_required",
            "buyer_holds",
            "buyer_limit",
            "idempotency_key_reused",
            "hold_expired",
            "already_confirmed",
            "already_released",
            "already_returned",
            "part_of_order",
        ],
    ),
    (
        "pin",
        &[
            "pinned",
            "replayed",
            "unknown_sale",
            "unknown_reservation",
            "hold_expired",
            "already_released",
            "already_returned",
            "part_of_order",
        ],
    ),
    (
        "confirm",
        &[
            "confirmed",
            "retaken",
            "replayed",
            "unknown_sale",
            "unknown_reservation",
            "hold_expired",
            "sold_out",
            "buyer_holds",
            "buyer_limit",
            "already_confirmed",
            "already_released",
            "already_returned",
            "part_of_order",
            "quantity_exceeds_reservation",
            "stale_fence",
        ],
    ),
    (
        "release",
        &[
            "released",
            "expired",
            "replayed",
            "unknown_sale",
            "unknown_reservation",
            "stale_fence",
            "already_confirmed",
            "already_returned",
            "part_of_order",
        ],
    ),
    (
        "extend",
        &[
            "extended",
            "unchanged",
            "replayed",
            "unknown_sale",
            "unknown_reservation",
            "hold_expired",
            "hold_too_long",
            "idempotency_key_reused",
            "already_confirmed",
            "already_released",
            "already_returned",
            "part_of_order",
        ],
    ),
    (
        "return",
        &[
            "returned",
            "replayed",
            "unknown_sale",
            "unknown_reservation",
            "not_confirmed",
            "idempotency_key_required",
            "idempotency_key_reused",
            "quantity_exceeds_reservation",
        ],
    ),
    ("expire", &["expired"]),
];

/// Every `verb` with every `outcome` that it can have.
pub fn reservation_labels() -> impl Iterator<Item = (&'static str, &'static str)> {
    ANSWERS.iter().flat_map(|(verb, answers)| {
        answers.iter().chain(REFUSED_BEFORE).chain(REDIS_ERROR_KINDS).map(|outcome| (*verb, *outcome))
    })
}

/// Every `outcome` that an arrival can have.
pub fn arrival_labels() -> impl Iterator<Item = &'static str> {
    ARRIVAL_OUTCOMES.iter().chain(REFUSED_BEFORE).chain(REDIS_ERROR_KINDS).copied()
}

/// Every `operation` with every `outcome` that it can have.
pub fn lock_labels() -> impl Iterator<Item = (&'static str, &'static str)> {
    LOCK_ANSWERS.iter().flat_map(|(operation, answers)| {
        answers.iter().chain(REFUSED_BEFORE).chain(REDIS_ERROR_KINDS).map(|outcome| (*operation, *outcome))
    })
}

/// Every `outcome` that a call about an order can have.
pub fn order_labels() -> impl Iterator<Item = &'static str> {
    ORDER_OUTCOMES.iter().chain(REFUSED_BEFORE).chain(REDIS_ERROR_KINDS).copied()
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
