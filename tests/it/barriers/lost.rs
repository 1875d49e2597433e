//! The answer is lost on its way from Redis: the call may have had its effect, and its repeat tells.

use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::support::shared_on;
use stockade::domain::*;
use stockade::store::scripts::{Script, Scripts};
use stockade::store::{MustBeNew, Store, StoreError};

struct Lossy {
    proxy: Proxy,
    /// Behind the proxy.
    store: Store,
    name: BarrierId,
}

impl Lossy {
    /// The first try has its effect and no answer; the second is answered `word`.
    async fn loses<T: std::fmt::Debug>(
        &self,
        script: &Script,
        word: &str,
        call: impl AsyncFn(&Store, &BarrierId) -> Result<Decision<T>, StoreError>,
    ) -> T {
        let lost = self.proxy.lost();
        self.proxy.lose_answer_to(&script.sha);
        match call(&self.store, &self.name).await {
            Err(StoreError::Unknown(_)) => {}
            other => panic!("{}: {other:?}", script.name),
        }
        assert_eq!(self.proxy.lost(), lost + 1, "{}", script.name);
        match call(&self.store, &self.name).await {
            Ok(Decision::Done(outcome, value)) if outcome.as_str() == word => value,
            other => panic!("{}: {other:?}", script.name),
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_told_by_the_repeat() {
    let server = RedisServer::shared();
    let shared = shared_on(server);
    // So that the server knows all scripts, and each goes out by its hash.
    Store::open(&shared).unwrap().self_test().await.unwrap();
    let proxy = Proxy::before(server);
    let store = Store::open(&proxy.shared(&shared)).unwrap();
    let name = format!("b{}", uuid::Uuid::new_v4().simple()).parse().unwrap();
    let lossy = Lossy { proxy, store, name };
    let scripts = Scripts::new();
    let put = async |store: &Store, name: &BarrierId| {
        store.put_barrier(name, PutBarrier::default().spec().unwrap(), MustBeNew::No).await
    };
    lossy.loses(&scripts.put_barrier, "replayed", put).await;
    let declare = async |store: &Store, name: &BarrierId| {
        let participants = Names::new(vec!["a".parse().unwrap(), "b".parse().unwrap()]).unwrap();
        store.declare(name, Declare { participants }).await
    };
    assert_eq!(lossy.loses(&scripts.declare, "replayed", declare).await.declared, 2);
    let arrive = |participant: &'static str, outcome| {
        async move |store: &Store, name: &BarrierId| {
            let participant = participant.parse().unwrap();
            store.arrive(name, Arrive { participant, outcome, note: None }).await
        }
    };
    let failed = lossy.loses(&scripts.arrive, "replayed", arrive("a", ArrivalOutcome::Failed)).await;
    assert_eq!((failed.failed, failed.fired), (1, false));
    let extend = async |store: &Store, name: &BarrierId| {
        shared.clock.advance_ms(1); // the second call may come in the same millisecond
        store.extend_barrier(name, ExtendDeadline { deadline_seconds: 100_000 }).await
    };
    // A little further each time, since it is so far from now.
    lossy.loses(&scripts.extend_barrier, "extended", extend).await;
    let seal = async |store: &Store, name: &BarrierId| store.seal(name, Seal::default()).await;
    lossy.loses(&scripts.seal, "replayed", seal).await;
    lossy.loses(&scripts.arrive, "replayed", arrive("a", ArrivalOutcome::Completed)).await;
    let last = lossy.loses(&scripts.arrive, "replayed", arrive("b", ArrivalOutcome::Completed)).await;
    assert_eq!((last.status, last.completed, last.fired), (BarrierStatus::Completed, 2, true));

    let name = format!("b{}", uuid::Uuid::new_v4().simple()).parse().unwrap();
    let lossy = Lossy { name, ..lossy };
    put(&lossy.store, &lossy.name).await.unwrap();
    let cancel = async |store: &Store, name: &BarrierId| store.cancel_barrier(name).await;
    lossy.loses(&scripts.cancel, "replayed", cancel).await;
}

/// The seal that fired fires again, also when its answer was lost.
#[tokio::test]
async fn a_seal_whose_answer_was_lost_still_fires() {
    let server = RedisServer::shared();
    let shared = shared_on(server);
    Store::open(&shared).unwrap().self_test().await.unwrap();
    let proxy = Proxy::before(server);
    let store = Store::open(&proxy.shared(&shared)).unwrap();
    let name: BarrierId = format!("b{}", uuid::Uuid::new_v4().simple()).parse().unwrap();
    let lossy = Lossy { proxy, store, name };
    let spec = PutBarrier::default().spec().unwrap();
    lossy.store.put_barrier(&lossy.name, spec, MustBeNew::No).await.unwrap();
    let request =
        Arrive { participant: "a".parse().unwrap(), outcome: ArrivalOutcome::Completed, note: None };
    lossy.store.arrive(&lossy.name, request).await.unwrap();
    let seal = async |store: &Store, name: &BarrierId| store.seal(name, Seal::default()).await;
    let sealed = lossy.loses(&Scripts::new().seal, "replayed", seal).await;
    assert_eq!((sealed.status, sealed.fired), (BarrierStatus::Completed, true));
}
