//! The closed sets of labels.

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
/// Values of `state` of units.
pub const STOCK_STATES: [&str; 4] = ["available", "held", "sold", "granted"];
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
    "slot_moving",
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
