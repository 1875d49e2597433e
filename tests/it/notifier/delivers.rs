//! Who gets what.

use super::*;
use crate::receiver::Receiver;
use crate::sandbox::eventually;
use crate::service::Sale;
use std::collections::BTreeSet;

/// Ids of events in the feed, in its order.
async fn feed_ids(sale: &Sale) -> Vec<String> {
    sale.all("/events", 500).await.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

fn set(ids: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    ids.into_iter().collect()
}

#[tokio::test]
async fn each_event_is_delivered_once_as_the_feed_shows_it() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook = register(&service.redis, &receiver.url(), json!({})).await;
    let sale = Sale::of(&service.api, 5).await;
    let id = sale.hold(2).await;
    sale.settle(&id, "confirm", Value::Null).await.ok();
    let feed = sale.all("/events", 500).await;
    assert!(feed.len() >= 3);
    let received = receiver.wait_for_distinct(feed.len()).await;
    for event in &feed {
        let message = received.iter().find(|one| one.id() == event["id"].as_str().unwrap());
        assert_eq!(message.expect("it came").json(), *event);
    }
    assert_eq!(receiver.received().len(), feed.len(), "without a repeat");
    let store = store_of(&service);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == feed.len()
    })
    .await;
    for delivery in deliveries(&store, webhook, DeliveryStatus::Delivered).await {
        assert_eq!((delivery.attempts, delivery.last_status), (1, Some(200)));
        assert_eq!((delivery.next_attempt_at, delivery.last_error), (None, None));
        assert!(delivery.delivered_at.is_some());
        assert_eq!(delivery.source, sale.at(""));
    }
    assert!(deliveries(&store, webhook, DeliveryStatus::Pending).await.is_empty());
    is_counted(&service.shared, "delivered", feed.len() as u64).await;
    assert_eq!(metric(&service.shared, SKIPPED), 0);
}

#[tokio::test]
async fn endpoints_get_what_they_asked_for_and_from_their_registration_on() {
    let service = InProcess::start();
    let [all, confirmed, other] = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    let sale = Sale::of(&service.api, 5).await;
    let before = feed_ids(&sale).await;
    register(&service.redis, &all.url(), json!({})).await;
    let types = json!({"types": ["reservation.confirmed", "stock.*"], "sales": ["t*"]});
    register(&service.redis, &confirmed.url(), types).await;
    register(&service.redis, &other.url(), json!({"sales": [format!("{}-2", sale.name)]})).await;
    let id = sale.hold(5).await;
    sale.settle(&id, "confirm", Value::Null).await.ok();
    let feed = sale.all("/events", 500).await;
    let ids = feed_ids(&sale).await.split_off(before.len());
    all.wait_for_distinct(ids.len()).await;
    confirmed.wait_for_distinct(2).await;
    // What comes later proves that nothing else was on its way before it.
    let second = Sale { api: sale.api.clone(), name: format!("{}-2", sale.name) };
    second.api.put(&second.at(""), &json!({"stock": {"b": {"initial": 1}}})).await.expect(201, "");
    let theirs = feed_ids(&second).await;
    all.wait_for_distinct(ids.len() + theirs.len()).await;
    other.wait_for_distinct(theirs.len()).await;
    assert_eq!(set(all.distinct_ids()), set(ids.iter().chain(&theirs).cloned()));
    assert_eq!(set(other.distinct_ids()), set(theirs.clone()));
    let wanted = feed.iter().filter(|event| {
        let kind = event["type"].as_str().unwrap();
        kind.ends_with("reservation.confirmed") || kind.contains(".stock.")
    });
    let wanted = wanted.map(|event| event["id"].as_str().unwrap().to_owned());
    let wanted: BTreeSet<String> = wanted.filter(|id| ids.contains(id)).collect();
    assert_eq!(wanted.len(), 2);
    eventually("the filtered ones are there", async || confirmed.distinct_ids().len() >= 2).await;
    assert!(set(confirmed.distinct_ids()).is_superset(&wanted));
}

#[tokio::test]
async fn two_processes_share_the_work() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook = register(&service.redis, &receiver.url(), json!({})).await;
    let others = [Process::start(&service.shared), Process::start(&service.shared)];
    let sale = Sale::of(&service.api, 500).await;
    let takes = (0..200).map(|_| sale.take(1));
    for take in futures_util::future::join_all(takes).await {
        take.expect(201, "");
    }
    let ids = feed_ids(&sale).await;
    receiver.wait_for_distinct(ids.len()).await;
    assert_eq!(set(receiver.distinct_ids()), set(ids.clone()));
    let store = store_of(&service);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == ids.len()
    })
    .await;
    assert_eq!(receiver.received().len(), ids.len(), "without a repeat");
    for process in others {
        process.stop().await;
    }
}
