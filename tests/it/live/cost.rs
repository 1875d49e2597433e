//! What listeners cost Redis: one connection a process, and nothing each.

use super::outages::calls;
use super::{follow, put};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale};
use crate::support::shared_on;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use stockade::domain::Switch;
use stockade::store::{EventsAfter, Store, live};

const LISTENERS: usize = 200;
const EVENTS: usize = 50;

/// Connections that wait in XREAD.
async fn readers(redis: &mut MultiplexedConnection) -> usize {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    clients.lines().filter(|client| client.contains(" cmd=xread ")).count()
}

#[tokio::test]
async fn two_hundred_listeners_cost_one_connection_and_no_reads() {
    let service = InProcess::start();
    let (sale, other) = (Sale::of(&service.api, 500).await, Sale::of(&service.api, 500).await);
    let mut listeners = join_all((0..LISTENERS).map(|_| sale.listen(""))).await;
    let mut elsewhere = other.listen("").await;
    // Everybody has joined once everybody has heard something.
    sale.hold(1).await;
    other.hold(1).await;
    for listener in listeners.iter_mut().chain([&mut elsewhere]) {
        listener.take(1).await;
    }
    let mut redis = service.redis.connection().await;
    eventually("both sales are read", async || readers(&mut redis).await == 1).await;
    let gauge = "stockade_http_streams_open{route=\"/v1/sales/{sale}/events/live\"}";
    let open = service.api.metrics().await.into_iter().find(|(name, _)| name == gauge);
    assert_eq!(open.unwrap().1, LISTENERS as f64 + 1.0);
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut redis).await.unwrap();
    for _ in 0..EVENTS {
        sale.hold(1).await;
    }
    for listener in &mut listeners {
        listener.take(EVENTS).await;
    }
    other.hold(1).await;
    elsewhere.take(1).await;
    // Between two calls it waits for nothing.
    eventually("one connection reads", async || readers(&mut redis).await == 1).await;
    // One a script call at the most, and one every few seconds. The sweeper, who looks at each stream every second, asks
    // with each XRANGE for the length.
    let xread = calls(&mut redis, "xread").await;
    let by_sweeper = calls(&mut redis, "xlen").await;
    let xrange = calls(&mut redis, "xrange").await.saturating_sub(by_sweeper);
    assert!(xread <= EVENTS as u64 + 20, "{xread} reads of {EVENTS} events");
    assert!(xrange < LISTENERS as u64 / 2, "{xrange} reads by listeners");
    assert_eq!(calls(&mut redis, "xrevrange").await, 0);
    // A stream is counted as a request, and its duration is not one.
    let series =
        |name: &str| format!("stockade_http_{name}{{route=\"/v1/sales/{{sale}}/events/live\",method=\"GET\"");
    let metrics = service.api.metrics().await;
    let value = |of: &str| metrics.iter().find(|(name, _)| name.starts_with(of)).map(|(_, value)| *value);
    assert_eq!(value(&format!("{},status=\"200\"", series("requests_total"))), Some(LISTENERS as f64 + 1.0));
    assert_eq!(value(&series("request_duration_seconds_count")), Some(0.0));
    drop(listeners);
    drop(elsewhere);
    // They are found to be gone when there is something to send.
    eventually("they have ended", async || {
        sale.hold(1).await;
        other.hold(1).await;
        let ended = "stockade_http_stream_seconds_count{route=\"/v1/sales/{sale}/events/live\"}";
        let metrics = service.api.metrics().await;
        metrics.contains(&(gauge.to_owned(), 0.0))
            && metrics.contains(&(ended.to_owned(), LISTENERS as f64 + 1.0))
    })
    .await;
    // What nobody listens to is not read.
    eventually("nobody is read for", async || readers(&mut redis).await == 0).await;
}

/// A cluster takes only keys of one slot in one call; elsewhere 64 sales share a connection.
#[tokio::test]
async fn sales_share_connections_where_they_may() {
    for (server, sales, expected) in [(RedisServer::shared(), 3, 3), (&RedisServer::start(), 70, 2)] {
        let shared = shared_on(server);
        let store = Store::open(&shared).unwrap();
        let reader = tokio::spawn(async move { live::run(&shared).await });
        let mut redis = server.connection().await;
        let mut followers = Vec::new();
        for _ in 0..sales {
            let (sale, _) = put(&store).await;
            followers.push((follow(&store, &sale, EventsAfter::Latest).await, sale));
        }
        let hear = followers.iter_mut().map(async |(follower, sale)| {
            // Somebody waits before there is something.
            let (heard, _) = tokio::join!(follower.next(), store.switch_sale(sale, Switch::Pause));
            assert!(String::from_utf8_lossy(&heard.unwrap()).contains("event: dev.stockade.sale.paused\n"));
        });
        join_all(hear).await;
        eventually("all are read", async || readers(&mut redis).await == expected).await;
        followers.truncate(1);
        eventually("one lane is left", async || readers(&mut redis).await == 1).await;
        followers.clear();
        eventually("no lane is left", async || readers(&mut redis).await == 0).await;
        reader.abort();
    }
}
