//! The sweeper: deadlines that nobody meets, barriers that have been kept long enough, events that are old.

use super::Barrier;
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::InProcess;
use crate::support::shared_on;
use serde_json::json;
use stockade::domain::*;
use stockade::store::keys::{BARRIER_BUCKETS, BucketKeys, barrier_bucket};
use stockade::store::sweep::EventsKept;
use stockade::store::{MustBeNew, Store};
use stockade::workers::sweeper;

const KEPT: EventsKept = EventsKept { retention_ms: 1_000_000_000, entries_max: 1_000 };

async fn put(store: &Store, name: &str, spec: serde_json::Value) -> BarrierId {
    let name: BarrierId = name.parse().unwrap();
    let spec: PutBarrier = serde_json::from_value(spec).unwrap();
    store.put_barrier(&name, spec.spec().unwrap(), MustBeNew::Yes).await.unwrap();
    name
}

#[tokio::test]
async fn a_deadline_comes_also_when_nobody_calls() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let barrier = Barrier::put(&service.api, json!({"participants": ["a"], "deadline_seconds": 60})).await;
    service.advance_seconds(60);
    eventually("it has timed out", async || barrier.events(&mut redis).await.len() == 1).await;
    let series = "stockade_barriers_total{outcome=\"timed_out\"}";
    assert!(service.api.metrics().await.contains(&(series.into(), 1.0)));
}

#[tokio::test]
async fn of_a_removed_barrier_only_its_event_stays() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let mut redis = server.connection().await;
    let mut names = Vec::new();
    for mode in ["members", "count"] {
        for n in 0..120 {
            let spec = json!({"mode": mode, "deadline_seconds": 10, "retention_seconds": 100});
            names.push(put(&store, &format!("{mode}-{n}"), spec).await);
        }
    }
    let arrive = |outcome| Arrive { participant: "a".parse().unwrap(), outcome, note: None };
    for name in &names {
        store.arrive(name, arrive(ArrivalOutcome::Failed)).await.unwrap();
    }
    let quiet = sweeper::round(&store, &KEPT).await.unwrap();
    assert_eq!((quiet.timed_out, quiet.removed), (0, 0));
    assert!(quiet.next_in_ms.is_some_and(|ms| ms <= 10_000), "{quiet:?}");
    shared.clock.advance_ms(10_000);
    let late = sweeper::round(&store, &KEPT).await.unwrap();
    assert_eq!((late.timed_out, late.removed), (240, 0));
    assert!(late.next_in_ms.is_some_and(|ms| (1..=100_000).contains(&ms)), "{late:?}");
    shared.clock.advance_ms(100_000);
    let over = sweeper::round(&store, &KEPT).await.unwrap();
    assert_eq!((over.timed_out, over.removed), (0, 240));
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    keys.retain(|key| !key.ends_with(":events"));
    assert_eq!(keys, Vec::<String>::new());
    // The name is free.
    put(&store, "members-1", json!({"expected": 3})).await;
}

#[tokio::test]
async fn one_corrupt_barrier_stops_nothing() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let mut redis = server.connection().await;
    let bucket = BucketKeys::new(barrier_bucket(&"bad".parse().unwrap()));
    let spec = || json!({"participants": ["a"], "deadline_seconds": 10});
    let bad = put(&store, "bad", spec()).await;
    let mut others = Vec::new();
    for n in 0..100 {
        let name: BarrierId = format!("good-{n}").parse().unwrap();
        if BucketKeys::new(barrier_bucket(&name)).due == bucket.due {
            others.push(put(&store, name.as_str(), spec()).await);
        }
    }
    assert!(!others.is_empty());
    let [_, marks, ..] = bucket.barrier(&bad);
    let () = redis::cmd("RPUSH").arg(&marks).arg("x").query_async(&mut redis).await.unwrap();
    let arrive = async |name: &BarrierId| {
        let request =
            Arrive { participant: "a".parse().unwrap(), outcome: ArrivalOutcome::Failed, note: None };
        store.arrive(name, request).await
    };
    let (wrong, right) = tokio::join!(arrive(&bad), arrive(&others[0]));
    assert_eq!(wrong.unwrap_err().code(), "corrupt");
    assert!(matches!(right.unwrap(), Decision::Done(Outcome::Failed, _)));
    shared.clock.advance_ms(10_000);
    let round = sweeper::round(&store, &KEPT).await.unwrap();
    assert_eq!(round.timed_out, others.len());
    assert!(round.next_in_ms.is_some_and(|ms| ms > 1_000), "it is not looked at without end: {round:?}");
    let listed = store.barriers(&Default::default(), &PageRequest { limit: 500, after: None }).await.unwrap();
    assert_eq!(listed.items.len(), others.len());
    // Once somebody has repaired it, it goes on.
    let () = redis::cmd("DEL").arg(&marks).query_async(&mut redis).await.unwrap();
    shared.clock.advance_ms(3_600_000);
    assert_eq!(sweeper::round(&store, &KEPT).await.unwrap().timed_out, 1);
}

#[tokio::test]
async fn events_of_barriers_go_by_time_and_by_number() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let mut redis = server.connection().await;
    let mut entries = async || {
        let mut count = 0;
        for keys in BucketKeys::all() {
            let n: usize = redis::cmd("XLEN").arg(keys.events).query_async(&mut redis).await.unwrap();
            count += n;
        }
        count
    };
    let end = async |from: usize, to: usize| {
        for n in from..to {
            let name = put(&store, &format!("e-{n}"), json!({"expected": 1})).await;
            store.cancel_barrier(&name).await.unwrap();
        }
    };
    end(0, 300).await;
    shared.clock.advance_ms(50_000);
    end(300, 340).await;
    assert_eq!(entries().await, 340);
    let kept = EventsKept { retention_ms: 40_000, entries_max: 1_000 };
    assert_eq!(sweeper::round(&store, &kept).await.unwrap().trimmed, 300);
    assert_eq!(entries().await, 40);
    let kept = EventsKept { retention_ms: 40_000, entries_max: 1 };
    sweeper::round(&store, &kept).await.unwrap();
    assert!(entries().await <= BARRIER_BUCKETS);
    shared.clock.advance_ms(50_000);
    sweeper::round(&store, &kept).await.unwrap();
    assert_eq!(entries().await, 0);
}
