//! A process that slept through everything finds nothing stale to do.

use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Level, Sale, Service, Wire, post};
use serde_json::{Value, json};
use stockade::store::keys::SaleKeys;

#[tokio::test]
async fn a_thawed_service_does_nothing_stale() {
    let redis = RedisServer::start();
    let (sleeper, other) = (Service::on(redis.url()).await, Service::on(redis.url()).await);
    let sale = Sale::of(&sleeper.api(), 2).await;
    let brief = json!({"lines": [{"sku": "a", "quantity": 2}], "hold_seconds": 1});
    let late = sale.reserve("late", brief).await.expect(201, "").id();
    // Its requests reach the machine and wait there.
    sleeper.signal("STOP");
    let mut waiting = Vec::new();
    for (verb, body) in
        [("confirm", ""), ("extend", r#"{"hold_seconds":600}"#), ("release", ""), ("return", "")]
    {
        let mut wire = Wire::connect(sleeper.address()).await.unwrap();
        wire.send(post(&sale.at(&format!("/reservations/{late}/{verb}")), verb, body)).await.unwrap();
        waiting.push(wire);
    }
    let elsewhere = Sale { api: other.api(), ..sale.clone() };
    eventually("it is expired", async || elsewhere.level("a").await == Level(2, 0, 0)).await;
    let next = elsewhere.hold(2).await;
    elsewhere.settle(&next, "confirm", Value::Null).await.expect(200, "");

    sleeper.signal("CONT");
    let mut told = Vec::new();
    for mut wire in waiting {
        let answer = wire.answer().await.unwrap();
        told.push((answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned()));
    }
    let expected = [(410, "hold_expired"), (410, "hold_expired"), (200, ""), (409, "not_confirmed")];
    assert_eq!(told, expected.map(|(status, code)| (status, code.to_owned())));
    assert_eq!(sale.reservation(&late).await["status"], "expired");
    assert_eq!(sale.level("a").await, Level(0, 0, 2));
    assert_eq!(sale.reservation(&next).await["status"], "confirmed");
    // And it works on.
    sale.settle(&next, "return", Value::Null).await.expect(200, "");
    sale.hold(1).await;
    assert_eq!(elsewhere.level("a").await, Level(1, 1, 0));
}

/// What one process learned of a sale is no longer so when another one has deleted it and made it again.
#[tokio::test]
async fn a_service_learns_that_a_sale_is_another_one_now() {
    let redis = RedisServer::start();
    let (one, two) = (Service::on(redis.url()).await, Service::on(redis.url()).await);
    let sale = Sale::of(&one.api(), 5).await;
    let elsewhere = Sale { api: two.api(), ..sale.clone() };
    let old = elsewhere.reserve("k", crate::service::lines(&[("a", 1)])).await.expect(201, "").id();
    sale.settle(&old, "release", Value::Null).await.expect(200, "");
    sale.api.call("DELETE", &sale.at("")).send().await.expect(202, "");
    let body = json!({"stock": {"a": {"initial": 3}}});
    eventually("it is made again", async || sale.api.put(&sale.at(""), &body).await.status == 201).await;
    let new = elsewhere.reserve("k", crate::service::lines(&[("a", 1)])).await.expect(201, "").id();
    assert_ne!(new, old);
    elsewhere.settle(&old, "release", Value::Null).await.expect(404, "unknown_reservation");
    assert_eq!((sale.level("a").await, elsewhere.level("a").await), (Level(2, 1, 0), Level(2, 1, 0)));
}

/// The holder of a lock sleeps for twice as long as its lease; another has taken the lock and written under it by then.
/// What the first had asked for in the name of the lock is refused when it wakes up.
#[tokio::test]
async fn a_thawed_holder_of_a_lock_writes_nothing() {
    const TTL_MS: i64 = 1_000;
    let redis = RedisServer::start();
    let (sleeper, other) = (Service::on(redis.url()).await, Service::on(redis.url()).await);
    let sale = Sale::of(&sleeper.api(), 10).await;
    let elsewhere = Sale { api: other.api(), ..sale.clone() };
    let (unsold, kept) = (sale.hold(1).await, sale.hold(1).await);
    let mut connection = redis.connection().await;
    let key = SaleKeys::new(&sale.name).lock(&"till".parse().unwrap());
    let now_ms = async |connection: &mut redis::aio::MultiplexedConnection| {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await.unwrap();
        seconds * 1_000 + micros / 1_000
    };
    let mut acquire = async |fence: u64, ttl_ms: i64| {
        let (token, now) = (fence.to_string().repeat(22), now_ms(&mut connection).await);
        let lease = format!("{token}:{fence}:{}", now + ttl_ms);
        let () = redis::cmd("SET").arg(&key).arg(lease).query_async(&mut connection).await.unwrap();
        (json!({"lock": "till", "token": token, "fence": fence}), now)
    };

    let (old, begun) = acquire(1, TTL_MS).await;
    // Its requests reach the machine and wait there.
    sleeper.signal("STOP");
    let line = json!([{"sku": "a", "quantity": 3}]);
    let mut waiting = Vec::new();
    for (path, body) in [
        ("/reservations".to_owned(), json!({"lines": line, "fence": old})),
        (format!("/reservations/{unsold}/confirm"), json!({"fence": old})),
        (format!("/reservations/{kept}/release"), json!({"fence": old})),
        ("/stock/a/adjustments".to_owned(), json!({"delta": -5, "reason": "moved", "fence": old})),
    ] {
        let mut wire = Wire::connect(sleeper.address()).await.unwrap();
        wire.send(post(&sale.at(&path), &path, &body.to_string())).await.unwrap();
        waiting.push(wire);
    }
    let is_over = async || now_ms(&mut redis.connection().await).await >= begun + 2 * TTL_MS;
    eventually("twice its lease is over", is_over).await;
    let (new, _) = acquire(2, 60_000).await;
    let body = json!({"lines": line, "fence": new});
    elsewhere.reserve("new", body).await.expect(201, "");
    assert_eq!(elsewhere.level("a").await, Level(5, 5, 0));

    sleeper.signal("CONT");
    for mut wire in waiting {
        let answer = wire.answer().await.unwrap();
        let code = answer.json()["code"].clone();
        assert_eq!((answer.status, code), (409, json!("stale_fence")));
    }
    assert_eq!(sale.level("a").await, Level(5, 5, 0));
    for id in [unsold, kept] {
        assert_eq!(sale.reservation(&id).await["status"], "held");
    }
}
