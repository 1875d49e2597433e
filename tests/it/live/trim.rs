//! Events are trimmed by time and by length, in steps, and whoever needs what is gone is told.

use super::{end, feed_after, follow, put, same};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale};
use crate::support::shared_on;
use futures_util::FutureExt;
use serde_json::{Value, json};
use stockade::domain::{Decision, Outcome, SaleId, Switch};
use stockade::store::sweep::EventsKept;
use stockade::store::{EventsAfter, Store, live};
use stockade::workers::sweeper;

const DAY_SECONDS: i64 = 86_400;

/// No event is too old.
fn at_most(entries_max: u64) -> EventsKept {
    EventsKept { retention_ms: 365 * DAY_SECONDS * 1000, entries_max }
}

async fn feed(sale: &Sale) -> Vec<Value> {
    sale.all("/events", 500).await
}

fn cursor(event: &Value) -> &str {
    event["cursor"].as_str().unwrap()
}

/// Changes the supply so often: an entry each.
async fn write(sale: &Sale, times: usize) {
    for _ in 0..times {
        sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "r"})).await.ok();
    }
}

/// Both feeds refuse a cursor, and say how to go on: from there it is `rest`.
async fn refused(sale: &Sale, after: &str, oldest: &Value, rest: &[Value]) {
    for feed in ["/events", "/events/live"] {
        let gone = sale.get(&format!("{feed}?after={after}")).await.expect(410, "cursor_expired");
        assert_eq!(&gone.body["oldest"], oldest, "{feed}");
    }
    let after = oldest.as_str().map(|oldest| format!("&after={oldest}")).unwrap_or_default();
    let page = sale.get(&format!("/events?limit=500{after}")).await.expect(200, "").body;
    assert_eq!(page["items"].as_array().unwrap(), rest);
}

#[tokio::test]
async fn old_events_go_and_their_readers_are_told() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    write(&sale, 3).await;
    let old = feed(&sale).await;
    let last = old.last().unwrap();
    service.advance_seconds(6 * DAY_SECONDS);
    write(&sale, 2).await;
    assert_eq!(feed(&sale).await.len(), old.len() + 2);
    // The first ones are more than seven days old now, and the others are not.
    service.advance_seconds(2 * DAY_SECONDS);
    eventually("the old ones are gone", async || feed(&sale).await.len() <= 2).await;
    let kept = feed(&sale).await;
    assert_eq!(kept.len(), 2);
    for gone in &old[..old.len() - 1] {
        refused(&sale, cursor(gone), &last["cursor"], &kept).await;
    }
    // Whoever had read all that is gone goes on.
    let after = format!("?after={}", cursor(last));
    assert_eq!(feed_after(&sale, cursor(last)).await, kept);
    same(&sale.listen(&after).await.take(2).await, &kept);

    // To the last one.
    service.advance_seconds(7 * DAY_SECONDS);
    eventually("all are gone", async || feed(&sale).await.is_empty()).await;
    let last = kept[1]["cursor"].clone();
    refused(&sale, cursor(&kept[0]), &last, &[]).await;
    refused(&sale, cursor(&old[1]), &last, &[]).await;
    for query in ["", "?after=latest", &format!("?after={}", cursor(&kept[1]))] {
        let page = sale.get(&format!("/events{query}")).await.expect(200, "").body;
        assert_eq!(page, json!({"items": [], "next": last}), "{query}");
    }
    let mut listeners = [sale.listen("").await, sale.listen(&format!("?after={}", cursor(&kept[1]))).await];
    write(&sale, 1).await;
    let new = feed(&sale).await;
    assert_eq!(new.len(), 1);
    for listener in &mut listeners {
        same(&listener.take(1).await, &new);
    }
    let other = cursor(&old[0]).replacen(|c: char| c.is_ascii_hexdigit(), "z", 1);
    refused(&sale, &other, &last, &new).await;
}

#[tokio::test]
async fn too_many_events_go_in_bounded_steps() {
    const STEP_ENTRIES_MAX: usize = 256;
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    write(&sale, 700).await;
    let store = Store::open(&service.shared).unwrap();
    let name: SaleId = sale.name.parse().unwrap();
    let all = feed(&sale).await;
    let generation = cursor(&all[0]).split('-').next().unwrap().to_owned();
    let trim =
        async |entries_max| store.trim(&name, &generation, &at_most(entries_max)).await.unwrap().entries;
    let mut steps = Vec::new();
    loop {
        let removed = trim(10).await;
        // What is left is the end of what was there, in its order.
        let left = feed(&sale).await;
        assert_eq!(left, all[all.len() - left.len()..]);
        if removed == 0 {
            break;
        }
        assert!(removed <= STEP_ENTRIES_MAX);
        steps.push(removed);
    }
    assert!(steps.len() > 2, "{steps:?}");
    let kept = feed(&sale).await;
    assert_eq!(kept.len(), 10);
    refused(&sale, cursor(&all[0]), &all[all.len() - 11]["cursor"], &kept).await;

    // A cursor in the middle of the last entry that went: its other event is missing.
    sale.take(705).await.ok();
    let sold_out = feed(&sale).await;
    let [.., held, out] = &sold_out[..] else { panic!() };
    assert_eq!(cursor(held).rsplit_once('-').unwrap().0, cursor(out).rsplit_once('-').unwrap().0);
    write(&sale, 1).await;
    assert_eq!(trim(1).await, 11);
    refused(&sale, cursor(held), &out["cursor"], &feed(&sale).await).await;
    assert_eq!(trim(1).await, 0);
    // Another incarnation's are not its own.
    write(&sale, 1).await;
    assert_eq!(store.trim(&name, "other", &at_most(1)).await.unwrap().entries, 0);
}

/// Big entries are read whole: fewer of them a step.
#[tokio::test]
async fn a_step_reads_few_of_big_entries() {
    let service = InProcess::start();
    let stock = (0..1_000).map(|n| {
        (format!("a-sku-with-a-name-of-sixty-characters-as-some-shops-have-{n}"), json!({"initial": 1}))
    });
    let sale = Sale::put(&service.api, json!({"stock": stock.collect::<serde_json::Map<_, _>>()})).await;
    for _ in 0..8 {
        let more = (0..1_000).map(|_| {
            (
                format!("a-sku-with-a-name-of-forty-{}", &crate::service::new_key()[..23]),
                json!({"initial": 1}),
            )
        });
        sale.api.put(&sale.at(""), &json!({"stock": more.collect::<serde_json::Map<_, _>>()})).await.ok();
    }
    let store = Store::open(&service.shared).unwrap();
    let end = end(&sale).await;
    let generation = end.split('-').next().unwrap();
    let removed = store.trim(&sale.name.parse().unwrap(), generation, &at_most(1)).await.unwrap().entries;
    assert!((1..=3).contains(&removed), "{removed}");
    // A round does the rest.
    let round = sweeper::round(&store, &at_most(1)).await.unwrap();
    assert_eq!(round.trimmed, 8 - removed);
}

/// What a listener has not heard yet is gone: it is not sent past the gap.
#[tokio::test]
async fn a_listener_that_was_overtaken_by_the_trimmer_ends() {
    let shared = shared_on(RedisServer::shared());
    let store = Store::open(&shared).unwrap();
    let (sale, generation) = put(&store).await;
    let mut slow = follow(&store, &sale, EventsAfter::Latest).await;
    // Before anybody reads: it is the reader that was overtaken.
    let joined = slow.next().now_or_never();
    assert!(joined.is_none());
    switch(&store, &sale, 30).await;
    trim_to(&store, &sale, &generation, 10).await;
    let reader = tokio::spawn(async move { live::run(&shared).await });
    assert_eq!(slow.next().await, None);

    // The reader is in time, and the listener is not.
    let mut slow = follow(&store, &sale, EventsAfter::Latest).await;
    let mut quick = follow(&store, &sale, EventsAfter::Latest).await;
    assert!(slow.next().now_or_never().is_none());
    for _ in 0..100 {
        let (heard, ()) = tokio::join!(quick.next(), switch(&store, &sale, 1));
        heard.unwrap();
    }
    trim_to(&store, &sale, &generation, 10).await;
    assert_eq!(slow.next().await, None);

    // As long as the channel holds it, nothing is missing.
    let mut slow = follow(&store, &sale, EventsAfter::Latest).await;
    assert!(slow.next().now_or_never().is_none());
    for _ in 0..20 {
        let (heard, ()) = tokio::join!(quick.next(), switch(&store, &sale, 1));
        heard.unwrap();
    }
    trim_to(&store, &sale, &generation, 10).await;
    for _ in 0..20 {
        slow.next().await.unwrap();
    }
    reader.abort();
}

/// Changes a sale so often.
async fn switch(store: &Store, sale: &SaleId, times: usize) {
    for _ in 0..times {
        let paused = store.switch_sale(sale, Switch::Pause).await.unwrap();
        if matches!(paused, Decision::Done(Outcome::Unchanged, _)) {
            store.switch_sale(sale, Switch::Resume).await.unwrap();
        }
    }
}

async fn trim_to(store: &Store, sale: &SaleId, generation: &str, entries_max: u64) {
    while store.trim(sale, generation, &at_most(entries_max)).await.unwrap().entries > 0 {}
}
