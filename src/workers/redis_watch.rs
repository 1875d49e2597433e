//! Looks at Redis and at the stock every few seconds, and shows what it saw in `/metrics`. Every process does, and all see
//! the same.

use crate::domain::{Level, Sale, SaleId, SaleStatus, Totals};
use crate::metrics::catalogue::*;
use crate::metrics::{Metrics, Sample};
use crate::store::health::RedisHealth;
use crate::store::watched::{Holds, WatchLimits, Watched};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// So often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// While Redis is away.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Watches until it is dropped.
pub async fn run(store: Store, metrics: Arc<Metrics>, limits: WatchLimits) {
    let mut is_away = false;
    loop {
        let seen = round(&store, &metrics, limits).await;
        match &seen {
            Ok(()) if is_away => info!("Redis answers again"),
            Err(error) if !is_away => warn!(%error, "Redis cannot be watched: {error}"),
            _ => {}
        }
        is_away = seen.is_err();
        tokio::time::sleep(if is_away { RETRY_PAUSE } else { LOOK_EVERY }).await;
    }
}

/// One look. What cannot be seen is not shown: an old number would look like a present one.
pub async fn round(store: &Store, metrics: &Metrics, limits: WatchLimits) -> Result<(), StoreError> {
    let seen = async {
        let health = store.redis_health().await?;
        Ok((health, store.watched(limits).await?))
    };
    match seen.await {
        Ok((health, watched)) => {
            metrics.redis_up(true);
            metrics.see(of_redis(&health));
            metrics.see(of_holds(watched.holds));
            metrics.see(of_stock(&watched));
            metrics.expect_sales(watched.sales.iter().map(|sale| sale.sale.as_str()));
            Ok(())
        }
        Err(error) => {
            metrics.redis_up(false);
            metrics.see_nothing();
            Err(error)
        }
    }
}

/// Families of Redis begin so.
const REDIS: &str = "stockade_redis_";

type Family = (&'static str, Vec<Sample>);

type Label = Option<(&'static str, &'static str)>;
/// Numbers that INFO has, and what makes base units of them: the family, its label if it has one, the field.
const OF_INFO: [(&str, Label, &str, f64); 19] = [
    (REDIS_UPTIME, None, "uptime_in_seconds", 1.0),
    (REDIS_CLIENTS, None, "connected_clients", 1.0),
    (REDIS_BLOCKED_CLIENTS, None, "blocked_clients", 1.0),
    (REDIS_REPLICAS, None, "connected_slaves", 1.0),
    (REDIS_COMMANDS, None, "total_commands_processed", 1.0),
    (REDIS_ERROR_REPLIES, None, "total_error_replies", 1.0),
    (REDIS_EVICTED_KEYS, None, "evicted_keys", 1.0),
    (REDIS_REJECTED_CONNECTIONS, None, "rejected_connections", 1.0),
    (REDIS_AOF_BYTES, None, "aof_current_size", 1.0),
    (REDIS_FORK, None, "latest_fork_usec", 1e-6),
    (REDIS_MEMORY, Some(("kind", "used")), "used_memory", 1.0),
    (REDIS_MEMORY, Some(("kind", "peak")), "used_memory_peak", 1.0),
    (REDIS_MEMORY, Some(("kind", "rss")), "used_memory_rss", 1.0),
    (REDIS_MEMORY, Some(("kind", "max")), "maxmemory", 1.0),
    (REDIS_MEMORY, Some(("kind", "scripts")), "used_memory_scripts_eval", 1.0),
    (REDIS_CPU, Some(("mode", "user")), "used_cpu_user", 1.0),
    (REDIS_CPU, Some(("mode", "system")), "used_cpu_sys", 1.0),
    (REDIS_NETWORK, Some(("direction", "input")), "total_net_input_bytes", 1.0),
    (REDIS_NETWORK, Some(("direction", "output")), "total_net_output_bytes", 1.0),
];
/// What INFO says `ok` of.
const PERSISTENCE: [(&str, &str); 3] = [
    ("aof_write", "aof_last_write_status"),
    ("aof_rewrite", "aof_last_bgrewrite_status"),
    ("rdb_save", "rdb_last_bgsave_status"),
];
/// Events of the latency monitor by the beginning of their names.
const SPIKES: [(&str, &str); 6] = [
    ("aof_fsync", "aof-fsync"),
    ("aof_write", "aof-write"),
    ("command", "command"),
    ("command", "fast-command"),
    ("fork", "fork"),
    ("expire", "expire"),
];
/// All other events.
const OTHER_SPIKE: &str = "other";

fn of_redis(health: &RedisHealth) -> HashMap<&'static str, Vec<Sample>> {
    // What Redis does not tell any more must go, too.
    let ours = METRICS.iter().filter(|metric| metric.scope == Scope::Store && metric.name.starts_with(REDIS));
    let mut families: HashMap<_, Vec<Sample>> = ours.map(|metric| (metric.name, Vec::new())).collect();
    let mut add = |family, sample| families.entry(family).or_default().push(sample);
    for (family, label, field, unit) in OF_INFO {
        if let Some(number) = health.number(field) {
            let sample = Sample::new(number * unit);
            add(
                family,
                match label {
                    Some((name, value)) => sample.with(name, value),
                    None => sample,
                },
            );
        }
    }
    add(REDIS_KEYS, Sample::new(health.keys()));
    let text = |field| health.text(field).unwrap_or_default();
    let info = Sample::new(1.0).with("version", text("redis_version")).with("role", text("role"));
    add(REDIS_INFO, info);
    for (part, field) in PERSISTENCE {
        if let Some(status) = health.text(field) {
            add(REDIS_PERSISTENCE_OK, Sample::new(f64::from(status == "ok")).with("part", part));
        }
    }
    if let Some(entries) = health.slowlog_entries {
        add(REDIS_SLOWLOG_ENTRIES, Sample::new(entries as f64));
    }
    if let Some(spikes) = &health.spikes_ms {
        let mut worst = BTreeMap::from(SPIKES.map(|(event, _)| (event, 0)));
        worst.insert(OTHER_SPIKE, 0);
        for (name, spike_ms) in spikes {
            let known = SPIKES.iter().find(|(_, start)| name.starts_with(start));
            let worst = worst.entry(known.map_or(OTHER_SPIKE, |(event, _)| event)).or_default();
            *worst = (*worst).max(*spike_ms);
        }
        for (event, spike_ms) in worst {
            add(REDIS_LATENCY, Sample::new(spike_ms as f64 / 1_000.0).with("event", event));
        }
    }
    if let Some([input, output]) = health.buffer_bytes {
        add(REDIS_CLIENT_BUFFER, Sample::new(input as f64).with("direction", "input"));
        add(REDIS_CLIENT_BUFFER, Sample::new(output as f64).with("direction", "output"));
    }
    families
}

fn one(family: &'static str, count: u64) -> Family {
    (family, vec![Sample::new(count as f64)])
}

fn of_holds(holds: Holds) -> [Family; 3] {
    let Holds { open, overdue, orphans } = holds;
    [one(HOLDS_OPEN, open), one(HOLDS_OVERDUE, overdue), one(ORPHANS, orphans)]
}

fn of_stock(watched: &Watched) -> [Family; 7] {
    let Watched { sales, levels, .. } = watched;
    let status = |sale: &Sale| {
        SaleStatus::ALL.map(|status| {
            let is_so = f64::from(sale.status == status);
            Sample::new(is_so).with("sale", sale.sale.as_str()).with("status", status.as_str())
        })
    };
    let opens_at = |sale: &Sale| {
        let seconds = sale.opens_at?.as_ms() as f64 / 1_000.0;
        Some(Sample::new(seconds).with("sale", sale.sale.as_str()))
    };
    let units = |sale: &Sale| {
        let Totals { available, held, sold, granted } = sale.totals;
        by_state([available, held, sold, granted], |sample| sample.with("sale", sale.sale.as_str()))
    };
    let level = |(sale, level): &(SaleId, Level)| {
        let states = [level.available, level.held, level.sold, level.granted];
        by_state(states, |sample| sample.with("sale", sale.as_str()).with("sku", level.sku.as_str()))
    };
    [
        (SALE_STATUS, sales.iter().flat_map(status).collect()),
        (SALE_OPENS_AT, sales.iter().filter_map(opens_at).collect()),
        (SALE_UNITS, sales.iter().flat_map(units).collect()),
        (STOCK_UNITS, levels.iter().flat_map(level).collect()),
        one(SALES_LEFT_OUT, watched.sales_left_out),
        one(SALES_UNREADABLE, watched.sales_unreadable),
        one(SKUS_LEFT_OUT, watched.skus_left_out),
    ]
}

fn by_state(units: [u64; 4], labelled: impl Fn(Sample) -> Sample) -> [Sample; 4] {
    let mut states = STOCK_STATES.into_iter();
    units.map(|units| labelled(Sample::new(units as f64)).with("state", states.next().unwrap_or(OTHER)))
}
