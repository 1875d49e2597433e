//! What each call answers: to its holder, to others, after the end, again.

use super::{Held, done};
use crate::redis_server::RedisServer;
use crate::service::{InProcess, Sale, lines, new_key, shared_api};
use crate::shop::{Shop, redis_cmd, skus, word};
use serde_json::json;
use stockade::domain::*;
use stockade::store::sweep::{Purge, TOMBSTONE_MS};

const NOBODYS: &str = "AAAAAAAAAAAAAAAAAAAAAA";

async fn both() -> [Held; 2] {
    let api = shared_api();
    let sale = Sale::of(&api, 5).await;
    [Held::free(&api), Held::of(&sale)]
}

#[tokio::test]
async fn a_lease_from_its_begin_to_its_end() {
    for lock in both().await {
        assert_eq!(lock.state().await["held"], false);
        let (key, body) = (new_key(), json!({"ttl_ms": 60_000}));
        let first = lock.acquire(&key, body.clone()).await.expect(201, "");
        assert_eq!(first.outcome(), "acquired");
        let lease = first.body;
        let seen = lock.state().await;
        assert_eq!((&seen["held"], &seen["fence"]), (&json!(true), &lease["fence"]));
        assert_eq!(seen["expires_at"], lease["expires_at"]);
        assert!(seen.get("token").is_none(), "only its holder knows it");

        let again = lock.acquire(&key, body.clone()).await.expect(200, "");
        assert_eq!((again.outcome(), again.header("idempotent-replayed")), ("replayed", "true"));
        for field in ["token", "fence", "expires_at"] {
            assert_eq!(again.body[field], lease[field], "{field}");
        }
        let other = lock.acquire(&new_key(), body.clone()).await.expect(409, "lock_held");
        assert_eq!(other.body["expires_at"], lease["expires_at"]);
        lock.acquire(&new_key(), json!({"ttl_ms": 60_000, "wait_ms": 20})).await.expect(409, "lock_held");

        for _ in 0..2 {
            let renewed = lock.renew(&lease, 120_000).await.expect(200, "");
            assert_eq!((renewed.outcome(), &renewed.body["fence"]), ("renewed", &lease["fence"]));
            assert!(renewed.body["expires_at"].as_str() > lease["expires_at"].as_str());
        }
        let until = lock.state().await["expires_at"].clone();
        assert_eq!(lock.renew(&lease, 100).await.expect(200, "").body["expires_at"], until, "never shorter");

        assert_eq!(lock.release(&lease).await.expect(200, "").outcome(), "released");
        assert_eq!(lock.release(&lease).await.expect(200, "").outcome(), "replayed");
        assert_eq!(lock.state().await["held"], false);
        lock.renew(&lease, 1_000).await.expect(409, "lock_expired");
        lock.acquire(&key, body).await.expect(409, "lock_expired");
        let next = lock.take().await;
        assert!(next["fence"].as_u64() > lease["fence"].as_u64());
        assert_ne!(next["token"], lease["token"]);
    }
}

#[tokio::test]
async fn who_has_another_token_changes_nothing() {
    for lock in both().await {
        let stranger = json!({ "token": NOBODYS });
        lock.renew(&stranger, 1_000).await.expect(409, "lock_expired");
        lock.release(&stranger).await.expect(409, "lock_expired");
        let old = lock.take().await;
        lock.release(&old).await.expect(200, "");
        let lease = lock.take().await;
        for other in [&stranger, &old] {
            lock.renew(other, 1_000).await.expect(409, "not_owner");
            lock.release(other).await.expect(409, "not_owner");
        }
        assert_eq!(lock.state().await["expires_at"], lease["expires_at"]);
        lock.release(&lease).await.expect(200, "");
    }
}

#[tokio::test]
async fn what_is_wrong_names_its_field() {
    for lock in both().await {
        for (body, field) in [
            (json!({}), "/ttl_ms"),
            (json!({"ttl_ms": 99}), "/ttl_ms"),
            (json!({"ttl_ms": 300_001}), "/ttl_ms"),
            (json!({"ttl_ms": "1000"}), "/ttl_ms"),
            (json!({"ttl_ms": 1_000, "wait_ms": 30_001}), "/wait_ms"),
            (json!({"ttl_ms": 1_000, "wait": 1}), "/wait"),
        ] {
            lock.acquire(&new_key(), body).await.expect(422, "invalid_request").names(field);
        }
        let renew = format!("{}/renew", lock.path);
        lock.api.post(&renew, &json!({"ttl_ms": 1_000})).await.expect(422, "invalid_request").names("/token");
        let bad = json!({"token": "short", "ttl_ms": 1_000});
        lock.api.post(&renew, &bad).await.expect(422, "invalid_request").names("/token");
        let ours = lock.path.rsplit_once('/').unwrap().0;
        let path = format!("{ours}/_order");
        lock.api.post(&path, &json!({"ttl_ms": 1_000})).await.expect(422, "invalid_request").names("name");
        assert_eq!(lock.state().await["held"], false);
    }
}

#[tokio::test]
async fn a_write_depends_on_the_lease() {
    let sale = Sale::of(&shared_api(), 5).await;
    let lock = Held::of(&sale);
    let lease = lock.take().await;
    let mut body = lines(&[("a", 1)]);
    body["fence"] = json!({"lock": "till", "token": lease["token"], "fence": lease["fence"]});
    sale.reserve(&new_key(), body.clone()).await.expect(201, "");
    lock.release(&lease).await.expect(200, "");
    sale.reserve(&new_key(), body.clone()).await.expect(409, "stale_fence");
    lock.take().await;
    sale.reserve(&new_key(), body).await.expect(409, "stale_fence");
}

#[tokio::test]
async fn a_lease_ends_by_the_clock_and_whoever_comes_late_is_told() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    for lock in [Held::free(&service.api), Held::of(&sale)] {
        let (key, body) = (new_key(), json!({"ttl_ms": 10_000}));
        let lease = lock.acquire(&key, body.clone()).await.expect(201, "").body;
        service.advance_seconds(8);
        lock.renew(&lease, 10_000).await.expect(200, "");
        service.advance_seconds(8);
        assert_eq!(lock.state().await["held"], true, "it was renewed");
        service.advance_seconds(3);
        assert_eq!(lock.state().await["held"], false);
        lock.renew(&lease, 10_000).await.expect(409, "lock_expired");
        lock.release(&lease).await.expect(409, "lock_expired");
        lock.acquire(&key, body.clone()).await.expect(409, "lock_expired");
        let next = lock.take().await;
        assert!(next["fence"].as_u64() > lease["fence"].as_u64());
        lock.release(&lease).await.expect(409, "not_owner");
        assert_eq!(lock.state().await["fence"], next["fence"]);
        // A clock that is set back makes a lease longer, and no second holder.
        service.advance_seconds(-19);
        lock.acquire(&new_key(), body).await.expect(409, "lock_held");
        lock.release(&next).await.expect(200, "");
    }
}

#[tokio::test]
async fn a_sale_that_is_not_there_has_no_locks() {
    let api = shared_api();
    let sale = Sale::of(&api, 5).await;
    let lock = Held::of(&sale);
    let lease = lock.take().await;
    api.call("DELETE", &sale.at("")).send().await.expect(202, "");
    let nowhere = Held { api: api.clone(), path: "/v1/sales/nowhere/locks/till".into() };
    for lock in [lock, nowhere] {
        lock.acquire(&new_key(), json!({"ttl_ms": 1_000})).await.expect(404, "unknown_sale");
        let waits = json!({"ttl_ms": 1_000, "wait_ms": 30_000});
        lock.acquire(&new_key(), waits).await.expect(404, "unknown_sale");
        lock.renew(&lease, 1_000).await.expect(404, "unknown_sale");
        lock.release(&lease).await.expect(404, "unknown_sale");
        api.get(&lock.path).await.expect(404, "unknown_sale");
    }
}

/// Old fences and tokens mean nothing to a sale that was made again.
#[tokio::test]
async fn fences_grow_over_sales_of_one_name() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    let (place, name) = (LockPlace::Sale(shop.sale.clone()), "till".parse().unwrap());
    let caller = Caller::default();
    let acquire = async |key: &str| {
        let request = AcquireLock { ttl_ms: 60_000, wait_ms: 0 };
        shop.store.acquire_lock(&place, &name, &caller, Some(&crate::shop::key(key)), request).await
    };
    let first = done(acquire("k").await);
    done(shop.store.release_lock(&place, &name, &first.token).await);
    let old = done(acquire("other").await);
    assert_eq!(old.fence, first.fence + 1);

    let generation = done(shop.store.sale(&shop.sale).await).generation;
    done(shop.store.delete_sale(&shop.sale).await);
    shop.shared.clock.advance_ms(TOMBSTONE_MS);
    while shop.store.purge(&shop.sale, &generation).await.unwrap() == Purge::Going {}
    let mut connection = server.connection().await;
    let left: Vec<String> = redis_cmd(&mut connection, &["KEYS", &shop.key("*")]).await;
    assert_eq!(left, [shop.key("lock:till")], "the lock ends by itself");

    let rules = PutSale::default().rules().unwrap();
    done(shop.store.put_sale(&shop.sale, &caller, None, &Expect::Absent, rules, skus(&[("red", 5)])).await);
    // It is a lock of another incarnation, but not over.
    assert_eq!(word(&acquire("k").await), "lock_held");
    shop.shared.clock.advance_ms(60_000);
    let new = done(acquire("k").await);
    assert!(new.fence > old.fence && new.token != first.token, "{new:?} {old:?}");
}
