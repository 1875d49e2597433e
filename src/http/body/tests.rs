//! What a body may be, and how an error names its field.

use super::*;
use actix_web::http::header::{HeaderName, HeaderValue};
use serde_json::Value;

fn refused<T: DeserializeOwned>(body: &str) -> (String, String, String) {
    let problem = parse::<T>(body.as_bytes()).err().expect("refused");
    let json: Value = serde_json::from_slice(&problem.to_json("r")).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&json["code"]), text(&json["errors"][0]["field"]), text(&json["errors"][0]["message"]))
}

fn field_of_reserve(body: &str) -> String {
    let (code, field, _) = refused::<Reserve>(body);
    assert_eq!(code, "invalid_request", "{body}");
    field
}

#[test]
fn an_error_names_its_field_as_a_json_pointer() {
    for (body, field) in [
        (r#"{"lines":[{"sku":"a","quantity":0}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":1},{"sku":"b","quantity":"1"}]}"#, "/lines/1/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":1.5}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":1e400}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":null}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a b","quantity":1}]}"#, "/lines/0/sku"),
        (r#"{"lines":[{"sku":"a"}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":1,"price":2}]}"#, "/lines/0/price"),
        (r#"{"lines":[{"sku":"a","quantity":1,"quantity":1}]}"#, "/lines/0/quantity"),
        (r#"{"lines":[]}"#, "/lines"),
        (r#"{"lines":{}}"#, "/lines"),
        (r#"{}"#, "/lines"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"price":2}"#, "/price"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"a/b~c":2}"#, "/a~1b~0c"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"lines":[]}"#, "/lines"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"buyer":""}"#, "/buyer"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"buyer":7}"#, "/buyer"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"hold_seconds":0}"#, "/hold_seconds"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"hold_seconds":-1}"#, "/hold_seconds"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"metadata":{"a":1}}"#, "/metadata/a"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"metadata":{"a":"","a":""}}"#, "/metadata"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"replaces":"x"}"#, "/replaces"),
        ("[]", ""),
        ("7", ""),
    ] {
        assert_eq!(field_of_reserve(body), field, "{body}");
    }
}

#[test]
fn the_stock_of_a_sale_is_checked_by_sku() {
    let field = |body: &str| refused::<PutSale>(body).1;
    assert_eq!(field(r#"{"stock":{"a":{"initial":-1}}}"#), "/stock/a/initial");
    assert_eq!(field(r#"{"stock":{"a":{}}}"#), "/stock/a/initial");
    assert_eq!(field(r#"{"stock":{"a":{"initial":1,"x":1}}}"#), "/stock/a/x");
    assert_eq!(field(r#"{"stock":{"a":{"initial":1},"a":{"initial":1}}}"#), "/stock");
    assert_eq!(field(r#"{"opens_at":"tomorrow"}"#), "/opens_at");
}

#[test]
fn messages_speak_of_json_and_not_of_rust() {
    for body in [
        r#"{"lines":[{"sku":"a","quantity":"1"}]}"#,
        r#"{"lines":[{"sku":1,"quantity":1}]}"#,
        r#"{"lines":7}"#,
        r#"{"lines":[7]}"#,
        r#"{"lines":[{"sku":"a","quantity":1}],"replaces":"x"}"#,
        "7",
    ] {
        let (_, _, message) = refused::<Reserve>(body);
        for word in ["u64", "struct", "sequence", "expected", "line 1", "UUID parsing"] {
            assert!(!message.contains(word), "{body}: {message}");
        }
        assert!(message.starts_with("must be "), "{body}: {message}");
    }
}

#[test]
fn what_is_not_json_is_malformed() {
    let deep = format!("{}{}", r#"{"lines":"#, "[".repeat(10_000));
    for body in
        ["", "{", "nonsense", r#"{"lines":[{"sku":"a","quantity":NaN}]}"#, "{}{}", "{\"a\":\u{1}}", &deep]
    {
        let code = refused::<Confirm>(body).0;
        assert!(code == "malformed_json" || code == "invalid_request", "{body:.20}: {code}");
    }
    for body in ["", "{", "nonsense", r#"{"lines":[{"sku":"a","quantity":NaN}]}"#] {
        assert_eq!(refused::<Reserve>(body).0, "malformed_json", "{body}");
    }
    assert!(parse::<Reserve>(b"{\"lines\":[{\"sku\":\"\xff\",\"quantity\":1}]}").is_err());
}

fn headers(content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers
}

#[test]
fn only_json_in_utf8_is_read() {
    for good in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""]
    {
        assert!(is_json(&headers(good), JSON), "{good}");
    }
    for bad in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json", ""]
    {
        assert!(!is_json(&headers(bad), JSON), "{bad}");
    }
    assert!(!is_json(&HeaderMap::new(), JSON));
    let mut compressed = headers("application/json");
    compressed.insert(HeaderName::from_static("content-encoding"), HeaderValue::from_static("gzip"));
    assert!(!is_json(&compressed, JSON));
}

#[test]
fn a_body_that_is_too_large_is_refused_by_its_length() {
    let mut large = headers("application/json");
    large.insert(header::CONTENT_LENGTH, HeaderValue::from_static("65537"));
    assert!(announced(&large, BODY_BYTES_MAX).is_err());
    assert!(announced(&large, LIST_BYTES_MAX).is_ok());
}
