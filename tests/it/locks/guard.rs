//! The guard: it renews as long as the work goes on, and stops the work when the lease is lost.

use super::{FREE, acquire, done, is_held, name, request, taken};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::support::{shared_on, store_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stockade::domain::*;
use stockade::store::Store;
use stockade::store::locks::{LeaseLost, LockGuard};

async fn guard(store: &Store, name: &LockName, ttl_ms: u64) -> LockGuard {
    match store.lock_guard(&FREE, name, request(ttl_ms, 0)).await {
        Ok(Decision::Done(Outcome::Acquired, guard)) => guard,
        Ok(_) => panic!("it is held"),
        Err(error) => panic!("{error}"),
    }
}

/// Says when it is dropped.
struct Work(Arc<AtomicBool>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_is_dropped_when_the_lease_is_lost() {
    let shared = shared_on(RedisServer::shared());
    let (store, name) = (Store::open(&shared).unwrap(), name());
    let guard = guard(&store, &name, 2_000).await;
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let (is_dropped, lost_to) = (Arc::new(AtomicBool::new(false)), Store::open(&shared).unwrap());
    let work = Work(Arc::clone(&is_dropped));
    let (worked, other) = tokio::join!(
        guard.run(async move {
            std::future::pending::<()>().await;
            drop(work);
        }),
        async {
            shared.clock.advance_ms(2_000);
            taken(&lost_to, &name, "other").await
        }
    );
    assert_eq!(worked, Err(LeaseLost));
    assert!(is_dropped.load(Ordering::SeqCst));
    assert_eq!(other.fence, guard.fence().fence + 1);
    guard.lost().await; // it stays lost
    assert_eq!(guard.run(std::future::pending::<()>()).await, Err(LeaseLost));
    guard.release().await;
    assert!(is_held(&store, &name).await, "by the other");
}

/// Nothing is heard of the store: the guard goes by its own time, and stops before the lease is over.
#[tokio::test]
async fn work_is_dropped_when_nothing_is_heard() {
    let mut server = RedisServer::start();
    let (store, name) = (store_on(&server), name());
    let guard = guard(&store, &name, 1_000).await;
    server.kill();
    assert_eq!(guard.run(std::future::pending::<()>()).await, Err(LeaseLost));
}

#[tokio::test]
async fn a_short_lease_is_renewed_for_as_long_as_the_work_takes() {
    let (store, name) = (store_on(RedisServer::shared()), name());
    let guard = guard(&store, &name, 300).await;
    let end = async || done(store.lock_state(&FREE, &name).await).expires_at.map(Timestamp::as_ms);
    let begun = end().await.unwrap();
    let work = eventually("it was renewed many times", async || {
        let until = end().await.expect("somebody has it");
        until > begun + 4 * 300
    });
    guard.run(work).await.expect("the lease was never lost");
    assert_eq!(done(store.lock_state(&FREE, &name).await).fence, Some(guard.fence().fence));
    // Nobody renews it once the guard has gone: the next lease ends at its own time.
    guard.release().await;
    let next = done(acquire(&store, &name, "next", request(300, 0)).await);
    eventually("its lease is over", async || end().await.is_none_or(|until| until > next.expires_at.as_ms()))
        .await;
    assert!(!is_held(&store, &name).await);
}

#[tokio::test]
async fn a_guard_that_is_dropped_gives_the_lock_back() {
    let (store, name) = (store_on(RedisServer::shared()), name());
    drop(guard(&store, &name, 60_000).await);
    eventually("it is free", async || !is_held(&store, &name).await).await;
    guard(&store, &name, 60_000).await.release().await;
    assert!(!is_held(&store, &name).await);
    // Also by whoever unwinds.
    let held = guard(&store, &name, 60_000).await;
    let panics = tokio::spawn(async move { held.run(async { panic!("on purpose") }).await });
    assert!(panics.await.is_err_and(|error| error.is_panic()));
    eventually("it is free", async || !is_held(&store, &name).await).await;
}
