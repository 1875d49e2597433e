//! The background audit: one of all processes at a time, and all show what it found.

use crate::redis_server::RedisServer;
use crate::shop::*;
use crate::support::{sample, shared_on};
use std::time::Duration;
use stockade::store::{Shared, Store};
use stockade::workers::auditor;

const MINUTE: Duration = Duration::from_secs(60);

/// What a process shows: violations, and when an audit last came to its end.
fn gauges(shared: &Shared) -> (f64, f64) {
    let value = |name: &str| sample(shared, name).unwrap_or_else(|| panic!("{name}"));
    (value("stockade_conservation_violations"), value("stockade_audit_last_success_timestamp_seconds"))
}

#[tokio::test]
async fn processes_take_turns_and_show_the_same() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    shop.hold("k", "red=1").await;
    let (one, other) = (shop.shared.clone(), shared_on(&server));
    let (one_store, other_store) = (Store::open(&one).unwrap(), Store::open(&other).unwrap());
    let first = async || auditor::round(&one_store, &one.metrics, MINUTE).await.unwrap();
    let second = async || auditor::round(&other_store, &other.metrics, MINUTE).await.unwrap();
    let mut connection = server.connection().await;
    assert_eq!(sample(&one, "stockade_conservation_violations"), None, "nobody knows yet");
    assert!(first().await && !second().await && !first().await);
    let (violations, at) = gauges(&one);
    let (seconds, _): (u64, u64) = redis_cmd(&mut connection, &["TIME"]).await;
    assert!(violations == 0.0 && at > 0.0 && at <= seconds as f64 + 1.0, "{at} {seconds}");
    assert_eq!(gauges(&other), (violations, at));

    // The turn runs out by itself, within the interval.
    let ttl: u64 = redis_cmd(&mut connection, &["PTTL", "st:audit:turn"]).await;
    assert!(ttl <= 60_000);
    let _: i64 = redis_cmd(&mut connection, &["HINCRBY", &shop.key("stock"), "red:h", "1"]).await;
    let _: u64 = redis_cmd(&mut connection, &["DEL", "st:audit:turn"]).await;
    assert!(second().await && !first().await);
    // The SKU, and the totals, which are not its sum any more.
    assert_eq!((gauges(&one).0, gauges(&other).0), (2.0, 2.0));
    assert_eq!(gauges(&one).1, gauges(&other).1);

    shop.store.repair(&shop.sale).await.unwrap();
    let _: u64 = redis_cmd(&mut connection, &["DEL", "st:audit:turn"]).await;
    assert!(first().await);
    assert_eq!(gauges(&one).0, 0.0);
}

/// A process that died in its turn: the last success stays where it was, so an alarm can see it.
#[tokio::test]
async fn an_audit_that_fails_is_no_success() {
    let mut server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    assert!(auditor::round(&shop.store, &shop.shared.metrics, MINUTE).await.unwrap());
    let before = gauges(&shop.shared);
    server.kill();
    assert!(auditor::round(&shop.store, &shop.shared.metrics, MINUTE).await.is_err());
    assert_eq!(gauges(&shop.shared), before);
}
