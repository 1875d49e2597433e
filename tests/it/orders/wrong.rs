//! Calls that are refused, and change nothing.

use super::*;
use crate::service::{Level, shared_api};

#[tokio::test]
async fn what_an_order_says_is_checked_and_the_field_is_named() {
    let api = shared_api();
    let sale = Sale::of(&api, 5).await;
    let good = line(&sale, "a", 1);
    let with = |field: &str, value: Value| {
        let mut line = good.clone();
        line[field] = value;
        order(&[good.clone(), line])
    };
    let body = |field: &str, value: Value| {
        let mut body = order(std::slice::from_ref(&good));
        body[field] = value;
        body
    };
    for (body, field) in [
        (json!({}), "/lines"),
        (order(&[]), "/lines"),
        (order(&vec![good.clone(); 21]), "/lines"),
        (with("sale", json!("a b")), "/lines/1/sale"),
        (with("sale", json!("_x")), "/lines/1/sale"),
        (with("sku", json!(7)), "/lines/1/sku"),
        (with("quantity", json!(0)), "/lines/1/quantity"),
        (with("quantity", json!("1")), "/lines/1/quantity"),
        (with("quantity", json!(1_000_001)), "/lines/1/quantity"),
        (with("alternatives", json!(["b", "b"])), "/lines/1/alternatives"),
        (with("alternatives", json!(["a"])), "/lines/1/alternatives"),
        (with("alternatives", json!("b")), "/lines/1/alternatives"),
        (
            with("alternatives", json!((0..11).map(|n| format!("b{n}")).collect::<Vec<_>>())),
            "/lines/1/alternatives",
        ),
        (with("price", json!(1)), "/lines/1/price"),
        (body("hold_seconds", json!(0)), "/hold_seconds"),
        (body("hold_seconds", json!(86_401)), "/hold_seconds"),
        (body("buyer", json!("")), "/buyer"),
        (body("reference", json!("\u{e9}")), "/reference"),
        (body("metadata", json!({"a": 1})), "/metadata/a"),
        (body("coupon", json!("x")), "/coupon"),
    ] {
        place(&api, &new_key(), &body).await.names(field);
    }
    let id = held(&api, std::slice::from_ref(&good)).await;
    verb(&api, &id, "confirm", json!({"if_expired": "maybe"})).await.names("/if_expired");
    verb(&api, &id, "confirm", json!({"lines": []})).await.names("/lines");
    verb(&api, &id, "release", json!({"all": true})).await.names("/all");
    for unknown in ["nothing", "7b0e5f0e-9d3b-4d7c-8b66-000000000000"] {
        api.get(&format!("/v1/orders/{unknown}")).await.expect(404, "unknown_order");
        verb(&api, unknown, "confirm", Value::Null).await.expect(404, "unknown_order");
        verb(&api, unknown, "release", Value::Null).await.expect(404, "unknown_order");
    }
    assert_eq!(sale.level("a").await, Level(4, 1, 0));
}

#[tokio::test]
async fn limits_of_a_sale_hold_for_its_part_of_an_order() {
    let api = shared_api();
    let stock = json!({"a": {"initial": 9}});
    let limited = Sale::put(&api, json!({"stock": stock, "buyer_limit": 2, "hold_seconds_max": 700})).await;
    let free = Sale::of(&api, 9).await;
    let lines = |units| vec![line(&free, "a", 1), line(&limited, "a", units)];
    let needed = place(&api, &new_key(), &order(&lines(1))).await.expect(422, "buyer_required");
    assert_eq!(needed.body["errors"][0]["field"], "/lines/1");
    let of = |units: u64, hold: u64| json!({"buyer": "jane", "hold_seconds": hold, "lines": lines(units)});
    place(&api, &new_key(), &of(1, 701)).await.expect(422, "hold_too_long");
    let refused = place(&api, &new_key(), &of(3, 60)).await.expect(409, "buyer_limit");
    assert_eq!((&refused.body["line"], &refused.body["limit"]), (&json!(1), &json!(2)));
    place(&api, &new_key(), &of(2, 60)).await.expect(201, "");
    place(&api, &new_key(), &of(1, 60)).await.expect(409, "buyer_limit");
    assert_eq!((free.level("a").await, limited.level("a").await), (Level(8, 1, 0), Level(7, 2, 0)));
}
