//! What holds for every route: ids of requests, problems, methods, keys.

use crate::service::{Answer, Sale, lines, new_key, operations, shared_api};
use serde_json::{Value, json};

#[tokio::test]
async fn a_problem_says_what_happened_and_what_to_do() {
    let sale = Sale::of(&shared_api(), 1).await;
    let call = sale.api.call("POST", &sale.at("/reservations")).header("X-Request-Id", "req-7");
    let answer = call.json(&lines(&[("a", 2)])).send().await.expect(409, "sold_out");
    let expected = json!({
        "type": "/problems/sold_out", "title": "Not enough units are left", "status": 409,
        "detail": "1 of 2 units of a are available.", "instance": "req-7", "code": "sold_out", "retryable": false,
        "shortfalls": [{"sku": "a", "requested": 2, "available": 1, "held": 0}], "may_return": false, "retry_at": null
    });
    assert_eq!(answer.body, expected);
    assert_eq!(answer.header("x-request-id"), "req-7");

    // Its page tells the rest.
    let page = sale.api.get("/problems/sold_out").await.expect(200, "").body;
    assert_eq!((&page["code"], &page["title"]), (&json!("sold_out"), &answer.body["title"]));
    for path in ["/problems", "/problems/sold_out"] {
        let html = sale.api.call("GET", path).header("Accept", "text/html").send().await.expect(200, "");
        assert!(html.header("content-type").starts_with("text/html") && html.text.contains("sold_out"));
    }
    sale.api.get("/problems/nothing").await.expect(404, "not_found");
}

#[tokio::test]
async fn a_request_id_is_the_clients_if_it_is_harmless() {
    let api = shared_api();
    let with = |id: &'static [u8]| api.call("GET", "/livez").header("X-Request-Id", id).send();
    let id = |answer: &Answer| answer.header("x-request-id").to_owned();
    assert_eq!(id(&with(b"a.B_c-1").await), "a.B_c-1");
    let mut made = vec![id(&api.get("/livez").await)];
    for bad in [&b"a b"[..], b"a;b", b"\xc3\xa9", b"\"", b"{}", &[b'x'; 129], b""] {
        let id = id(&with(bad).await);
        assert!(id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'), "{bad:?}: {id}");
        made.push(id);
    }
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 8, "no two alike");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let api = shared_api();
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/sales/",
        "/v2/sales",
        "/v1/sales/x/reservations/y/cancel",
        "/admin",
        "/v1//sales",
    ] {
        api.get(path).await.expect(404, "not_found");
    }
    for (method, path, allow) in [
        ("DELETE", "/v1/sales", "GET"),
        ("PATCH", "/v1/sales/x/stock/a", "GET, PUT"),
        ("GET", "/v1/sales/x/reservations/y/confirm", "POST"),
        ("OPTIONS", "/v1/sales/x/reservations", "POST, GET"),
        ("TRACE", "/livez", "GET, HEAD"),
        ("BREW", "/v1/sales/x", "GET, PUT, PATCH, DELETE"),
    ] {
        let answer = api.call(method, path).send().await.expect(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
}

/// A sale may be named in any route; where there is none, each says so, in the same words.
#[tokio::test]
async fn every_route_knows_an_unknown_sale() {
    let api = shared_api();
    let id = new_key();
    for (method, path, _) in operations().filter(|(_, path, _)| path.contains("{sale}")) {
        let path = path
            .replace("{sale}", "nowhere")
            .replace("{sku}", "a")
            .replace("{buyer}", "jane")
            .replace("{id}", &id)
            .replace("{name}", "till");
        let token = "AAAAAAAAAAAAAAAAAAAAAA";
        let body = match path.rsplit('/').next().unwrap() {
            "till" if method == "POST" => json!({"ttl_ms": 1_000}),
            "renew" => json!({"token": token, "ttl_ms": 1_000}),
            "release" if path.contains("/locks/") => json!({"token": token}),
            "reservations" if method == "POST" => lines(&[("a", 1)]),
            "bulk" => json!({"requests": [lines(&[("a", 1)]), lines(&[("a", 1)])]}),
            "extend" => json!({"hold_seconds": 1}),
            "adjustments" if method == "POST" => json!({"delta": 1, "reason": "r"}),
            "a" if method == "PUT" => json!({"initial": 1}),
            "nowhere" if method == "PUT" => continue,
            "nowhere" if method == "PATCH" => json!({}),
            _ => Value::Null,
        };
        api.call(&method, &path).json(&body).send().await.expect(404, "unknown_sale");
    }
}

#[tokio::test]
async fn keys_are_quoted_or_bare_and_have_no_parameters() {
    let sale = Sale::of(&shared_api(), 50).await;
    let first = sale.reserve("k-1", lines(&[("a", 1)])).await.expect(201, "").id();
    for same in ["\"k-1\"", " k-1 ", "k-1"] {
        let again = sale.reserve(same, lines(&[("a", 1)])).await.expect(200, "");
        assert_eq!((again.id(), again.header("idempotent-replayed")), (first.clone(), "true"));
    }
    let longest = "k".repeat(255);
    sale.reserve(&longest, lines(&[("a", 1)])).await.expect(201, "");
    sale.reserve("{x}:*\\?", lines(&[("a", 1)])).await.expect(201, "");
    let level = sale.level("a").await;

    let path = sale.at("/reservations");
    let too_long = "k".repeat(256);
    for bad in [
        &b""[..],
        b"\"\"",
        b"\"k",
        b"\"k\";a=1",
        b"k;a=1",
        b"\"k\" x",
        b"\"a\\nb\"",
        b"k\xc3\xa9",
        b"\xf0\x9f\x92\xa9",
        b"a\tb",
        too_long.as_bytes(),
    ] {
        let call = sale.api.call("POST", &path).header("Idempotency-Key", bad).json(&lines(&[("a", 1)]));
        call.send().await.expect(400, "idempotency_key_invalid");
    }
    let twice = sale.api.call("POST", &path).key("k-2").key("k-2").json(&lines(&[("a", 1)]));
    twice.send().await.expect(400, "idempotency_key_invalid");
    // Where it is not needed it is checked all the same.
    let release = sale.api.call("POST", &sale.at(&format!("/reservations/{first}/release")));
    release.header("Idempotency-Key", "k;a=1").send().await.expect(400, "idempotency_key_invalid");
    assert_eq!(sale.level("a").await, level);
}

#[tokio::test]
async fn without_a_key_each_call_is_another_one() {
    let sale = Sale::of(&shared_api(), 5).await;
    let first = sale.post("/reservations", lines(&[("a", 1)])).await.expect(201, "").id();
    let second = sale.post("/reservations", lines(&[("a", 1)])).await.expect(201, "").id();
    assert_ne!(first, second);
    let body = json!({"delta": 1, "reason": "r"});
    let first = sale.post("/stock/a/adjustments", body.clone()).await.expect(201, "").id();
    let second = sale.post("/stock/a/adjustments", body).await.expect(201, "").id();
    assert_ne!(first, second);
    assert_eq!(sale.level("a").await, crate::service::Level(5, 2, 0));
}

#[tokio::test]
async fn a_reservation_has_all_its_fields() {
    let sale = Sale::of(&shared_api(), 5).await;
    let cart = json!({
        "buyer": "jane", "lines": [{"sku": "a", "quantity": 2}], "hold_seconds": 60, "reference": "cart 7",
        "metadata": {"channel": "web"}
    });
    let answer = sale.reserve("k", cart).await.expect(201, "");
    assert_eq!(answer.outcome(), "held");
    let mut body = answer.body;
    let times = ["created_at", "expires_at", "extendable_until", "server_time"].map(|field| {
        let text = body[field].take().as_str().unwrap().to_owned();
        assert!(text.ends_with('Z') && text.len() == "2026-11-30T18:00:00.000Z".len(), "{field}: {text}");
        text.parse::<jiff::Timestamp>().unwrap()
    });
    assert_eq!(times[1].duration_since(times[0]).as_secs(), 60);
    assert_eq!(times[2].duration_since(times[0]).as_secs(), 3600);
    assert_eq!(times[3], times[0]);
    let lines = json!([{"sku": "a", "quantity": 2, "confirmed": 0, "returned": 0}]);
    let expected = json!({
        "id": body["id"], "sale": sale.name, "status": "held", "buyer": "jane", "lines": lines, "reference": "cart 7",
        "metadata": {"channel": "web"}, "created_at": null, "expires_at": null, "extendable_until": null,
        "ended_at": null, "retaken": false, "replaces": null, "replaced_by": null, "order": null, "server_time": null
    });
    assert_eq!(body, expected);
}
