//! Spans as a collector gets them. Built with the feature `otlp` only: `cargo test --features otlp --test otlp`.

#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

mod collector;
mod protobuf;
#[path = "../it/sandbox.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod sandbox;

use collector::{Collector, Span};
use sandbox::{Sandbox, eventually, own_address, signal};
use std::fs::File;
use std::process::{Child, Command, Stdio};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// Kinds of spans, as the protocol counts them.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// `stockade serve` with its private Redis, and a client of it.
struct Service {
    sandbox: Sandbox,
    child: Child,
    base: String,
    client: reqwest::Client,
}

impl Service {
    async fn start(endpoint: &str, env: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::new();
        let address = own_address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let is_setting = ["STOCKADE_", "OTEL_", "RUST_LOG"].iter().any(|start| name.starts_with(start));
            if is_setting && name != "STOCKADE_REDIS_SERVER" {
                command.env_remove(name);
            }
        }
        let log = File::create(sandbox.path().join("log")).unwrap();
        command.args([
            "serve",
            "--log",
            "json",
            "--workers",
            "1",
            "--drain-seconds",
            "1",
            "--data-dir",
            "data",
        ]);
        command.args(["--listen", &address.to_string()]).current_dir(sandbox.path()).stdin(Stdio::null());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).envs(env.iter().copied());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut service = Self { sandbox, child, base: format!("http://{address}"), client };
        eventually("it is ready", async || {
            assert_eq!(service.child.try_wait().unwrap(), None, "it runs:\n{}", service.log());
            let ready = service.client.get(format!("{}/readyz", service.base)).send().await;
            ready.is_ok_and(|answer| answer.status() == 200)
        })
        .await;
        let sale = r#"{"stock":{"a":{"initial":100}}}"#;
        assert_eq!(service.send("PUT", "/v1/sales/drop", sale, None).await, 201);
        service
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.sandbox.path().join("log")).unwrap()
    }

    async fn send(&self, method: &str, path: &str, body: &'static str, parent: Option<&str>) -> u16 {
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.base));
        let request =
            parent.into_iter().fold(request, |request, parent| request.header("traceparent", parent));
        request.header("Content-Type", "application/json").body(body).send().await.unwrap().status().as_u16()
    }

    async fn reserve(&self, parent: Option<&str>) {
        let body = r#"{"lines":[{"sku":"a","quantity":1}]}"#;
        assert_eq!(self.send("POST", "/v1/sales/drop/reservations", body, parent).await, 201);
    }

    /// Told to stop; how it ended.
    async fn stop(&mut self) -> bool {
        signal("TERM", self.child.id());
        let mut ended = None;
        eventually("it ends", async || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        })
        .await;
        ended.unwrap().success()
    }
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn reserves(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.attribute("db.stored_procedure.name") == "reservation/reserve").collect()
}

fn requests(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.name == "POST /v1/sales/{sale}/reservations").collect()
}

#[tokio::test]
async fn a_request_and_the_script_that_carried_it_reach_the_collector() {
    let collector = Collector::start().await;
    let mut service = Service::start(
        &format!("http://{}", collector.address),
        &[
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=trial"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=us"),
        ],
    )
    .await;
    service.reserve(Some(&parent("01"))).await;
    service.reserve(None).await;
    // What waits is sent at the end, long before the batch's time.
    assert!(service.stop().await, "{}", service.log());
    let spans = collector.spans();
    let ours = requests(&spans);
    let [request] = ours.iter().filter(|span| span.trace_id == TRACE).copied().collect::<Vec<_>>()[..] else {
        panic!("one of {ours:?}")
    };
    assert_eq!((request.parent.as_str(), request.kind, request.status), (PARENT, SERVER, 0));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/sales/{sale}/reservations"),
        ("http.response.status_code", "201"),
        ("stockade.outcome", "held"),
    ] {
        assert_eq!(request.attribute(name), value, "{name}");
    }
    assert_eq!(request.resource["service.name"], "stockade");
    assert_eq!(request.resource["deployment.environment.name"], "trial");

    let link = (request.trace_id.clone(), request.span_id.clone());
    let scripts = reserves(&spans);
    let script =
        scripts.iter().find(|script| script.links.contains(&link)).expect("the script that carried it");
    assert_eq!((script.kind, script.parent.as_str(), script.links.len()), (CLIENT, "", 1));
    assert_ne!(script.trace_id, TRACE, "it is nobody's child");
    assert_eq!((script.attribute("db.system.name"), script.attribute("stockade.requests")), ("redis", "1"));

    // The other request began a trace, and the sale was made by a script of its own.
    let other = ours.iter().find(|span| span.trace_id != TRACE).expect("the other request");
    assert_eq!((ours.len(), other.parent.as_str()), (2, ""));
    let put = spans.iter().find(|span| span.name == "PUT /v1/sales/{sale}").expect("the sale's request");
    let made = spans
        .iter()
        .find(|span| span.attribute("db.stored_procedure.name") == "sale/put")
        .expect("its script");
    assert_eq!((&made.trace_id, &made.parent), (&put.trace_id, &put.span_id));
    assert!(!spans.iter().any(|span| span.name.contains("readyz")), "probes are not recorded");
    let head = &collector.heads()[0];
    assert!(head.starts_with("post /v1/traces ") && head.contains("x-tenant: us"), "{head}");
}

#[tokio::test]
async fn requests_that_share_a_script_call_are_all_linked_to_it() {
    let collector = Collector::start().await;
    let mut service = Service::start(&format!("http://{}", collector.address), &[]).await;
    futures_util::future::join_all((0..40).map(|_| service.reserve(None))).await;
    service.stop().await;
    let spans = collector.spans();
    let scripts = reserves(&spans);
    let mut linked: Vec<_> = scripts.iter().flat_map(|script| script.links.clone()).collect();
    let mut made: Vec<_> =
        requests(&spans).iter().map(|span| (span.trace_id.clone(), span.span_id.clone())).collect();
    linked.sort();
    made.sort();
    assert_eq!((made.len(), &linked), (40, &made), "each request is carried once");
    for script in scripts {
        assert_eq!(script.attribute("stockade.requests"), script.links.len().to_string());
    }
}

#[tokio::test]
async fn who_begins_a_trace_decides_whether_it_is_recorded() {
    let collector = Collector::start().await;
    let sampler = [("OTEL_TRACES_SAMPLER", "parentbased_always_off"), ("OTEL_SERVICE_NAME", "till")];
    let mut service = Service::start(&format!("http://{}", collector.address), &sampler).await;
    service.reserve(None).await;
    service.reserve(Some(&parent("00"))).await;
    service.reserve(Some(&parent("01"))).await;
    service.stop().await;
    let spans = collector.spans();
    let recorded = requests(&spans);
    assert_eq!(recorded.iter().map(|span| span.trace_id.as_str()).collect::<Vec<_>>(), [TRACE]);
    assert_eq!(recorded[0].resource["service.name"], "till");
    // A call is recorded for the one that it carried.
    let links: Vec<_> = reserves(&spans).iter().flat_map(|script| script.links.clone()).collect();
    assert_eq!(links, [(TRACE.to_owned(), recorded[0].span_id.clone())]);
}

#[tokio::test]
async fn receivers_of_webhooks_are_told_the_span_of_the_delivery() {
    let collector = Collector::start().await;
    let endpoint = format!("http://{}", collector.address);
    let mut service = Service::start(&endpoint, &[("RUST_LOG", "info,stockade::http=debug")]).await;
    let body = format!(r#"{{"url":"{endpoint}/hook"}}"#);
    let made = service
        .client
        .post(format!("{}/v1/webhooks", service.base))
        .header("Content-Type", "application/json");
    let made: serde_json::Value = made.body(body).send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/webhooks/{}/test", made["id"].as_str().unwrap());
    assert_eq!(service.send("POST", &path, "", Some(&parent("01"))).await, 200);
    service.reserve(None).await;
    let hooks =
        || collector.heads().into_iter().filter(|head| head.starts_with("post /hook ")).collect::<Vec<_>>();
    eventually("the event is delivered", async || hooks().len() >= 2).await;
    service.stop().await;
    let spans = collector.spans();
    let deliveries: Vec<&Span> = spans.iter().filter(|span| span.name == "POST").collect();
    for head in hooks() {
        let said = head.lines().find_map(|line| line.strip_prefix("traceparent: ")).expect("a traceparent");
        let is_told = |span: &&&Span| said == format!("00-{}-{}-01", span.trace_id, span.span_id);
        let delivery = deliveries.iter().find(is_told).expect("its span");
        assert_eq!((delivery.kind, delivery.attribute("http.response.status_code")), (CLIENT, "200"));
        assert_eq!(delivery.attribute("server.address"), "127.0.0.1");
    }
    // The trial belongs to the request that asked for it, and that to its caller; the event's trace begins here.
    let trial = spans.iter().find(|span| span.name == "POST /v1/webhooks/{webhook}/test").unwrap();
    let (of_trial, others): (Vec<&Span>, Vec<&Span>) =
        deliveries.into_iter().partition(|span| span.trace_id == TRACE);
    assert_eq!((of_trial.len(), &of_trial[0].parent), (1, &trial.span_id));
    assert!(!others.is_empty() && others.iter().all(|span| span.parent.is_empty()));
    // The log names the traces that the collector has, and is free of spans.
    let request = &requests(&spans)[0].trace_id;
    assert!(service.log().contains(&format!("\"trace_id\":\"{request}\"")), "{}", service.log());
    assert!(!service.log().contains("stockade::span"), "{}", service.log());
}

#[tokio::test]
async fn a_collector_that_is_away_disturbs_nobody_and_is_told_once() {
    let away = own_address();
    let often = [("OTEL_BSP_SCHEDULE_DELAY", "20")];
    let mut service = Service::start(&format!("http://{away}"), &often).await;
    let lost = async || service.log().matches("Spans cannot be sent").count();
    eventually("it is told", async || lost().await > 0).await;
    service.reserve(None).await;
    assert!(service.stop().await);
    assert_eq!(service.log().matches("Spans cannot be sent").count(), 1);
    assert!(!service.log().contains("ExportError"), "{}", service.log());
}
