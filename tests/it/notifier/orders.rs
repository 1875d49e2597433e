//! Orders tell endpoints. What the scripts write is written here by hand, in their format.

use super::*;
use crate::receiver::Receiver;
use crate::sandbox::eventually;
use crate::support::shared_on;
use redis::aio::MultiplexedConnection;
use std::collections::BTreeSet;
use stockade::domain::{Endpoint, Timestamp};
use stockade::store::ids;
use stockade::store::intake::{GROUP, Reader, Source, Taken};
use stockade::store::keys::{OrderKeys, order_bucket};
use stockade::store::sweep::EventsKept;
use stockade::workers::notifier::Intake;
use stockade::workers::sweeper;
use tokio::sync::mpsc;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const CREATED_MS: i64 = 1_764_500_000_000;
const EXPIRES_MS: i64 = CREATED_MS + 600_000;

/// An order with a line in each of these sales.
struct Told {
    id: Uuid,
    part: Uuid,
    sales: Vec<String>,
}

impl Told {
    fn of(sales: &[&str]) -> Self {
        let sales = sales.iter().map(|sale| (*sale).to_owned()).collect();
        Self { id: Uuid::new_v4(), part: Uuid::new_v4(), sales }
    }

    /// One whose events are in this bucket.
    fn in_bucket(bucket: usize) -> Self {
        std::iter::repeat_with(|| Self::of(&["drop"])).find(|order| order.bucket() == bucket).unwrap()
    }

    fn bucket(&self) -> usize {
        order_bucket(&ids::short(self.id))
    }

    fn stream(&self) -> String {
        OrderKeys::new(self.bucket()).events().to_owned()
    }

    /// `<word> LF <previous status> LF <id> LF <record>`.
    fn event(&self, word: &str, previous: &str) -> String {
        let (id, part) = (ids::short(self.id), ids::short(self.part));
        let lines: Vec<String> = self.sales.iter().map(|sale| format!("{sale}=tea=cup=2={part}")).collect();
        let ended = if word == "held" { String::new() } else { (CREATED_MS + 5_000).to_string() };
        let record = [
            word,
            "attempt",
            &CREATED_MS.to_string(),
            &EXPIRES_MS.to_string(),
            &ended,
            "",
            &lines.join(","),
            "fingerprint",
            "600000",
            "bo",
            "order 7",
            r#"{"till":"3"}"#,
        ];
        format!("{word}\n{previous}\n{id}\n{}", record.join("\n"))
    }

    fn held(&self) -> String {
        self.event("held", "holding")
    }

    /// What callers see after it.
    fn data(&self, status: &str, previous: &str, at_ms: i64) -> Value {
        let time = |ms| json!(Timestamp::from_ms(ms).unwrap());
        let line = |sale| json!({"sale": sale, "sku": "tea", "asked_sku": "cup", "quantity": 2, "reservation": self.part});
        let is_held = status == "held";
        json!({
            "id": self.id, "status": status, "previous_status": previous, "buyer": "bo",
            "lines": self.sales.iter().map(line).collect::<Vec<_>>(),
            "reference": "order 7", "metadata": {"till": "3"}, "created_at": time(CREATED_MS),
            "expires_at": if is_held { time(EXPIRES_MS) } else { Value::Null },
            "ended_at": if is_held { Value::Null } else { time(CREATED_MS + 5_000) },
            "server_time": time(at_ms),
        })
    }
}

/// Writes an entry as a script would; its id.
async fn order_entry(
    redis: &mut MultiplexedConnection,
    stream: &str,
    at_ms: i64,
    events: &[String],
) -> String {
    let events = events.join("\u{1e}");
    redis_cmd(redis, &["XADD", stream, "*", "t", &at_ms.to_string(), "e", &events]).await
}

async fn now_ms(redis: &mut MultiplexedConnection) -> i64 {
    let (seconds, micros): (i64, i64) = redis_cmd(redis, &["TIME"]).await;
    seconds * 1000 + micros / 1000
}

/// A server without any process that delivers, whose streams of orders all have the group.
struct Scene {
    server: RedisServer,
    shared: Shared,
    store: Store,
    redis: MultiplexedConnection,
    intake: Intake,
    _woken: mpsc::UnboundedReceiver<Arc<Endpoint>>,
}

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::start();
        let shared = shared_on(&server);
        let store = Store::open(&shared).unwrap();
        for source in Source::orders() {
            assert!(store.ensure_group(&source, 0).await.unwrap());
        }
        let (wake, _woken) = mpsc::unbounded_channel();
        let intake = Intake::new(store.clone(), Arc::clone(&shared.metrics), wake);
        let redis = server.connection().await;
        Self { server, shared, store, redis, intake, _woken }
    }

    async fn register(&self, filters: Value) -> WebhookId {
        register(&self.server, "http://127.0.0.1:9/", filters).await
    }

    async fn write(&mut self, order: &Told, events: &[String]) -> String {
        let at_ms = now_ms(&mut self.redis).await;
        order_entry(&mut self.redis, &order.stream(), at_ms, events).await
    }

    /// What a consumer that has just come reads of all buckets.
    async fn read(&self, consumer: &str) -> Vec<Taken> {
        let sources: Vec<Source> = Source::orders().collect();
        let mut reader = Reader::new(self.store.clone(), consumer.to_owned());
        loop {
            let taken = reader.next(&sources).await.unwrap();
            if !taken.is_empty() {
                return taken;
            }
        }
    }

    async fn waiting(&self, webhook: WebhookId) -> Vec<Delivery> {
        deliveries(&self.store, webhook, DeliveryStatus::Pending).await
    }

    /// Of which orders an endpoint is to hear, and how often.
    async fn sources(&self, webhook: WebhookId) -> Vec<String> {
        let mut sources: Vec<String> =
            self.waiting(webhook).await.into_iter().map(|delivery| delivery.source).collect();
        sources.sort();
        sources
    }

    async fn pending(&self, order: &Told) -> u64 {
        let progress = self.store.progress(&Source::Orders(order.bucket())).await.unwrap();
        progress.expect("a group").pending
    }

    fn skipped(&self) -> u64 {
        metric(&self.shared, SKIPPED)
    }

    async fn length(&mut self, order: &Told) -> usize {
        redis_cmd(&mut self.redis, &["XLEN", &order.stream()]).await
    }
}

#[tokio::test]
async fn each_event_of_an_order_is_delivered_once_signed_and_whole() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook = register(&service.redis, &receiver.url(), json!({})).await;
    let mut redis = service.redis.connection().await;
    let at_ms = now_ms(&mut redis).await;
    let order = Told::of(&["drop-1", "plain"]);
    let mut expected = Vec::new();
    for told in [
        &[("held", "holding"), ("confirmed", "confirming")][..],
        &[("released", "aborting")],
        &[("expired", "aborting")],
    ] {
        let events: Vec<String> = told.iter().map(|(word, previous)| order.event(word, previous)).collect();
        let entry = order_entry(&mut redis, &order.stream(), at_ms, &events).await;
        for (n, (word, previous)) in told.iter().enumerate() {
            let (source, cursor) = (format!("/v1/orders/{}", order.id), format!("0-{entry}-{n}"));
            expected.push(json!({
                "specversion": "1.0", "id": Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{source} {cursor}").as_bytes()),
                "source": source, "type": format!("dev.stockade.order.{word}"), "subject": order.id,
                "time": Timestamp::from_ms(at_ms).unwrap(), "datacontenttype": "application/json",
                "cursor": cursor, "data": order.data(word, previous, at_ms),
            }));
        }
    }
    let received = receiver.wait_for_distinct(expected.len()).await;
    for event in &expected {
        let message = received.iter().find(|one| one.id() == event["id"].as_str().unwrap()).expect("it came");
        assert_eq!(message.json(), *event);
        assert!(message.is_signed_with(SECRET));
    }
    let store = store_of(&service);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == expected.len()
    })
    .await;
    assert_eq!(receiver.received().len(), expected.len(), "without a repeat");
    assert_eq!(metric(&service.shared, SKIPPED), 0);

    // Again, by hand: the same event.
    let again = json!({"event": received[0].id()});
    service.api.post(&format!("/v1/webhooks/{webhook}/redeliver"), &again).await.expect(200, "");
    let repeat = receiver.wait_for(expected.len() + 1).await.pop().unwrap();
    assert_eq!((repeat.id(), &repeat.body), (received[0].id(), &received[0].body));
    assert!(repeat.is_signed_with(SECRET));
}

#[tokio::test]
async fn one_of_its_sales_is_enough_to_hear_of_an_order() {
    let mut scene = Scene::new().await;
    let both = Told::of(&["plain", "drop-1"]);
    let plain = Told::of(&["plain"]);
    let ours = Told::of(&["_selftest-1-2"]);
    let cases = [
        (json!({}), 2, 1),
        (json!({"sales": ["*"]}), 2, 1),
        (json!({"sales": ["plain"]}), 2, 1),
        // Both of its sales match: it is told once all the same.
        (json!({"sales": ["drop-*", "plain"]}), 2, 1),
        (json!({"sales": ["none", "drop-*"]}), 2, 0),
        (json!({"sales": ["drop"]}), 0, 0),
        (json!({"types": ["order.*"]}), 2, 1),
        (json!({"types": ["order.confirmed"]}), 1, 0),
        (json!({"types": ["order.confirmed"], "sales": ["drop-1"]}), 1, 0),
        (json!({"types": ["order.released", "reservation.*", "barrier.*"]}), 0, 0),
    ];
    let mut webhooks = Vec::new();
    for (filters, ..) in &cases {
        webhooks.push(scene.register(filters.clone()).await);
    }
    scene.write(&both, &[both.held(), both.event("confirmed", "confirming")]).await;
    scene.write(&plain, &[plain.held()]).await;
    scene.write(&ours, &[ours.held()]).await;
    let later = scene.register(json!({})).await;
    let mut connection = scene.server.connection().await;
    // It may have come in the same millisecond: it wants what is written after that one.
    let endpoint: String = redis_cmd(&mut connection, &["HGET", keys::WEBHOOKS, &later.to_string()]).await;
    let mut endpoint: Value = serde_json::from_str(&endpoint).unwrap();
    endpoint["since_ms"] = json!(endpoint["since_ms"].as_u64().unwrap() + 1);
    let () = redis_cmd(&mut connection, &["HSET", keys::WEBHOOKS, &later.to_string(), &endpoint.to_string()])
        .await;

    scene.intake.take_in(&scene.read("one").await).await.unwrap();
    for ((filters, of_both, of_plain), webhook) in cases.iter().zip(webhooks) {
        let mut expected = vec![format!("/v1/orders/{}", both.id); *of_both];
        expected.extend(vec![format!("/v1/orders/{}", plain.id); *of_plain]);
        expected.sort();
        assert_eq!(scene.sources(webhook).await, expected, "{filters}");
    }
    assert!(scene.waiting(later).await.is_empty(), "what was written before its registration");
    assert_eq!(scene.skipped(), 0);
}

#[tokio::test]
async fn two_notifiers_deliver_each_event_of_an_order_once() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook = register(&service.redis, &receiver.url(), json!({"types": ["order.*"]})).await;
    let other = Process::start(&service.shared);
    let mut redis = service.redis.connection().await;
    let at_ms = now_ms(&mut redis).await;
    let orders: Vec<Told> = (0..100).map(|_| Told::of(&["drop"])).collect();
    let mut streams = BTreeSet::new();
    for order in &orders {
        order_entry(&mut redis, &order.stream(), at_ms, &[order.held()]).await;
        streams.insert(order.stream());
    }
    assert!(streams.len() > 1);
    receiver.wait_for_distinct(orders.len()).await;
    let store = store_of(&service);
    eventually("all are settled", async || {
        deliveries(&store, webhook, DeliveryStatus::Delivered).await.len() == orders.len()
    })
    .await;
    assert_eq!(receiver.received().len(), orders.len(), "without a repeat");
    let of: BTreeSet<String> =
        receiver.received().iter().map(|one| one.json()["subject"].to_string()).collect();
    assert_eq!(of.len(), orders.len());
    other.stop().await;
}

#[tokio::test]
async fn what_a_dead_notifier_had_read_of_orders_is_claimed() {
    let mut scene = Scene::new().await;
    let receiver = Receiver::start().await;
    let webhook = register(&scene.server, &receiver.url(), json!({})).await;
    let order = Told::of(&["drop"]);
    let entry = scene.write(&order, &[order.held()]).await;
    let read = scene.read("dead").await;
    assert_eq!((read.len(), scene.pending(&order).await), (1, 1));
    // It dies here. Half a minute later another one is there.
    let claim = ["XCLAIM", &order.stream(), GROUP, "dead", "0", &entry, "IDLE", "31000", "JUSTID"];
    let _: Vec<String> = redis_cmd(&mut scene.redis, &claim).await;
    let process = Process::start(&scene.shared);
    receiver.wait_for(1).await;
    eventually("it is settled", async || {
        deliveries(&scene.store, webhook, DeliveryStatus::Delivered).await.len() == 1
    })
    .await;
    assert_eq!(scene.pending(&order).await, 0);
    // The first one was only frozen, and does it again.
    scene.intake.take_in(&read).await.unwrap();
    assert_eq!(deliveries(&scene.store, webhook, DeliveryStatus::Delivered).await.len(), 1);
    assert!(scene.waiting(webhook).await.is_empty());
    process.stop().await;
    assert_eq!((receiver.received().len(), scene.skipped()), (1, 0));
}

#[tokio::test]
async fn a_damaged_entry_of_an_order_is_skipped_and_the_next_one_delivered() {
    let mut scene = Scene::new().await;
    let webhook = scene.register(json!({})).await;
    let good = Told::of(&["drop"]);
    let at = now_ms(&mut scene.redis).await.to_string();
    let wrong_word = good.held().replacen("held", "confirmed", 1);
    let short = good.held().rsplit_once('\n').unwrap().0.to_owned();
    for fields in [
        &["t", &at, "e", &wrong_word][..],
        &["t", &at, "e", &short],
        &["t", &at, "e", "held"],
        &["t", "x", "e", &good.held()],
        &["x", "y"],
    ] {
        let _: String = redis_cmd(&mut scene.redis, &[&["XADD", &good.stream(), "*"], fields].concat()).await;
    }
    let mut cmd = redis::cmd("XADD");
    cmd.arg(good.stream()).arg("*").arg("t").arg(&at).arg("e").arg(&b"held\nholding\n\xff"[..]);
    let _: String = cmd.query_async(&mut scene.redis).await.unwrap();
    scene.write(&good, &[good.held()]).await;
    let process = Process::start(&scene.shared);
    eventually("all are taken in", async || {
        let source = Source::Orders(good.bucket());
        scene.store.is_all_acknowledged(&source).await.unwrap()
    })
    .await;
    process.stop().await;
    let dead = deliveries(&scene.store, webhook, DeliveryStatus::Dead).await.len();
    assert_eq!((scene.waiting(webhook).await.len() + dead, scene.skipped()), (1, 6));
}

#[tokio::test]
async fn events_of_orders_go_by_number_and_by_time_and_unread_ones_are_counted() {
    let mut scene = Scene::new().await;
    let webhook = scene.register(json!({})).await;
    let (order, quiet) = (Told::in_bucket(3), Told::in_bucket(4));
    for _ in 0..70 {
        scene.write(&order, &[order.held()]).await;
    }
    scene.write(&quiet, &[quiet.held()]).await;
    let by_number = EventsKept { retention_ms: DAY * 1_000, entries_max: 3 };
    let round = sweeper::round(&scene.store, &by_number).await.unwrap();
    assert_eq!((round.trimmed, round.skipped), (67, 67));
    assert_eq!((scene.length(&order).await, scene.length(&quiet).await), (3, 1));
    let nothing = sweeper::round(&scene.store, &by_number).await.unwrap();
    assert_eq!((nothing.trimmed, nothing.skipped), (0, 0));

    // A process has read these, and not finished.
    let read = scene.read("one").await;
    assert_eq!(read.iter().map(|taken| taken.entries.len()).sum::<usize>(), 4);
    scene.shared.clock.advance_ms(DAY * 1_000 + 1_000);
    let at_ms = now_ms(&mut scene.redis).await + DAY * 1_000;
    order_entry(&mut scene.redis, &order.stream(), at_ms, &[order.held()]).await;
    let by_time = EventsKept { retention_ms: DAY * 1_000, entries_max: 1_000 };
    let round = sweeper::round(&scene.store, &by_time).await.unwrap();
    assert_eq!((round.trimmed, round.skipped), (4, 0));
    assert_eq!((scene.length(&order).await, scene.length(&quiet).await), (1, 0));
    // Whoever finds them gone counts them.
    for order in [&order, &quiet] {
        let source = Source::Orders(order.bucket());
        let claimed = scene.store.claim_abandoned(&source, "two", 0).await.unwrap();
        scene.intake.take_in(&[claimed]).await.unwrap();
        assert_eq!(scene.pending(order).await, 0);
    }
    assert_eq!((scene.skipped(), scene.waiting(webhook).await.len()), (4, 0));
}

#[tokio::test]
async fn streams_that_cannot_be_trimmed_keep_no_other_from_it() {
    let mut scene = Scene::new().await;
    let (order, damaged, wrong) = (Told::in_bucket(1), Told::in_bucket(2), Told::in_bucket(5));
    scene.write(&order, &[order.held()]).await;
    // A damaged entry is as old as its id.
    let _: String = redis_cmd(&mut scene.redis, &["XADD", &damaged.stream(), "5-1", "x", "y"]).await;
    let _: usize = redis_cmd(&mut scene.redis, &["DEL", &wrong.stream()]).await;
    let () = redis_cmd(&mut scene.redis, &["SET", &wrong.stream(), "x"]).await;
    scene.shared.clock.advance_ms(2 * DAY * 1_000);
    let kept = EventsKept { retention_ms: DAY * 1_000, entries_max: 1_000 };
    let round = sweeper::round(&scene.store, &kept).await.unwrap();
    assert_eq!((round.trimmed, round.skipped), (2, 2));
    assert_eq!((scene.length(&order).await, scene.length(&damaged).await), (0, 0));
}

/// Where nobody listens they cost nothing, and what is trimmed is missed by nobody.
#[tokio::test]
async fn streams_of_orders_are_read_while_somebody_wants_them() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let store = Store::open(&shared).unwrap();
    let mut redis = server.connection().await;
    let process = Process::start(&shared);
    let barriers: Vec<Source> = Source::barriers().collect();
    let orders: Vec<Source> = Source::orders().collect();
    let groups = async |sources: &[Source]| {
        let mut groups = 0;
        for source in sources {
            groups += usize::from(store.progress(source).await.unwrap().is_some());
        }
        groups
    };
    eventually("barriers are read", async || groups(&barriers).await == 16).await;
    assert_eq!(groups(&orders).await, 0);
    let order = Told::of(&["drop"]);
    order_entry(&mut redis, &order.stream(), 1_000, &[order.held()]).await;
    let kept = EventsKept { retention_ms: DAY * 1_000, entries_max: 1_000 };
    let round = sweeper::round(&store, &kept).await.unwrap();
    assert_eq!((round.trimmed, round.skipped), (1, 0));

    let receiver = Receiver::start().await;
    let webhook = register(&server, &receiver.url(), json!({"sales": ["drop"]})).await;
    // Before any process has looked.
    let at_ms = now_ms(&mut redis).await;
    order_entry(&mut redis, &order.stream(), at_ms, &[order.held()]).await;
    receiver.wait_for(1).await;
    assert_eq!(groups(&orders).await, 16);
    unregister(&server, webhook).await;
    eventually("nobody reads them", async || groups(&orders).await == 0).await;
    process.stop().await;
}
