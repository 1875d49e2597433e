//! Where a stream begins, and what it says.

use super::{end, feed_after, same};
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale, shared_api};
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

const WRITERS: usize = 8;
const ROUNDS: usize = 15;
const LISTENERS: usize = 12;

/// Holds and gives back, again and again, until everybody listens.
async fn write(sale: &Sale, listening: &AtomicUsize) {
    let mut rounds = 0;
    while rounds < ROUNDS || listening.load(Ordering::Relaxed) < LISTENERS {
        rounds += 1;
        let id = sale.hold(1).await;
        sale.settle(&id, "release", Value::Null).await.ok();
    }
}

#[tokio::test]
async fn listeners_hear_the_feed_while_eight_write() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 100).await;
    sale.hold(1).await;
    let begin = end(&sale).await;
    let listening = AtomicUsize::new(0);
    let writers = join_all((0..WRITERS).map(|_| write(&sale, &listening)));
    // Some come before the first event, most in the middle of it all; each tells from where on it must hear.
    let listeners = join_all((0..LISTENERS).map(|number| {
        let (sale, begin, listening) = (&sale, &begin, &listening);
        async move {
            eventually("it is this one's turn", async || feed_after(sale, begin).await.len() >= number * 12)
                .await;
            let query = match number % 3 {
                0 => format!("?after={begin}"),
                1 => format!("?after={}", end(sale).await),
                _ => String::new(),
            };
            let after = query.strip_prefix("?after=").map(str::to_owned);
            let mut listener = sale.listen(&query).await;
            listening.fetch_add(1, Ordering::Relaxed);
            (after, listener.until("sale.paused").await)
        }
    }));
    let written = async {
        writers.await;
        sale.post("/pause", Value::Null).await.ok();
    };
    let (heard, ()) = tokio::join!(listeners, written);
    let feed = feed_after(&sale, &begin).await;
    assert!(feed.len() > 2 * WRITERS * ROUNDS);
    for (after, heard) in heard {
        let after = after.unwrap_or_else(|| {
            // Without a cursor it begins wherever it came; from there on it must be all.
            let first = feed.iter().position(|event| event["cursor"] == heard[0].id).unwrap();
            feed[first - 1]["cursor"].as_str().unwrap().to_owned()
        });
        let first = feed.iter().position(|event| event["cursor"] == after).map_or(0, |at| at + 1);
        same(&heard, &feed[first..]);
    }
}

#[tokio::test]
async fn a_client_that_was_cut_off_goes_on_where_it_was() {
    let sale = Sale::of(&shared_api(), 50).await;
    let begin = end(&sale).await;
    let mut listener = sale.listen("").await;
    sale.hold(1).await;
    let last = listener.take(1).await.pop().unwrap().id;
    drop(listener);
    for _ in 0..40 {
        sale.hold(1).await;
    }
    // As browsers do: the same URL, and the header wins.
    for query in ["", "?after=latest", &format!("?after={begin}")] {
        let path = sale.at(&format!("/events/live{query}"));
        let mut listener = sale.api.listen(&path, Some(&last)).await;
        let missed = listener.take(40).await;
        same(&missed, &feed_after(&sale, &last).await);
    }
    // Into the middle of an entry: taking the last units makes two events.
    sale.take(9).await.ok();
    let feed = feed_after(&sale, &last).await;
    let [held, sold_out] = &feed[feed.len() - 2..] else { panic!() };
    assert_eq!(sold_out["type"], "dev.stockade.stock.sold_out");
    let mut listener = sale.listen(&format!("?after={}", held["cursor"].as_str().unwrap())).await;
    same(&listener.take(1).await, &feed[feed.len() - 1..]);
}

#[tokio::test]
async fn a_stream_without_a_cursor_begins_now() {
    let sale = Sale::of(&shared_api(), 50).await;
    sale.hold(1).await;
    for query in ["", "?after=latest", "?after="] {
        let mut listener = sale.listen(query).await;
        let id = sale.hold(1).await;
        assert_eq!(listener.next().await.unwrap().data["subject"], id);
    }
}

#[tokio::test]
async fn what_is_wrong_is_a_problem_before_the_stream_begins() {
    let sale = Sale::of(&shared_api(), 5).await;
    let with_header = |value: &'static str| {
        let call = sale.api.call("GET", &sale.at("/events/live?after=latest"));
        call.header("Last-Event-ID", value).send()
    };
    sale.get("/events/live?after=yesterday").await.names("after");
    sale.get("/events/live?limit=5").await.names("limit");
    sale.get("/events/live?after=latest&after=latest").await.names("after");
    with_header("yesterday").await.names("Last-Event-ID");
    with_header("\u{e9}").await.names("Last-Event-ID");
    let cursor = end(&sale).await;
    let (_, rest) = cursor.split_once('-').unwrap();
    sale.get(&format!("/events/live?after=0000000000000000-{rest}")).await.expect(410, "cursor_expired");
    sale.get(&format!("/events/live?after={cursor}9")).await.expect(410, "cursor_expired");
    sale.api.get("/v1/sales/nowhere/events/live").await.expect(404, "unknown_sale");
}
