//! Confirm, extend and return in their details.

use crate::service::{InProcess, Level, Sale, lines, new_key, shared_api};
use serde_json::{Value, json};

async fn two_skus() -> (Sale, String) {
    let sale = Sale::put(&shared_api(), json!({"stock": {"a": {"initial": 10}, "b": {"initial": 10}}})).await;
    let id = sale.reserve(&new_key(), lines(&[("a", 3), ("b", 2)])).await.expect(201, "").id();
    (sale, id)
}

fn some(of: &[(&str, u64)]) -> Value {
    lines(of)
}

#[tokio::test]
async fn a_partial_confirm_gives_the_rest_back_and_is_given_once() {
    let (sale, id) = two_skus().await;
    sale.settle(&id, "confirm", json!({"lines": []})).await.names("/lines");
    let more = sale.settle(&id, "confirm", some(&[("a", 4)])).await;
    more.expect(422, "quantity_exceeds_reservation");
    let other_sku = sale.settle(&id, "confirm", some(&[("c", 1)])).await;
    other_sku.expect(422, "quantity_exceeds_reservation");
    assert_eq!(sale.level("a").await, Level(7, 3, 0));

    // Two lines of one SKU are one.
    let partly = some(&[("a", 1), ("a", 1)]);
    let answer = sale.settle(&id, "confirm", partly.clone()).await.expect(200, "");
    let confirmed: Vec<_> =
        answer.body["lines"].as_array().unwrap().iter().map(|line| &line["confirmed"]).collect();
    assert_eq!(confirmed, [&json!(2), &json!(0)]);
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(8, 0, 2), Level(10, 0, 0)));

    for same in [partly, some(&[("a", 2)]), Value::Null, json!({})] {
        let again = sale.settle(&id, "confirm", same).await.expect(200, "");
        assert_eq!(again.outcome(), "replayed");
        assert_eq!(again.body["lines"], answer.body["lines"]);
    }
    for other in [some(&[("a", 1)]), some(&[("a", 2), ("b", 1)])] {
        sale.settle(&id, "confirm", other).await.expect(409, "already_confirmed");
    }
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(8, 0, 2), Level(10, 0, 0)));
}

#[tokio::test]
async fn a_confirm_may_name_the_order() {
    let (sale, id) = two_skus().await;
    let answer = sale.settle(&id, "confirm", json!({"reference": "order 7"})).await.expect(200, "");
    assert_eq!(answer.body["reference"], "order 7");
    assert_eq!(sale.reservation(&id).await["reference"], "order 7");
}

#[tokio::test]
async fn units_come_back_line_by_line_each_once_a_key() {
    let (sale, id) = two_skus().await;
    sale.settle(&id, "confirm", Value::Null).await.expect(200, "");
    let one = some(&[("a", 1)]);
    sale.settle(&id, "return", one.clone()).await.expect(400, "idempotency_key_required");
    let path = sale.at(&format!("/reservations/{id}/return"));
    let with_key = |key: &'static str, body: Value| sale.api.call("POST", &path).key(key).json(&body).send();

    let first = with_key("r1", one.clone()).await.expect(200, "");
    assert_eq!((first.outcome(), &first.body["status"]), ("returned", &json!("confirmed")));
    let again = with_key("\"r1\"", one.clone()).await.expect(200, "");
    assert_eq!((again.outcome(), &again.body["lines"]), ("replayed", &first.body["lines"]));
    with_key("r1", some(&[("a", 2)])).await.expect(422, "idempotency_key_reused");
    assert_eq!(sale.level("a").await, Level(8, 0, 2));

    with_key("r2", some(&[("a", 3)])).await.expect(422, "quantity_exceeds_reservation");
    with_key("r3", some(&[("c", 1)])).await.expect(422, "quantity_exceeds_reservation");
    // Broken ones leave the supply.
    with_key("r4", json!({"lines": [{"sku": "b", "quantity": 1}], "restock": false})).await.expect(200, "");
    assert_eq!(sale.level("b").await, Level(8, 0, 1));
    let ledger = sale.all("/stock/b/adjustments", 1).await;
    let last = ledger.last().unwrap();
    assert_eq!((&last["delta"], &last["reason"], ledger.len()), (&json!(-1), &json!("damaged"), 2));

    let rest = sale.settle(&id, "return", Value::Null).await.expect(200, "");
    assert_eq!(rest.body["status"], "returned");
    assert_eq!(sale.settle(&id, "return", json!({})).await.expect(200, "").outcome(), "replayed");
    // The late repeat of an early part is still that part's answer.
    let late = with_key("r1", one.clone()).await.expect(200, "");
    assert_eq!((late.outcome(), &late.body["lines"]), ("replayed", &first.body["lines"]));
    with_key("r5", one).await.expect(422, "quantity_exceeds_reservation");
    assert_eq!((sale.level("a").await, sale.level("b").await), (Level(10, 0, 0), Level(9, 0, 0)));
}

#[tokio::test]
async fn a_deadline_moves_only_forward_and_never_beyond_its_limit() {
    let service = InProcess::start();
    let rules = json!({"hold_seconds": 100, "hold_seconds_max": 300, "stock": {"a": {"initial": 5}}});
    let sale = Sale::put(&service.api, rules).await;
    let held = sale.take(1).await.expect(201, "");
    let (id, deadline) = (held.id(), held.body["expires_at"].clone());
    let path = sale.at(&format!("/reservations/{id}/extend"));
    let extend = |key: &'static str, seconds: u64| {
        sale.api.call("POST", &path).key(key).json(&json!({"hold_seconds": seconds})).send()
    };
    assert_eq!(extend("e1", 50).await.expect(200, "").body["expires_at"], deadline, "earlier than it is");
    let longer = extend("e2", 200).await.expect(200, "");
    assert!(longer.body["expires_at"].as_str() > deadline.as_str());

    // The repeat of the last one is the same, also at the limit, where another try is too long.
    service.advance_seconds(150);
    let again = extend("e2", 200).await.expect(200, "");
    assert_eq!((again.outcome(), &again.body["expires_at"]), ("replayed", &longer.body["expires_at"]));
    let too_long = extend("e3", 200).await.expect(422, "hold_too_long");
    assert_eq!(too_long.body["extendable_until"], held.body["extendable_until"]);
    assert_eq!(too_long.body["errors"][0]["field"], "/hold_seconds");
    assert_eq!(sale.reservation(&id).await["expires_at"], longer.body["expires_at"], "nothing is clipped");
    sale.post("/pause", Value::Null).await.expect(200, "");
    extend("e4", 120).await.expect(200, "");
}

#[tokio::test]
async fn nothing_is_known_of_an_id_that_nobody_made() {
    let (sale, id) = two_skus().await;
    let other = Sale::of(&sale.api, 1).await;
    let nobody = "00000000-0000-8000-8000-000000000000";
    for (sale, id) in
        [(&sale, nobody), (&other, id.as_str()), (&sale, "7"), (&sale, "x%0d%0ay"), (&sale, "%00")]
    {
        sale.get(&format!("/reservations/{id}")).await.expect(404, "unknown_reservation");
        for (verb, body) in [
            ("confirm", json!({})),
            ("release", json!({})),
            ("extend", json!({"hold_seconds": 1})),
            ("return", json!({})),
        ] {
            sale.settle(id, verb, body).await.expect(404, "unknown_reservation");
        }
    }
    assert_eq!((sale.level("a").await, other.level("a").await), (Level(7, 3, 0), Level(1, 0, 0)));
}

#[tokio::test]
async fn fifty_at_once_have_one_effect() {
    let (sale, id) = two_skus().await;
    let cart = lines(&[("a", 1)]);
    let key = new_key();
    let copies = (0..50).map(|_| sale.reserve(&key, cart.clone()));
    let answers = futures_util::future::join_all(copies).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert!(answers.iter().all(|answer| answer.status < 300 && answer.id() == answers[0].id()));
    assert_eq!(sale.level("a").await, Level(6, 4, 0));

    let releases = (0..50).map(|_| sale.settle(&id, "release", Value::Null));
    let answers = futures_util::future::join_all(releases).await;
    assert_eq!(answers.iter().filter(|answer| answer.outcome() == "released").count(), 1);
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(sale.level("a").await, Level(9, 1, 0));
}
