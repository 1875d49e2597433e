//! SKUs and the ledger of their supply.

use crate::service::{Level, Sale, new_key, shared_api};
use serde_json::{Value, json};

#[tokio::test]
async fn a_sku_is_added_once_and_its_limit_may_change() {
    let sale = Sale::put(&shared_api(), json!({})).await;
    let path = sale.at("/stock/a");
    let put = |body: Value| sale.api.call("PUT", &path).json(&body).send();
    let needed = put(json!({})).await.expect(422, "initial_required");
    assert_eq!(needed.body["errors"][0]["field"], "/initial");
    sale.get("/stock/a").await.expect(404, "unknown_sku");
    let added = put(json!({"initial": 4, "buyer_limit": 2})).await.expect(201, "");
    assert_eq!(
        (added.outcome(), &added.body["available"], &added.body["buyer_limit"]),
        ("created", &json!(4), &json!(2))
    );
    assert_eq!(put(json!({"initial": 4, "buyer_limit": 2})).await.expect(200, "").outcome(), "unchanged");
    assert_eq!(put(json!({"buyer_limit": 3})).await.expect(200, "").body["buyer_limit"], 3);
    assert_eq!(put(json!({})).await.expect(200, "").body["buyer_limit"], Value::Null);
    put(json!({"initial": 5})).await.expect(409, "stock_exists");
    put(json!({"initial": -1})).await.names("/initial");
    put(json!({"initial": 4, "buyer_limit": 0})).await.names("/buyer_limit");
    assert_eq!(sale.level("a").await, Level(4, 0, 0));
    let nowhere = format!("/v1/sales/{}x/stock/a", sale.name);
    sale.api.put(&nowhere, &json!({"initial": 1})).await.expect(404, "unknown_sale");
}

#[tokio::test]
async fn supply_changes_by_signed_amounts_once_a_key() {
    let sale = Sale::of(&shared_api(), 10).await;
    let path = sale.at("/stock/a/adjustments");
    let adjust = |key: &'static str, body: Value| sale.api.call("POST", &path).key(key).json(&body).send();
    let body = json!({"delta": 5, "reason": "delivery", "reference": "note 7"});
    let first = adjust("a1", body.clone()).await.expect(201, "");
    assert_eq!((first.outcome(), &first.body["level"]["granted"]), ("adjusted", &json!(15)));
    let again = adjust("a1", body).await.expect(201, "");
    assert_eq!((again.outcome(), &again.body), ("replayed", &first.body));
    adjust("a1", json!({"delta": 6, "reason": "delivery"})).await.expect(422, "idempotency_key_reused");

    sale.hold(12).await;
    let refused =
        adjust("a2", json!({"delta": -4, "reason": "stolen"})).await.expect(409, "insufficient_available");
    assert_eq!(
        (&refused.body["level"]["available"], &refused.body["level"]["held"]),
        (&json!(3), &json!(12))
    );
    let guarded = |granted: u64| json!({"delta": -1, "reason": "count", "if_granted": granted});
    let refused = adjust("a3", guarded(14)).await.expect(409, "granted_changed");
    assert_eq!(refused.body["level"]["granted"], 15);
    adjust("a3", guarded(1_000_000_000_000)).await.expect(409, "granted_changed");
    adjust("a4", guarded(15)).await.expect(201, "");
    adjust("a5", json!({"delta": 1_000_000_000_000_i64, "reason": "typo"}))
        .await
        .expect(409, "too_many_units");
    assert_eq!(sale.level("a").await, Level(2, 12, 0));
    let ledger = sale.all("/stock/a/adjustments", 2).await;
    let deltas: Vec<i64> = ledger.iter().map(|entry| entry["delta"].as_i64().unwrap()).collect();
    assert_eq!(deltas, [10, 5, -1]);
    assert_eq!((&ledger[0]["reason"], &ledger[1]["reference"]), (&json!("initial"), &json!("note 7")));

    for (body, field) in [
        (json!({"delta": 0, "reason": "r"}), "/delta"),
        (json!({"delta": 1.5, "reason": "r"}), "/delta"),
        (json!({"delta": "1", "reason": "r"}), "/delta"),
        (json!({"delta": 1_000_000_000_001_i64, "reason": "r"}), "/delta"),
        (json!({"delta": u64::MAX, "reason": "r"}), "/delta"),
        (json!({"reason": "r"}), "/delta"),
        (json!({"delta": 1}), "/reason"),
        (json!({"delta": 1, "reason": ""}), "/reason"),
        (json!({"delta": 1, "reason": "a\nb"}), "/reason"),
        (json!({"delta": 1, "reason": "r", "if_granted": -1}), "/if_granted"),
        (json!({"delta": 1, "reason": "r", "if_granted": 1_000_000_000_001_i64}), "/if_granted"),
        (json!({"set": 1, "delta": 1, "reason": "r"}), "/set"),
    ] {
        adjust("a6", body).await.names(field);
    }
    sale.post("/stock/b/adjustments", json!({"delta": 1, "reason": "r"})).await.expect(404, "unknown_sku");
    sale.get("/stock/b/adjustments").await.expect(404, "unknown_sku");
    assert_eq!(sale.level("a").await, Level(2, 12, 0));
}

#[tokio::test]
async fn supply_may_change_in_any_state_of_the_sale() {
    let sale = Sale::of(&shared_api(), 1).await;
    for switch in ["pause", "close"] {
        sale.post(&format!("/{switch}"), Value::Null).await.expect(200, "");
        sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": switch})).await.expect(201, "");
    }
    assert_eq!(sale.level("a").await, Level(3, 0, 0));
}

/// The same key under another verb, SKU or sale is another operation.
#[tokio::test]
async fn a_key_belongs_to_its_verb_and_target() {
    let api = shared_api();
    let stock = json!({"stock": {"a": {"initial": 5}, "b": {"initial": 5}}});
    let (one, two) = (Sale::put(&api, stock.clone()).await, Sale::put(&api, stock).await);
    let key = new_key();
    let cart = crate::service::lines(&[("a", 1)]);
    let first = one.reserve(&key, cart.clone()).await.expect(201, "").id();
    assert_ne!(two.reserve(&key, cart).await.expect(201, "").id(), first);
    for sku in ["a", "b"] {
        let path = one.at(&format!("/stock/{sku}/adjustments"));
        let adjust = api.call("POST", &path).key(&key).json(&json!({"delta": 1, "reason": "r"})).send().await;
        assert_eq!(adjust.expect(201, "").outcome(), "adjusted");
    }
    let extend = api.call("POST", &one.at(&format!("/reservations/{first}/extend"))).key(&key);
    assert_eq!(extend.json(&json!({"hold_seconds": 900})).send().await.expect(200, "").outcome(), "extended");
}
