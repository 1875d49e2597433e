//! Waiting and following: told at once, at no cost each, also when a hint is lost, and let go when the process stops.

use super::{Barrier, says};
use crate::live::outages::calls;
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{InProcess, Service, ServiceOptions, Wire};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const WAITS: &str = "stockade_http_streams_open{route=\"/v1/barriers/{barrier}/wait\"}";

async fn waiting(service: &InProcess) -> f64 {
    let metrics = service.api.metrics().await;
    metrics.into_iter().find(|(series, _)| series == WAITS).unwrap().1
}

async fn wait_until_waiting(service: &InProcess, count: usize) {
    eventually("they wait", async || waiting(service).await == count as f64).await;
}

#[tokio::test]
async fn a_wait_ends_with_its_barrier_or_its_time() {
    let service = InProcess::start();
    let barrier = Barrier::put(&service.api, json!({"expected": 1})).await;
    says(&barrier.read("/wait?seconds=0").await.expect(200, "").body, json!({"status": "open"}));
    says(&barrier.read("/wait?seconds=1").await.expect(200, "").body, json!({"status": "open"}));
    let arrives = async {
        wait_until_waiting(&service, 1).await;
        barrier.arrive("a").await.expect(200, "");
        Instant::now()
    };
    let (told, arrived) = tokio::join!(barrier.read("/wait?seconds=50"), arrives);
    says(&told.expect(200, "").body, json!({"status": "completed", "completed": 1}));
    assert!(arrived.elapsed() < Duration::from_secs(4), "a hint came: {:?}", arrived.elapsed());
    says(&barrier.read("/wait").await.expect(200, "").body, json!({"status": "completed"}));
}

#[tokio::test]
async fn a_wait_sees_the_deadline_come() {
    let service = InProcess::start();
    let barrier = Barrier::put(&service.api, json!({"expected": 1, "deadline_seconds": 1})).await;
    let told = barrier.read("/wait?seconds=50").await.expect(200, "").body;
    says(&told, json!({"status": "timed_out", "ended_at": told["deadline"]}));
}

/// Connections that listen to hints.
async fn subscribers(redis: &mut MultiplexedConnection) -> Vec<String> {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let of = clients.lines().filter(|client| client.contains(" sub=1 "));
    of.map(|client| client.strip_prefix("id=").unwrap().split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn two_thousand_waiters_cost_redis_nothing_each() {
    const WAITERS: usize = 2_000;
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let barrier = Barrier::put(&service.api, json!({"expected": 10})).await;
    let address = service.api.authority().parse().unwrap();
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut redis).await.unwrap();
    let mut wires = Vec::new();
    for _ in 0..WAITERS {
        let mut wire = Wire::connect(address).await.unwrap();
        let head = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", barrier.at("/wait?seconds=50"));
        wire.send(head).await.unwrap();
        wires.push(wire);
    }
    wait_until_waiting(&service, WAITERS).await;
    assert_eq!(subscribers(&mut redis).await.len(), 1);
    for n in 0..10 {
        barrier.arrive(&format!("p{n}")).await.expect(200, "");
    }
    let answers = join_all(wires.iter_mut().map(|wire| wire.answer())).await;
    for answer in answers {
        says(&answer.unwrap().json(), json!({"status": "completed", "completed": 10}));
    }
    // Beside the sweeper, which looks once a second: some reads for all of them together.
    let scripts = calls(&mut redis, "evalsha").await + calls(&mut redis, "eval").await;
    let hmget = calls(&mut redis, "hmget").await;
    assert!(
        hmget < 100 && calls(&mut redis, "subscribe").await == 1,
        "{hmget} reads of barriers, {scripts} scripts"
    );
    eventually("they have left", async || waiting(&service).await == 0.0).await;
}

#[tokio::test]
async fn who_leaves_makes_room_at_once() {
    let service = InProcess::with(&["--event-streams-max", "3"]);
    let barrier = Barrier::put(&service.api, json!({"expected": 1})).await;
    let address = service.api.authority().parse().unwrap();
    let mut wires = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::connect(address).await.unwrap();
        let head = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", barrier.at("/wait?seconds=50"));
        wire.send(head).await.unwrap();
        wires.push(wire);
    }
    wait_until_waiting(&service, 3).await;
    for rest in ["/wait?seconds=50", "/live"] {
        barrier.read(rest).await.expect(503, "too_many_streams");
    }
    wires.pop(); // with a farewell
    wires.pop().unwrap().reset();
    wait_until_waiting(&service, 1).await;
    barrier.read("/wait?seconds=1").await.expect(200, "");
}

#[tokio::test]
async fn a_lost_hint_is_healed() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let barrier = Barrier::put(&service.api, json!({"expected": 1})).await;
    let arrives = async {
        wait_until_waiting(&service, 1).await;
        eventually("hints are heard", async || subscribers(&mut redis).await.len() == 1).await;
        let () = redis::cmd("CLIENT").arg("NO-EVICT").arg("OFF").query_async(&mut redis).await.unwrap();
        for id in subscribers(&mut redis).await {
            let () = redis::cmd("CLIENT")
                .arg("KILL")
                .arg("ID")
                .arg(id)
                .query_async(&mut redis)
                .await
                .unwrap_or_default();
        }
        barrier.arrive("a").await.expect(200, "");
    };
    let (told, ()) = tokio::join!(barrier.read("/wait?seconds=50"), arrives);
    says(&told.expect(200, "").body, json!({"status": "completed"}));
    // And it listens again.
    let other = Barrier::put(&service.api, json!({"expected": 1})).await;
    let arrives = async {
        wait_until_waiting(&service, 1).await;
        eventually("hints are heard again", async || subscribers(&mut redis).await.len() == 1).await;
        other.arrive("a").await.expect(200, "");
    };
    let (told, ()) = tokio::join!(other.read("/wait?seconds=50"), arrives);
    says(&told.expect(200, "").body, json!({"status": "completed"}));
}

/// What a listener of a barrier is sent.
struct Followed {
    response: reqwest::Response,
    unread: String,
}

impl Followed {
    async fn of(barrier: &Barrier) -> Self {
        let url = format!("http://{}{}", barrier.api.authority(), barrier.at("/live"));
        let response = reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, unread: String::new() }
    }

    /// The next state and its event; none when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let event = block.split_once('\n').map(|(event, data)| {
                    let (event, data) = (event.strip_prefix("event: "), data.strip_prefix("data: "));
                    (event.unwrap().to_owned(), serde_json::from_str(data.unwrap()).unwrap())
                });
                self.unread = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            } else {
                self.unread.push_str(std::str::from_utf8(&self.response.chunk().await.unwrap()?).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn a_stream_tells_each_state_and_ends_with_the_last() {
    let service = InProcess::start();
    let barrier = Barrier::put(&service.api, json!({"expected": 2})).await;
    let mut followed = Followed::of(&barrier).await;
    let (event, state) = followed.next().await.unwrap();
    assert_eq!((&*event, &state["completed"]), ("changed", &json!(0)));
    barrier.fail("a", "").await.expect(200, "");
    let (_, state) = followed.next().await.unwrap();
    says(&state, json!({"failed": 1, "completed": 0, "status": "open"}));
    barrier.arrive("a").await.expect(200, "");
    barrier.arrive("b").await.expect(200, "");
    let mut last = followed.next().await.unwrap();
    while last.0 == "changed" {
        last = followed.next().await.unwrap();
    }
    assert_eq!((&*last.0, &last.1["completed"]), ("completed", &json!(2)));
    assert_eq!(followed.next().await, None);
    // Of one that has ended: the final state, and nothing more.
    let mut late = Followed::of(&barrier).await;
    assert_eq!(late.next().await.unwrap().0, "completed");
    assert_eq!(late.next().await, None);
}

#[tokio::test]
async fn a_process_that_stops_lets_its_waiters_go() {
    let redis = RedisServer::start();
    let args = ["--drain-seconds", "30"].map(String::from).to_vec();
    let options = ServiceOptions { redis_url: Some(redis.url()), args, ..ServiceOptions::default() };
    let mut service = Service::with(options).await;
    let barrier = Barrier::put(&service.api(), json!({"expected": 1})).await;
    let mut followed = Followed::of(&barrier).await;
    followed.next().await.unwrap();
    let stop = async {
        eventually("it waits", async || {
            let metrics = service.api().metrics().await;
            metrics.contains(&(WAITS.to_owned(), 1.0))
        })
        .await;
        service.signal("TERM");
        Instant::now()
    };
    let (told, at) = tokio::join!(barrier.read("/wait?seconds=50"), stop);
    says(&told.expect(200, "").body, json!({"status": "open"}));
    assert!(at.elapsed() < Duration::from_secs(3));
    assert_eq!(followed.next().await, None);
    says(&barrier.read("/wait?seconds=50").await.expect(200, "").body, json!({"status": "open"}));
    barrier.read("/live").await.expect(503, "draining");
    assert_eq!(service.ended().await.code(), Some(0), "{}", service.log());
}
