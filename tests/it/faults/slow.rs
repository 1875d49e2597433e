//! Clients that are slow, idle, or more than can be served: everybody else goes on buying.

use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Level, Sale, Service, ServiceOptions, Wire, lines, post};
use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{self, StreamExt};
use std::net::SocketAddr;

const IDLE: usize = 5_000;
const SLOW_EACH: usize = 250;
/// More bytes than any slow client gets to send.
const BODY_BYTES: usize = 60_000;
const AT_ONCE: usize = 64;
const UNITS: u64 = 1_000_000;
/// So few that callers alone could use them up.
const FILES: u32 = 256;
/// Of these at one worker.
const CALLERS_MAX: usize = 192;
const PROBE: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Files that a process has open.
fn open_files(service: &Service) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap().count()
}

/// A client that was served once, and stays.
async fn idle(address: SocketAddr) -> Wire {
    let mut wire = Wire::connect(address).await.unwrap();
    wire.send(PROBE).await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 200);
    wire
}

/// A client that has sent this much, and has more.
async fn slow(address: SocketAddr, begin: &str) -> Option<Wire> {
    let mut wire = Wire::connect(address).await.unwrap();
    wire.send(begin).await.unwrap();
    Some(wire)
}

/// One byte more. Whoever was cut is `None` from then on, and was told 408, unless that was lost with the connection.
async fn trickle(client: &mut Option<Wire>) {
    let Some(wire) = client else { return };
    match wire.answer().now_or_never() {
        Some(Ok(answer)) => assert_eq!(answer.status, 408, "{answer:?}"),
        None if wire.send("a").await.is_ok() => return,
        Some(Err(_)) | None => {}
    }
    *client = None;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_idle_clients_stop_nobody() {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    assert!(files > 2 * IDLE as u64, "this test holds {IDLE} connections, and may open {files} files");
    let service = Service::start().await;
    let (address, sale) = (service.address(), Sale::of(&service.api(), UNITS).await);
    let idle: Vec<Wire> =
        stream::iter(0..IDLE).map(|_| idle(address)).buffer_unordered(AT_ONCE).collect().await;

    let whole = post(&sale.at("/reservations"), "slow", &"a".repeat(BODY_BYTES));
    let (head, _) = whole.split_once("\r\n\r\n").unwrap();
    let begins = [format!("{head}\r\nX-Slow: "), format!("{head}\r\n\r\n")];
    let slow = begins.iter().flat_map(|begin| (0..SLOW_EACH).map(move |_| slow(address, begin)));
    let mut slow = join_all(slow).await;
    assert!(open_files(&service) > IDLE + slow.len(), "they are not all there");

    // A byte each after every purchase, until all are cut.
    let mut bought = 0;
    while slow.iter().any(Option::is_some) {
        // A newcomer, for somebody who is connected already waits for nobody.
        let mut wire = Wire::connect(address).await.unwrap();
        let cart = lines(&[("a", 1)]).to_string();
        wire.send(post(&sale.at("/reservations"), &format!("good-{bought}"), &cart)).await.unwrap();
        assert_eq!(wire.answer().await.unwrap().status, 201);
        bought += 1;
        for client in &mut slow {
            trickle(client).await;
        }
    }
    assert_eq!(sale.level("a").await, Level(UNITS - bought, bought, 0));
    let metrics = service.api().metrics().await;
    let given_up = |(series, _): &&(String, f64)| {
        series.starts_with("stockade_http_requests_total") && series.contains(r#"status="408""#)
    };
    let given_up: f64 = metrics.iter().filter(given_up).map(|(_, count)| count).sum();
    assert_eq!(given_up as usize, SLOW_EACH, "bodies that were given up");
    drop(idle);
}

/// Who was answered is served.
fn hear(waiting: &mut Vec<Wire>, served: &mut Vec<Wire>) {
    for mut wire in std::mem::take(waiting) {
        let is_served = wire.answer().now_or_never().is_some();
        if is_served { served.push(wire) } else { waiting.push(wire) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_leave_files_for_redis_and_who_comes_late_is_served_when_somebody_leaves() {
    let mut redis = RedisServer::start();
    let args = ["--workers", "1"].map(String::from).to_vec();
    let options = ServiceOptions {
        redis_url: Some(redis.url()),
        args,
        files_max: Some(FILES),
        ..ServiceOptions::default()
    };
    let service = Service::with(options).await;
    let sale = Sale::of(&service.api(), UNITS).await;
    let mut first = idle(service.address()).await;
    let crowd = join_all((0..FILES).map(|_| Wire::connect(service.address()))).await;
    let mut waiting: Vec<Wire> = crowd.into_iter().map(Result::unwrap).collect();
    for wire in &mut waiting {
        wire.send(PROBE).await.unwrap();
    }
    let mut last = waiting.pop().unwrap();
    let mut served = Vec::new();
    eventually("it has nearly all the callers that it takes", async || {
        hear(&mut waiting, &mut served);
        served.len() > CALLERS_MAX - 20
    })
    .await;

    // Every connection to Redis has to be made anew.
    redis.kill();
    redis.restart();
    let request = post(&sale.at("/reservations"), "k", &lines(&[("a", 1)]).to_string());
    eventually("a caller who is connected buys", async || {
        first.send(&request).await.unwrap();
        first.answer().await.unwrap().status < 300
    })
    .await;
    hear(&mut waiting, &mut served);
    assert!(served.len() < CALLERS_MAX, "{} callers have the files", served.len());
    assert!(last.answer().now_or_never().is_none(), "there is room for all");
    drop(served);
    drop(waiting);
    assert_eq!(last.answer().await.unwrap().status, 200);
}
