//! What processes leave when they die at any line, and what becomes of the groups.

use super::*;
use crate::live::put;
use crate::sandbox::eventually;
use crate::support::shared_on;
use stockade::domain::{Endpoint, SaleId, Switch};
use stockade::store::intake::{Content, Reader, Source, Taken};
use stockade::store::sweep::EventsKept;
use stockade::workers::notifier::Intake;
use stockade::workers::sweeper;
use tokio::sync::mpsc;

/// A sale with an endpoint, on a server without any process that delivers.
struct Scene {
    server: RedisServer,
    shared: Shared,
    store: Store,
    sale: SaleId,
    generation: String,
    source: Source,
    webhook: WebhookId,
    intake: Intake,
    woken: mpsc::UnboundedReceiver<Arc<Endpoint>>,
}

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::start();
        let shared = shared_on(&server);
        let store = Store::open(&shared).unwrap();
        let webhook = register(&server, "http://127.0.0.1:9/", json!({})).await;
        let (sale, generation) = put(&store).await;
        let source = Source::Sale(sale.clone());
        let since = store.webhooks().await.unwrap()[0].since_ms;
        assert!(store.ensure_group(&source, since).await.unwrap());
        let (wake, woken) = mpsc::unbounded_channel();
        let intake = Intake::new(store.clone(), Arc::clone(&shared.metrics), wake);
        Self { server, shared, store, sale, generation, source, webhook, intake, woken }
    }

    fn reader(&self, consumer: &str) -> Reader {
        Reader::new(self.store.clone(), consumer.to_owned())
    }

    /// What a consumer reads when it comes: first what is its own, then what is new.
    async fn read(&self, reader: &mut Reader) -> Vec<Taken> {
        loop {
            let taken = reader.next(std::slice::from_ref(&self.source)).await.unwrap();
            if !taken.is_empty() {
                return taken;
            }
        }
    }

    /// An entry each.
    async fn write(&self, entries: usize) {
        for n in 0..entries {
            let switch = if n % 2 == 0 { Switch::Pause } else { Switch::Resume };
            self.store.switch_sale(&self.sale, switch).await.unwrap();
        }
    }

    async fn waiting(&self) -> usize {
        deliveries(&self.store, self.webhook, DeliveryStatus::Pending).await.len()
    }

    async fn pending(&self) -> u64 {
        self.store.progress(&self.source).await.unwrap().expect("a group").pending
    }

    fn skipped(&self) -> u64 {
        metric(&self.shared, SKIPPED)
    }
}

fn entries(taken: &[Taken]) -> usize {
    taken.iter().map(|taken| taken.entries.len()).sum()
}

#[tokio::test]
async fn what_a_dead_process_had_read_is_claimed_by_another() {
    let mut scene = Scene::new().await;
    scene.write(3).await;
    let read = scene.read(&mut scene.reader("one")).await;
    assert_eq!(entries(&read), 4);
    // It dies here: nothing was queued.
    let nothing = scene.store.claim_abandoned(&scene.source, "two", 3_600_000).await.unwrap();
    assert!(nothing.entries.is_empty(), "not abandoned yet");
    let claimed = scene.store.claim_abandoned(&scene.source, "two", 0).await.unwrap();
    assert_eq!(claimed.entries.len(), 4);
    scene.intake.take_in(&[claimed]).await.unwrap();
    assert_eq!((scene.waiting().await, scene.pending().await), (4, 0));
    assert_eq!(scene.woken.try_recv().unwrap().id, scene.webhook);
    // The first one was only frozen, and does it again.
    scene.intake.take_in(&read).await.unwrap();
    assert_eq!((scene.waiting().await, scene.pending().await, scene.skipped()), (4, 0, 0));
}

#[tokio::test]
async fn what_was_queued_and_not_acknowledged_is_queued_once() {
    let scene = Scene::new().await;
    scene.write(2).await;
    let read = scene.read(&mut scene.reader("one")).await;
    let Content::Events(events) = &read[0].entries[0].content else { panic!() };
    let packed = stockade::store::deliveries::Packed::of(&events[0]).unwrap();
    scene.store.enqueue_deliveries(scene.webhook, &[packed]).await.unwrap();
    // It dies here, and comes back under its name: its own entries come first.
    scene.write(1).await;
    let mut again = scene.reader("one");
    let own = scene.read(&mut again).await;
    assert_eq!(entries(&own), 3);
    scene.intake.take_in(&own).await.unwrap();
    let new = scene.read(&mut again).await;
    scene.intake.take_in(&new).await.unwrap();
    assert_eq!((scene.waiting().await, scene.pending().await), (4, 0));
}

#[tokio::test]
async fn what_is_trimmed_before_it_was_taken_in_is_counted() {
    let scene = Scene::new().await;
    scene.write(8).await;
    let read = scene.read(&mut scene.reader("one")).await;
    assert_eq!(entries(&read), 9);
    scene.write(5).await;
    let kept = EventsKept { retention_ms: 10_000_000, entries_max: 3 };
    let round = sweeper::round(&scene.store, &kept).await.unwrap();
    // Nine that one had read, and two of the five that nobody has.
    assert_eq!((round.trimmed, round.skipped, scene.pending().await), (11, 11, 0));
    let rest = scene.read(&mut scene.reader("two")).await;
    assert_eq!(entries(&rest), 3);

    // By a hand, and not by the sweeper: whoever claims it finds nothing.
    let key = format!("st:{{{}}}:events", scene.sale);
    let () = redis_cmd(&mut scene.server.connection().await, &["XTRIM", &key, "MAXLEN", "1"]).await;
    let claimed = scene.store.claim_abandoned(&scene.source, "three", 0).await.unwrap();
    scene.intake.take_in(&[claimed]).await.unwrap();
    assert_eq!((scene.skipped(), scene.waiting().await, scene.pending().await), (2, 1, 0));
}

#[tokio::test]
async fn a_damaged_entry_is_skipped_and_counted() {
    let scene = Scene::new().await;
    let key = format!("st:{{{}}}:events", scene.sale);
    let mut connection = scene.server.connection().await;
    for fields in [&["t", "x", "e", "held"][..], &["x", "y"], &["t", "1", "e", "nothing"]] {
        let _: String = redis_cmd(&mut connection, &[&["XADD", &key, "*"], fields].concat()).await;
    }
    scene.write(1).await;
    let read = scene.read(&mut scene.reader("one")).await;
    scene.intake.take_in(&read).await.unwrap();
    assert_eq!((scene.skipped(), scene.waiting().await, scene.pending().await), (3, 2, 0));
}

#[tokio::test]
async fn a_group_that_is_made_late_begins_where_somebody_began_to_want_it() {
    let scene = Scene::new().await;
    scene.store.drop_group(&scene.source).await.unwrap();
    assert_eq!(scene.store.progress(&scene.source).await.unwrap(), None);
    assert!(scene.reader("one").next(std::slice::from_ref(&scene.source)).await.is_err());
    let later = register(&scene.server, "http://127.0.0.1:9/later", json!({})).await;
    scene.write(2).await;
    let endpoints = scene.store.webhooks().await.unwrap();
    let since = endpoints.iter().find(|endpoint| endpoint.id == later).unwrap().since_ms;
    assert!(scene.store.ensure_group(&scene.source, since).await.unwrap());
    assert!(scene.store.ensure_group(&scene.source, 0).await.unwrap(), "it is there, and stays where it is");
    let read = scene.read(&mut scene.reader("one")).await;
    let written: Vec<u64> = read[0].entries.iter().map(|entry| entry.ms).collect();
    assert!(written.len() >= 2 && written.iter().all(|ms| *ms >= since), "{written:?}");
    let unborn = Source::Sale("unborn".parse().unwrap());
    assert!(!scene.store.ensure_group(&unborn, 1).await.unwrap());
    scene.store.drop_group(&unborn).await.unwrap();
}

/// Somebody who has not heard of an endpoint removes its group: what was read is read again, and queued once.
#[tokio::test]
async fn a_group_that_is_removed_under_a_reader_loses_nothing() {
    let scene = Scene::new().await;
    let process = Process::start(&scene.shared);
    scene.write(4).await;
    eventually("all are queued", async || queued(&scene).await == 5).await;
    for round in 1..=3 {
        scene.store.drop_group(&scene.source).await.unwrap();
        scene.write(2).await;
        let expected = 5 + 2 * round;
        eventually("the new ones are queued", async || queued(&scene).await == expected).await;
    }
    process.stop().await;
    assert_eq!(scene.skipped(), 0);
}

/// Deliveries to a port where nobody listens: they were queued, whatever became of them.
async fn queued(scene: &Scene) -> usize {
    scene.waiting().await + deliveries(&scene.store, scene.webhook, DeliveryStatus::Dead).await.len()
}

#[tokio::test]
async fn the_group_goes_with_the_last_who_wants_the_sale() {
    let scene = Scene::new().await;
    let process = Process::start(&scene.shared);
    eventually("it is read", async || queued(&scene).await == 1).await;
    unregister(&scene.server, scene.webhook).await;
    eventually("the group is gone", async || scene.store.progress(&scene.source).await.unwrap().is_none())
        .await;
    let other = register(&scene.server, "http://127.0.0.1:9/other", json!({})).await;
    scene.write(2).await;
    eventually("it is back, and has read", async || {
        deliveries(&scene.store, other, DeliveryStatus::Pending).await.len() == 2
    })
    .await;
    process.kill().await;
}

#[tokio::test]
async fn a_deleted_sale_stays_until_its_last_event_is_taken_in() {
    let scene = Scene::new().await;
    let kept = EventsKept { retention_ms: DAY * 1_000, entries_max: 1_000 };
    scene.store.switch_sale(&scene.sale, Switch::Close).await.unwrap();
    scene.store.delete_sale(&scene.sale).await.unwrap();
    scene.shared.clock.advance_ms(2_000);
    let sweep = async || sweeper::round(&scene.store, &kept).await.unwrap().purged;
    assert_eq!(sweep().await, 0, "nobody has read");
    let mut reader = scene.reader("one");
    let read = scene.read(&mut reader).await;
    assert_eq!(sweep().await, 0, "it is not acknowledged");
    scene.intake.take_in(&read).await.unwrap();
    assert_eq!(scene.waiting().await, 3);
    assert_eq!(sweep().await, 1);

    // Nobody reads: it goes when its events are too old.
    let (sale, _) = put(&scene.store).await;
    scene.store.switch_sale(&sale, Switch::Close).await.unwrap();
    scene.store.delete_sale(&sale).await.unwrap();
    scene.shared.clock.advance_ms(DAY * 1_000 - 2_000);
    assert_eq!(sweep().await, 0);
    scene.shared.clock.advance_ms(3_000);
    assert_eq!(sweep().await, 1);

    // Nobody wants it: at once.
    unregister(&scene.server, scene.webhook).await;
    let (sale, _) = put(&scene.store).await;
    scene.store.switch_sale(&sale, Switch::Close).await.unwrap();
    scene.store.delete_sale(&sale).await.unwrap();
    scene.shared.clock.advance_ms(2_000);
    assert_eq!(sweep().await, 1);
    assert_eq!(scene.generation.len(), 16);
}

/// What a deleted endpoint leaves is removed, also what a process queues that had not heard of it.
#[tokio::test]
async fn the_queue_of_a_deleted_endpoint_is_removed() {
    let scene = Scene::new().await;
    scene.write(2).await;
    let read = scene.read(&mut scene.reader("one")).await;
    scene.intake.take_in(&read).await.unwrap();
    scene.store.forget_webhook(scene.webhook).await.unwrap();
    let Content::Events(events) = &read[0].entries[0].content else { panic!() };
    let packed = stockade::store::deliveries::Packed::of(&events[0]).unwrap();
    let process = Process::start(&scene.shared);
    // One that is in the registry keeps them: its deletion may have failed half way.
    assert_eq!(queued(&scene).await, 3);
    unregister(&scene.server, scene.webhook).await;
    let pattern = format!("st:{{w:{}}}:*", stockade::store::ids::short(scene.webhook.0));
    let mut connection = scene.server.connection().await;
    let mut left = async || -> usize {
        let keys: Vec<String> = redis_cmd(&mut connection, &["KEYS", &pattern]).await;
        keys.len()
    };
    eventually("nothing is left", async || left().await == 0).await;
    scene.store.enqueue_deliveries(scene.webhook, &[packed]).await.unwrap();
    assert_ne!(left().await, 0);
    eventually("again nothing is left", async || left().await == 0).await;
    scene.shared.clock.advance_ms(2 * HOUR * 1_000);
    eventually("it is no longer looked after", async || {
        scene.store.gone_webhooks().await.unwrap().is_empty()
    })
    .await;
    process.stop().await;
}

#[tokio::test]
async fn targets_of_notify_are_found_by_every_process_until_nothing_is_left() {
    let scene = Scene::new().await;
    let receiver = crate::receiver::Receiver::start().await;
    let url = receiver.url().parse().unwrap();
    let target = scene.store.target(&url).await.unwrap();
    let read = scene.read(&mut scene.reader("one")).await;
    let Content::Events(events) = &read[0].entries[0].content else { panic!() };
    let packed = stockade::store::deliveries::Packed::of(&events[0]).unwrap();
    scene.store.enqueue_deliveries(target.id, &[packed]).await.unwrap();
    scene.store.keep_targets(std::slice::from_ref(&url)).await.unwrap();
    // A mark from before its last use removes nothing.
    let old = scene.store.targets().await.unwrap()[0].mark;
    scene.store.keep_targets(std::slice::from_ref(&url)).await.unwrap();
    scene.store.drop_target(old).await.unwrap();
    let process = Process::start(&scene.shared);
    receiver.wait_for(1).await;
    eventually("it is settled", async || {
        deliveries(&scene.store, target.id, DeliveryStatus::Delivered).await.len() == 1
    })
    .await;
    assert_eq!(scene.store.targets().await.unwrap().len(), 1);
    process.stop().await;
    // A new process looks at each once; by then its record has been kept long enough.
    scene.shared.clock.advance_ms(25 * HOUR * 1_000);
    let process = Process::start(&scene.shared);
    eventually("it is removed", async || scene.store.targets().await.unwrap().is_empty()).await;
    process.stop().await;
}
