//! Answers that never come: what was taken is met by the repeat, or given back.

use super::{FREE, acquire, done, is_held, name, request, taken};
use crate::proxy::{Proxy, Side};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::shop::{redis_cmd, word};
use crate::support::shared_on;
use stockade::domain::*;
use stockade::store::scripts::Scripts;
use stockade::store::{Store, StoreError};

/// A store behind a proxy, and one beside it, on a server that knows all scripts.
struct Lossy {
    server: RedisServer,
    proxy: Proxy,
    behind: Store,
    direct: Store,
}

async fn lossy() -> Lossy {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let direct = Store::open(&shared).unwrap();
    direct.self_test().await.unwrap();
    let proxy = Proxy::before(&server);
    let behind = Store::open(&proxy.shared(&shared)).unwrap();
    // It knows the secret, so that the next request is the script itself.
    behind.lock_state(&FREE, &name()).await.unwrap();
    Lossy { server, proxy, behind, direct }
}

#[tokio::test]
async fn a_repeat_meets_what_was_done() {
    let lossy = lossy().await;
    let Lossy { proxy, behind, direct, .. } = &lossy;
    let (name, scripts) = (name(), Scripts::new());
    proxy.lose_answer_to(&scripts.acquire_lock.sha);
    let lost = acquire(behind, &name, "k", request(60_000, 0)).await;
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    assert_eq!(word(&acquire(direct, &name, "other", request(60_000, 0)).await), "lock_held");
    let again = acquire(behind, &name, "k", request(60_000, 0)).await;
    assert_eq!(word(&again), "replayed");
    let lock = done(again);

    let renew = RenewLock { token: lock.token.clone(), ttl_ms: 120_000 };
    proxy.lose_answer_to(&scripts.renew_lock.sha);
    assert_eq!(word(&behind.renew_lock(&FREE, &name, renew.clone()).await), "outcome_unknown");
    let until = done(direct.lock_state(&FREE, &name).await).expires_at.unwrap();
    assert!(until > lock.expires_at);
    let renewed = done(behind.renew_lock(&FREE, &name, renew).await);
    assert!(renewed.expires_at >= until && renewed.fence == lock.fence);

    proxy.lose_answer_to(&scripts.release_lock.sha);
    assert_eq!(word(&behind.release_lock(&FREE, &name, &lock.token).await), "outcome_unknown");
    assert!(!is_held(direct, &name).await);
    assert_eq!(word(&behind.release_lock(&FREE, &name, &lock.token).await), "replayed");
    assert_eq!(proxy.lost(), 3);
}

/// Nobody else knows the token of a guard: it is given back at once.
#[tokio::test]
async fn a_guard_that_was_taken_unheard_is_given_back() {
    let lossy = lossy().await;
    let Lossy { proxy, behind, direct, .. } = &lossy;
    let name = name();
    proxy.lose_answer_to(&Scripts::new().acquire_lock.sha);
    let lost = behind.lock_guard(&FREE, &name, request(60_000, 0)).await;
    assert!(matches!(lost, Err(StoreError::Unknown(_))));
    assert!(!is_held(direct, &name).await);
    taken(direct, &name, "next").await;
}

/// How many scripts the server has run.
async fn scripts_run(server: &RedisServer) -> usize {
    let stats: String = redis_cmd(&mut server.connection().await, &["INFO", "commandstats"]).await;
    let calls =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    calls.map(|calls| calls.parse::<usize>().unwrap()).sum()
}

/// The caller leaves between the call and its answer.
async fn leave_unheard(lossy: &Lossy, name: &LockName, meanwhile: impl Future<Output = ()>) {
    let sha = Scripts::new().acquire_lock.sha.leak();
    lossy.proxy.halt_at(Box::leak(Box::new([&*sha])), 1, Side::After);
    let (store, of) = (lossy.behind.clone(), name.clone());
    let caller = tokio::spawn(async move { acquire(&store, &of, "k", request(60_000, 0)).await });
    lossy.proxy.halted().await;
    meanwhile.await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    let before = scripts_run(&lossy.server).await;
    lossy.proxy.go_on(true);
    eventually("it was abandoned, or not", async || scripts_run(&lossy.server).await > before).await;
}

#[tokio::test]
async fn what_a_caller_gets_who_has_gone_is_given_back() {
    let lossy = lossy().await;
    let name = name();
    leave_unheard(&lossy, &name, async {}).await;
    assert!(!is_held(&lossy.direct, &name).await);
    // As if it had never been: the same key may take it.
    assert_eq!(word(&acquire(&lossy.direct, &name, "k", request(60_000, 0)).await), "acquired");
}

#[tokio::test]
async fn what_a_repeat_has_met_stays() {
    let lossy = lossy().await;
    let name = name();
    let repeat = async {
        let again = acquire(&lossy.direct, &name, "k", request(60_000, 0)).await;
        assert_eq!(word(&again), "replayed");
    };
    leave_unheard(&lossy, &name, repeat).await;
    assert!(is_held(&lossy.direct, &name).await);
    assert_eq!(word(&acquire(&lossy.direct, &name, "k", request(60_000, 0)).await), "replayed");
}
