//! Redis dead, frozen or full: what callers are told, and that all is well after it.

use crate::sandbox::eventually;
use crate::service::{InProcess, Level, Sale, lines, new_key};
use futures_util::future::join_all;
use serde_json::{Value, json};

async fn is_ready(service: &InProcess) -> bool {
    service.api.get("/readyz").await.status == 200
}

#[tokio::test]
async fn a_dead_redis_is_told_apart_from_an_unknown_outcome() {
    let mut service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let held = sale.hold(2).await;
    let before = service.redis.connection().await;
    drop(before);
    service.redis.kill();
    eventually("it is unready", async || !is_ready(&service).await).await;
    service.api.get("/livez").await.expect(200, "");
    service.api.get("/metrics").await.expect(200, "");
    let refused = sale.take(1).await.expect(503, "store_unavailable");
    assert_eq!((&refused.body["outcome"], &refused.body["retryable"]), (&json!("not_applied"), &json!(true)));
    sale.settle(&held, "confirm", Value::Null).await.expect(503, "store_unavailable");
    sale.get("/stock/a").await.expect(503, "store_unavailable");

    service.redis.restart();
    eventually("it is ready", async || is_ready(&service).await).await;
    sale.settle(&held, "confirm", Value::Null).await.expect(200, "");
    assert_eq!(sale.level("a").await, Level(3, 0, 2));
}

#[tokio::test]
async fn a_frozen_redis_leaves_an_unknown_outcome_that_the_key_resolves() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    sale.hold(1).await;
    service.redis.freeze();
    let key = new_key();
    // On a connection that is open already: it was sent, and may be carried out later.
    let taken = sale.reserve(&key, lines(&[("a", 2)])).await;
    assert_eq!(service.api.get("/readyz").await.status, 503);
    service.api.get("/livez").await.expect(200, "");
    let taken = taken.expect(503, "outcome_unknown");
    assert_eq!((&taken.body["outcome"], &taken.body["retryable"]), (&json!("unknown"), &json!(true)));
    service.redis.thaw();
    eventually("it is ready", async || is_ready(&service).await).await;
    let retried = sale.reserve(&key, lines(&[("a", 2)])).await;
    assert!(matches!(retried.status, 200 | 201), "{}", retried.text);
    assert_eq!(sale.level("a").await, Level(2, 3, 0));
}

#[tokio::test]
async fn a_full_redis_takes_nothing_and_gives_everything_back() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 50).await;
    let (sold, freed, kept) = (sale.hold(1).await, sale.hold(2).await, sale.hold(3).await);
    let mut redis = service.redis.connection().await;
    let mut set = async |bytes: &str| {
        let command = ["SET", "maxmemory", bytes];
        let () = redis::cmd("CONFIG").arg(&command).query_async(&mut redis).await.unwrap();
    };
    set("1").await;
    let refused = sale.take(1).await.expect(503, "store_full");
    assert_eq!(refused.body["outcome"], "not_applied");
    let refused = sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "r"})).await;
    refused.expect(503, "store_full");
    // What gives back, or settles what is paid, works.
    sale.settle(&sold, "confirm", Value::Null).await.expect(200, "");
    sale.settle(&freed, "release", Value::Null).await.expect(200, "");
    sale.settle(&kept, "extend", json!({"hold_seconds": 700})).await.expect(503, "store_full");
    sale.settle(&sold, "return", Value::Null).await.expect(200, "");
    assert_eq!(sale.reservation(&kept).await["status"], "held");
    service.api.get("/readyz").await.expect(200, "");
    set("0").await;
    sale.hold(1).await;
    assert_eq!(sale.level("a").await, Level(46, 4, 0));
}

/// A pool is full of dead connections after it; none of them may cost a request its answer.
#[tokio::test]
async fn a_restart_while_nothing_happens_is_not_noticed() {
    let mut service = InProcess::start();
    let sale = Sale::of(&service.api, 5_000).await;
    for _ in 0..5 {
        // Many at once, so that there are many connections.
        let reads = (0..64).map(|_| sale.get("/stock?fresh=true"));
        assert!(join_all(reads).await.iter().all(|answer| answer.status == 200));
        let takes = (0..8).map(|_| sale.take(1));
        assert!(join_all(takes).await.iter().all(|answer| answer.status == 201));
        service.redis.restart();
    }
    sale.get("/stock").await.expect(200, "");
    assert_eq!(sale.level("a").await, Level(4_960, 40, 0));
}

/// The cache of scripts is no store: it may be emptied at any time.
#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 500).await;
    let mut redis = service.redis.connection().await;
    for _ in 0..20 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        let takes = (0..10).map(|_| async { sale.take(1).await.expect(201, "").id() });
        for id in join_all(takes).await {
            sale.settle(&id, "release", Value::Null).await.expect(200, "");
        }
        sale.get("/stock").await.expect(200, "");
    }
    assert_eq!(sale.level("a").await, Level(500, 0, 0));
}

/// Whatever was damaged, one record is no other's trouble.
#[tokio::test]
async fn a_damaged_record_fails_alone() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 50).await;
    let ids = join_all((0..10).map(|_| sale.hold(1))).await;
    let mut redis = service.redis.connection().await;
    let pattern = format!("st:{{{}}}:r:*", sale.name);
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.unwrap();
    let () = redis::cmd("SET").arg(&keys[0]).arg("nonsense").query_async(&mut redis).await.unwrap();
    let confirms = ids.iter().map(|id| sale.settle(id, "confirm", Value::Null));
    let answers = join_all(confirms).await;
    let bad: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert_eq!((bad.len(), bad[0].status, bad[0].code()), (1, 500, "corrupt"), "{bad:?}");
    assert_eq!(sale.level("a").await, Level(40, 1, 9));
}
