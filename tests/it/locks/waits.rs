//! Who waits gets it in turn; who leaves gets nothing.

use super::{FREE, Held, acquire, done, is_held, name, request, taken};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale, Wire, new_key, post};
use crate::shop::word;
use crate::support::{shared_on, store_on};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use stockade::domain::*;
use stockade::store::Store;

const CONTENDERS: usize = 50;

async fn waiting(service: &InProcess) -> f64 {
    let series = r#"stockade_http_streams_open{route="/v1/sales/{sale}/locks/{name}"}"#;
    service.api.metrics().await.into_iter().find(|(name, _)| name == series).unwrap().1
}

#[tokio::test]
async fn fifty_contenders_get_it_one_after_the_other() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let lock = Held::of(&sale);
    let inside = AtomicUsize::new(0);
    let contend = async || {
        let body = json!({"ttl_ms": 30_000, "wait_ms": 30_000});
        let lease = lock.acquire(&new_key(), body).await.expect(201, "").body;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at the same time");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        lock.release(&lease).await.expect(200, "");
        lease["fence"].as_u64().unwrap()
    };
    let mut fences = join_all((0..CONTENDERS).map(|_| contend())).await;
    fences.sort_unstable();
    let first = fences[0];
    assert_eq!(fences, (first..first + CONTENDERS as u64).collect::<Vec<_>>());
    assert_eq!(waiting(&service).await, 0.0);
}

/// In the order in which they came, over all workers of a process.
#[tokio::test]
async fn first_come_first_served() {
    let shared = shared_on(RedisServer::shared());
    let stores = [Store::open(&shared).unwrap(), Store::open(&shared).unwrap()];
    let name = name();
    let holder = taken(&stores[0], &name, "holder").await;
    // On one thread they come in this order.
    let contend = async |n: usize| {
        let store = &stores[n % 2];
        let lock = done(acquire(store, &name, &format!("k{n}"), request(30_000, 30_000)).await);
        done(store.release_lock(&FREE, &name, &lock.token).await);
        lock.fence - holder.fence
    };
    let release = async {
        tokio::task::yield_now().await;
        done(stores[1].release_lock(&FREE, &name, &holder.token).await);
    };
    let (fences, ()) = tokio::join!(join_all((0..CONTENDERS).map(contend)), release);
    assert_eq!(fences, (1..=CONTENDERS as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn two_processes_share_it() {
    let stores = [store_on(RedisServer::shared()), store_on(RedisServer::shared())];
    let (name, inside) = (name(), AtomicUsize::new(0));
    let contend = async |n: usize| {
        let store = &stores[n % 2];
        let lock = done(acquire(store, &name, &format!("k{n}"), request(30_000, 30_000)).await);
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at the same time");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        done(store.release_lock(&FREE, &name, &lock.token).await);
        lock.fence
    };
    let mut fences = join_all((0..20).map(contend)).await;
    fences.sort_unstable();
    assert_eq!(fences, (fences[0]..fences[0] + 20).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_does_not_wait_does_not_stand_in_line() {
    let store = store_on(RedisServer::shared());
    let name = name();
    let holder = taken(&store, &name, "holder").await;
    let waits = acquire(&store, &name, "waits", request(30_000, 30_000));
    let others = async {
        tokio::task::yield_now().await;
        // The line is not empty, and yet this is told at once.
        assert_eq!(word(&acquire(&store, &name, "hasty", request(30_000, 0)).await), "lock_held");
        // And who has it meets it, whoever waits.
        let again = acquire(&store, &name, "holder", request(60_000, 0)).await;
        assert_eq!(word(&again), "replayed");
        done(store.release_lock(&FREE, &name, &holder.token).await);
    };
    let (waited, ()) = tokio::join!(waits, others);
    assert_eq!(done(waited).fence, holder.fence + 1);
}

#[tokio::test]
async fn a_client_who_leaves_gets_nothing_and_leaves_nothing() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let lock = Held::of(&sale);
    let lease = lock.take().await;
    let address = service.api.authority().parse().unwrap();
    let mut gone = Wire::connect(address).await.unwrap();
    gone.send(post(&lock.path, "gone", r#"{"ttl_ms":300000,"wait_ms":30000}"#)).await.unwrap();
    eventually("he waits", async || waiting(&service).await == 1.0).await;
    gone.reset();
    eventually("he is gone", async || waiting(&service).await == 0.0).await;
    lock.release(&lease).await.expect(200, "");
    eventually("it is free", async || lock.state().await["held"] == false).await;
    // The line behind him moves on, too.
    let next = lock.acquire(&new_key(), json!({"ttl_ms": 1_000, "wait_ms": 30_000})).await.expect(201, "");
    assert!(next.body["fence"].as_u64() > lease["fence"].as_u64());
}

#[tokio::test]
async fn the_first_of_a_line_who_leaves_lets_the_next_one_in() {
    let store = store_on(RedisServer::shared());
    let name = name();
    let holder = taken(&store, &name, "holder").await;
    let (one, other) = (store.clone(), name.clone());
    let head = tokio::spawn(async move { acquire(&one, &other, "head", request(30_000, 30_000)).await });
    tokio::task::yield_now().await;
    let next = acquire(&store, &name, "next", request(30_000, 30_000));
    let leave = async {
        tokio::task::yield_now().await;
        head.abort();
        done(store.release_lock(&FREE, &name, &holder.token).await);
    };
    let (next, ()) = tokio::join!(next, leave);
    done(store.release_lock(&FREE, &name, &done(next).token).await);
    assert!(!is_held(&store, &name).await);
    assert_eq!(word(&acquire(&store, &name, "last", request(1_000, 0)).await), "acquired");
}

#[tokio::test]
async fn a_lease_that_ends_lets_the_next_one_in() {
    let shared = shared_on(RedisServer::shared());
    let store = Store::open(&shared).unwrap();
    let name = name();
    let dead = taken(&store, &name, "dead").await;
    let waits = acquire(&store, &name, "waits", request(1_000, 30_000));
    let time = async {
        tokio::task::yield_now().await;
        shared.clock.advance_ms(60_000);
    };
    let (lock, ()) = tokio::join!(waits, time);
    let lock: Lock = done(lock);
    assert_eq!(lock.fence, dead.fence + 1);
}
