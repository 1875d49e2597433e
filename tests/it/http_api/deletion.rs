//! A deleted sale is gone, and one of the same name is another.

use crate::sandbox::eventually;
use crate::service::{Answer, InProcess, Level, Sale, lines};
use serde_json::{Value, json};

async fn delete(sale: &Sale) -> Answer {
    sale.api.call("DELETE", &sale.at("")).send().await
}

#[tokio::test]
async fn what_is_held_or_sold_stands_in_the_way() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let held = sale.hold(2).await;
    let refused = delete(&sale).await.expect(409, "sale_not_empty");
    assert_eq!((&refused.body["held"], &refused.body["sold"]), (&json!(2), &json!(0)));
    sale.settle(&held, "confirm", Value::Null).await.ok();
    delete(&sale).await.expect(409, "sale_not_empty");
    sale.post("/close", Value::Null).await.ok();
    delete(&sale).await.expect(202, "");
    let nowhere = Sale { name: "nowhere".into(), ..sale };
    delete(&nowhere).await.expect(404, "unknown_sale");
}

#[tokio::test]
async fn old_keys_ids_and_cursors_mean_nothing_in_the_next_sale() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let key = "the same key";
    let old = sale.reserve(key, lines(&[("a", 2)])).await.expect(201, "").id();
    let adjust = || {
        let call = service.api.call("POST", &sale.at("/stock/a/adjustments")).key(key);
        call.json(&json!({"delta": 7, "reason": "r"})).send()
    };
    adjust().await.expect(201, "");
    let etag = sale.get("").await.header("etag").to_owned();
    let cursor = sale.get("/events?after=latest").await.body["next"].as_str().unwrap().to_owned();
    sale.settle(&old, "confirm", Value::Null).await.ok();
    sale.post("/close", Value::Null).await.ok();
    delete(&sale).await.expect(202, "");

    // At once, for every caller.
    sale.get("").await.expect(404, "unknown_sale");
    sale.get("/stock").await.expect(404, "unknown_sale");
    sale.get(&format!("/reservations/{old}")).await.expect(404, "unknown_sale");
    sale.settle(&old, "return", Value::Null).await.expect(404, "unknown_sale");
    sale.take(1).await.expect(404, "unknown_sale");
    adjust().await.expect(404, "unknown_sale");
    sale.post("/resume", Value::Null).await.expect(404, "unknown_sale");
    assert_eq!(service.api.get("/v1/sales").await.body["items"], json!([]));

    // The name is free again once the sweeper has removed what it left.
    let body = json!({"stock": {"a": {"initial": 3}}});
    eventually("the old one is purged", async || {
        let put = service.api.put(&sale.at(""), &body).await;
        if put.status == 409 {
            put.expect(409, "sale_deleting");
            return false;
        }
        put.expect(201, "");
        true
    })
    .await;
    assert_eq!(sale.level("a").await, Level(3, 0, 0));
    sale.get(&format!("/reservations/{old}")).await.expect(404, "unknown_reservation");
    sale.settle(&old, "return", Value::Null).await.expect(404, "unknown_reservation");
    sale.settle(&old, "confirm", json!({"if_expired": "retake"})).await.expect(404, "unknown_reservation");
    let found = sale.get("/reservations?idempotency_key=the%20same%20key").await.expect(200, "");
    assert_eq!(found.body["items"], json!([]));
    assert_eq!(sale.all("/reservations?status=ended", 10).await, [Value::Null; 0]);
    sale.get(&format!("/events?after={cursor}")).await.expect(410, "cursor_expired");
    let stale = service.api.call("PUT", &sale.at("")).header("If-Match", &etag).json(&json!({})).send().await;
    stale.expect(412, "precondition_failed");

    // The same keys with other bodies are new requests here.
    let new = sale.reserve(key, lines(&[("a", 1)])).await.expect(201, "").id();
    assert_ne!(new, old);
    let again = service.api.call("POST", &sale.at("/stock/a/adjustments")).key(key);
    again.json(&json!({"delta": 1, "reason": "other"})).send().await.expect(201, "");
    assert_eq!(sale.level("a").await, Level(3, 1, 0));
    assert_eq!(sale.all("/stock/a/adjustments", 10).await.len(), 2);
}

#[tokio::test]
async fn nothing_of_a_deleted_sale_stays_in_the_store() {
    let service = InProcess::start();
    let before = service.dump().await;
    let rules = json!({"buyer_limit": 9, "stock": {"a": {"initial": 600}}});
    let sale = Sale::put(&service.api, rules).await;
    // More than one step of the purge removes.
    let come_and_go = (0..550).map(|n| {
        let cart = json!({"buyer": format!("b{n}"), "lines": [{"sku": "a", "quantity": 1}]});
        let sale = &sale;
        async move {
            let id = sale.reserve(&format!("k{n}"), cart).await.expect(201, "").id();
            sale.settle(&id, "release", Value::Null).await.ok();
        }
    });
    futures_util::future::join_all(come_and_go).await;
    delete(&sale).await.expect(202, "");
    eventually("nothing is left", async || service.dump().await == before).await;
}
