//! Parts of orders, as callers of their own see them: to be read, and to be left alone.

use crate::service::{InProcess, Level, Sale, lines};
use crate::shop::cart;
use serde_json::{Value, json};
use stockade::domain::{OrderId, ReservationId, SaleId};
use stockade::store::Store;
use uuid::Uuid;

#[tokio::test]
async fn a_part_is_shown_and_moves_with_its_order_alone() {
    let service = InProcess::start();
    let sale = Sale::put(&service.api, json!({"stock": {"red": {"initial": 5}}})).await;
    let store = Store::open(&service.shared).unwrap();
    let name: SaleId = sale.name.parse().unwrap();
    let (part, order) = (ReservationId(Uuid::new_v4()), OrderId(Uuid::new_v4()));
    store.reserve_part(&name, part, order, cart("red=2")).await.unwrap();
    let id = part.to_string();
    let seen = sale.reservation(&id).await;
    assert_eq!((&seen["order"], &seen["status"]), (&json!(order.to_string()), &json!("held")));
    assert!(seen["expires_at"].is_string());
    for is_pinned in [false, true] {
        if is_pinned {
            store.pin_part(&name, part, order).await.unwrap();
            service.advance_seconds(365 * 86_400);
            let seen = sale.reservation(&id).await;
            assert_eq!((&seen["status"], &seen["expires_at"]), (&json!("held"), &Value::Null));
            let listed = sale.all("/reservations", 1).await;
            assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(id)));
        }
        let replacing = json!({"lines": lines(&[("red", 1)])["lines"], "replaces": id});
        for refused in [
            sale.settle(&id, "confirm", Value::Null).await,
            sale.settle(&id, "confirm", json!({"if_expired": "retake"})).await,
            sale.settle(&id, "release", Value::Null).await,
            sale.settle(&id, "extend", json!({"hold_seconds": 60})).await,
            sale.reserve("new", replacing).await,
        ] {
            let refused = refused.expect(409, "part_of_order");
            assert_eq!(refused.body["reservation"]["order"], order.to_string());
        }
        sale.settle(&id, "return", Value::Null).await.expect(409, "not_confirmed");
    }
    assert_eq!(sale.level("red").await, Level(3, 2, 0));
    sale.api.call("DELETE", &sale.at("")).send().await.expect(409, "sale_not_empty");
    store.confirm_part(&name, part, order).await.unwrap();
    // What was sold may be given back by whoever has sold it.
    sale.settle(&id, "return", Value::Null).await.expect(200, "");
    assert_eq!(sale.level("red").await, Level(5, 0, 0));
    let events = sale.all("/events", 100).await;
    let of_part: Vec<(&str, &Value, &Value)> = events
        .iter()
        .filter(|event| event["subject"] == id.as_str())
        .map(|event| (event["type"].as_str().unwrap(), &event["data"]["order"], &event["data"]["expires_at"]))
        .collect();
    let words = ["held", "confirmed", "returned"].map(|word| format!("dev.stockade.reservation.{word}"));
    assert_eq!(of_part.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), words);
    assert!(of_part.iter().all(|(_, of, _)| **of == json!(order.to_string())));
    assert!(of_part[1..].iter().all(|(.., expires_at)| expires_at.is_null()));
}
