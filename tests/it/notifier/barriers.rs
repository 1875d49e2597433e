//! Barriers tell endpoints, and the targets that they name.

use super::*;
use crate::barriers::Barrier;
use crate::receiver::{Behaviour, Receiver};
use crate::sandbox::eventually;
use stockade::domain::WebhookUrl;
use stockade::store::sweep::EventsKept;
use stockade::workers::sweeper;

#[tokio::test]
async fn a_barrier_notifies_its_targets_and_whoever_wants_what_is_of_no_sale() {
    let service = InProcess::start();
    let [target, second, all, sales] =
        [Receiver::start().await, Receiver::start().await, Receiver::start().await, Receiver::start().await];
    register(&service.redis, &all.url(), json!({"types": ["barrier.*"]})).await;
    register(&service.redis, &sales.url(), json!({"sales": ["*"]})).await;
    let notify = json!([{"url": target.url()}, {"url": second.url()}]);
    let spec = json!({"participants": ["a", "b"], "notify": notify});
    let barrier = Barrier::put(&service.api, spec).await;
    barrier.arrive("a").await.ok();
    barrier.arrive("b").await.ok();
    let message = target.wait_for(1).await.remove(0);
    let event = message.json();
    assert_eq!(event["type"], "dev.stockade.barrier.completed");
    assert_eq!(event["source"], barrier.at(""));
    assert_eq!(event["id"], message.id());
    for receiver in [&second, &all] {
        assert_eq!(receiver.wait_for(1).await[0].body, message.body);
    }
    // Another one shows that nothing more was on its way.
    let other = Barrier::put(&service.api, json!({"participants": ["a"], "notify": notify})).await;
    other.arrive("a").await.ok();
    target.wait_for(2).await;
    second.wait_for(2).await;
    all.wait_for(2).await;
    assert!(sales.received().is_empty());
    let store = store_of(&service);
    let url: WebhookUrl = target.url().parse().unwrap();
    let id = store.target(&url).await.unwrap().id;
    eventually("both are settled", async || {
        deliveries(&store, id, DeliveryStatus::Delivered).await.len() == 2
    })
    .await;
    let listed = service.api.get(&format!("/v1/webhooks/{id}/deliveries?status=delivered")).await;
    assert_eq!(listed.expect(200, "").body["items"].as_array().unwrap().len(), 2);
    assert!(!store.webhooks().await.unwrap().iter().any(|endpoint| endpoint.id == id));
}

/// A target that fails is tried like any other, by whichever process is there.
#[tokio::test]
async fn a_target_that_fails_is_tried_again_by_another_process() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    receiver.next(1, Behaviour::Answer(500));
    let spec = json!({"expected": 1, "mode": "count", "notify": [{"url": receiver.url()}]});
    let barrier = Barrier::put(&service.api, spec).await;
    barrier.arrive("a").await.ok();
    receiver.wait_for(1).await;
    let shared = service.shared.clone();
    eventually("it is written down", async || outcome(&shared, "retried") == 1).await;
    let other = Process::start(&shared);
    service.advance_seconds(7);
    receiver.wait_for(2).await;
    assert_eq!(receiver.distinct_ids().len(), 1);
    other.stop().await;
}

/// The limits win: what goes before anybody has read it is counted.
#[tokio::test]
async fn events_of_barriers_that_go_unread_are_counted() {
    let server = RedisServer::start();
    let shared = crate::support::shared_on(&server);
    let store = Store::open(&shared).unwrap();
    for bucket in stockade::store::intake::Source::barriers() {
        assert!(store.ensure_group(&bucket, 0).await.unwrap());
    }
    let mut connection = server.connection().await;
    for n in ["1", "2", "3"] {
        let _: String = redis_cmd(&mut connection, &["XADD", "st:{b:7}:events", "*", "t", n, "e", "x"]).await;
    }
    let kept = EventsKept { retention_ms: DAY * 1_000, entries_max: 1_000 };
    let round = sweeper::round(&store, &kept).await.unwrap();
    assert_eq!((round.trimmed, round.skipped), (3, 3));
}
