//! Redis is killed, processes are killed, answers are lost: every event still arrives, and repeats have its id.

use super::*;
use crate::live::put;
use crate::proxy::Proxy;
use crate::receiver::{Behaviour, Receiver};
use crate::sandbox::eventually;
use crate::service::{Sale, Service};
use crate::support::shared_on;
use std::collections::BTreeSet;
use stockade::domain::{EventKind, SaleId, Switch};
use stockade::store::EventsAfter;
use stockade::store::scripts::Scripts;

/// Ids of all events of a sale.
async fn ids(store: &Store, sale: &SaleId) -> BTreeSet<String> {
    let page = store.events(sale, EventsAfter::Oldest, 500).await.unwrap();
    let stockade::domain::Decision::Done(_, page) = page else { panic!("{page:?}") };
    assert!(page.items.iter().all(|event| matches!(event.data, EventKind::Sale { .. })));
    page.items.iter().map(|event| event.id.to_string()).collect()
}

async fn write(store: &Store, sale: &SaleId, entries: usize) {
    for n in 0..entries {
        let switch = if n % 2 == 0 { Switch::Pause } else { Switch::Resume };
        store.switch_sale(sale, switch).await.unwrap();
    }
}

fn received(receiver: &Receiver) -> BTreeSet<String> {
    receiver.distinct_ids().into_iter().collect()
}

#[tokio::test]
async fn redis_is_killed_and_the_notifier_goes_on() {
    let mut server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let receiver = Receiver::start().await;
    let webhook = register(&server, &receiver.url(), json!({})).await;
    let process = Process::start(&shared);
    let (sale, _) = put(&store).await;
    for round in 0..3 {
        write(&store, &sale, 6).await;
        server.kill();
        assert!(store.webhooks().await.is_err(), "round {round}");
        server.restart();
        eventually("it is there again", async || store.webhooks().await.is_ok()).await;
    }
    write(&store, &sale, 2).await;
    let all = ids(&store, &sale).await;
    assert_eq!(all.len(), 21);
    // What was under way when it was killed comes again when its lease ends.
    shared.clock.advance_ms(31_000);
    receiver.wait_for_distinct(all.len()).await;
    assert_eq!(received(&receiver), all);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == all.len()
    })
    .await;
    process.stop().await;
}

#[tokio::test]
async fn processes_are_killed_at_any_line_and_nothing_is_lost() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let receiver = Receiver::start().await;
    let webhook = register(&server, &receiver.url(), json!({})).await;
    let (sale, _) = put(&store).await;
    for round in 1..=10 {
        let process = Process::start(&shared);
        write(&store, &sale, 4).await;
        // Killed as soon as one more has arrived: others are read, queued, claimed or sent and not settled.
        receiver.wait_for_distinct(round).await;
        process.kill().await;
    }
    // Their entries are abandoned by now; so long no test waits.
    let source = stockade::store::intake::Source::Sale(sale.clone());
    let abandoned = store.claim_abandoned(&source, "heir", 0).await.unwrap();
    let (wake, _woken) = tokio::sync::mpsc::unbounded_channel();
    let intake = notifier::Intake::new(store.clone(), Arc::clone(&shared.metrics), wake);
    intake.take_in(&[abandoned]).await.unwrap();
    shared.clock.advance_ms(31_000);
    let process = Process::start(&shared);
    let all = ids(&store, &sale).await;
    receiver.wait_for_distinct(all.len()).await;
    assert_eq!(received(&receiver), all);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == all.len()
    })
    .await;
    process.stop().await;
    assert_eq!(metric(&shared, SKIPPED), 0);
}

/// Sent, and killed before it was written down: the message comes again, with its id.
#[tokio::test]
async fn a_process_is_killed_between_send_and_settle() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let receiver = Receiver::start().await;
    receiver.next(1, Behaviour::Hang);
    register(&server, &receiver.url(), json!({})).await;
    let process = Process::start(&shared);
    let (sale, _) = put(&store).await;
    receiver.wait_for(1).await;
    process.kill().await;
    receiver.release();
    let process = Process::start(&shared);
    shared.clock.advance_ms(31_000);
    let both = receiver.wait_for(2).await;
    assert_eq!((both[0].id(), &both[0].body), (both[1].id(), &both[1].body));
    assert_eq!(received(&receiver), ids(&store, &sale).await);
    process.stop().await;
}

/// What is under way when the process is told to stop is finished, and written down.
#[tokio::test]
async fn a_process_that_stops_settles_what_it_was_sending() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let receiver = Receiver::start().await;
    receiver.next(1, Behaviour::Hang);
    let webhook = register(&server, &receiver.url(), json!({})).await;
    let process = Process::start(&shared);
    put(&store).await;
    receiver.wait_for(1).await;
    let stopping = tokio::spawn(process.stop());
    tokio::task::yield_now().await;
    receiver.release();
    stopping.await.unwrap();
    assert_eq!(deliveries(&store, webhook, DeliveryStatus::Delivered).await.len(), 1);
    assert_eq!(receiver.received().len(), 1);
}

/// The answer to each call on the way is lost once.
#[tokio::test]
async fn answers_of_redis_are_lost_and_each_event_still_arrives() {
    let server = RedisServer::start();
    let direct = shared_on(&server);
    let store = Store::open(&direct).unwrap();
    store.self_test().await.unwrap();
    let proxy = Proxy::before(&server);
    let receiver = Receiver::start().await;
    let webhook = register(&server, &receiver.url(), json!({})).await;
    let process = Process::start(&proxy.shared(&direct));
    let (sale, _) = put(&store).await;
    receiver.wait_for_distinct(1).await;
    let scripts = Scripts::new();
    let (enqueue, claim, settle) = (&scripts.enqueue.sha, &scripts.claim.sha, &scripts.settle.sha);
    for (n, call) in ["XREADGROUP", enqueue, "XACK", claim, settle, "HVALS"].into_iter().enumerate() {
        let lost = proxy.lost();
        proxy.lose_answer_to(call);
        write(&store, &sale, 2).await;
        eventually(&format!("the answer to {call} is lost"), async || proxy.lost() > lost).await;
        // What was claimed and never heard of is due again when the lease ends.
        direct.clock.advance_ms(31_000);
        receiver.wait_for_distinct(1 + 2 * (n + 1)).await;
    }
    let all = ids(&store, &sale).await;
    assert_eq!(received(&receiver), all);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == all.len()
    })
    .await;
    process.stop().await;
}

/// A sale that is deleted takes the stream along that is read just then: nothing to warn of, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_sale_is_no_failure() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let api = service.api();
    api.post("/v1/webhooks", &json!({"url": receiver.url()})).await.expect(201, "");
    for round in 0..3 {
        let sale = Sale::of(&api, 5).await;
        sale.post("/close", json!({})).await.ok();
        // Created, adjusted, closed: the reader has what there is, and waits for more.
        receiver.wait_for_distinct(4 * round + 3).await;
        api.call("DELETE", &sale.at("")).send().await.expect(202, "");
        receiver.wait_for_distinct(4 * round + 4).await;
        eventually("the sale and its stream have gone", async || sale.get("").await.status == 404).await;
    }
    assert!(!service.log().contains("cannot read events"), "{}", service.log());
}
