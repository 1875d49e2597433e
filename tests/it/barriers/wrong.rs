//! Strangers, late ones, reports before there is a barrier, and what cannot be understood.

use super::{Barrier, names, says};
use crate::service::{InProcess, shared_api};
use serde_json::{Value, json};

#[tokio::test]
async fn strangers_count_for_nobody() {
    let barrier = Barrier::put(&shared_api(), json!({"participants": ["a", "b"]})).await;
    barrier.arrive("c").await.expect(422, "unknown_participant").body["errors"][0]["field"]
        .as_str()
        .map(|field| assert_eq!(field, "/participant"))
        .unwrap();
    barrier.arrive("a").await.expect(200, "");
    says(&barrier.get().await, json!({"completed": 1, "declared": 2, "expected": 2, "sealed": true}));
    // A larger number leaves room for those that are not named.
    let some = Barrier::put(&shared_api(), json!({"participants": ["a", "b"], "expected": 3})).await;
    some.arrive("c").await.expect(200, "");
    some.arrive("d").await.expect(422, "unknown_participant");
    some.arrive("a").await.expect(200, "");
    assert_eq!(some.arrive("b").await.body["fired"], true);
}

#[tokio::test]
async fn a_report_before_there_is_a_barrier_is_refused() {
    let barrier = Barrier::named(&shared_api());
    barrier.arrive("a").await.expect(404, "unknown_barrier");
    barrier.post("/seal", Value::Null).await.expect(404, "unknown_barrier");
    barrier.post("/extend", json!({"deadline_seconds": 5})).await.expect(404, "unknown_barrier");
    barrier.post("/participants", json!({"participants": ["a"]})).await.expect(404, "unknown_barrier");
    barrier.cancel().await.expect(404, "unknown_barrier");
    for rest in ["", "/participants", "/wait", "/wait?seconds=0", "/live"] {
        barrier.read(rest).await.expect(404, "unknown_barrier");
    }
    barrier.put_again(json!({"expected": 1})).await.expect(201, "");
    assert_eq!(barrier.arrive("a").await.body["fired"], true);
}

#[tokio::test]
async fn late_ones_are_told_how_it_ended() {
    let barrier =
        Barrier::put(&shared_api(), json!({"participants": ["a", "b", "c"], "tolerated_failures": 0})).await;
    barrier.arrive("a").await.expect(200, "");
    assert_eq!(barrier.fail("b", "no disk").await.body["status"], "failed");
    let late = barrier.arrive("c").await.expect(410, "barrier_ended");
    says(&late.body["barrier"], json!({"status": "failed", "completed": 1, "failed": 1}));
    // Also a stranger: the end comes first.
    barrier.arrive("nobody").await.expect(410, "barrier_ended");
    says(&barrier.arrive("a").await.expect(200, "").body, json!({"status": "failed", "fired": false}));
    says(&barrier.fail("b", "").await.expect(200, "").body, json!({"fired": true}));
    barrier.post("/extend", json!({"deadline_seconds": 5})).await.expect(410, "barrier_ended");
    barrier.cancel().await.expect(410, "barrier_ended");
    barrier.post("/participants", json!({"participants": ["d"]})).await.expect(410, "barrier_ended");
    barrier.post("/participants", json!({"participants": ["a", "c"]})).await.expect(200, "");
}

#[tokio::test]
async fn the_same_again_is_the_same_barrier_and_another_is_refused() {
    let spec = || json!({"participants": ["a", "b"], "notify": [{"url": "https://example.com/x"}]});
    let barrier = Barrier::named(&shared_api());
    let made = barrier.put_again(spec()).await.expect(201, "");
    let secret = made.body["notify"][0]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"));
    // The order of names is nobody's business, and what is the default may be said.
    let other_words = json!({"participants": ["b", "a"], "mode": "members", "expected": 2, "deadline_seconds": 86400,
        "retention_seconds": 86400, "notify": [{"url": "https://example.com/x"}]});
    for same in [spec(), other_words] {
        let again = barrier.put_again(same).await.expect(200, "");
        assert_eq!(
            (again.outcome(), again.body["notify"][0]["secret"].as_str()),
            ("replayed", Some(&*secret))
        );
    }
    says(&barrier.get().await["notify"][0], json!({"url": "https://example.com/x", "secret": null}));
    for other in [
        json!({"participants": ["a", "b"]}),
        json!({"participants": ["a", "c"], "notify": [{"url": "https://example.com/x"}]}),
        json!({"expected": 2, "notify": [{"url": "https://example.com/x"}]}),
        json!({}),
    ] {
        let refused = barrier.put_again(other).await.expect(409, "barrier_exists");
        assert_eq!(refused.body["barrier"]["expected"], 2);
    }
    let new = |barrier: &Barrier| {
        barrier.api.call("PUT", &barrier.at("")).header("If-None-Match", "*").json(&spec())
    };
    new(&barrier).send().await.expect(412, "precondition_failed");
    new(&Barrier::named(&barrier.api)).send().await.expect(201, "");
    barrier
        .api
        .call("PUT", &barrier.at(""))
        .header("If-Match", "*")
        .json(&spec())
        .send()
        .await
        .names("If-Match");
    barrier.arrive("a").await.expect(200, "");
    barrier.arrive("b").await.expect(200, "");
    says(
        &barrier.put_again(spec()).await.expect(200, "").body,
        json!({"status": "completed", "completed": 2}),
    );
}

#[tokio::test]
async fn bad_input_names_its_field_and_changes_nothing() {
    let service = InProcess::start();
    let barrier = Barrier::put(&service.api, json!({"participants": ["a", "b"]})).await;
    let before = service.dump().await;
    let other = Barrier::named(&service.api);
    let many: Vec<String> = names(1_001);
    let urls: Vec<Value> = (0..9).map(|n| json!({"url": format!("https://example.com/{n}")})).collect();
    for (spec, field) in [
        (json!({"participants": []}), "/participants"),
        (json!({"participants": ["a", "a"]}), "/participants"),
        (json!({"participants": ["a", "b c"]}), "/participants/1"),
        (json!({"participants": many}), "/participants"),
        (json!({"participants": ["a"], "mode": "count"}), "/participants"),
        (json!({"participants": ["a", "b"], "expected": 1}), "/expected"),
        (json!({"expected": 0}), "/expected"),
        (json!({"expected": 100_001}), "/expected"),
        (json!({"expected": -1}), "/expected"),
        (json!({"mode": "all"}), "/mode"),
        (json!({"deadline_seconds": 0}), "/deadline_seconds"),
        (json!({"deadline_seconds": 2_592_001}), "/deadline_seconds"),
        (json!({"retention_seconds": 0}), "/retention_seconds"),
        (json!({"tolerated_failures": -1}), "/tolerated_failures"),
        (json!({"notify": urls}), "/notify"),
        (json!({"notify": [{"url": "ftp://example.com/"}]}), "/notify/0/url"),
        (json!({"total": 3}), "/total"),
    ] {
        println!("{field}");
        other.put_again(spec).await.names(field);
    }
    for (body, field) in [
        (json!({}), "/participant"),
        (json!({"participant": "a", "note": "x".repeat(257)}), "/note"),
        (json!({"participant": "a", "outcome": "done"}), "/outcome"),
        (json!({"participant": "\u{e9}"}), "/participant"),
        (json!({"participant": "x".repeat(65)}), "/participant"),
    ] {
        barrier.post("/arrivals", body).await.names(field);
    }
    barrier.post("/participants", json!({"participants": []})).await.names("/participants");
    barrier.post("/seal", json!({"expected": 0})).await.names("/expected");
    barrier.post("/extend", json!({"deadline_seconds": 0})).await.names("/deadline_seconds");
    for (rest, field) in [
        ("/wait?seconds=51", "seconds"),
        ("/wait?seconds=x", "seconds"),
        ("/participants?status=all", "status"),
        ("/participants?after=a%20b", "after"),
        ("/participants?status=arrived&after=a", "after"),
    ] {
        barrier.read(rest).await.names(field);
    }
    for (query, field) in [("status=closed", "status"), ("prefix=%2A", "prefix"), ("after=%2A", "after")] {
        service.api.get(&format!("/v1/barriers?{query}")).await.names(field);
    }
    service.api.put("/v1/barriers/a%3Ab", &json!({})).await.names("barrier");
    assert_eq!(service.dump().await, before);
}
