//! Locks on several servers: a majority decides, whatever one of them does; the fence is one.

use super::{FREE, acquire, done, is_held, name, request};
use crate::redis_server::{RedisServer, ServerOptions};
use crate::sandbox::eventually;
use crate::shop::{redis_cmd, word};
use crate::support::shared_on;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stockade::domain::*;
use stockade::store::locks::{NoMajority, Redlock};
use stockade::store::{Shared, Store, StoreError, keys};

const TTL: Duration = Duration::from_secs(60);

/// A main server with a store, and three servers of locks.
struct Scene {
    main: RedisServer,
    nodes: Vec<RedisServer>,
    shared: Shared,
    store: Store,
}

fn server() -> RedisServer {
    let args = ["--appendfsync", "no"].map(String::from).to_vec();
    RedisServer::with(ServerOptions { args, ..ServerOptions::default() })
}

impl Scene {
    async fn set() -> Self {
        let (main, nodes) = (server(), (0..3).map(|_| server()).collect::<Vec<_>>());
        let lock_nodes = nodes.iter().map(RedisServer::url).collect();
        let shared = Shared { lock_nodes, ..shared_on(&main) };
        let store = Store::open(&shared).unwrap();
        // Each server knows the scripts then, so that what is sent to a frozen one is the script itself.
        let name = name();
        done(acquire(&store, &name, "warm", request(60_000, 0)).await);
        let token = done(acquire(&store, &name, "warm", request(60_000, 0)).await).token;
        done(store.release_lock(&FREE, &name, &token).await);
        Self { main, nodes, shared, store }
    }

    fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// What stands there.
    async fn at(&self, node: usize, name: &LockName) -> Option<String> {
        let [key, _] = keys::free_lock(name);
        redis_cmd(&mut self.nodes[node].connection().await, &["GET", &key]).await
    }

    async fn release(&self, name: &LockName, lock: &Lock) {
        let released = self.store.release_lock(&FREE, name, &lock.token).await;
        assert_eq!(word(&released), "released");
    }
}

#[tokio::test]
async fn a_lease_is_on_all_servers_and_a_repeat_is_the_same() {
    let scene = Scene::set().await;
    let name = name();
    let first = acquire(&scene.store, &name, "k", request(60_000, 0)).await;
    assert_eq!(word(&first), "acquired");
    let lock = done(first);
    let shown = done(scene.store.lock_state(&FREE, &name).await);
    assert!(shown.held && shown.fence == Some(lock.fence) && shown.expires_at >= Some(lock.expires_at));
    // A hundredth of it and 2 ms may be drift.
    let validity = lock.expires_at.as_ms() - lock.server_time.as_ms();
    assert!(validity < 60_000 - 602, "{validity}");
    for node in 0..3 {
        assert_eq!(scene.at(node, &name).await.as_deref(), Some(lock.token.as_str()));
    }
    let other = Store::open(&scene.shared).unwrap();
    let again = acquire(&other, &name, "k", request(60_000, 0)).await;
    assert_eq!(word(&again), "replayed");
    let again = done(again);
    assert_eq!((&again.token, again.fence), (&lock.token, lock.fence));
    assert_eq!(word(&acquire(&other, &name, "other", request(60_000, 0)).await), "lock_held");

    let stranger = RenewLock { token: "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap(), ttl_ms: 1_000 };
    assert_eq!(word(&other.renew_lock(&FREE, &name, stranger).await), "not_owner");
    let renew = RenewLock { token: lock.token.clone(), ttl_ms: 120_000 };
    let renewed = done(other.renew_lock(&FREE, &name, renew.clone()).await);
    assert!(renewed.fence == lock.fence && renewed.expires_at > lock.expires_at);
    scene.release(&name, &lock).await;
    for node in 0..3 {
        assert_eq!(scene.at(node, &name).await, None);
    }
    assert_eq!(word(&scene.store.release_lock(&FREE, &name, &lock.token).await), "replayed");
    assert_eq!(word(&other.renew_lock(&FREE, &name, renew).await), "lock_expired");
    assert_eq!(word(&acquire(&other, &name, "k", request(60_000, 0)).await), "lock_expired");
    assert_eq!(scene.at(0, &name).await, None, "what was taken for that is given back");
    assert_eq!(done(acquire(&other, &name, "next", request(60_000, 0)).await).fence, lock.fence + 1);
}

#[tokio::test]
async fn one_server_may_die_and_come_back() {
    let mut scene = Scene::set().await;
    let (held, name) = (name(), name());
    let old = done(acquire(&scene.store, &held, "old", request(60_000, 0)).await);
    scene.nodes[0].kill();
    let lock = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    let renew = RenewLock { token: old.token.clone(), ttl_ms: 120_000 };
    done(scene.store.renew_lock(&FREE, &held, renew).await);
    assert_eq!(word(&acquire(&scene.store, &held, "k", request(60_000, 0)).await), "lock_held");
    // It comes back with what it had; another one dies; the two that are there are a majority.
    scene.nodes[0].restart();
    scene.nodes[1].kill();
    assert_eq!(scene.at(0, &held).await.as_deref(), Some(old.token.as_str()));
    scene.release(&held, &old).await;
    let next = done(acquire(&scene.store, &held, "next", request(60_000, 0)).await);
    // The fence counter of the bucket is one: it grows whatever servers are there.
    assert!(next.fence > old.fence);
    // It never heard of this one: it is on one server of two, which is no majority, but the store knows it.
    assert_eq!(scene.at(0, &name).await, None);
    assert_eq!(word(&acquire(&scene.store, &name, "other", request(60_000, 0)).await), "lock_held");
    let again = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    assert_eq!((again.token, again.fence), (lock.token, lock.fence));
}

#[tokio::test]
async fn without_a_majority_nothing_is_taken_and_nothing_left() {
    let mut scene = Scene::set().await;
    let name = name();
    scene.nodes[0].kill();
    scene.nodes[1].kill();
    let away = acquire(&scene.store, &name, "k", request(60_000, 0)).await;
    assert_eq!(away, Err(StoreError::NotApplied("store_unavailable")));
    assert_eq!(scene.at(2, &name).await, None);
    assert!(!is_held(&scene.store, &name).await);
    let [lock, _] = keys::free_lock(&name);
    let record: Option<String> = redis_cmd(&mut scene.main.connection().await, &["GET", &lock]).await;
    assert_eq!(record, None);
    scene.nodes[0].restart();
    assert_eq!(word(&acquire(&scene.store, &name, "k", request(60_000, 0)).await), "acquired");
}

/// A renewal that no majority has heard of is none.
#[tokio::test]
async fn a_lease_without_a_majority_is_not_renewed() {
    let mut scene = Scene::set().await;
    let name = name();
    let lock = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    let renew = RenewLock { token: lock.token.clone(), ttl_ms: 120_000 };
    for node in 0..2 {
        let [key, _] = keys::free_lock(&name);
        let _: u64 = redis_cmd(&mut scene.nodes[node].connection().await, &["DEL", &key]).await;
    }
    let gone = scene.store.renew_lock(&FREE, &name, renew.clone()).await;
    assert_eq!(word(&gone), "lock_expired");
    scene.nodes[1].kill();
    scene.nodes[2].kill();
    assert_eq!(word(&scene.store.renew_lock(&FREE, &name, renew).await), "store_unavailable");
    let until = done(scene.store.lock_state(&FREE, &name).await).expires_at.unwrap();
    assert!(until.as_ms() < lock.expires_at.as_ms() + 60_000, "the record was not renewed either");
}

#[tokio::test]
async fn a_frozen_server_costs_a_moment_and_forgets_what_it_was_asked() {
    let scene = Scene::set().await;
    let (name, taken) = (name(), name());
    scene.nodes[2].freeze();
    let since = Instant::now();
    let lock = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    scene.release(&name, &lock).await;
    // Another has the majority of this one; what is asked of the frozen one is taken back by the same connection.
    let rival = Redlock::open(&scene.urls()).unwrap();
    let token: LockToken = "RRRRRRRRRRRRRRRRRRRRRR".parse().unwrap();
    rival.acquire(&taken, &token, TTL).await.unwrap();
    let refused = acquire(&scene.store, &taken, "k", request(60_000, 0)).await;
    assert_eq!(word(&refused), "lock_held");
    rival.release(&taken, &token).await;
    scene.nodes[2].thaw();
    for name in [&name, &taken] {
        eventually("nothing is left there", async || scene.at(2, name).await.is_none()).await;
        let next = done(acquire(&scene.store, name, "next", request(60_000, 0)).await);
        assert_eq!(scene.at(2, name).await.as_deref(), Some(next.token.as_str()));
    }
}

#[tokio::test]
async fn contenders_of_two_processes_get_it_one_after_the_other() {
    let scene = Scene::set().await;
    let (name, inside) = (name(), AtomicUsize::new(0));
    let other = Shared { lock_nodes: scene.shared.lock_nodes.clone(), ..shared_on(&scene.main) };
    let stores = [scene.store.clone(), Store::open(&other).unwrap()];
    let contend = async |n: usize| {
        let store = &stores[n % 2];
        let lock = done(acquire(store, &name, &format!("k{n}"), request(60_000, 30_000)).await);
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at the same time");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        done(store.release_lock(&FREE, &name, &lock.token).await);
        lock.fence
    };
    let mut fences = join_all((0..10).map(contend)).await;
    fences.sort_unstable();
    assert!(fences.windows(2).all(|two| two[0] < two[1]), "{fences:?}");
}

/// Servers that forgot all leases: the store's record still refuses a second holder.
#[tokio::test]
async fn the_store_remembers_what_all_servers_forgot() {
    let scene = Scene::set().await;
    let name = name();
    let lock = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    for node in &scene.nodes {
        let _: String = redis_cmd(&mut node.connection().await, &["FLUSHALL"]).await;
    }
    assert_eq!(word(&acquire(&scene.store, &name, "other", request(60_000, 0)).await), "lock_held");
    assert_eq!(scene.at(0, &name).await, None, "and takes nothing for that");
    let again = done(acquire(&scene.store, &name, "k", request(60_000, 0)).await);
    assert_eq!(again.fence, lock.fence);
    assert_eq!(scene.at(0, &name).await.as_deref(), Some(lock.token.as_str()));
}

#[tokio::test]
async fn a_majority_alone() {
    let scene = Scene::set().await;
    let redlock = Redlock::open(&scene.urls()).unwrap();
    let name = name();
    let [one, other]: [LockToken; 2] = ["1", "2"].map(|digit| digit.repeat(22).parse().unwrap());
    let granted = redlock.acquire(&name, &one, TTL).await.unwrap();
    let left = granted.validity().unwrap();
    assert!(
        left <= TTL - granted.since.elapsed().min(Duration::from_secs(1)) && left < TTL - TTL / 100,
        "{left:?}"
    );
    assert_eq!(redlock.acquire(&name, &other, TTL).await.unwrap_err(), NoMajority::Refused);
    assert_eq!(redlock.renew(&name, &other, TTL).await.unwrap_err(), NoMajority::Refused);
    redlock.release(&name, &other).await;
    assert_eq!(scene.at(1, &name).await.as_deref(), Some(one.as_str()), "not his to give back");
    redlock.renew(&name, &one, TTL).await.unwrap();
    redlock.release(&name, &one).await;
    redlock.acquire(&name, &other, TTL).await.unwrap();
}
