//! The feed of a sale's events.

use crate::service::{InProcess, Sale, shared_api};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn kinds(events: &[Value]) -> Vec<String> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.map(|kind| kind.trim_start_matches("dev.stockade.").to_owned()).collect()
}

#[tokio::test]
async fn a_feed_tells_each_transition_once_and_in_order() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 2).await;
    let sold = sale.hold(1).await;
    let late = sale.hold(1).await;
    sale.settle(&sold, "extend", json!({"hold_seconds": 700})).await.ok();
    sale.settle(&sold, "confirm", json!({})).await.ok();
    for _ in 0..3 {
        sale.settle(&sold, "confirm", json!({})).await.ok();
    }
    service.advance_seconds(600);
    sale.settle(&late, "release", Value::Null).await.ok();
    sale.settle(&late, "confirm", json!({"if_expired": "retake"})).await.ok();
    sale.settle(&sold, "return", Value::Null).await.ok();
    sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "r"})).await.ok();
    for switch in ["pause", "resume", "close"] {
        sale.post(&format!("/{switch}"), Value::Null).await.ok();
    }
    let events = sale.all("/events", 100).await;
    let expected = [
        "sale.created",
        "stock.adjusted",
        "reservation.held",
        "reservation.held",
        "stock.sold_out",
        "reservation.extended",
        "reservation.confirmed",
        "reservation.expired",
        "stock.back_in_stock",
        "reservation.retaken",
        "stock.sold_out",
        "reservation.returned",
        "stock.back_in_stock",
        "stock.adjusted",
        "sale.paused",
        "sale.resumed",
        "sale.closed",
    ];
    assert_eq!(kinds(&events), expected);
    for limit in [1, 2, 5, 17, 18] {
        assert_eq!(sale.all("/events", limit).await, events, "{limit} a page");
    }
    let ids: BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len());
    for event in &events {
        assert_eq!((&event["specversion"], &event["source"]), (&json!("1.0"), &json!(sale.at(""))));
        assert_eq!(event["datacontenttype"], "application/json");
    }
    let confirmed = &events[6];
    assert_eq!((&confirmed["subject"], &confirmed["data"]["id"]), (&json!(sold), &json!(sold)));
    assert_eq!(
        (&confirmed["data"]["status"], &confirmed["data"]["previous_status"]),
        (&json!("confirmed"), &json!("held"))
    );
    assert_eq!(events[2]["data"]["previous_status"], Value::Null);
    assert_eq!(events[14]["data"]["status"], "paused");
}

#[tokio::test]
async fn latest_waits_at_the_end() {
    let sale = Sale::of(&shared_api(), 5).await;
    sale.hold(1).await;
    let end = sale.get("/events?after=latest").await.expect(200, "").body;
    assert_eq!(end["items"], json!([]));
    let next = end["next"].as_str().unwrap().to_owned();
    let idle = sale.get(&format!("/events?after={next}")).await.expect(200, "").body;
    assert_eq!(idle, json!({"items": [], "next": next}));
    let id = sale.hold(1).await;
    let news = sale.get(&format!("/events?after={next}")).await.expect(200, "").body;
    assert_eq!((&news["items"][0]["subject"], news["items"].as_array().unwrap().len()), (&json!(id), 1));
    assert_eq!(news["next"], news["items"][0]["cursor"]);
}

#[tokio::test]
async fn a_cursor_that_is_no_longer_kept_is_refused() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let first = sale.get("/events?limit=1").await.expect(200, "").body["next"].as_str().unwrap().to_owned();
    sale.hold(1).await;
    sale.hold(1).await;
    let mut redis = service.redis.connection().await;
    let key = format!("st:{{{}}}:events", sale.name);
    let () = redis::cmd("XTRIM").arg(&key).arg(&["MAXLEN", "=", "1"]).query_async(&mut redis).await.unwrap();
    let gone = sale.get(&format!("/events?after={first}")).await.expect(410, "cursor_expired");
    // By somebody else's hand: nobody wrote down what went.
    assert_eq!(gone.body["oldest"], Value::Null);
    let oldest = sale.get("/events").await.expect(200, "").body["items"][0]["cursor"].clone();

    // Of another incarnation, or of a place where no event can be.
    let (_, rest) = first.split_once('-').unwrap();
    sale.get(&format!("/events?after=0000000000000000-{rest}")).await.expect(410, "cursor_expired");
    let future = oldest.as_str().unwrap().replacen("-1", "-9", 1);
    sale.get(&format!("/events?after={future}")).await.expect(410, "cursor_expired");
    let nowhere = Sale { name: format!("{}x", sale.name), ..sale };
    nowhere.get("/events").await.expect(404, "unknown_sale");
}
