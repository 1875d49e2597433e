//! Why a reserve is refused, in which order, and what `replaces` meets.

use crate::service::{InProcess, Level, Sale, lines, new_key, shared_api};
use serde_json::{Value, json};

fn cart(of: &[(&str, u64)], more: Value) -> Value {
    let mut cart = lines(of);
    cart.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    cart
}

#[tokio::test]
async fn the_first_reason_wins() {
    let api = shared_api();
    let rules = json!({
        "hold_seconds_max": 1000, "buyer_limit": 5, "buyer_holds_max": 1,
        "stock": {"a": {"initial": 10}, "b": {"initial": 4}}
    });
    let sale = Sale::put(&api, rules.clone()).await;
    let jane = |of: &[(&str, u64)]| cart(of, json!({"buyer": "jane"}));
    let key = new_key();
    let hold = sale.reserve(&key, jane(&[("a", 1)])).await.expect(201, "").id();
    sale.post("/close", Value::Null).await.expect(200, "");

    // A repeat, or another body, comes before all else, as here the closed sale.
    sale.reserve(&key, jane(&[("a", 1)])).await.expect(200, "");
    sale.reserve(&key, jane(&[("a", 2)])).await.expect(422, "idempotency_key_reused");
    // Each one of these is wrong in every way that is tried below.
    let wrong = |more: Value| {
        let mut all = json!({"hold_seconds": 2000, "replaces": "00000000-0000-8000-8000-000000000000"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cart(&[("nothing", 1), ("b", 99)], all)
    };
    let nowhere = Sale { api: api.clone(), name: format!("{}x", sale.name) };
    nowhere.reserve(&new_key(), wrong(json!({}))).await.expect(404, "unknown_sale");
    sale.reserve(&new_key(), wrong(json!({}))).await.expect(409, "sale_closed");
    sale.post("/resume", Value::Null).await.expect(200, "");
    sale.post("/pause", Value::Null).await.expect(200, "");
    sale.reserve(&new_key(), wrong(json!({}))).await.expect(409, "sale_paused");
    sale.post("/resume", Value::Null).await.expect(200, "");

    let too_long = sale.reserve(&new_key(), wrong(json!({}))).await.expect(422, "hold_too_long");
    assert_eq!(too_long.body["errors"][0]["field"], "/hold_seconds");
    let short = wrong(json!({"hold_seconds": null}));
    sale.reserve(&new_key(), short).await.expect(404, "unknown_reservation");
    let unknown = wrong(json!({"hold_seconds": null, "replaces": null}));
    let unknown = sale.reserve(&new_key(), unknown).await.expect(404, "unknown_sku");
    assert_eq!(unknown.body["sku"], "nothing");
    let nobody = sale.reserve(&new_key(), lines(&[("b", 99)])).await.expect(422, "buyer_required");
    assert_eq!(nobody.body["errors"][0]["field"], "/buyer");
    let holds = sale.reserve(&new_key(), jane(&[("b", 99)])).await.expect(409, "buyer_holds");
    assert_eq!((&holds.body["limit"], &holds.body["held"]), (&json!(1), &json!(1)));
    sale.settle(&hold, "confirm", Value::Null).await.expect(200, "");
    let limit = sale.reserve(&new_key(), jane(&[("b", 99)])).await.expect(409, "buyer_limit");
    assert_eq!(
        (&limit.body["limit"], &limit.body["counted"], &limit.body["sku"]),
        (&json!(5), &json!(1), &json!(null))
    );
    sale.reserve(&new_key(), cart(&[("b", 1)], json!({"buyer": "joe"}))).await.expect(201, "");
    let sold_out = sale.reserve(&new_key(), jane(&[("b", 4)])).await.expect(409, "sold_out");
    let shortfalls = json!([{"sku": "b", "requested": 4, "available": 3, "held": 1}]);
    assert_eq!((&sold_out.body["shortfalls"], &sold_out.body["may_return"]), (&shortfalls, &json!(true)));
    assert!(sold_out.body["retry_at"].is_string());
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(9, 0, 1), Level(3, 1, 0)));
}

#[tokio::test]
async fn a_refusal_is_not_stored() {
    let sale = Sale::of(&shared_api(), 1).await;
    let key = new_key();
    sale.reserve(&key, lines(&[("a", 2)])).await.expect(409, "sold_out");
    sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "delivery"})).await.expect(201, "");
    let held = sale.reserve(&key, lines(&[("a", 2)])).await.expect(201, "");
    assert_eq!(held.header("location"), sale.at(&format!("/reservations/{}", held.id())));
    sale.take(1).await.expect(409, "sold_out");
    assert_eq!(sale.reserve(&key, lines(&[("a", 2)])).await.expect(200, "").id(), held.id());
}

#[tokio::test]
async fn the_window_opens_and_closes_by_the_stores_clock() {
    let service = InProcess::start();
    let at =
        service.api.put("/v1/sales/clock", &json!({"stock": {"a": {"initial": 9}}})).await.expect(201, "");
    assert_eq!(at.body["status"], "open");
    let clock = Sale { api: service.api.clone(), name: "clock".into() };
    let now = clock.take(1).await.expect(201, "").body["server_time"].as_str().unwrap().to_owned();
    let later = |seconds: i64| {
        let now: jiff::Timestamp = now.parse().unwrap();
        format!("{:.3}", now + jiff::SignedDuration::from_secs(seconds))
    };
    let (opens_at, closes_at) = (later(1000), later(2000));
    let sale = Sale::put(
        &service.api,
        json!({"opens_at": opens_at, "closes_at": closes_at, "stock": {"a": {"initial": 9}}}),
    )
    .await;
    let key = new_key();
    let early = sale.reserve(&key, lines(&[("a", 1)])).await.expect(409, "sale_not_open");
    assert_eq!(early.body["opens_at"], opens_at);
    assert_eq!(sale.get("").await.body["status"], "scheduled");
    service.advance_seconds(1000);
    assert_eq!(sale.get("").await.body["status"], "open");
    let id = sale.reserve(&key, lines(&[("a", 1)])).await.expect(201, "").id();
    sale.settle(&id, "extend", json!({"hold_seconds": 3000})).await.expect(200, "");
    service.advance_seconds(1000);
    assert_eq!(sale.get("").await.body["status"], "closed");
    sale.take(1).await.expect(409, "sale_closed");
    sale.settle(&id, "confirm", Value::Null).await.expect(200, "");
}

#[tokio::test]
async fn a_cart_is_changed_in_one_step_or_not_at_all() {
    let service = InProcess::start();
    let rules =
        json!({"buyer_limit": 5, "buyer_holds_max": 1, "stock": {"a": {"initial": 5}, "b": {"initial": 5}}});
    let sale = Sale::put(&service.api, rules).await;
    let jane = |of: &[(&str, u64)], old: &str| cart(of, json!({"buyer": "jane", "replaces": old}));
    let first = sale.reserve(&new_key(), cart(&[("a", 4)], json!({"buyer": "jane"}))).await.expect(201, "");
    let old = first.id();

    // Limits and stock count after the old lines are back; a refusal leaves all as it was.
    service.advance_seconds(60);
    sale.reserve(&new_key(), jane(&[("a", 6)], &old)).await.expect(409, "buyer_limit");
    sale.reserve(&new_key(), jane(&[("c", 1)], &old)).await.expect(404, "unknown_sku");
    assert_eq!(sale.reservation(&old).await["status"], "held");
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(1, 4, 0), Level(5, 0, 0)));
    let key = new_key();
    let new = sale.reserve(&key, jane(&[("a", 2), ("b", 3)], &old)).await.expect(201, "");
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(3, 2, 0), Level(2, 3, 0)));
    for field in ["expires_at", "extendable_until"] {
        assert_eq!(new.body[field], first.body[field], "{field} is the first hold's");
    }
    assert_eq!(new.body["replaces"], old);
    let ended = sale.reservation(&old).await;
    assert_eq!((&ended["status"], &ended["replaced_by"]), (&json!("released"), &json!(new.id())));

    // A repeat is a replay; another cart meets a hold that has ended.
    sale.reserve(&key, jane(&[("a", 2), ("b", 3)], &old)).await.expect(200, "");
    let late = sale.reserve(&new_key(), jane(&[("a", 1)], &old)).await.expect(409, "already_released");
    assert_eq!(late.body["reservation"]["replaced_by"], new.id());
    let joes = cart(&[("a", 1)], json!({"buyer": "joe", "replaces": new.id()}));
    sale.reserve(&new_key(), joes).await.expect(404, "unknown_reservation");

    // An overdue one is as good as none: a plain reserve, with a time of its own.
    service.advance_seconds(600);
    let plain = sale.reserve(&new_key(), jane(&[("a", 5)], &new.id())).await.expect(201, "");
    assert_ne!(plain.body["extendable_until"], first.body["extendable_until"]);
    assert_eq!(sale.level("a").await, Level(0, 5, 0));
    sale.settle(&plain.id(), "confirm", Value::Null).await.expect(200, "");
    sale.reserve(&new_key(), jane(&[("b", 1)], &plain.id())).await.expect(409, "already_confirmed");
    sale.settle(&plain.id(), "return", Value::Null).await.expect(200, "");
    sale.reserve(&new_key(), jane(&[("b", 1)], &plain.id())).await.expect(409, "already_returned");
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(5, 0, 0), Level(5, 0, 0)));
}

#[tokio::test]
async fn lines_of_one_sku_are_one_line() {
    let sale = Sale::of(&shared_api(), 3).await;
    let twice = lines(&[("a", 2), ("a", 2)]);
    let short = sale.reserve(&new_key(), twice).await.expect(409, "sold_out");
    assert_eq!(short.body["shortfalls"][0]["requested"], 4);
    let key = new_key();
    let held = sale.reserve(&key, lines(&[("a", 1), ("a", 2)])).await.expect(201, "");
    assert_eq!(held.body["lines"][0]["quantity"], 3);
    // Summed and sorted, it is the same body.
    assert_eq!(sale.reserve(&key, lines(&[("a", 3)])).await.expect(200, "").id(), held.id());
}
