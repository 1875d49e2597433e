//! Names that could leave their place: in a key, a log, a header.

use crate::service::{InProcess, Sale, Wire, lines};
use serde_json::{Value, json};

/// As they stand in a path; none of them is a name.
fn bad_names() -> Vec<String> {
    let plain = [
        "%7Bx%7D",
        "a%7Bb%7Dc",
        "a:b",
        "a%3Ab",
        "a%0D%0Ab",
        "a%0Ab",
        "%00",
        "a%00b",
        "*",
        "%2A",
        "a?b".split('?').next().unwrap(),
        "%F0%9F%92%A9",
        "%E2%80%AEevil",
        "%CE%9C",
        "-a",
        ".a",
        "_selftest",
        "a%20b",
        "%20",
        "a%2Fb",
        "%5B2J",
        "a,b",
        "a=b",
        "%24%7Bjndi%7D",
        "a'b",
        "%22",
        "..%2F..",
        "%25",
    ];
    let mut names: Vec<String> = plain.into_iter().filter(|name| *name != "a").map(str::to_owned).collect();
    names.extend(["x".repeat(65), "x".repeat(1024)]);
    names
}

#[tokio::test]
async fn a_name_in_a_path_is_checked() {
    let service = InProcess::start();
    let api = &service.api;
    let sale = Sale::of(api, 5).await;
    let before = service.dump().await;
    for name in bad_names() {
        for (method, path, body) in [
            ("PUT", format!("/v1/sales/{name}"), json!({})),
            ("GET", format!("/v1/sales/{name}"), Value::Null),
            ("DELETE", format!("/v1/sales/{name}"), Value::Null),
            ("POST", format!("/v1/sales/{name}/reservations"), lines(&[("a", 1)])),
            ("POST", format!("/v1/sales/{name}/pause"), Value::Null),
        ] {
            api.call(method, &path).json(&body).send().await.names("sale");
        }
        for (method, rest, body) in [
            ("PUT", "", json!({"initial": 1})),
            ("GET", "", Value::Null),
            ("POST", "/adjustments", json!({"delta": 1, "reason": "r"})),
        ] {
            let path = sale.at(&format!("/stock/{name}{rest}"));
            api.call(method, &path).json(&body).send().await.names("sku");
        }
    }
    // Bytes that are no text at all.
    api.get("/v1/sales/%FF").await.names("sale");
    api.get(&sale.at("/stock/%C3%28")).await.names("sku");
    assert_eq!(service.dump().await, before, "it changed something");
}

#[tokio::test]
async fn a_name_in_a_body_is_checked() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let before = service.dump().await;
    let long = "x".repeat(65);
    for name in [
        "",
        "{x}",
        "a{b}c",
        "a:b",
        "a\r\nb",
        "a\nb",
        "\0",
        "a\0b",
        "*",
        "a?b",
        "\u{1f4a9}",
        "\u{202e}evil",
        "\u{39c}",
        "-a",
        ".a",
        "_a",
        " a",
        "a ",
        "a/b",
        "\u{1b}[2J",
        "a\u{85}b",
        "a,b",
        "a=b",
        "a|b",
        &long,
    ] {
        sale.reserve("k", lines(&[(name, 1)])).await.names("/lines/0/sku");
        let stock = json!({"stock": {name: {"initial": 1}}});
        let answer = service.api.put(&sale.at(""), &stock).await;
        assert_eq!((answer.status, answer.code()), (422, "invalid_request"), "{name:?}: {}", answer.text);
    }
    assert_eq!(service.dump().await, before, "it changed something");
    // The bounds themselves are names, and case matters.
    let longest = "x".repeat(64);
    let stock = json!({"stock": {"0": {"initial": 1}, "A.b_c-9": {"initial": 2}, "a.b_c-9": {"initial": 3}, longest.as_str(): {"initial": 4}}});
    service.api.put(&sale.at(""), &stock).await.expect(200, "");
    let held = sale.reserve("k", lines(&[("A.b_c-9", 2), ("a.b_c-9", 3), (&longest, 4), ("0", 1)])).await;
    assert_eq!(held.expect(201, "").body["lines"].as_array().unwrap().len(), 4);
}

/// What no client library would send.
#[tokio::test]
async fn raw_bytes_cannot_smuggle_anything() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let before = service.dump().await;
    let (path, body) = (sale.at("/reservations"), lines(&[("a", 1)]).to_string());
    let json = "Content-Type: application/json\r\n";
    let length = format!("Content-Length: {}\r\n", body.len());
    let requests: Vec<Vec<u8>> = vec![
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}{length}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        .into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}{length}Content-Length: 1\r\n\r\n{body}").into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}Content-Length: -1\r\n\r\n{body}").into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}Content-Length: +{}\r\n\r\n{body}", body.len())
            .into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}Transfer-Encoding: xchunked\r\n\r\n{body}").into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}Idempotency-Key: a\0b\r\n{length}\r\n{body}")
            .into(),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{json}Idempotency-Key: a\rb\r\n{length}\r\n{body}")
            .into(),
        format!("POST {path}\0 HTTP/1.1\r\nHost: localhost\r\n{json}{length}\r\n{body}").into(),
        format!("POST {path} HTTP/9.9\r\nHost: localhost\r\n{json}{length}\r\n{body}").into(),
        [b"POST /v1/sales/\xff/reservations HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice()].concat(),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(300_000)).into(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
    ];
    for request in requests {
        let said = String::from_utf8_lossy(&request[..request.len().min(300)]).into_owned();
        let mut wire = Wire::connect(service.api.authority().parse().unwrap()).await.unwrap();
        let _ = wire.send(&request).await;
        // Refused, or cut off.
        if let Ok(answer) = wire.answer().await {
            assert!((400..500).contains(&answer.status), "{said}: {answer:?}");
        }
    }
    assert_eq!(service.dump().await, before, "it changed something");
}

/// Whoever in front reads one of the two lengths, and the service the other, would take a body for a request.
#[tokio::test]
async fn a_request_of_two_lengths_ends_its_connection() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    sale.post("/close", json!({})).await.ok();
    let path = sale.at("");
    let smuggled = format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let all = format!("Content-Length: {}\r\n", smuggled.len() + 5);
    for (lengths, before) in [
        (format!("{all}Transfer-Encoding: chunked\r\n"), "0\r\n\r\n"),
        (format!("Transfer-Encoding: chunked\r\n{all}"), "0\r\n\r\n"),
        (format!("{all}Transfer-Encoding: \tchunked\r\n"), "0\r\n\r\n"),
        (format!("{all}Content-Length: 0\r\n"), ""),
        (format!("Content-Length: 0\r\n{all}"), ""),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), "0\r\n\r\n"),
    ] {
        let mut wire = Wire::connect(service.api.authority().parse().unwrap()).await.unwrap();
        let head = format!("POST {path}/pause HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n");
        let _ = wire.send(format!("{head}{before}{smuggled}")).await;
        if let Ok(answer) = wire.answer().await {
            assert_eq!(answer.status, 400, "{lengths}: {answer:?}");
        }
        assert!(wire.answer().await.is_err(), "{lengths}: a second answer");
        assert_eq!(sale.get("").await.expect(200, "").body["status"], "closed", "{lengths}");
    }
}
