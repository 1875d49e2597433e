//! How barriers end: failures, deadlines, cancellation; and what their events say.

use super::{Barrier, names, says};
use crate::service::{InProcess, shared_api};
use serde_json::{Value, json};

#[tokio::test]
async fn failures_are_recorded_and_end_nothing_unless_they_are_counted() {
    for mode in ["members", "count"] {
        let barrier = Barrier::put(&shared_api(), json!({"expected": 2, "mode": mode})).await;
        let failed = barrier.fail("a", "no disk").await.expect(200, "");
        assert_eq!(failed.outcome(), "failed");
        says(&failed.body, json!({"failed": 1, "completed": 0, "status": "open"}));
        says(&barrier.arrive("b").await.body, json!({"failed": 1, "completed": 1, "status": "open"}));
        // It failed, then it could: the later wins. The other way round changes nothing.
        assert_eq!(barrier.fail("b", "").await.outcome(), "replayed");
        let then = barrier.arrive("a").await.expect(200, "");
        assert_eq!(then.outcome(), "completed");
        says(&then.body, json!({"failed": 0, "completed": 2, "status": "completed", "fired": true}));
    }
}

#[tokio::test]
async fn tolerated_failures_count_as_arrived_and_one_more_ends_it() {
    for mode in ["members", "count"] {
        let spec = || json!({"expected": 3, "mode": mode, "tolerated_failures": 1});
        let tolerated = Barrier::put(&shared_api(), spec()).await;
        tolerated.fail("a", "").await.expect(200, "");
        tolerated.arrive("b").await.expect(200, "");
        says(&tolerated.arrive("c").await.body, json!({"status": "completed", "fired": true, "failed": 1}));

        let failed = Barrier::put(&shared_api(), spec()).await;
        failed.fail("a", "").await.expect(200, "");
        let last = failed.fail("b", "").await.expect(200, "");
        says(&last.body, json!({"status": "failed", "fired": true, "failed": 2}));
        failed.arrive("c").await.expect(410, "barrier_ended");

        // It need not be sealed for that.
        let open = Barrier::put(&shared_api(), json!({"mode": mode, "tolerated_failures": 0})).await;
        says(&open.fail("a", "").await.body, json!({"status": "failed", "fired": true, "expected": null}));
    }
}

#[tokio::test]
async fn whoever_comes_after_the_deadline_finds_it_timed_out() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let spec = json!({"participants": ["a", "b"], "deadline_seconds": 3600});
    let calls = [
        ("/arrivals", json!({"participant": "b"})),
        ("/seal", Value::Null),
        ("/extend", json!({"deadline_seconds": 9})),
        ("/participants", json!({"participants": ["a", "b"]})),
        ("", Value::Null),
        ("again", Value::Null),
    ];
    let mut barriers = Vec::new();
    for _ in &calls {
        let barrier = Barrier::put(&service.api, spec.clone()).await;
        barrier.arrive("a").await.expect(200, "");
        barriers.push(barrier);
    }
    service.advance_seconds(3_600);
    for (barrier, (rest, body)) in barriers.iter().zip(calls) {
        let answer = match rest {
            "" => barrier.cancel().await,
            "again" => barrier.put_again(spec.clone()).await,
            rest => barrier.post(rest, body).await,
        };
        match rest {
            // What had been done before is told again.
            "/participants" | "again" | "/seal" => {
                answer.expect(200, "");
            }
            _ => says(&answer.expect(410, "barrier_ended").body["barrier"], json!({"status": "timed_out"})),
        }
        let now = barrier.get().await;
        says(&now, json!({"status": "timed_out", "ended_at": now["deadline"], "completed": 1}));
        says(&barrier.arrive("a").await.expect(200, "").body, json!({"status": "timed_out", "fired": false}));
        let events = barrier.events(&mut redis).await;
        assert_eq!(events.len(), 1, "{rest}");
        let event = serde_json::to_value(&events[0]).unwrap();
        says(&event, json!({"type": "dev.stockade.barrier.timed_out", "source": barrier.at("")}));
        says(
            &event["data"],
            json!({"missing": ["b"], "previous_status": "open", "truncated": false,
            "link": barrier.at("/participants?status=missing")}),
        );
    }
}

#[tokio::test]
async fn an_extension_moves_the_deadline_away_and_never_nearer() {
    let service = InProcess::start();
    let barrier = Barrier::put(&service.api, json!({"expected": 1, "deadline_seconds": 100})).await;
    let deadline = async || barrier.get().await["deadline"].as_str().unwrap().to_owned();
    let first = deadline().await;
    assert_eq!(barrier.post("/extend", json!({"deadline_seconds": 10})).await.outcome(), "unchanged");
    assert_eq!(deadline().await, first);
    assert_eq!(barrier.post("/extend", json!({"deadline_seconds": 500})).await.outcome(), "extended");
    assert!(deadline().await > first);
    service.advance_seconds(400);
    assert_eq!(barrier.arrive("a").await.expect(200, "").body["fired"], true);
}

#[tokio::test]
async fn a_cancelled_barrier_is_told_of_once() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let spec =
        json!({"expected": 2, "notify": [{"url": "http://example.com/a"}, {"url": "http://example.com/b"}]});
    let barrier = Barrier::put(&service.api, spec).await;
    let cancelled = barrier.cancel().await.expect(200, "");
    assert_eq!(cancelled.outcome(), "cancelled");
    assert_eq!(barrier.cancel().await.expect(200, "").outcome(), "replayed");
    barrier.arrive("a").await.expect(410, "barrier_ended");
    let events = barrier.events(&mut redis).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind, "dev.stockade.barrier.cancelled");
    let told: Vec<&str> = events[0].notify.iter().map(|url| url.as_str()).collect();
    assert_eq!(told, ["http://example.com/a", "http://example.com/b"]);
}

#[tokio::test]
async fn an_event_lists_a_hundred_of_each_and_says_that_there_are_more() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let spec = json!({"participants": names(250), "tolerated_failures": 119});
    let barrier = Barrier::put(&service.api, spec).await;
    for name in names(119) {
        barrier.fail(&name, &format!("{name}: \"no\ndisk\" \u{1f4be}")).await.expect(200, "");
    }
    barrier.arrive("p200").await.expect(200, "");
    assert_eq!(barrier.fail("p249", "last").await.body["fired"], true);
    let event = serde_json::to_value(&barrier.events(&mut redis).await[0]).unwrap();
    says(&event["data"], json!({"status": "failed", "failed": 120, "completed": 1, "truncated": true}));
    let failed = event["data"]["failed_participants"].as_array().unwrap();
    assert_eq!(failed.len(), 100);
    assert_eq!(failed[0], json!({"participant": "p0", "note": "p0: \"no\ndisk\" \u{1f4be}"}));
    let missing = event["data"]["missing"].as_array().unwrap();
    assert_eq!((missing.len(), &missing[0]), (100, &json!("p119")));

    // What comes in the very call that ends it is in the lists.
    let few =
        Barrier::put(&service.api, json!({"participants": ["a", "b", "c"], "tolerated_failures": 0})).await;
    few.fail("b", "why").await.expect(200, "");
    let event = serde_json::to_value(&few.events(&mut redis).await[0]).unwrap();
    says(
        &event["data"],
        json!({"missing": ["a", "c"], "truncated": false,
        "failed_participants": [{"participant": "b", "note": "why"}]}),
    );

    let count =
        Barrier::put(&service.api, json!({"expected": 2, "mode": "count", "tolerated_failures": 0})).await;
    count.fail("b", "why").await.expect(200, "");
    let event = serde_json::to_value(&count.events(&mut redis).await[0]).unwrap();
    says(&event["data"], json!({"missing": [], "failed_participants": [], "truncated": true, "link": null}));
}
