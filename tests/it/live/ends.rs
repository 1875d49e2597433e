//! How streams end: with their sale, and with their process.

use super::{end, feed_after, same};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale, Service, ServiceOptions};
use serde_json::json;
use std::time::{Duration, Instant};

async fn delete(sale: &Sale) {
    sale.api.call("DELETE", &sale.at("")).send().await.expect(202, "");
}

#[tokio::test]
async fn a_stream_ends_with_its_sale() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let cursor = end(&sale).await;
    let (mut early, mut late) = (sale.listen("").await, sale.listen(&format!("?after={cursor}")).await);
    delete(&sale).await;
    for listener in [&mut early, &mut late] {
        let last = listener.next().await.unwrap();
        assert_eq!(last.kind, "dev.stockade.sale.deleted");
        assert_eq!(listener.next().await, None);
    }
    // Whoever comes back is told that it is gone, and that the next one of this name is another.
    let path = sale.at("/events/live");
    eventually("the name is free again", async || {
        let put = service.api.put(&sale.at(""), &json!({"stock": {"a": {"initial": 1}}})).await;
        if put.status == 409 {
            false
        } else {
            put.expect(201, "");
            true
        }
    })
    .await;
    let call = service.api.call("GET", &path).header("Last-Event-ID", &cursor);
    call.send().await.expect(410, "cursor_expired");
    let mut again = sale.listen("").await;
    let id = sale.hold(1).await;
    assert_eq!(again.next().await.unwrap().data["subject"], id);
}

#[tokio::test]
async fn a_deleted_sale_has_nothing_to_follow() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    delete(&sale).await;
    sale.get("/events/live").await.expect(404, "unknown_sale");
}

#[tokio::test]
async fn a_process_that_stops_ends_its_streams_at_once() {
    const DRAIN: &str = "30";
    let redis = RedisServer::start();
    let args = ["--drain-seconds", DRAIN, "--event-streams-max", "2"].map(String::from).to_vec();
    let options = ServiceOptions { redis_url: Some(redis.url()), args, ..ServiceOptions::default() };
    let mut service = Service::with(options).await;
    let sale = Sale::of(&service.api(), 5).await;
    let begin = end(&sale).await;
    let (mut one, mut two) = (sale.listen("").await, sale.listen("").await);
    let refused = sale.get("/events/live").await.expect(503, "too_many_streams");
    assert_eq!((&refused.body["retryable"], &refused.body["outcome"]), (&json!(true), &json!("not_applied")));
    sale.hold(1).await;
    let feed = feed_after(&sale, &begin).await;
    same(&one.take(1).await, &feed);
    same(&two.take(1).await, &feed);
    service.signal("TERM");
    let told = Instant::now();
    assert_eq!((one.next().await, two.next().await), (None, None));
    // Long before it stops to accept.
    assert!(told.elapsed() < Duration::from_secs(3), "it took {:?}", told.elapsed());
    sale.get("/events/live").await.expect(503, "draining");
    assert_eq!(service.ended().await.code(), Some(0), "{}", service.log());
}
