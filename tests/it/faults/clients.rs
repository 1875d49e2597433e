//! Clients that vanish in the middle of a request.

use super::Chance;
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Level, Sale, Service, ServiceOptions, Wire, lines, post};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::SocketAddr;

const CLIENTS: u64 = 8;
const CALLS_EACH: usize = 120;
const AT_ONCE: usize = 64;
const UNITS: u64 = 1_000_000;

/// What a client does about its answer.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Stays,
    /// Says goodbye, and does not read.
    Leaves,
    /// Just goes.
    Resets,
    /// Does not even finish asking.
    Breaks,
}

/// What a client knows at the end.
#[derive(Default)]
struct Known {
    /// Key and id of what was answered.
    answered: Vec<(String, String)>,
    /// Keys of requests that were cut.
    cut: Vec<String>,
}

/// Takes one unit a call.
async fn shop(address: SocketAddr, sale: &Sale, number: u64, mut rng: StdRng) -> Known {
    let mut known = Known::default();
    let path = sale.at("/reservations");
    let mut wire = Wire::connect(address).await.unwrap();
    for n in 0..CALLS_EACH {
        let key = format!("{number}-{n}");
        let request =
            post(&path, &key, &format!(r#"{{"reference":"{key}","lines":[{{"sku":"a","quantity":1}}]}}"#));
        let manner = match rng.random_range(0..9) {
            0 => Manner::Leaves,
            1 => Manner::Resets,
            2 => Manner::Breaks,
            _ => Manner::Stays,
        };
        let sent = match manner {
            Manner::Breaks => rng.random_range(1..request.len()),
            _ => request.len(),
        };
        wire.send(&request[..sent]).await.unwrap();
        match manner {
            Manner::Stays => {
                let answer = wire.answer().await.unwrap();
                let body = answer.json();
                assert_eq!(
                    (answer.status, &body["reference"]),
                    (201, &serde_json::json!(key)),
                    "somebody else's: {body}"
                );
                known.answered.push((key, body["id"].as_str().unwrap().to_owned()));
                continue;
            }
            Manner::Resets => wire.reset(),
            Manner::Leaves => drop(wire),
            Manner::Breaks => {
                known.cut.push(key);
                if rng.random() { wire.reset() } else { drop(wire) }
            }
        }
        wire = Wire::connect(address).await.unwrap();
    }
    known
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_of_the_clients_vanish() {
    let chance = Chance::new("a_third_of_the_clients_vanish");
    let service = Service::start().await;
    let sale = Sale::of(&service.api(), UNITS).await;
    let clients = (0..CLIENTS).map(|number| {
        let rng = StdRng::seed_from_u64(chance.seed.wrapping_add(number));
        shop(service.address(), &sale, number, rng)
    });
    let known = join_all(clients).await;

    // What was answered is there, and what was cut is not. What came whole and was not heard of may be either: its
    // client may have left before anybody looked at it.
    let repeats = known.iter().flat_map(|known| &known.answered);
    let repeats = stream::iter(repeats).for_each_concurrent(AT_ONCE, async |(key, id)| {
        let again = sale.reserve(key, with_reference(key)).await.expect(200, "");
        assert_eq!(&again.id(), id);
    });
    repeats.await;
    let references = async || -> HashSet<String> {
        let held = sale.all("/reservations", 500).await;
        let references: HashSet<_> =
            held.iter().map(|held| held["reference"].as_str().unwrap().to_owned()).collect();
        assert_eq!(references.len(), held.len(), "a key that holds twice");
        references
    };
    let held = references().await;
    for known in &known {
        assert!(known.cut.iter().all(|key| !held.contains(key)), "a cut request has an effect");
    }
    // Whoever asks (again) now has its one unit.
    let keys = (0..CLIENTS).flat_map(|number| (0..CALLS_EACH).map(move |n| format!("{number}-{n}")));
    let retries = stream::iter(keys).for_each_concurrent(AT_ONCE, async |key| {
        sale.reserve(&key, with_reference(&key)).await.ok();
    });
    retries.await;
    let all = CLIENTS * CALLS_EACH as u64;
    assert_eq!(sale.level("a").await, Level(UNITS - all, all, 0));
    assert_eq!(references().await.len() as u64, all);
}

/// What waits for its turn has its effect, whether its client is there to hear of it or not.
#[tokio::test]
async fn what_was_queued_is_done_though_its_client_has_gone() {
    let redis = RedisServer::start();
    let args = ["--workers", "1", "--redis-timeout-ms", "60000"].map(String::from).to_vec();
    let service =
        Service::with(ServiceOptions { redis_url: Some(redis.url()), args, ..ServiceOptions::default() })
            .await;
    let sale = Sale::of(&service.api(), UNITS).await;
    sale.hold(1).await;
    redis.freeze();
    let depth = async |wanted: u64| {
        let metrics = service.api().get("/metrics").await.text;
        metrics.lines().any(|line| line == format!("stockade_commit_queue_depth {wanted}"))
    };
    let one = r#"{"lines":[{"sku":"a","quantity":1}]}"#;
    let batch = format!(r#"{{"requests":[{}]}}"#, vec![one; 256].join(","));
    let mut wires = Vec::new();
    let mut send = async |path: &str, key: &str, body: &str| {
        let mut wire = Wire::connect(service.address()).await.unwrap();
        wire.send(post(&sale.at(path), key, body)).await.unwrap();
        wires.push(wire);
    };
    // A round holds 256, so one of these is in a round that gets no answer, and one waits.
    send("/reservations/bulk", "a batch", &batch).await;
    send("/reservations/bulk", "another", &batch).await;
    eventually("a round is under way", async || depth(256).await).await;
    send("/reservations", "waits", one).await;
    send("/reservations", "waits, too", one).await;
    eventually("two more wait", async || depth(258).await).await;
    wires.into_iter().for_each(Wire::reset);
    redis.thaw();
    eventually("all are done", async || sale.level("a").await == Level(UNITS - 515, 515, 0)).await;
}

fn with_reference(key: &str) -> serde_json::Value {
    let mut cart = lines(&[("a", 1)]);
    cart["reference"] = key.into();
    cart
}

/// A client that asks again and again on one connection gets its answers in its order.
#[tokio::test]
async fn answers_come_in_the_order_of_the_questions() {
    let service = Service::start().await;
    let sale = Sale::of(&service.api(), UNITS).await;
    let path = sale.at("/reservations");
    let mut wire = Wire::connect(service.address()).await.unwrap();
    let requests: Vec<String> = (0..50)
        .map(|n| {
            post(
                &path,
                &n.to_string(),
                &format!(r#"{{"reference":"{n}","lines":[{{"sku":"a","quantity":1}}]}}"#),
            )
        })
        .collect();
    wire.send(requests.concat()).await.unwrap();
    for n in 0..50 {
        assert_eq!(wire.answer().await.unwrap().json()["reference"], n.to_string());
    }
    // A request cut in the middle is none.
    wire.send(&requests[0][..100]).await.unwrap();
    drop(wire);
    let mut wire = Wire::connect(service.address()).await.unwrap();
    wire.send("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 200);
    assert_eq!(wire.answer().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(sale.level("a").await.1, 50);
}
