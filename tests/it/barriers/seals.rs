//! Barriers that learn only later how many they wait for.

use super::{Barrier, fresh, names, says};
use crate::service::{InProcess, shared_api};
use futures_util::future::join_all;
use serde_json::{Value, json};

#[tokio::test]
async fn a_seal_settles_the_number_and_may_complete() {
    for mode in ["members", "count"] {
        let barrier = Barrier::put(&shared_api(), json!({"mode": mode})).await;
        barrier.post("/seal", Value::Null).await.expect(422, "nothing_declared");
        says(&barrier.get().await, json!({"sealed": false, "expected": null}));
        for name in ["a", "b"] {
            says(&barrier.arrive(name).await.expect(200, "").body, json!({"fired": false, "status": "open"}));
        }
        let refused = barrier.post("/seal", json!({"expected": 1})).await.expect(409, "too_many_arrivals");
        assert_eq!(refused.body["declared"], 2);
        let sealed = barrier.post("/seal", Value::Null).await.expect(200, "");
        assert_eq!(sealed.outcome(), "sealed");
        says(&sealed.body, json!({"status": "completed", "fired": true, "expected": 2}));
        for again in [Value::Null, json!({}), json!({"expected": 2})] {
            let repeat = barrier.post("/seal", again).await.expect(200, "");
            assert_eq!(repeat.outcome(), "replayed");
            says(&repeat.body, json!({"fired": true}));
        }
        barrier.post("/seal", json!({"expected": 3})).await.expect(410, "barrier_ended");
        says(&barrier.arrive("b").await.expect(200, "").body, json!({"fired": false}));
    }
}

#[tokio::test]
async fn a_seal_with_more_waits_for_the_rest() {
    let barrier = Barrier::put(&shared_api(), json!({})).await;
    barrier.arrive("a").await.expect(200, "");
    says(&barrier.post("/seal", json!({"expected": 2})).await.body, json!({"fired": false, "expected": 2}));
    assert_eq!(barrier.post("/seal", json!({"expected": 2})).await.outcome(), "replayed");
    for other in [json!({"expected": 3}), json!({"expected": 1}), json!({})] {
        let refused = barrier.post("/seal", other).await.expect(409, "already_sealed");
        assert_eq!(refused.body["expected"], 2);
    }
    says(&barrier.arrive("b").await.expect(200, "").body, json!({"fired": true}));
    // It was an arrival that fired.
    says(&barrier.post("/seal", json!({"expected": 2})).await.expect(200, "").body, json!({"fired": false}));
}

#[tokio::test]
async fn names_may_be_declared_before_they_come() {
    let barrier = Barrier::put(&shared_api(), json!({})).await;
    let declare = async |names: &[&str]| barrier.post("/participants", json!({"participants": names})).await;
    assert_eq!(declare(&["a", "b"]).await.expect(200, "").outcome(), "declared");
    assert_eq!(declare(&["a", "b"]).await.expect(200, "").outcome(), "replayed");
    says(&declare(&["b", "c"]).await.expect(200, "").body, json!({"declared": 3}));
    barrier.arrive("a").await.expect(200, "");
    barrier.arrive("d").await.expect(200, "");
    says(
        &barrier.post("/seal", Value::Null).await.expect(200, "").body,
        json!({"expected": 4, "fired": false}),
    );
    let refused = declare(&["a", "e", "f"]).await.expect(422, "unknown_participant");
    assert!(refused.body["detail"].as_str().unwrap().contains(" e."), "{}", refused.text);
    barrier.arrive("e").await.expect(422, "unknown_participant");
    barrier.arrive("b").await.expect(200, "");
    assert_eq!(barrier.arrive("c").await.body["fired"], true);

    let room = Barrier::put(&shared_api(), json!({"expected": 2})).await;
    let both = json!({"participants": ["a", "b"]});
    room.post("/participants", json!({"participants": ["a", "b", "c"]}))
        .await
        .expect(422, "unknown_participant");
    says(&room.post("/participants", both).await.expect(200, "").body, json!({"declared": 2}));

    let count = Barrier::put(&shared_api(), json!({"mode": "count"})).await;
    let refused = count.post("/participants", json!({"participants": ["a"]})).await;
    refused.expect(422, "names_not_kept");
}

/// A seal between arrivals: each of them is counted before it, or it is refused; one call fires.
#[tokio::test]
async fn seals_race_arrivals() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let (one, other) = (fresh(&service.api), fresh(&service.api));
    let races = (0..200).map(|n| {
        let barrier = Barrier::named(&one);
        let sealer = Barrier { api: other.clone(), name: barrier.name.clone() };
        async move {
            barrier.put_again(json!({})).await.expect(201, "");
            barrier.arrive("first").await.expect(200, "");
            let people = names(n % 5);
            let arrivals = join_all(people.iter().map(|name| barrier.arrive(name)));
            let (arrived, sealed) = tokio::join!(arrivals, sealer.post("/seal", Value::Null));
            let sealed = sealed.expect(200, "").body;
            let let_in = arrived.iter().filter(|answer| answer.status == 200).count();
            assert!(arrived.iter().all(|answer| answer.status == 200 || answer.status == 410), "{arrived:?}");
            assert_eq!(sealed["expected"], 1 + let_in);
            says(&barrier.get().await, json!({"status": "completed", "completed": 1 + let_in}));
            assert_eq!(sealed["fired"], true);
            barrier
        }
    });
    for barrier in join_all(races).await {
        assert_eq!(barrier.events(&mut redis).await.len(), 1);
    }
}
