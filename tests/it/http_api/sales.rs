//! Sales: made, changed under conditions, switched, listed.

use crate::service::{Sale, new_key, shared_api};
use serde_json::{Value, json};

#[tokio::test]
async fn a_put_replaces_the_rules_and_adds_skus() {
    let api = shared_api();
    let sale =
        Sale::put(&api, json!({"hold_seconds": 5000, "buyer_limit": 3, "stock": {"a": {"initial": 7}}}))
            .await;
    let made = sale.get("").await.expect(200, "");
    let expected = json!({
        "sale": sale.name, "status": "open", "opens_at": null, "closes_at": null, "hold_seconds": 5000,
        "hold_seconds_max": 5000, "buyer_limit": 3, "buyer_holds_max": null,
        "confirmed_retention_seconds": 2_592_000, "ended_retention_seconds": 86400, "skus": 1,
        "totals": {"available": 7, "held": 0, "sold": 0, "granted": 7}, "version": 1
    });
    assert_eq!(made.body, expected);

    let path = sale.at("");
    let same = api.put(&path, &json!({"hold_seconds": 5000, "buyer_limit": 3})).await.expect(200, "");
    assert_eq!((same.outcome(), same.header("etag")), ("unchanged", made.header("etag")));
    let changed = api.put(&path, &json!({"stock": {"b": {"initial": 1}}})).await.expect(200, "");
    assert_eq!((changed.outcome(), &changed.body["version"]), ("changed", &json!(2)));
    assert_eq!(
        (&changed.body["hold_seconds"], &changed.body["hold_seconds_max"]),
        (&json!(600), &json!(3600))
    );
    assert_eq!((&changed.body["buyer_limit"], &changed.body["skus"]), (&json!(null), &json!(2)));
    assert_eq!(changed.body["totals"]["granted"], 8);
    assert_ne!(changed.header("etag"), made.header("etag"));

    let other = json!({"stock": {"c": {"initial": 1}, "a": {"initial": 8}}});
    let refused = api.put(&path, &other).await.expect(409, "stock_exists");
    assert_eq!((&refused.body["sku"], &refused.body["initial"]), (&json!("a"), &json!(7)));
    sale.get("/stock/c").await.expect(404, "unknown_sku");
    let huge = json!({"stock": {"c": {"initial": 1_000_000_000_000_u64}}});
    api.put(&path, &huge).await.expect(409, "too_many_units");
    assert_eq!(sale.get("").await.body["version"], 2);
}

#[tokio::test]
async fn a_put_may_name_the_state_that_it_wants_to_meet() {
    let api = shared_api();
    let sale = Sale::of(&api, 1).await;
    let path = sale.at("");
    let etag = sale.get("").await.header("etag").to_owned();
    let put = |name: &'static str, value: String, seconds: u64| {
        api.call("PUT", &path).header(name, value).json(&json!({"hold_seconds": seconds})).send()
    };
    put("If-None-Match", "*".into(), 60).await.expect(412, "precondition_failed");
    put("If-Match", "\"0-1\"".into(), 60).await.expect(412, "precondition_failed");
    let changed = put("If-Match", etag.clone(), 60).await.expect(200, "");
    put("If-Match", etag.clone(), 70).await.expect(412, "precondition_failed");
    assert_eq!(sale.get("").await.header("etag"), changed.header("etag"));
    assert_eq!(sale.get("").await.body["hold_seconds"], 60);
    let listed = format!("\"0-1\", {}", changed.header("etag"));
    put("If-Match", listed, 80).await.expect(200, "");
    put("If-Match", "*".into(), 90).await.expect(200, "");
    for (name, value) in [("If-Match", "W/\"1-1\""), ("If-None-Match", "\"1-1\""), ("If-Match", "")] {
        put(name, value.to_owned(), 70).await.names(name);
    }

    let nowhere = format!("{path}x");
    let on_nothing = api.call("PUT", &nowhere).header("If-Match", &etag).json(&json!({})).send().await;
    on_nothing.expect(412, "precondition_failed");
    let on_nothing = api.call("PUT", &nowhere).header("If-Match", "*").json(&json!({})).send().await;
    on_nothing.expect(412, "precondition_failed");
    api.get(&nowhere).await.expect(404, "unknown_sale");
    let new = api.call("PUT", &nowhere).header("If-None-Match", "*").json(&json!({})).send().await;
    new.expect(201, "");
}

#[tokio::test]
async fn of_many_conditional_changes_one_wins() {
    let api = shared_api();
    let sale = Sale::of(&api, 1).await;
    let (path, etag) = (sale.at(""), sale.get("").await.header("etag").to_owned());
    let puts = (60..80).map(|seconds| {
        api.call("PUT", &path).header("If-Match", &etag).json(&json!({"hold_seconds": seconds})).send()
    });
    let answers = futures_util::future::join_all(puts).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 412)));
    assert_eq!(sale.get("").await.body["version"], 2);
}

#[tokio::test]
async fn a_repeated_put_is_the_same_answer() {
    let api = shared_api();
    let path = format!("/v1/sales/t{}", new_key());
    let put = |key: &'static str, body: Value| api.call("PUT", &path).key(key).json(&body).send();
    let body = json!({"stock": {"a": {"initial": 1}}});
    let first = put("p1", body.clone()).await.expect(201, "");
    let again = put("p1", body).await.expect(201, "");
    assert_eq!((again.outcome(), &again.body), ("replayed", &first.body));
    put("p1", json!({})).await.expect(422, "idempotency_key_reused");
    put("p2", json!({"buyer_limit": 1})).await.expect(200, "");
    assert_eq!(put("p2", json!({"buyer_limit": 1})).await.expect(200, "").outcome(), "replayed");
}

#[tokio::test]
async fn switches_may_be_thrown_twice_and_rules_do_not_move_them() {
    let sale = Sale::of(&shared_api(), 1).await;
    for (switch, status) in
        [("pause", "paused"), ("close", "closed"), ("pause", "paused"), ("resume", "open")]
    {
        let first = sale.post(&format!("/{switch}"), Value::Null).await.expect(200, "");
        assert_eq!((first.outcome(), &first.body["status"]), ("changed", &json!(status)), "{switch}");
        let again = sale.post(&format!("/{switch}"), json!({})).await.expect(200, "");
        assert_eq!((again.outcome(), again.header("etag")), ("unchanged", first.header("etag")), "{switch}");
        let put = sale.api.put(&sale.at(""), &json!({"stock": {"a": {"initial": 1}}})).await.expect(200, "");
        assert_eq!(put.body["status"], status, "a PUT of rules after {switch}");
    }
    let nowhere = Sale { name: format!("{}x", sale.name), ..sale };
    for switch in ["pause", "resume", "close"] {
        nowhere.post(&format!("/{switch}"), Value::Null).await.expect(404, "unknown_sale");
    }
}

#[tokio::test]
async fn rules_are_checked_field_by_field() {
    let api = shared_api();
    let path = format!("/v1/sales/t{}", new_key());
    for (body, field) in [
        (json!({"hold_seconds": 0}), "/hold_seconds"),
        (json!({"hold_seconds": 86401}), "/hold_seconds"),
        (json!({"hold_seconds": 700, "hold_seconds_max": 600}), "/hold_seconds_max"),
        (json!({"hold_seconds_max": 86401}), "/hold_seconds_max"),
        (json!({"buyer_limit": 0}), "/buyer_limit"),
        (json!({"buyer_limit": -1}), "/buyer_limit"),
        (json!({"buyer_holds_max": 1_000_001}), "/buyer_holds_max"),
        (json!({"confirmed_retention_seconds": 86399}), "/confirmed_retention_seconds"),
        (json!({"ended_retention_seconds": 315_360_001_u64}), "/ended_retention_seconds"),
        (json!({"opens_at": "tomorrow"}), "/opens_at"),
        (json!({"opens_at": "2031-01-01T00:00:00Z", "closes_at": "2030-01-01T00:00:00Z"}), "/closes_at"),
        (json!({"closes_at": "1969-12-31T23:59:59Z"}), "/closes_at"),
        (json!({"stock": {"a": {"initial": -1}}}), "/stock/a/initial"),
        (json!({"stock": {"a": {"initial": 1_000_000_000_001_u64}}}), "/stock/a/initial"),
        (json!({"stock": {"a": {"initial": 1, "buyer_limit": 0}}}), "/stock/a/buyer_limit"),
        (json!({"stock": {"a": {"initial": 1, "price": 1}}}), "/stock/a/price"),
        (json!({"name": "x"}), "/name"),
        (json!([]), ""),
        (json!([null, null, 600]), ""),
    ] {
        api.put(&path, &body).await.names(field);
    }
    let too_many: serde_json::Map<String, Value> =
        (0..1001).map(|n| (format!("s{n}"), json!({"initial": 1}))).collect();
    api.put(&path, &json!({"stock": too_many})).await.names("/stock");
    api.get(&path).await.expect(404, "unknown_sale");
}
