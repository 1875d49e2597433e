//! Bodies that are wrong get an answer that says where, and change nothing.

use crate::service::{Answer, InProcess, Sale, Wire, lines, post};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A sale in a store that nobody else uses, and what was in it before.
struct Untouched {
    service: InProcess,
    sale: Sale,
    before: Vec<(String, Vec<u8>)>,
}

impl Untouched {
    async fn new() -> Self {
        let service = InProcess::start();
        let sale = Sale::put(&service.api, json!({"stock": {"a": {"initial": 5_000_000}}})).await;
        let before = service.dump().await;
        Self { service, sale, before }
    }

    async fn reserve(&self, body: impl Into<Vec<u8>>) -> Answer {
        self.sale.api.call("POST", &self.sale.at("/reservations")).key("k").raw(body).send().await
    }

    async fn check(&self) {
        assert_eq!(self.service.dump().await, self.before, "it changed something");
    }

    fn address(&self) -> SocketAddr {
        self.service.api.authority().parse().unwrap()
    }
}

fn cart(line: &str) -> String {
    format!(r#"{{"lines":[{line}]}}"#)
}

#[tokio::test]
async fn a_quantity_is_a_small_positive_integer() {
    let untouched = Untouched::new().await;
    for bad in [
        "0",
        "-0",
        "-1",
        "-5",
        "1.5",
        "1.0",
        "\"1\"",
        "1e3",
        "1E0",
        "null",
        "true",
        "[1]",
        "{}",
        "\"\"",
        "1000001",
        "2147483648",
        "4294967297",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "1e400",
        "-1e400",
        "123456789012345678901234567890",
    ] {
        let body = cart(&format!(r#"{{"sku":"a","quantity":{bad}}}"#));
        let answer = untouched.reserve(body).await;
        assert_eq!(answer.status, 422, "{bad}: {}", answer.text);
        answer.names("/lines/0/quantity");
    }
    for no_json in ["NaN", "Infinity", "01", "+1", "1_000", ".5", "1."] {
        let body = cart(&format!(r#"{{"sku":"a","quantity":{no_json}}}"#));
        untouched.reserve(body).await.expect(400, "malformed_json");
    }
    let sum = cart(r#"{"sku":"a","quantity":1000000},{"sku":"a","quantity":1}"#);
    untouched.reserve(sum).await.names("/lines");
    untouched.check().await;
}

#[tokio::test]
async fn a_cart_has_1_to_100_lines() {
    let untouched = Untouched::new().await;
    let many = |count: usize| vec![r#"{"sku":"a","quantity":1}"#; count].join(",");
    for count in [0, 101, 1_000] {
        untouched.reserve(cart(&many(count))).await.names("/lines");
    }
    untouched.reserve(cart(&many(10_000))).await.expect(413, "payload_too_large");
    untouched.check().await;
    untouched.reserve(cart(&many(100))).await.expect(201, "");
}

#[tokio::test]
async fn fields_are_known_given_once_and_of_their_kind() {
    let untouched = Untouched::new().await;
    let line = r#""lines":[{"sku":"a","quantity":1}]"#;
    for (more, field) in [
        (r#","price":1"#, "/price"),
        (r#","Lines":[]"#, "/Lines"),
        (r#","lines":[{"sku":"a","quantity":1}]"#, "/lines"),
        (r#","buyer":"a","buyer":"b""#, "/buyer"),
        (r#","buyer":"""#, "/buyer"),
        (r#","buyer":1"#, "/buyer"),
        (r#","buyer":"a\u0000b""#, "/buyer"),
        (r#","buyer":"a\r\nb""#, "/buyer"),
        (r#","buyer":"\ud83d\udca9""#, "/buyer"),
        (r#","buyer":"\u202eevil""#, "/buyer"),
        (r#","reference":"\u001b[2J""#, "/reference"),
        (r#","hold_seconds":0"#, "/hold_seconds"),
        (r#","hold_seconds":86401"#, "/hold_seconds"),
        (r#","hold_seconds":60.0"#, "/hold_seconds"),
        (r#","hold_seconds":"60""#, "/hold_seconds"),
        (r#","metadata":[]"#, "/metadata"),
        (r#","metadata":{"a":1}"#, "/metadata/a"),
        (r#","metadata":{"a":{"b":"c"}}"#, "/metadata/a"),
        (r#","metadata":{"a":"","a":""}"#, "/metadata"),
        (r#","replaces":"x""#, "/replaces"),
        (r#","replaces":7"#, "/replaces"),
        (r#","fence":7"#, "/fence"),
        (r#","a/b~c":7"#, "/a~1b~0c"),
    ] {
        untouched.reserve(format!("{{{line}{more}}}")).await.names(field);
    }
    let pairs: serde_json::Map<String, Value> = (0..9).map(|n| (format!("k{n}"), json!("v"))).collect();
    for metadata in [json!(pairs), json!({"k": "v".repeat(1024)})] {
        untouched.reserve(format!("{{{line},\"metadata\":{metadata}}}")).await.names("/metadata");
    }
    let buyer = "x".repeat(129);
    untouched.reserve(format!("{{{line},\"buyer\":\"{buyer}\"}}")).await.names("/buyer");
    for (body, field) in [
        ("{}", "/lines"),
        ("[]", ""),
        ("7", ""),
        ("\"x\"", ""),
        ("null", ""),
        (r#"{"lines":null}"#, "/lines"),
    ] {
        untouched.reserve(body).await.names(field);
    }
    untouched.check().await;
}

#[tokio::test]
async fn what_is_not_json_is_malformed() {
    let untouched = Untouched::new().await;
    let deep = [r#"{"lines":"#.to_owned(), "[".repeat(10_000), "]".repeat(10_000), "}".to_owned()].concat();
    let deep_value = format!(r#"{{"metadata":{}{}}}"#, "{\"a\":".repeat(10_000), "}".repeat(10_000));
    for body in [deep, deep_value] {
        let answer = untouched.reserve(body).await;
        assert!(matches!(answer.status, 400 | 422), "{}", answer.text);
    }
    for body in [
        &b""[..],
        b"{",
        b"nonsense",
        b"{\"lines\":[{\"sku\":\"a\",\"quantity\":1}]}x",
        b"{'lines':[]}",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
        b"{\"lines\":[{\"sku\":\"\xff\",\"quantity\":1}]}",
        b"{\"lines\":[{\"sku\":\"a\0\",\"quantity\":1}]}",
    ] {
        untouched.reserve(body).await.expect(400, "malformed_json");
    }
    untouched.check().await;
}

#[tokio::test]
async fn a_body_is_json_and_says_so() {
    let untouched = Untouched::new().await;
    let (path, body) = (untouched.sale.at("/reservations"), lines(&[("a", 1)]).to_string());
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=latin1",
        "",
    ] {
        let call = untouched.sale.api.call("POST", &path).header("Content-Type", kind).body(body.clone());
        call.send().await.expect(415, "unsupported_media_type");
    }
    untouched
        .sale
        .api
        .call("POST", &path)
        .body(body.clone())
        .send()
        .await
        .expect(415, "unsupported_media_type");
    let compressed =
        untouched.sale.api.call("POST", &path).header("Content-Encoding", "gzip").raw(body.clone());
    compressed.send().await.expect(415, "unsupported_media_type");
    untouched.check().await;
    let call =
        untouched.sale.api.call("POST", &path).header("Content-Type", "Application/JSON;charset=\"UTF-8\"");
    call.body(body).send().await.expect(201, "");
}

#[tokio::test]
async fn a_body_is_bounded_by_its_route() {
    let untouched = Untouched::new().await;
    let padded = |length: usize| format!("{}{}", " ".repeat(length - 2), "{}");
    untouched.reserve(padded(64 * 1024)).await.names("/lines");
    untouched.reserve(padded(64 * 1024 + 1)).await.expect(413, "payload_too_large");
    let put = |length: usize| {
        untouched
            .sale
            .api
            .call("PUT", &untouched.sale.at(""))
            .header("If-Match", "\"0-0\"")
            .raw(padded(length))
    };
    put(1024 * 1024).send().await.expect(412, "precondition_failed");
    put(1024 * 1024 + 1).send().await.expect(413, "payload_too_large");

    // Chunked, its length is not known beforehand; the connection is closed, for the rest is not read.
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        untouched.sale.at("/reservations")
    );
    let mut wire = Wire::connect(untouched.address()).await.unwrap();
    wire.send(head).await.unwrap();
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    for _ in 0..5 {
        let _ = wire.send(&chunk).await; // it may have been refused by now
    }
    let answer = wire.answer().await.unwrap();
    assert_eq!((answer.status, answer.closes()), (413, true), "{answer:?}");
    untouched.check().await;
}

#[tokio::test]
async fn a_slow_head_or_body_is_given_up() {
    let untouched = Untouched::new().await;
    let whole = post(&untouched.sale.at("/reservations"), "k", &lines(&[("a", 1)]).to_string());
    let given_up = async |sent: usize| {
        let mut wire = Wire::connect(untouched.address()).await.unwrap();
        wire.send(&whole[..sent]).await.unwrap();
        wire.answer().await.unwrap()
    };
    let (head, body) = tokio::join!(given_up(20), given_up(whole.len() - 1));
    assert_eq!((head.status, body.status), (408, 408));
    assert_eq!((body.json()["code"].as_str(), body.closes()), (Some("request_timeout"), true));
    untouched.check().await;
}
