//! SIGTERM: nobody is cut off, and it ends in time.

use crate::service::{Sale, Service, ServiceOptions, Wire, post};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
const DRAIN: Duration = Duration::from_secs(5);
/// Answers before it is told to stop.
const WARM_UP: usize = 3_000;
/// A client that was asked to leave comes back so often: a balancer takes a moment to see that we are unready.
const RETURNS: usize = 3;

/// Asks without pause until it is asked to leave; fails if an answer is missing.
async fn ask(address: SocketAddr, path: &str, number: usize, answers: &AtomicUsize) {
    let mut asked = 0;
    for _ in 0..=RETURNS {
        let mut wire = match Wire::connect(address).await {
            Ok(wire) => wire,
            Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => return,
            Err(failed) => panic!("{failed}"),
        };
        loop {
            asked += 1;
            let key = format!("{number}-{asked}");
            wire.send(post(path, &key, r#"{"lines":[{"sku":"a","quantity":1}]}"#)).await.unwrap();
            let answer = wire.answer().await.unwrap_or_else(|cut| panic!("request {key} was cut off: {cut}"));
            assert_eq!(answer.status, 201, "{answer:?}");
            answers.fetch_add(1, Ordering::Relaxed);
            if answer.closes() {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_cuts_nobody_off() {
    let drain = DRAIN.as_secs().to_string();
    let args = vec!["--drain-seconds".to_owned(), drain];
    let mut service = Service::with(ServiceOptions { args, ..ServiceOptions::default() }).await;
    let sale = Sale::of(&service.api(), 1_000_000).await;
    let (path, address) = (sale.at("/reservations"), service.address());
    let answers = AtomicUsize::new(0);
    let clients =
        futures_util::future::join_all((0..CLIENTS).map(|number| ask(address, &path, number, &answers)));
    // Idle, as a balancer keeps some; it must not hold up the end.
    let idle = Wire::connect(address).await.unwrap();
    let stop = async {
        while answers.load(Ordering::Relaxed) < WARM_UP {
            tokio::task::yield_now().await;
        }
        service.signal("TERM");
        let told = Instant::now();
        let unready = service.api().call("GET", "/readyz").try_send();
        let (status, unready) = tokio::join!(service.ended(), unready);
        (status, told.elapsed(), unready)
    };
    let begun = Instant::now();
    let (_, (status, took, unready)) = tokio::join!(clients, stop);
    drop(idle);
    let rate = answers.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    println!("{} answers, {rate:.0} a second; the end took {took:?}", answers.load(Ordering::Relaxed));
    assert_eq!(status.code(), Some(0), "{}", service.log());
    assert!(took <= DRAIN, "it took {took:?}:\n{}", service.log());
    let unready = unready.expect("it still answers");
    assert_eq!((unready.status, unready.code()), (503, "draining"));
    assert!(service.engine_pid().is_none(), "its engine ended with it");

    // Every acknowledged hold is there.
    service.restart().await;
    assert_eq!(sale.level("a").await.1 as usize, answers.load(Ordering::Relaxed));
}
