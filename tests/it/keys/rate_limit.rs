//! How often a caller may call. The limit of these tests gives one call more every five hours: none of them lasts that long.

use super::Keyring;
use crate::service::{Answer, Api, InProcess, Level, Sale, Wire, lines, new_key, operations, shared_api};
use serde_json::Value;
use std::net::Ipv4Addr;
use stockade::domain::Scope;

const LIMIT: [&str; 2] = ["--rate-limit", "5/86400"];
const POLICY: &str = "\"default\";q=5;w=86400";
/// Seconds from one call to the next, where they are evenly spread.
const INTERVAL: u64 = 86_400 / 5;

/// A client with connections of its own: the next worker thread serves them.
fn anew(api: &Api) -> Api {
    Api::new(format!("http://{}", api.authority()))
}

#[track_caller]
fn leaves(answer: &Answer, remaining: u64) {
    let left = format!("\"default\";r={remaining};t={INTERVAL}");
    assert_eq!((answer.header("ratelimit-policy"), answer.header("ratelimit")), (POLICY, &*left));
}

#[track_caller]
fn is_unlimited(answer: &Answer) {
    assert!(answer.status < 400, "{}", answer.text);
    for header in ["ratelimit-policy", "ratelimit", "retry-after"] {
        assert_eq!(answer.header(header), "", "{header}");
    }
}

/// What a caller is told who has called too often.
#[track_caller]
fn is_too_many(answer: Answer) {
    let answer = answer.expect(429, "rate_limited");
    assert_eq!((&answer.body["retryable"], &answer.body["outcome"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(answer.header("ratelimit-policy"), POLICY);
    let wait = answer.header("retry-after");
    assert_eq!(answer.header("ratelimit"), format!("\"default\";r=0;t={wait}"));
    assert!((1..=INTERVAL).contains(&wait.parse().unwrap()), "{wait}");
}

#[tokio::test]
async fn a_key_that_calls_too_often_is_told_when_to_come_back_and_changes_nothing() {
    let keyring = Keyring::new();
    let boss = keyring.add("boss", Scope::Operator, &[]);
    let [shop, shops_second] = [(); 2].map(|()| keyring.add("shop", Scope::Storefront, &[]));
    let other = keyring.add("other", Scope::Storefront, &[]);
    let service = keyring.service_with(&LIMIT);
    let sale = Sale::of(&service.api.with_token(&boss), 100).await;
    let take = async |token: &str| {
        let sale = Sale { api: anew(&service.api).with_token(token), ..sale.clone() };
        sale.reserve(&new_key(), lines(&[("a", 1)])).await
    };
    for remaining in (0..5).rev() {
        leaves(&take(&shop).await.expect(201, ""), remaining);
    }
    let before = service.dump().await;
    is_too_many(take(&shop).await);
    is_too_many(take(&shops_second).await);
    assert_eq!(service.dump().await, before);
    // Whoever is not let in is told so first, and is not counted.
    let pause = sale.at("/pause");
    let refused = anew(&service.api).with_token(&shop).call("POST", &pause).send().await;
    assert_eq!(refused.expect(403, "forbidden").header("ratelimit"), "");
    anew(&service.api).call("POST", &pause).send().await.expect(401, "unauthorized");

    leaves(&take(&other).await.expect(201, ""), 4);
    for path in ["/metrics", "/livez", "/readyz"] {
        for _ in 0..10 {
            is_unlimited(&sale.api.get(path).await);
        }
    }
    assert_eq!(sale.level("a").await, Level(94, 6, 0));
    leaves(&sale.get("").await.expect(200, ""), 2);
    // A refusal of the service is a call as any other.
    leaves(&sale.get("/stock/none").await.expect(404, "unknown_sku"), 1);
}

#[tokio::test]
async fn without_keys_the_end_of_the_connection_is_the_caller_whatever_headers_say() {
    let service = InProcess::with(&LIMIT);
    let call = async |n: u8| {
        let address = format!("192.0.2.{n}");
        let call = anew(&service.api).call("GET", "/v1/sales");
        let call = call.header("X-Forwarded-For", &address).header("X-Real-IP", &address);
        call.header("Forwarded", format!("for={address}")).send().await
    };
    for n in 0..5 {
        leaves(&call(n).await.expect(200, ""), 4 - u64::from(n));
    }
    is_too_many(call(5).await);
    let to = service.api.authority().parse().unwrap();
    let mut elsewhere = Wire::connect_from(Ipv4Addr::new(127, 0, 0, 2), to).await.unwrap();
    elsewhere.send("GET /v1/sales HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(elsewhere.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn every_route_of_the_api_is_limited_and_no_other() {
    let service = InProcess::with(&LIMIT);
    for _ in 0..5 {
        service.api.get("/v1/sales").await.expect(200, "");
    }
    for (method, path, _) in operations() {
        let answer = service.api.call(&method, &path.replace("{code}", "rate_limited")).send().await;
        match path.starts_with("/v1") {
            true => is_too_many(answer),
            false => is_unlimited(&answer),
        }
    }
}

#[tokio::test]
async fn there_is_no_limit_unless_one_is_asked_for() {
    is_unlimited(&shared_api().get("/v1/sales").await);
}
