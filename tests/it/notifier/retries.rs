//! Receivers that fail, and when they are tried again.

use super::*;
use crate::receiver::{Behaviour, Receiver};
use crate::sandbox::eventually;
use crate::service::Sale;

const HELD: &str = "reservation.held";

/// A service with one endpoint that hears of holds, and a sale.
async fn scene(receiver: &Receiver) -> (InProcess, WebhookId, Sale, Store) {
    let service = InProcess::start();
    let webhook = register(&service.redis, &receiver.url(), json!({"types": [HELD]})).await;
    let sale =
        Sale::put(&service.api, json!({"stock": {"a": {"initial": 50}}, "hold_seconds": 86_400})).await;
    let store = store_of(&service);
    (service, webhook, sale, store)
}

/// The only delivery that waits, once it was tried so often and its last try is written down.
async fn waiting(service: &InProcess, webhook: WebhookId, attempts: u32) -> Delivery {
    let (store, count) = (store_of(service), u64::from(attempts));
    eventually(&format!("try {attempts} has failed"), async || outcome(&service.shared, "retried") == count)
        .await;
    let mut all = deliveries(&store, webhook, DeliveryStatus::Pending).await;
    assert_eq!(all.len(), 1);
    let delivery = all.remove(0);
    assert_eq!(delivery.attempts, attempts);
    assert!(delivery.last_error.is_some());
    delivery
}

/// The script's time.
async fn now_ms(store: &Store, webhook: WebhookId) -> i64 {
    store.due_deliveries(webhook, 0).await.unwrap().now.as_ms()
}

#[tokio::test]
async fn pauses_grow_over_three_days_and_then_it_is_a_dead_letter() {
    let mut receiver = Receiver::start().await;
    receiver.refuse().await;
    let (service, webhook, sale, store) = scene(&receiver).await;
    sale.hold(1).await;
    let begun = now_ms(&store, webhook).await;
    let pauses = [5, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR];
    let mut attempts = 0;
    for pause in pauses {
        attempts += 1;
        let before = now_ms(&store, webhook).await;
        let delivery = waiting(&service, webhook, attempts).await;
        let wait = delivery.next_attempt_at.unwrap().as_ms() - before;
        // A fifth more or less, and what the test itself took.
        assert!(wait >= pause * 800 - 5_000 && wait <= pause * 1_200 + 5_000, "try {attempts}: {wait} ms");
        assert_eq!(delivery.last_status, None);
        service.advance_seconds(wait / 1_000 + 1);
    }
    // The last ones come within the three days, whatever chance has made of the others.
    let mut dead = Vec::new();
    for _ in 0..3 {
        attempts += 1;
        // While a try is under way its record says so by a later date: only what is counted has ended.
        let ended = || outcome(&service.shared, "retried") + outcome(&service.shared, "dead");
        eventually(&format!("try {attempts} has ended"), async || ended() == u64::from(attempts)).await;
        dead = deliveries(&store, webhook, DeliveryStatus::Dead).await;
        if !dead.is_empty() {
            break;
        }
        service.advance_seconds(20 * HOUR * 12 / 10);
    }
    assert_eq!(dead.len(), 1);
    assert!((10..=12).contains(&dead[0].attempts), "{dead:?}");
    assert!(now_ms(&store, webhook).await - begun <= 73 * HOUR * 1_000 + 24 * HOUR * 1_000);
    is_counted(&service.shared, "dead", 1).await;
    is_counted(&service.shared, "retried", u64::from(dead[0].attempts) - 1).await;

    // It comes back to life when somebody asks for it, with all its tries.
    receiver.accept_again().await;
    let ids = store.first_deliveries(webhook, DeliveryStatus::Dead, 9).await.unwrap();
    assert_eq!(store.redeliver(webhook, &ids).await.unwrap().requeued, 1);
    let message = receiver.wait_for(1).await.remove(0);
    assert_eq!(message.id(), dead[0].id.to_string());
    eventually("it is delivered", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == 1
    })
    .await;
    assert_eq!(deliveries(&store, webhook, DeliveryStatus::Delivered).await[0].attempts, 1);
    assert!(deliveries(&store, webhook, DeliveryStatus::Dead).await.is_empty());
}

#[tokio::test]
async fn a_receiver_that_fails_gets_the_same_message_again() {
    let receiver = Receiver::start().await;
    for behaviour in [Behaviour::Answer(500), Behaviour::Cut, Behaviour::Redirect(302, "http://127.0.0.1/")] {
        receiver.next(1, behaviour);
    }
    let (service, webhook, sale, store) = scene(&receiver).await;
    sale.hold(1).await;
    for (attempts, seconds, status) in [(1, 6, Some(500)), (2, 72, None), (3, 360, Some(302))] {
        let delivery = waiting(&service, webhook, attempts).await;
        assert_eq!(delivery.last_status, status);
        service.advance_seconds(seconds + 1);
    }
    let received = receiver.wait_for(4).await;
    assert_eq!(receiver.distinct_ids().len(), 1);
    assert!(received.iter().all(|one| one.body == received[0].body));
    eventually("it is delivered", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == 1
    })
    .await;
    is_counted(&service.shared, "retried", 3).await;
    assert_eq!(receiver.received().len(), 4);
}

#[tokio::test]
async fn retry_after_is_respected() {
    let receiver = Receiver::start().await;
    receiver.next(1, Behaviour::Later(429, "900"));
    let (service, webhook, sale, store) = scene(&receiver).await;
    sale.hold(1).await;
    let delivery = waiting(&service, webhook, 1).await;
    assert_eq!(delivery.last_status, Some(429));
    let wait = delivery.next_attempt_at.unwrap().as_ms() - now_ms(&store, webhook).await;
    assert!((880_000..=900_000).contains(&wait), "{wait}");
    service.advance_seconds(800);
    // Another event is delivered meanwhile, and shows that whoever looks has looked.
    sale.hold(1).await;
    receiver.wait_for_distinct(2).await;
    assert_eq!(receiver.received().len(), 2);
    service.advance_seconds(101);
    receiver.wait_for(3).await;
    assert_eq!(receiver.distinct_ids().len(), 2);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_disabled_and_its_deliveries_can_be_had_later() {
    let mut receiver = Receiver::start().await;
    receiver.refuse().await;
    let (service, webhook, sale, store) = scene(&receiver).await;
    sale.hold(1).await;
    waiting(&service, webhook, 1).await;
    receiver.accept_again().await;
    receiver.always(Behaviour::Answer(410));
    sale.hold(1).await;
    eventually("all are dead", async || deliveries(&store, webhook, DeliveryStatus::Dead).await.len() == 2)
        .await;
    assert!(deliveries(&store, webhook, DeliveryStatus::Pending).await.is_empty());
    assert_eq!(receiver.received().len(), 1);
    is_counted(&service.shared, "gone", 1).await;
    let endpoint = store.webhooks().await.unwrap().remove(0);
    assert!(endpoint.disabled_at.is_some());
    // Nothing new is kept for it.
    sale.hold(1).await;
    let other = Receiver::start().await;
    register(&service.redis, &other.url(), json!({"types": [HELD]})).await;
    sale.hold(1).await;
    other.wait_for(1).await;
    assert_eq!(deliveries(&store, webhook, DeliveryStatus::Dead).await.len(), 2);
    assert_eq!(receiver.received().len(), 1);
}

/// One endpoint hangs, one is down for an hour, and nobody else notices.
#[tokio::test]
async fn no_endpoint_waits_for_another_and_no_sale_for_any() {
    let (hanging, good) = (Receiver::start().await, Receiver::start().await);
    let mut down = Receiver::start().await;
    hanging.always(Behaviour::Hang);
    down.refuse().await;
    let (service, webhook, sale, store) = scene(&good).await;
    let down_id = register(&service.redis, &down.url(), json!({"types": [HELD]})).await;
    register(&service.redis, &hanging.url(), json!({"types": [HELD]})).await;
    for n in 1..=40 {
        sale.hold(1).await;
        good.wait_for(n).await;
        eventually("it is settled", async || {
            deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == n
        })
        .await;
        service.advance_seconds(90);
    }
    assert_eq!(good.received().len(), 40);
    assert_eq!(deliveries(&store, down_id, DeliveryStatus::Pending).await.len(), 40);
    down.accept_again().await;
    service.advance_seconds(3 * HOUR);
    down.wait_for_distinct(40).await;
    hanging.release();
}

/// Its answer comes when the lease has ended and another try has begun: the late one counts for nothing.
#[tokio::test]
async fn a_try_that_outlives_its_lease_is_repeated() {
    let receiver = Receiver::start().await;
    receiver.next(1, Behaviour::Hang);
    let (service, webhook, sale, store) = scene(&receiver).await;
    sale.hold(1).await;
    receiver.wait_for(1).await;
    service.advance_seconds(31);
    receiver.wait_for(2).await;
    eventually("the second one is settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == 1
    })
    .await;
    receiver.release();
    sale.hold(1).await;
    receiver.wait_for_distinct(2).await;
    let delivered = deliveries(&store, webhook, DeliveryStatus::Delivered).await;
    assert_eq!(delivered.iter().map(|one| one.attempts).max(), Some(2));
    assert_eq!(receiver.received().len(), 3);
}
