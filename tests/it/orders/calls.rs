//! What each call answers in each state.

use super::*;
use crate::sandbox::eventually;
use crate::service::{InProcess, Level, shared_api};
use crate::support::sample;

#[tokio::test]
async fn an_order_over_two_sales_is_held_and_confirmed() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 5).await;
    let body = json!({
        "buyer": "jane", "reference": "cart 7", "metadata": {"from": "web"}, "hold_seconds": 60,
        "lines": [line(&two, "a", 2), line(&one, "a", 1), line(&two, "a", 1)],
    });
    let answer = place(&api, &one.name, &body).await.expect(201, "");
    assert_eq!(answer.outcome(), "held");
    let (id, order) = (answer.id(), &answer.body);
    assert_eq!(answer.header("location"), format!("/v1/orders/{id}"));
    assert_eq!((&order["status"], &order["buyer"]), (&json!("held"), &json!("jane")));
    assert_eq!((&order["reference"], &order["metadata"]["from"]), (&json!("cart 7"), &json!("web")));
    assert_eq!((one.level("a").await, two.level("a").await), (Level(4, 1, 0), Level(2, 3, 0)));
    // One part a sale, which moves with the order alone.
    let lines = order["lines"].as_array().unwrap();
    let part = |n: usize| lines[n]["reservation"].as_str().unwrap().to_owned();
    assert_eq!((part(0), lines[0]["asked_sku"].as_str()), (part(2), Some("a")));
    let reservation = two.reservation(&part(0)).await;
    assert_eq!((&reservation["order"], &reservation["lines"][0]["quantity"]), (&json!(id), &json!(3)));
    for verb in ["confirm", "release"] {
        two.settle(&part(0), verb, Value::Null).await.expect(409, "part_of_order");
    }
    two.settle(&part(0), "extend", json!({"hold_seconds": 60})).await.expect(409, "part_of_order");

    let repeat = place(&api, &one.name, &body).await.expect(200, "");
    assert_eq!((repeat.outcome(), repeat.id()), ("replayed", id.clone()));
    let confirmed = verb(&api, &id, "confirm", Value::Null).await.expect(200, "");
    assert_eq!((confirmed.outcome(), &confirmed.body["status"]), ("confirmed", &json!("confirmed")));
    assert!(confirmed.body["expires_at"].is_null() && confirmed.body["ended_at"].is_string());
    assert_eq!((one.level("a").await, two.level("a").await), (Level(4, 0, 1), Level(2, 0, 3)));
    assert_eq!(verb(&api, &id, "confirm", Value::Null).await.expect(200, "").outcome(), "replayed");
    let refused = verb(&api, &id, "release", Value::Null).await.expect(409, "already_confirmed");
    assert_eq!(refused.body["order"]["status"], "confirmed");
    assert_eq!(place(&api, &one.name, &body).await.expect(200, "").body["status"], "confirmed");
    assert_eq!(read(&api, &id).await["status"], "confirmed");
    // What was sold may be given back, part by part.
    two.settle(&part(0), "return", Value::Null).await.expect(200, "");
    assert_eq!(two.level("a").await, Level(5, 0, 0));
    assert_eq!(verb(&api, &id, "confirm", Value::Null).await.expect(200, "").outcome(), "replayed");
}

#[tokio::test]
async fn a_released_order_gives_everything_back() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 5).await;
    let body = order(&[line(&one, "a", 2), line(&two, "a", 3)]);
    let id = place(&api, &one.name, &body).await.expect(201, "").id();
    let released = verb(&api, &id, "release", Value::Null).await.expect(200, "");
    assert_eq!((released.outcome(), &released.body["status"]), ("released", &json!("released")));
    assert_eq!((one.level("a").await, two.level("a").await), (Level(5, 0, 0), Level(5, 0, 0)));
    assert_eq!(verb(&api, &id, "release", Value::Null).await.expect(200, "").outcome(), "replayed");
    let refused = verb(&api, &id, "confirm", Value::Null).await.expect(409, "already_released");
    assert_eq!(refused.body["order"]["id"], json!(id));
    verb(&api, &id, "confirm", json!({"if_expired": "retake"})).await.expect(409, "already_released");
    place(&api, &one.name, &body).await.expect(409, "already_released");
}

#[tokio::test]
async fn what_one_sale_refuses_no_sale_holds_and_the_refusal_names_the_line() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 5).await;
    let body = order(&[line(&one, "a", 2), line(&one, "a", 1), line(&two, "a", 6)]);
    let refused = place(&api, &one.name, &body).await.expect(409, "sold_out");
    assert_eq!((&refused.body["line"], &refused.body["sale"]), (&json!(2), &json!(two.name)));
    assert_eq!(refused.body["shortfalls"][0]["requested"], 6);
    assert_eq!((one.level("a").await, two.level("a").await), (Level(5, 0, 0), Level(5, 0, 0)));
    // It is not stored: the same key may be used again, also with another body.
    place(&api, &one.name, &order(&[line(&one, "a", 1), line(&two, "a", 5)])).await.expect(201, "");
    place(&api, &one.name, &body).await.expect(422, "idempotency_key_reused");

    let unknown = place(&api, &new_key(), &order(&[line(&one, "a", 1), line(&one, "zzz", 1)])).await;
    let unknown = unknown.expect(404, "unknown_sku");
    assert_eq!((&unknown.body["line"], &unknown.body["sku"]), (&json!(1), &json!("zzz")));
    two.post("/pause", Value::Null).await.expect(200, "");
    let paused = place(&api, &new_key(), &order(&[line(&one, "a", 1), line(&two, "a", 1)])).await;
    assert_eq!(paused.expect(409, "sale_paused").body["line"], 1);
    let nowhere = json!({"sale": "nowhere", "sku": "a", "quantity": 1});
    let nowhere =
        place(&api, &new_key(), &order(&[line(&one, "a", 1), nowhere])).await.expect(404, "unknown_sale");
    assert_eq!((&nowhere.body["line"], &nowhere.body["sale"]), (&json!(1), &json!("nowhere")));
    assert_eq!(one.level("a").await, Level(4, 1, 0));
}

#[tokio::test]
async fn the_smallest_default_of_its_sales_is_an_orders_time() {
    let service = InProcess::start();
    let api = &service.api;
    let stock = json!({"a": {"initial": 5}});
    let brief = Sale::put(api, json!({"stock": stock, "hold_seconds": 30})).await;
    let long = Sale::put(api, json!({"stock": stock, "hold_seconds": 900})).await;
    let id = held(api, &[line(&long, "a", 1), line(&brief, "a", 2)]).await;
    let order = read(api, &id).await;
    let part = order["lines"][1]["reservation"].as_str().unwrap();
    assert_eq!(order["expires_at"], brief.reservation(part).await["expires_at"]);
    service.advance_seconds(31);
    // Whoever looks sees it at once; what is held comes back when somebody calls, or by the sweeper.
    assert_eq!(read(api, &id).await["status"], "expired");
    let refused = verb(api, &id, "confirm", Value::Null).await.expect(410, "hold_expired");
    assert_eq!(refused.body["order"]["status"], "expired");
    assert_eq!((long.level("a").await, brief.level("a").await), (Level(5, 0, 0), Level(5, 0, 0)));
    let late = verb(api, &id, "release", Value::Null).await.expect(200, "");
    assert_eq!((late.outcome(), &late.body["status"]), ("expired", &json!("expired")));
}

#[tokio::test]
async fn what_has_expired_may_be_taken_again() {
    let service = InProcess::start();
    let api = &service.api;
    let [one, two] = two_sales(api, 5).await;
    let id = held(api, &[line(&one, "a", 2), line(&two, "a", 3)]).await;
    let before = read(api, &id).await;
    service.advance_seconds(601);
    // Neither the window nor the sweeper matters now: the money is there.
    two.post("/close", Value::Null).await.expect(200, "");
    let retake = json!({"if_expired": "retake"});
    let confirmed = verb(api, &id, "confirm", retake.clone()).await.expect(200, "");
    assert_eq!(confirmed.body["status"], "confirmed");
    assert_eq!((one.level("a").await, two.level("a").await), (Level(3, 0, 2), Level(2, 0, 3)));
    // By fresh parts: the old ones stay expired.
    for (n, sale) in [(0, &one), (1, &two)] {
        let part = |order: &Value| order["lines"][n]["reservation"].as_str().unwrap().to_owned();
        assert_eq!(sale.reservation(&part(&before)).await["status"], "expired");
        assert_eq!(sale.reservation(&part(&confirmed.body)).await["status"], "confirmed");
    }

    let id = held(api, &[line(&one, "a", 3)]).await;
    service.advance_seconds(601);
    assert_eq!(one.hold(3).await.len(), 36);
    let refused = verb(api, &id, "confirm", retake.clone()).await.expect(409, "sold_out");
    assert_eq!((&refused.body["line"], &refused.body["sale"]), (&json!(0), &json!(one.name)));
    assert_eq!(read(api, &id).await["status"], "expired");
    // Later they are back, and the order can still be had.
    service.advance_seconds(601);
    verb(api, &id, "confirm", retake).await.expect(200, "");
    assert_eq!(one.level("a").await, Level(0, 0, 5));
}

/// One part's deadline is over, the other's is not, and both come back or both are sold.
#[tokio::test]
async fn an_overdue_part_takes_the_others_with_it() {
    let service = InProcess::start();
    let api = &service.api;
    let stock = json!({"a": {"initial": 5}});
    let brief = Sale::put(api, json!({"stock": stock, "hold_seconds": 30})).await;
    let long = Sale::put(api, json!({"stock": stock, "hold_seconds": 900})).await;
    let lines = [line(&long, "a", 1), line(&brief, "a", 2)];
    let (first, second) = (held(api, &lines).await, held(api, &lines).await);
    service.advance_seconds(31);
    verb(api, &first, "confirm", Value::Null).await.expect(410, "hold_expired");
    let retaken = verb(api, &second, "confirm", json!({"if_expired": "retake"})).await.expect(200, "");
    assert_eq!(retaken.body["status"], "confirmed");
    assert_eq!((long.level("a").await, brief.level("a").await), (Level(4, 0, 1), Level(3, 0, 2)));
}

#[tokio::test]
async fn the_sweeper_ends_orders_and_forgets_them() {
    let service = InProcess::start();
    let api = &service.api;
    let [one, two] = two_sales(api, 5).await;
    let lines = [line(&one, "a", 1), line(&two, "a", 1)];
    let (sold, left) = (held(api, &lines).await, held(api, &lines).await);
    verb(api, &sold, "confirm", Value::Null).await.expect(200, "");
    let status = async |id: &str| api.get(&format!("/v1/orders/{id}")).await.status;
    service.advance_seconds(601);
    eventually("it is given back", async || one.level("a").await == Level(4, 0, 1)).await;
    eventually("it is given back", async || two.level("a").await == Level(4, 0, 1)).await;
    // Readers see that it is over before anybody has ended it; only then it is kept for a day more.
    let ended = "stockade_orders_total{outcome=\"recovered\"}";
    eventually("it has ended", async || sample(&service.shared, ended) == Some(1.0)).await;
    assert!(read(api, &left).await["ended_at"].is_string());
    service.advance_seconds(86_500);
    eventually("it is forgotten", async || status(&left).await == 404).await;
    assert_eq!(read(api, &sold).await["status"], "confirmed");
    service.advance_seconds(30 * 86_400);
    eventually("it is forgotten", async || status(&sold).await == 404).await;
    let keys: Vec<String> = service.dump().await.into_iter().map(|(key, _)| key).collect();
    assert!(
        !keys.iter().any(|key| key.contains("}:o:") || key.ends_with("}:done") && key.contains("{o:")),
        "{keys:?}"
    );
}
