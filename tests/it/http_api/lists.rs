//! Lists come in pages: nothing is left out and nothing comes twice.

use crate::service::{InProcess, Sale, lines, new_key, shared_api};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MANY: usize = 250;

fn texts(items: &[Value], field: &str) -> Vec<String> {
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

fn distinct(items: &[Value], field: &str) -> BTreeSet<String> {
    texts(items, field).into_iter().collect()
}

#[tokio::test]
async fn many_reservations_are_listed_each_once() {
    let sale = Sale::of(&shared_api(), 1000).await;
    let keys: Vec<String> = (0..MANY).map(|_| new_key()).collect();
    let reserved = join_all(keys.iter().map(|key| sale.reserve(key, lines(&[("a", 1)])))).await;
    let ids: BTreeSet<String> = reserved.into_iter().map(|answer| answer.expect(201, "").id()).collect();
    assert_eq!(ids.len(), MANY);
    for limit in [1, 7, 100, 250, 500] {
        let listed = sale.all("/reservations", limit).await;
        assert_eq!((listed.len(), distinct(&listed, "id")), (MANY, ids.clone()), "{limit} a page");
        assert!(texts(&listed, "expires_at").is_sorted());
    }

    // While they end behind the reader's back, those that stay are still listed once each.
    let gone: Vec<&String> = ids.iter().step_by(2).collect();
    let mut seen = Vec::new();
    let mut after = String::new();
    for turn in 0.. {
        let page = sale.get(&format!("/reservations?limit=50{after}")).await.expect(200, "").body;
        seen.extend(page["items"].as_array().unwrap().clone());
        if turn == 1 {
            join_all(gone.iter().map(|id| sale.settle(id, "release", Value::Null))).await;
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let listed = distinct(&seen, "id");
    assert_eq!(listed.len(), seen.len(), "none twice");
    assert!(ids.iter().filter(|id| !gone.contains(id)).all(|id| listed.contains(id)), "none left out");

    let ended = sale.all("/reservations?status=ended", 40).await;
    assert_eq!(distinct(&ended, "id"), gone.into_iter().cloned().collect());
    assert!(ended.iter().all(|one| one["status"] == "released"));
    assert_eq!(sale.all("/reservations?status=held", 40).await.len(), MANY / 2);
}

#[tokio::test]
async fn a_reservation_is_found_by_its_key() {
    let sale = Sale::of(&shared_api(), 5).await;
    let key = "order 17; \"a/b\" 50%";
    let header = "\"order 17; \\\"a/b\\\" 50%\"";
    let id = sale.reserve(header, lines(&[("a", 1)])).await.expect(201, "").id();
    for text in ["order%2017%3B%20%22a%2Fb%22%2050%25", "%22order%2017%3B%20%5C%22a%2Fb%5C%22%2050%25%22"] {
        let found = sale.get(&format!("/reservations?idempotency_key={text}")).await;
        if text.starts_with("%22") {
            assert_eq!(found.expect(200, "").body["items"][0]["id"], id, "{key}");
        } else {
            // Bare, a semicolon begins parameters, as in the header.
            found.expect(400, "idempotency_key_invalid");
        }
    }
    let none = sale.get("/reservations?idempotency_key=nobody").await.expect(200, "");
    assert_eq!(none.body, json!({"items": [], "next": null}));
    let other = Sale::of(&sale.api, 1).await;
    let foreign =
        other.get("/reservations?idempotency_key=%22order%2017%3B%20%5C%22a%2Fb%5C%22%2050%25%22").await;
    assert_eq!(foreign.expect(200, "").body["items"], json!([]));
}

#[tokio::test]
async fn skus_and_ledgers_come_in_pages() {
    let stock: serde_json::Map<String, Value> =
        (0..MANY).map(|n| (format!("s{n:03}"), json!({"initial": n}))).collect();
    let sale = Sale::put(&shared_api(), json!({"stock": stock})).await;
    for limit in [1, 99, 250] {
        let levels = sale.all("/stock", limit).await;
        assert_eq!(levels.len(), MANY);
        assert!(texts(&levels, "sku").is_sorted());
        assert!(levels.iter().enumerate().all(|(n, level)| level["available"] == n));
    }
    let adjusts = (1..=MANY).map(|n| {
        let body = json!({"delta": n, "reason": format!("r{n}")});
        async { sale.post("/stock/s007/adjustments", body).await.expect(201, "") }
    });
    join_all(adjusts).await;
    for limit in [1, 99, 500] {
        let ledger = sale.all("/stock/s007/adjustments", limit).await;
        assert_eq!((ledger.len(), distinct(&ledger, "id").len()), (MANY + 1, MANY + 1));
        let sum: i64 = ledger.iter().map(|entry| entry["delta"].as_i64().unwrap()).sum();
        assert_eq!(sum, ledger.last().unwrap()["level"]["granted"].as_i64().unwrap());
    }
}

#[tokio::test]
async fn sales_come_in_pages() {
    let service = InProcess::start();
    for n in 0..7 {
        service.api.put(&format!("/v1/sales/s{n}"), &json!({})).await.expect(201, "");
    }
    for limit in [1, 3, 7, 8] {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = service.api.get(&format!("/v1/sales?limit={limit}{after}")).await.expect(200, "").body;
            names.extend(texts(page["items"].as_array().unwrap(), "sale"));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"]);
    }
}

#[tokio::test]
async fn a_page_is_asked_for_in_known_words() {
    let sale = Sale::of(&shared_api(), 5).await;
    sale.hold(1).await;
    let all = ["", "/stock", "/reservations", "/stock/a/adjustments", "/events"];
    for list in all {
        let path = if list.is_empty() { "/v1/sales".to_owned() } else { sale.at(list) };
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=-1", "limit"),
            ("limit=ten", "limit"),
            ("limit=1e2", "limit"),
            ("limit=1&limit=2", "limit"),
            ("offset=1", "offset"),
            ("page=%0d%0a", "page"),
        ] {
            sale.api.get(&format!("{path}?{query}")).await.names(field);
        }
    }
    sale.get("/reservations?status=open").await.names("status");
    sale.get("/reservations?status=held&idempotency_key=k").await.names("idempotency_key");
    sale.get("/reservations?idempotency_key=").await.expect(400, "idempotency_key_invalid");
}

#[tokio::test]
async fn what_is_no_cursor_is_refused() {
    let sale = Sale::of(&shared_api(), 5).await;
    sale.hold(1).await;
    for list in ["/reservations", "/reservations?status=ended", "/stock/a/adjustments", "/events"] {
        let sign = if list.contains('?') { '&' } else { '?' };
        for bad in [
            "x",
            "x-y",
            "-",
            "1-",
            "1e400-x",
            "%2B",
            "%00",
            "1-2-3-4-5",
            "0x7f-1",
            "nan-1",
            "(1-1",
            "%7Bx%7D",
        ] {
            sale.get(&format!("{list}{sign}after={bad}")).await.names("after");
        }
    }
    // A name is a cursor whether it is there or not; what can be no name isn't.
    for list in [sale.at("/stock"), "/v1/sales".to_owned()] {
        for bad in ["%00", "a%20b", "%7Bx%7D", &"x".repeat(200)] {
            sale.api.get(&format!("{list}?after={bad}")).await.names("after");
        }
    }
    assert_eq!(sale.get("/stock?after=0").await.expect(200, "").body["items"][0]["sku"], "a");
}
