//! Clients that vanish in the middle of a request.

use super::Chance;
use crate::sandbox::eventually;
use crate::service::{Sale, Service, Wire, lines, post};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use rand::Rng;
use rand::rngs::StdRng;
use rand::{SeedableRng, random};
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

/// Takes one unit a call; answers the keys that it got an answer for.
async fn shop(
    address: SocketAddr,
    sale: &Sale,
    number: u64,
    mut rng: StdRng,
) -> (Vec<(String, String)>, usize) {
    let (mut answered, mut broken) = (Vec::new(), 0);
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
                answered.push((key, body["id"].as_str().unwrap().to_owned()));
                continue;
            }
            Manner::Resets => wire.reset(),
            Manner::Leaves => drop(wire),
            Manner::Breaks => {
                broken += 1;
                if random() { wire.reset() } else { drop(wire) }
            }
        }
        wire = Wire::connect(address).await.unwrap();
    }
    (answered, broken)
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
    let (answered, broken): (Vec<_>, Vec<usize>) = join_all(clients).await.into_iter().unzip();
    let (answered, broken): (Vec<_>, usize) = (answered.concat(), broken.iter().sum());

    // A request that came whole has its effect, whether its client was there to hear of it or not; one that was cut
    // has none.
    let whole = CLIENTS as usize * CALLS_EACH - broken;
    println!("{} answered, {whole} whole, {broken} cut", answered.len());
    eventually("what came whole is done", async || sale.level("a").await.1 as usize >= whole).await;
    let held = sale.all("/reservations", 500).await;
    assert_eq!(held.len(), whole);
    let repeats = stream::iter(&answered).for_each_concurrent(AT_ONCE, async |(key, id)| {
        let again = sale.reserve(key, with_reference(key)).await.expect(200, "");
        assert_eq!(&again.id(), id);
    });
    repeats.await;
    assert_eq!(sale.level("a").await.1 as usize, whole);
    // Those that did not hear of it find it with their key; those that were cut take it now.
    let keys = (0..CLIENTS).flat_map(|number| (0..CALLS_EACH).map(move |n| format!("{number}-{n}")));
    let retries = stream::iter(keys).for_each_concurrent(AT_ONCE, async |key| {
        sale.reserve(&key, with_reference(&key)).await.ok();
    });
    retries.await;
    assert_eq!(sale.level("a").await.1, CLIENTS * CALLS_EACH as u64);
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
    wire.send("GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 200);
    assert_eq!(wire.answer().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(sale.level("a").await.1, 50);
}
