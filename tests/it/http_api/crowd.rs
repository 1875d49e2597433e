//! Crowds over HTTP end at the exact number.

use crate::redis_server::{RedisServer, ServerOptions};
use crate::service::{Level, Sale, Service, lines, new_key};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;

const SHOPPERS: usize = 10_000;
const UNITS: u64 = 100;
/// Requests under way at once; the others wait in the shop's door. A process may open 1,024 files in many places.
const AT_ONCE: usize = 400;

/// Numbers are what is at stake here, not the disk.
fn without_fsync() -> RedisServer {
    let args = ["--appendfsync", "no"].map(String::from).to_vec();
    RedisServer::with(ServerOptions { args, ..ServerOptions::default() })
}

/// The lost update: three clients that each add 1 a thousand times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_that_each_add_one_a_thousand_times_end_at_exactly_3000() {
    let redis = without_fsync();
    let service = Service::on(redis.url()).await;
    let sale = Sale::of(&service.api(), 0).await;
    let client = async |name: &str| {
        for n in 0..1000 {
            let call = sale.api.call("POST", &sale.at("/stock/a/adjustments")).key(&format!("{name} {n}"));
            call.json(&json!({"delta": 1, "reason": "one more"})).send().await.expect(201, "");
        }
    };
    tokio::join!(client("first"), client("second"), client("third"));
    assert_eq!(sale.level("a").await, Level(3000, 0, 0));
    assert_eq!(sale.all("/stock/a/adjustments", 500).await.len(), 3001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_units_for_ten_thousand_shoppers_end_at_exactly_a_hundred_holds() {
    let redis = without_fsync();
    let service = Service::on(redis.url()).await;
    let sale = Sale::of(&service.api(), UNITS).await;
    let shoppers = (0..SHOPPERS).map(|n| {
        let sale = sale.clone();
        async move { sale.reserve(&format!("shopper {n}"), lines(&[("a", 1)])).await }
    });
    let (mut held, mut sold_out) = (0, 0);
    let mut answers = stream::iter(shoppers).buffer_unordered(AT_ONCE);
    while let Some(answer) = answers.next().await {
        match answer.status {
            201 => held += 1,
            _ => {
                answer.expect(409, "sold_out");
                sold_out += 1;
            }
        }
    }
    assert_eq!((held, sold_out), (UNITS, SHOPPERS as u64 - UNITS));
    assert_eq!(sale.level("a").await, Level(0, UNITS, 0));
    assert_eq!(sale.all("/reservations", 500).await.len() as u64, UNITS);
}

#[tokio::test]
async fn the_last_unit_is_sold_once_round_after_round() {
    let redis = without_fsync();
    let service = Service::on(redis.url()).await;
    let sale = Sale::of(&service.api(), 0).await;
    for _ in 0..20 {
        sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "the last one"}))
            .await
            .expect(201, "");
        let cart = lines(&[("a", 1)]);
        let takes = (0..50).map(|_| {
            let (sale, cart) = (&sale, cart.clone());
            async move { sale.reserve(&new_key(), cart).await.status }
        });
        let statuses = futures_util::future::join_all(takes).await;
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1);
        assert!(statuses.iter().all(|status| matches!(status, 201 | 409)));
    }
    assert_eq!(sale.level("a").await, Level(0, 20, 0));
}
