//! What operators see of deliveries, and what they can do.

use super::*;
use crate::receiver::{Behaviour, Receiver};
use crate::sandbox::eventually;
use crate::service::Sale;
use crate::support::sample;

#[tokio::test]
async fn deliveries_are_listed_by_status_and_dead_ones_delivered_again() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook = register(&service.redis, &receiver.url(), json!({"types": ["reservation.held"]})).await;
    let sale = Sale::put(&service.api, json!({"stock": {"a": {"initial": 50}}})).await;
    let at = |rest: &str| format!("/v1/webhooks/{webhook}/{rest}");
    let list = async |query: &str| -> Vec<Value> {
        let page = service.api.get(&at(&format!("deliveries{query}"))).await.expect(200, "").body;
        page["items"].as_array().unwrap().clone()
    };
    for _ in 0..3 {
        sale.hold(1).await;
    }
    eventually("all are delivered", async || list("?status=delivered").await.len() == 3).await;
    assert!(list("").await.is_empty() && list("?status=dead").await.is_empty());
    // In pages.
    let page = service.api.get(&at("deliveries?status=delivered&limit=2")).await.expect(200, "").body;
    let next = page["next"].as_str().unwrap();
    let rest = list(&format!("?status=delivered&limit=2&after={next}")).await;
    assert_eq!((page["items"].as_array().unwrap().len(), rest.len()), (2, 1));
    let one = &rest[0];
    assert_eq!(one["type"], "dev.stockade.reservation.held");
    assert_eq!(
        (&one["status"], &one["attempts"], &one["last_status"]),
        (&json!("delivered"), &json!(1), &json!(200))
    );

    // One of them again, though it was delivered; and one that is not there.
    let again = service.api.post(&at("redeliver"), &json!({"event": one["id"]})).await.expect(200, "");
    assert_eq!(again.body, json!({"redelivered": 1, "more": false}));
    receiver.wait_for(4).await;
    assert_eq!(receiver.distinct_ids().len(), 3);
    let unknown = json!({"event": uuid::Uuid::new_v4()});
    service.api.post(&at("redeliver"), &unknown).await.expect(404, "unknown_delivery");

    // All dead letters, more than one call takes in a step.
    receiver.always(Behaviour::Answer(410));
    for _ in 0..5 {
        sale.hold(1).await;
    }
    eventually("one was refused for good", async || !list("?status=dead").await.is_empty()).await;
    let store = store_of(&service);
    eventually("nothing waits", async || store.due_deliveries(webhook, 0).await.unwrap().pending == 0).await;
    let dead = list("?status=dead").await.len();
    receiver.always(Behaviour::Answer(200));
    unregister(&service.redis, webhook).await;
    service.api.get(&at("deliveries")).await.expect(404, "unknown_webhook");
    service.api.post(&at("redeliver"), &Value::Null).await.expect(404, "unknown_webhook");
    let mut connection = service.redis.connection().await;
    let endpoint = json!({
        "id": webhook, "url": receiver.url(), "types": null, "sales": null, "disabled_at": null, "version": 3,
        "fingerprint": "", "rotated_by": [],
        "secrets": [{"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "until": null}],
        "created_at": "2026-11-30T18:00:00.000Z", "since_ms": 99_999_999_999_999_u64,
    });
    let () =
        redis_cmd(&mut connection, &["HSET", keys::WEBHOOKS, &webhook.to_string(), &endpoint.to_string()])
            .await;
    let again = service.api.post(&at("redeliver"), &Value::Null).await.expect(200, "");
    assert_eq!(again.body, json!({"redelivered": dead, "more": false}));
    eventually("they are delivered", async || list("?status=delivered").await.len() == 3 + dead).await;
    let nothing = service.api.post(&at("redeliver"), &json!({})).await.expect(200, "");
    assert_eq!(nothing.body["redelivered"], 0);
}

#[tokio::test]
async fn wrong_questions_are_refused() {
    let service = InProcess::start();
    let webhook = register(&service.redis, "http://127.0.0.1:9/", json!({})).await;
    let at = |rest: &str| format!("/v1/webhooks/{webhook}/{rest}");
    for query in ["status=open", "limit=0", "after=x", "sale=x"] {
        service.api.get(&at(&format!("deliveries?{query}"))).await.expect(422, "invalid_request");
    }
    for body in [json!({"event": "x"}), json!({"events": []}), json!([])] {
        service.api.post(&at("redeliver"), &body).await.expect(422, "invalid_request");
    }
    for id in ["x", "00000000-0000-4000-8000-000000000000"] {
        let missing = service.api.get(&format!("/v1/webhooks/{id}/deliveries")).await;
        missing.expect(404, "unknown_webhook");
    }
}

/// What is counted, and what waits.
#[tokio::test]
async fn metrics_show_what_waits_and_what_was_delivered() {
    let service = InProcess::start();
    let mut down = Receiver::start().await;
    down.refuse().await;
    for name in ["delivered", "retried", "dead", "gone"] {
        assert_eq!(outcome(&service.shared, name), 0);
    }
    register(&service.redis, &down.url(), json!({"types": ["reservation.held"]})).await;
    let sale = Sale::of(&service.api, 5).await;
    sale.hold(1).await;
    sale.hold(1).await;
    // Nobody has counted yet when the service begins.
    let backlog = || sample(&service.shared, "stockade_webhook_backlog");
    eventually("two wait", async || backlog() == Some(2.0)).await;
    down.accept_again().await;
    service.advance_seconds(HOUR);
    eventually("nothing waits", async || backlog() == Some(0.0)).await;
    is_counted(&service.shared, "delivered", 2).await;
    let delayed = metric(&service.shared, "stockade_webhook_delay_seconds_count");
    assert_eq!(delayed, 2);
}
