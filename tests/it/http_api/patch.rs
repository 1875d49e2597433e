//! PATCH of a sale: a merge patch of its rules, under conditions, repeated, and wrong in every way.

use crate::service::{Answer, Sale, new_key, shared_api};
use serde_json::{Value, json};

async fn patch(sale: &Sale, body: &Value) -> Answer {
    sale.api.call("PATCH", &sale.at("")).json(body).send().await
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_nothing_else() {
    let rules = json!({"hold_seconds": 5000, "buyer_limit": 3, "closes_at": "2090-01-01T00:00:00Z",
        "stock": {"a": {"initial": 7}}});
    let sale = Sale::put(&shared_api(), rules).await;
    let made = sale.get("").await;
    let changed = patch(&sale, &json!({"buyer_holds_max": 2, "buyer_limit": null})).await.expect(200, "");
    let mut expected = made.body.clone();
    expected["buyer_holds_max"] = json!(2);
    expected["buyer_limit"] = json!(null);
    expected["version"] = json!(2);
    assert_eq!((changed.outcome(), &changed.body), ("changed", &expected));
    assert_ne!(changed.header("etag"), made.header("etag"));
    assert_eq!(sale.get("").await.header("etag"), changed.header("etag"));

    // Null is the default, not nothing.
    let back =
        patch(&sale, &json!({"hold_seconds": null, "hold_seconds_max": null, "closes_at": null})).await;
    assert_eq!((&back.body["hold_seconds"], &back.body["hold_seconds_max"]), (&json!(600), &json!(3600)));
    assert_eq!((&back.body["closes_at"], &back.body["buyer_holds_max"]), (&json!(null), &json!(2)));
    // The switch and the stock stay as they are.
    sale.post("/pause", Value::Null).await.ok();
    let paused = patch(&sale, &json!({"buyer_limit": 9})).await.expect(200, "");
    assert_eq!((&paused.body["status"], &paused.body["totals"]["available"]), (&json!("paused"), &json!(7)));
    // What is so already changes nothing, and neither does an empty patch.
    for same in [json!({}), json!({"buyer_limit": 9}), json!({"closes_at": null})] {
        let same = patch(&sale, &same).await.expect(200, "");
        assert_eq!((same.outcome(), same.header("etag")), ("unchanged", paused.header("etag")));
        assert_eq!(same.body, paused.body);
    }
    let events = sale.all("/events", 100).await;
    let changes = events.iter().filter(|event| event["type"] == "dev.stockade.sale.changed");
    assert_eq!(changes.count(), 3);
}

#[tokio::test]
async fn a_patch_may_name_the_state_that_it_wants_to_meet() {
    let api = shared_api();
    let sale = Sale::of(&api, 1).await;
    let etag = sale.get("").await.header("etag").to_owned();
    let patch = |name: &'static str, value: String, units: u64| {
        let call = api.call("PATCH", &sale.at("")).header(name, value);
        call.json(&json!({"buyer_limit": units})).send()
    };
    patch("If-None-Match", "*".into(), 5).await.expect(412, "precondition_failed");
    patch("If-Match", "\"0-1\"".into(), 5).await.expect(412, "precondition_failed");
    let first = patch("If-Match", etag.clone(), 5).await.expect(200, "");
    patch("If-Match", etag.clone(), 6).await.expect(412, "precondition_failed");
    let list = format!("{etag}, {}", first.header("etag"));
    let second = patch("If-Match", list, 6).await.expect(200, "");
    let two_lines = api.call("PATCH", &sale.at("")).header("If-Match", &etag);
    let two_lines = two_lines.header("If-Match", second.header("etag")).json(&json!({"buyer_limit": 7}));
    two_lines.send().await.expect(200, "");
    let any = patch("If-Match", "*".into(), 8).await.expect(200, "");
    assert_eq!((&any.body["buyer_limit"], &any.body["version"]), (&json!(8), &json!(5)));
    for (name, value) in [
        ("If-Match", "W/\"1-1\""),
        ("If-Match", "1-1"),
        ("If-Match", ""),
        ("If-Match", "\"1-1\", *"),
        ("If-None-Match", "\"1-1\""),
    ] {
        patch(name, value.to_owned(), 70).await.names(name);
    }
    // None of them changed anything.
    assert_eq!(sale.get("").await.header("etag"), any.header("etag"));
    let nowhere = Sale { name: format!("{}x", sale.name), ..sale.clone() };
    for (name, value) in [("If-Match", "*"), ("If-None-Match", "*"), ("X-Nothing", "x")] {
        let call = api.call("PATCH", &nowhere.at("")).header(name, value).json(&json!({"buyer_limit": 1}));
        call.send().await.expect(404, "unknown_sale");
    }
}

#[tokio::test]
async fn a_repeated_patch_is_the_same_answer() {
    let api = shared_api();
    let sale = Sale::of(&api, 1).await;
    let etag = sale.get("").await.header("etag").to_owned();
    let patch = |key: &'static str, body: Value| {
        api.call("PATCH", &sale.at("")).key(key).header("If-Match", &etag).json(&body).send()
    };
    let first = patch("p1", json!({"buyer_limit": 3})).await.expect(200, "");
    let again = patch("p1", json!({"buyer_limit": 3})).await.expect(200, "");
    assert_eq!((again.outcome(), &again.body), ("replayed", &first.body));
    assert_eq!(again.header("etag"), first.header("etag"));
    // Left out and null are two things.
    for other in [json!({"buyer_limit": 4}), json!({"buyer_limit": null}), json!({})] {
        patch("p1", other).await.expect(422, "idempotency_key_reused");
    }
    patch("p2", json!({"buyer_limit": 4})).await.expect(412, "precondition_failed");
    // A key of PUT is another key.
    let put = api.call("PUT", &sale.at("")).key("p1").json(&json!({"buyer_limit": 3})).send().await;
    assert_eq!(put.expect(200, "").outcome(), "unchanged");
}

#[tokio::test]
async fn a_wrong_patch_names_its_field_and_changes_nothing() {
    let sale = Sale::put(&shared_api(), json!({"opens_at": "2031-01-01T00:00:00Z"})).await;
    let before = sale.get("").await;
    for (body, field) in [
        (json!({"hold_seconds": 0}), "/hold_seconds"),
        (json!({"hold_seconds": 86401}), "/hold_seconds"),
        (json!({"hold_seconds": "600"}), "/hold_seconds"),
        (json!({"hold_seconds": 1.5}), "/hold_seconds"),
        // Beside what the sale has: the longest hold, and the opening.
        (json!({"hold_seconds": 5000}), "/hold_seconds_max"),
        (json!({"hold_seconds_max": 599}), "/hold_seconds_max"),
        (json!({"hold_seconds_max": 86401}), "/hold_seconds_max"),
        (json!({"closes_at": "2030-01-01T00:00:00Z"}), "/closes_at"),
        (json!({"closes_at": 5}), "/closes_at"),
        (json!({"opens_at": "tomorrow"}), "/opens_at"),
        (json!({"buyer_limit": 0}), "/buyer_limit"),
        (json!({"buyer_limit": -1}), "/buyer_limit"),
        (json!({"buyer_limit": {"a": 1}}), "/buyer_limit"),
        (json!({"buyer_holds_max": 1_000_001}), "/buyer_holds_max"),
        (json!({"confirmed_retention_seconds": 86399}), "/confirmed_retention_seconds"),
        (json!({"ended_retention_seconds": 315_360_001_u64}), "/ended_retention_seconds"),
        (json!({"stock": {"a": {"initial": 1}}}), "/stock"),
        (json!({"stock": null}), "/stock"),
        (json!({"status": "closed"}), "/status"),
        (json!({"version": 7}), "/version"),
        (json!([]), ""),
        (json!("x"), ""),
        (json!(7), ""),
    ] {
        patch(&sale, &body).await.names(field);
    }
    let raw = |body: &str| sale.api.call("PATCH", &sale.at("")).raw(body).send();
    raw("{\"buyer_limit\": 1, \"buyer_limit\": 2}").await.names("/buyer_limit");
    raw("null").await.names("");
    raw("{").await.expect(400, "malformed_json");
    raw("").await.expect(400, "malformed_json");
    assert_eq!(sale.get("").await.text, before.text);
}

#[tokio::test]
async fn a_patch_is_json_or_a_merge_patch() {
    let sale = Sale::of(&shared_api(), 1).await;
    let send = |media_type: &'static str, units: u64| {
        let call = sale.api.call("PATCH", &sale.at("")).header("Content-Type", media_type);
        call.body(format!("{{\"buyer_limit\": {units}}}")).send()
    };
    for (n, good) in
        ["application/merge-patch+json", "application/json", "Application/Merge-Patch+JSON; charset=utf-8"]
            .into_iter()
            .enumerate()
    {
        let answer = send(good, n as u64 + 1).await.expect(200, "");
        assert_eq!(answer.body["buyer_limit"], n + 1, "{good}");
    }
    for bad in ["application/json-patch+json", "text/plain", "application/merge-patch+xml"] {
        send(bad, 9).await.expect(415, "unsupported_media_type");
    }
    let put = sale.api.call("PUT", &sale.at("")).header("Content-Type", "application/merge-patch+json");
    put.body("{}").send().await.expect(415, "unsupported_media_type");
}

#[tokio::test]
async fn a_sale_that_is_being_deleted_is_not_patched() {
    let service = crate::service::InProcess::start();
    let sale = Sale::put(&service.api, json!({})).await;
    // A tombstone that stays: one is purged a moment after its time, which is far away.
    let mut redis = service.redis.connection().await;
    let key = format!("st:{{{}}}:rules", sale.name);
    let tombstone = ["HSET", &key, "status", "deleted", "deleted_at_ms", "4102444800000"];
    let _: u64 = crate::shop::redis_cmd(&mut redis, &tombstone).await;
    patch(&sale, &json!({"buyer_limit": 1})).await.expect(409, "sale_deleting");
    sale.api.put(&sale.at(""), &json!({})).await.expect(409, "sale_deleting");
    patch(&Sale { name: new_key(), ..sale }, &json!({})).await.expect(404, "unknown_sale");
}
