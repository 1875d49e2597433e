//! Probes and metrics on an address of their own.

use super::Keyring;
use crate::sandbox::{Sandbox, eventually};
use crate::service::{
    InProcess, Sale, Service, ServiceOptions, Wire, failed_start, operations, post, program,
};
use std::io::ErrorKind;
use stockade::domain::Scope;

const OPS: [&str; 3] = ["/livez", "/readyz", "/metrics"];
const FLAGS: [&str; 2] = ["--ops-listen", "127.0.0.1:0"];

#[tokio::test]
async fn each_address_knows_its_own_routes_only() {
    let service = InProcess::with(&FLAGS);
    let ops = service.ops.clone().unwrap();
    for path in OPS {
        service.api.get(path).await.expect(404, "not_found");
        ops.get(path).await.expect(200, "");
    }
    assert_eq!(ops.call("HEAD", "/readyz").send().await.status, 200);
    for (method, path, _) in operations().filter(|(_, path, _)| !OPS.contains(path)) {
        ops.call(&method, path).send().await.expect(404, "not_found");
    }
    // The one counts what the other does.
    Sale::of(&service.api, 5).await.hold(1).await;
    let held = "stockade_reservations_total{verb=\"reserve\",outcome=\"held\"}";
    assert!(ops.metrics().await.contains(&(held.to_owned(), 1.0)));
    ops.call("GET", "/livez").header("Host", "evil.example").send().await.expect(421, "misdirected_request");
}

#[tokio::test]
async fn metrics_need_their_scope_there_too() {
    let keyring = Keyring::new();
    let prometheus = keyring.add("prometheus", Scope::Metrics, &[]);
    let shop = keyring.add("shop", Scope::Storefront, &[]);
    let service = keyring.service_with(&FLAGS);
    let ops = service.ops.clone().unwrap();
    ops.get("/readyz").await.expect(200, "");
    ops.get("/metrics").await.expect(401, "unauthorized");
    ops.with_token(&shop).get("/metrics").await.expect(403, "forbidden");
    ops.with_token(&prometheus).get("/metrics").await.expect(200, "");
}

#[tokio::test]
async fn the_health_check_asks_where_the_probes_are() {
    let service = InProcess::with(&FLAGS);
    let sandbox = Sandbox::new();
    let check = |flags: [&str; 4]| {
        let mut command = program(sandbox.path());
        command.arg("healthcheck").args(flags);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let ops = service.ops.as_ref().unwrap();
    let healthy =
        check(["--listen", service.api.authority(), "--ops-listen", ops.authority()]).await.unwrap();
    assert!(healthy.status.success(), "{healthy:?}");
    let wrong = check(["--listen", service.api.authority(), "--log", "json"]).await.unwrap();
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("404"), "{wrong:?}");
}

#[tokio::test]
async fn strangers_do_not_reach_it_by_accident() {
    let start = || failed_start("/nonexistent".as_ref(), &["--ops-listen", "0.0.0.0:0"]);
    let (status, said) = tokio::task::spawn_blocking(start).await.unwrap();
    assert!(!status.success() && said.contains("STOCKADE_ALLOW_NO_KEYS"), "{said}");
}

/// Until the last request is finished, whoever asks is told that the process is stopping.
#[tokio::test]
async fn probes_answer_until_the_end() {
    let options = ServiceOptions { ops: true, ..ServiceOptions::default() };
    let mut service = Service::with(options).await;
    let sale = Sale::of(&service.api(), 5).await;
    let request = post(&sale.at("/reservations"), "k", r#"{"lines":[{"sku":"a","quantity":1}]}"#);
    let (begin, end) = request.split_at(request.len() - 10);
    let mut wire = Wire::connect(service.address()).await.unwrap();
    wire.send(begin).await.unwrap();
    // Accepted, and its head read: the answer to another one came from the same loop.
    sale.get("").await.expect(200, "");
    service.signal("TERM");
    let address = service.address();
    eventually("it accepts nothing more", async || {
        matches!(Wire::connect(address).await, Err(refused) if refused.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
    service.ops().get("/readyz").await.expect(503, "draining");
    service.ops().get("/livez").await.expect(200, "");
    wire.send(end).await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 201);
    assert_eq!(service.ended().await.code(), Some(0), "{}", service.log());
}
