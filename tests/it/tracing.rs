//! `traceparent` in and out, and spans in the log of those who ask for them. Spans that are sent to a collector are
//! looked at in `tests/otlp`.

use crate::receiver::{Received, Receiver};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Api, InProcess, Sale, Service, ServiceOptions, lines, new_key, program};
use serde_json::{Value, json};
use stockade::trace::TraceParent;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn parent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-00f067aa0ba902b7-{flags}")
}

async fn start(redis: &RedisServer, filter: &str) -> Service {
    let env = vec![("RUST_LOG", filter.to_owned())];
    Service::with(ServiceOptions { redis_url: Some(redis.url()), env, ..ServiceOptions::default() }).await
}

/// Lines of the log of which this is so.
async fn lines_of(service: &Service, what: &str, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut found = Vec::new();
    eventually(what, async || {
        let log = service.log();
        found = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line| is_so(line))
            .collect();
        !found.is_empty()
    })
    .await;
    found
}

async fn reserve(sale: &Sale, api: &Api, id: &str, parents: &[&str]) -> u16 {
    let call = api.call("POST", &sale.at("/reservations")).key(&new_key()).header("X-Request-Id", id);
    let call = parents.iter().fold(call, |call, parent| call.header("traceparent", parent));
    call.json(&lines(&[("a", 1)])).send().await.status
}

#[tokio::test]
async fn a_request_is_logged_under_the_trace_of_its_caller() {
    let mut redis = RedisServer::start();
    let service = start(&redis, "info,stockade::http=debug").await;
    let (api, good) = (service.api(), parent(TRACE, "01"));
    let sale = Sale::of(&api, 5).await;
    let shouted = good.to_uppercase();
    for (id, parents, trace) in [
        ("good", vec![good.as_str()], json!(TRACE)),
        ("none", vec![], Value::Null),
        ("bad", vec![shouted.as_str()], Value::Null),
        ("twice", vec![good.as_str(), good.as_str()], Value::Null),
    ] {
        assert_eq!(reserve(&sale, &api, id, &parents).await, 201);
        let answered =
            |line: &Value| line["message"] == "Answered" && line["request_id"] == format!("{id:?}");
        assert_eq!(lines_of(&service, id, answered).await[0]["trace_id"], trace, "{id}");
    }
    redis.kill();
    assert_eq!(reserve(&sale, &api, "fails", &[&good]).await, 503);
    let failed =
        lines_of(&service, "it is told", |line| line["message"] == "Requests are answered 503").await;
    assert_eq!((&failed[0]["request_id"], &failed[0]["trace_id"]), (&json!("fails"), &json!(TRACE)));
    assert!(!service.log().contains("stockade::span"), "nobody has asked for spans");
}

#[tokio::test]
async fn spans_are_logged_for_those_who_ask() {
    let redis = RedisServer::start();
    let service = start(&redis, "info,stockade::span=debug").await;
    let api = service.api();
    let sale = Sale::of(&api, 5).await;
    assert_eq!(reserve(&sale, &api, "mine", &[&parent(TRACE, "01")]).await, 201);
    let request = |line: &Value| line["span"]["stockade.request_id"] == "mine" && line["message"] == "close";
    let request = &lines_of(&service, "the request's span is told", request).await[0]["span"];
    for (field, value) in [
        ("otel.name", json!("POST /v1/sales/{sale}/reservations")),
        ("http.request.method", json!("POST")),
        ("http.route", json!("/v1/sales/{sale}/reservations")),
        ("http.response.status_code", json!(201)),
        ("stockade.outcome", json!("held")),
        ("trace_id", json!(TRACE)),
    ] {
        assert_eq!(request[field], value, "{field}");
    }
    let script = |line: &Value| line["span"]["db.stored_procedure.name"] == "reservation/reserve";
    let script = &lines_of(&service, "the script's span is told", script).await[0]["span"];
    assert_eq!((&script["db.system.name"], &script["stockade.requests"]), (&json!("redis"), &json!(1)));
    // Workers call scripts all the time, for no request.
    let workers =
        |line: &&str| line.contains("webhook/due") || line.contains("livez") || line.contains("readyz");
    assert_eq!(service.log().lines().find(workers), None);
}

/// What a delivery says of its trace; legal, or the test fails.
fn sent(message: &Received) -> TraceParent {
    let text = message.header("traceparent");
    let parent = TraceParent::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text:?} is no traceparent"));
    assert_eq!(parent.to_string(), text);
    parent
}

#[tokio::test]
async fn each_delivery_begins_a_trace_and_a_trial_belongs_to_its_callers() {
    let service = InProcess::start();
    let receiver = Receiver::start().await;
    let webhook =
        service.api.post("/v1/webhooks", &json!({"url": receiver.url()})).await.expect(201, "").body;
    let sale = Sale::of(&service.api, 5).await;
    sale.hold(1).await;
    let events = sale.all("/events", 500).await.len();
    let delivered = receiver.wait_for_distinct(events).await;
    let traces: std::collections::BTreeSet<_> =
        delivered.iter().map(|message| sent(message).trace_id.to_string()).collect();
    assert_eq!(traces.len(), delivered.len(), "no two are of one trace");
    assert!(delivered.iter().all(|message| sent(message).is_sampled), "receivers should record them");

    let path = format!("/v1/webhooks/{}/test", webhook["id"].as_str().unwrap());
    for flags in ["01", "00"] {
        let said = parent(TRACE, flags);
        service.api.call("POST", &path).header("traceparent", &said).send().await.expect(200, "");
        let tried = sent(receiver.received().last().unwrap());
        assert_eq!((tried.trace_id.to_string(), tried.is_sampled), (TRACE.to_owned(), flags == "01"));
        assert_ne!(tried.to_string(), said, "its span is another one");
    }
    service.api.call("POST", &path).header("traceparent", "00-bad").send().await.expect(200, "");
    assert_ne!(sent(receiver.received().last().unwrap()).trace_id.to_string(), TRACE);
}

#[test]
fn a_sampler_that_nobody_knows_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let redis = RedisServer::start();
    let mut command = program(folder.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--redis-url", &redis.url()]);
    let output = command.env("OTEL_TRACES_SAMPLER", "sometimes").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("OTEL_TRACES_SAMPLER is always_on"), "{said}");
}

#[cfg(not(feature = "otlp"))]
#[tokio::test]
async fn a_build_that_cannot_send_spans_says_so() {
    let redis = RedisServer::start();
    let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9".to_owned());
    let env = vec![collector.clone()];
    let options = ServiceOptions { redis_url: Some(redis.url()), env, ..ServiceOptions::default() };
    let service = Service::with(options).await;
    let complaint =
        |line: &Value| line["level"] == "WARN" && line["message"].as_str().unwrap().contains(collector.0);
    let lines = lines_of(&service, "it is told", complaint).await;
    assert_eq!(lines.len(), 1);
    assert!(lines[0]["message"].as_str().unwrap().contains("--features otlp"), "{lines:?}");
}
