//! Redis dies, connections are cut, listeners are slow: there is a pause, and no gap.

use super::{end, feed_after, same};
use crate::sandbox::eventually;
use crate::service::{InProcess, Sale, Wire, lines};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

async fn is_ready(service: &InProcess) -> bool {
    service.api.get("/readyz").await.status == 200
}

#[tokio::test]
async fn a_killed_redis_is_a_pause() {
    let mut service = InProcess::start();
    let sale = Sale::of(&service.api, 500).await;
    let begin = end(&sale).await;
    let mut listeners = join_all((0..5).map(|_| sale.listen(""))).await;
    for _ in 0..3 {
        for _ in 0..5 {
            sale.hold(1).await;
        }
        service.redis.kill();
        eventually("it is noticed", async || !is_ready(&service).await).await;
        service.redis.restart();
        eventually("it is ready", async || is_ready(&service).await).await;
    }
    sale.hold(1).await;
    let feed = feed_after(&sale, &begin).await;
    assert_eq!(feed.len(), 16);
    for listener in &mut listeners {
        same(&listener.take(16).await, &feed);
    }
}

#[tokio::test]
async fn connections_that_are_cut_are_made_again() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 500).await;
    let begin = end(&sale).await;
    let mut listener = sale.listen("").await;
    let mut redis = service.redis.connection().await;
    for _ in 0..20 {
        sale.hold(1).await;
        kill_readers(&mut redis).await;
    }
    same(&listener.take(20).await, &feed_after(&sale, &begin).await);
}

/// Ends the connections that wait in XREAD.
async fn kill_readers(redis: &mut MultiplexedConnection) {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    for client in clients.lines().filter(|client| client.contains(" cmd=xread ")) {
        let id = client.strip_prefix("id=").unwrap().split(' ').next().unwrap();
        let () =
            redis::cmd("CLIENT").arg("KILL").arg("ID").arg(id).query_async(redis).await.unwrap_or_default();
    }
}

const AT_ONCE: usize = 8;

/// Nobody reads: what the sockets do not hold is not held in memory either, but read again later.
#[tokio::test]
async fn a_slow_listener_misses_nothing() {
    let service = InProcess::start();
    let skus: Vec<String> = (0..100).map(|n| format!("a-sku-with-a-rather-long-name-{n}")).collect();
    let stock = skus.iter().map(|sku| (sku.clone(), json!({"initial": 9_999})));
    let sale = Sale::put(&service.api, json!({"stock": stock.collect::<serde_json::Map<_, _>>()})).await;
    let begin = end(&sale).await;
    let mut slow = Wire::connect_narrow(service.api.authority().parse().unwrap()).await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", sale.at("/events/live"));
    slow.send(request).await.unwrap();
    assert_eq!(slow.head().await.unwrap().split(' ').nth(1), Some("200"));
    let mut quick = sale.listen("").await;
    // Each some 10 KB, eight at a time: until it is more than the service's end of the socket, which may grow to what
    // the system allows, and 64 entries of the channel take.
    let cart: Vec<(&str, u64)> = skus.iter().map(|sku| (sku.as_str(), 1)).collect();
    let takes =
        (0..AT_ONCE).map(|_| async { sale.reserve(&crate::service::new_key(), lines(&cart)).await.ok() });
    join_all(takes).await;
    let event_bytes = feed_after(&sale, &begin).await[0].to_string().len();
    let rounds = 2 * (socket_bytes_max() / (AT_ONCE * event_bytes) + 64);
    for _ in 0..rounds {
        let takes =
            (0..AT_ONCE).map(|_| async { sale.reserve(&crate::service::new_key(), lines(&cart)).await.ok() });
        join_all(takes).await;
    }
    sale.post("/pause", Value::Null).await.ok();
    let feed = feed_after(&sale, &begin).await;
    assert_eq!(feed.len(), (rounds + 1) * AT_ONCE + 1);
    same(&quick.until("sale.paused").await, &feed);
    let mut heard = String::new();
    while heard.matches("\nid: ").count() < feed.len() {
        heard.push_str(&String::from_utf8(slow.chunk().await.unwrap()).unwrap());
    }
    let heard: Vec<&str> = heard.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let cursors: Vec<&str> = feed.iter().map(|event| event["cursor"].as_str().unwrap()).collect();
    assert_eq!(heard, cursors);
}

/// Most bytes that the system keeps of what was sent and not yet taken.
fn socket_bytes_max() -> usize {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap();
    limits.split_whitespace().last().unwrap().parse().unwrap()
}

/// How often a command was carried out.
pub async fn calls(redis: &mut MultiplexedConnection, command: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}
