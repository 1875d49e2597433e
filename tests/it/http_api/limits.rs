//! Limits a buyer, and what a buyer is told.

use crate::service::{InProcess, Level, Sale, new_key, shared_api};
use futures_util::future::join_all;
use serde_json::{Value, json};

async fn buy(sale: &Sale, buyer: &str, sku: &str, units: u64) -> crate::service::Answer {
    let cart = json!({"buyer": buyer, "lines": [{"sku": sku, "quantity": units}]});
    sale.reserve(&new_key(), cart).await
}

#[tokio::test]
async fn a_limit_of_a_sku_is_its_own() {
    let stock = json!({"a": {"initial": 50, "buyer_limit": 2}, "b": {"initial": 50}});
    let sale = Sale::put(&shared_api(), json!({"buyer_limit": 4, "stock": stock})).await;
    let first = buy(&sale, "jane", "a", 2).await.expect(201, "").id();
    let refused = buy(&sale, "jane", "a", 1).await.expect(409, "buyer_limit");
    assert_eq!((&refused.body["sku"], &refused.body["limit"]), (&json!("a"), &json!(2)));
    assert_eq!((&refused.body["counted"], &refused.body["requested"]), (&json!(2), &json!(1)));
    buy(&sale, "jane", "b", 2).await.expect(201, "");
    let refused = buy(&sale, "jane", "b", 1).await.expect(409, "buyer_limit");
    assert_eq!((&refused.body["sku"], &refused.body["limit"]), (&json!(null), &json!(4)));
    buy(&sale, "joe", "a", 2).await.expect(201, "");

    let standing = sale.get("/buyers/jane").await.expect(200, "").body;
    let skus = json!([{"sku": "a", "units": 2, "limit": 2, "remaining": 0}]);
    let expected =
        json!({"buyer": "jane", "open": null, "units": 4, "limit": 4, "remaining": 0, "skus": skus});
    assert_eq!(standing, expected);

    // What is bought counts, what is given back does not.
    sale.settle(&first, "confirm", Value::Null).await.expect(200, "");
    buy(&sale, "jane", "a", 1).await.expect(409, "buyer_limit");
    sale.settle(&first, "return", Value::Null).await.expect(200, "");
    buy(&sale, "jane", "a", 2).await.expect(201, "");
}

#[tokio::test]
async fn where_nothing_is_limited_nothing_is_counted() {
    let sale = Sale::of(&shared_api(), 5).await;
    buy(&sale, "jane", "a", 2).await.expect(201, "");
    let standing = sale.get("/buyers/jane").await.expect(200, "").body;
    let expected =
        json!({"buyer": "jane", "open": null, "units": null, "limit": null, "remaining": null, "skus": []});
    assert_eq!(standing, expected);
    // A buyer's name may be anything printable.
    buy(&sale, "Jane <j@x.org> 50%/2", "a", 1).await.expect(201, "");
    let name = sale.get("/buyers/Jane%20%3Cj@x.org%3E%2050%25%2F2").await.expect(200, "");
    assert_eq!(name.body["buyer"], "Jane <j@x.org> 50%/2");
    sale.get("/buyers/%0d%0aSet-Cookie:x").await.names("buyer");
    let nowhere = Sale { name: format!("{}x", sale.name), ..sale };
    nowhere.get("/buyers/jane").await.expect(404, "unknown_sale");
}

#[tokio::test]
async fn an_expired_hold_no_longer_counts() {
    let service = InProcess::start();
    let rules = json!({"buyer_holds_max": 1, "buyer_limit": 2, "stock": {"a": {"initial": 5}}});
    let sale = Sale::put(&service.api, rules).await;
    let late = buy(&sale, "jane", "a", 2).await.expect(201, "").id();
    let refused = buy(&sale, "jane", "a", 1).await.expect(409, "buyer_holds");
    assert!(refused.body["retry_at"].is_string());
    service.advance_seconds(600);
    // No waiting for the sweeper here either.
    buy(&sale, "jane", "a", 2).await.expect(201, "");
    let retake = json!({"if_expired": "retake"});
    sale.settle(&late, "confirm", retake).await.expect(409, "buyer_limit");
    let standing = sale.get("/buyers/jane").await.expect(200, "").body;
    assert_eq!(
        (&standing["open"], &standing["units"], &standing["remaining"]),
        (&json!(1), &json!(2), &json!(0))
    );
}

/// A scalper asks at the same moment, under a key for each call, and takes each unit that comes back.
#[tokio::test]
async fn a_buyer_who_asks_again_and_again_gets_what_one_buyer_may() {
    let rules = json!({"stock": {"a": {"initial": 100}}, "buyer_limit": 3, "hold_seconds_max": 600});
    let sale = Sale::put(&shared_api(), rules).await;
    let asked = join_all((0..60).map(|_| buy(&sale, "bot", "a", 1))).await;
    let (held, refused): (Vec<_>, Vec<_>) = asked.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(held.len(), 3);
    refused.into_iter().for_each(|answer| drop(answer.expect(409, "buyer_limit")));
    let id = held[0].id();
    sale.settle(&id, "extend", json!({"hold_seconds": 3_600})).await.expect(422, "hold_too_long");
    sale.settle(&id, "release", json!({})).await.expect(200, "");
    let asked = join_all((0..60).map(|_| buy(&sale, "bot", "a", 1))).await;
    assert_eq!(asked.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(sale.level("a").await, Level(97, 3, 0));
    buy(&sale, "somebody else", "a", 3).await.expect(201, "");
}
