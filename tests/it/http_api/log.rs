//! What callers send cannot forge lines of the log, nor steer the terminal of whoever reads it.

use crate::redis_server::RedisServer;
use crate::service::{Sale, Service, ServiceOptions, Wire, lines};
use serde_json::{Value, json};

/// Begins a line of its own, if it may, and clears the screen.
const FORGED: &str = "\r\n\x1b[2JFORGED\u{85}FORGED";
const FORGED_IN_PATH: &str = "%0D%0A%1B%5B2JFORGED%C2%85FORGED";
const SECRET: &str = "0123456789abcdef.not-for-the-log";

#[tokio::test]
async fn text_of_callers_stays_in_its_line() {
    for form in ["pretty", "json"] {
        let redis = RedisServer::start();
        let env = vec![("RUST_LOG", "debug".to_owned()), ("STOCKADE_LOG", form.to_owned())];
        let options = ServiceOptions { redis_url: Some(redis.url()), env, ..ServiceOptions::default() };
        let service = Service::with(options).await;
        let sale = Sale::of(&service.api(), 5).await;
        let before = service.log().lines().count();
        for path in [
            sale.at(FORGED_IN_PATH),
            format!("/{FORGED_IN_PATH}"),
            sale.at(&format!("/stock?{FORGED_IN_PATH}=1")),
        ] {
            service.api().get(&path).await;
        }
        for field in ["buyer", "reference", FORGED] {
            let mut cart = lines(&[("a", 1)]);
            cart[field] = json!(FORGED);
            sale.reserve("k", cart).await.expect(422, "invalid_request");
        }
        for header in
            ["Idempotency-Key", "X-Request-Id", "User-Agent", "traceparent", "Host", "Last-Event-ID"]
        {
            for value in ["\x1b[2JFORGED", "a\rFORGED", "\u{85}FORGED", "a\r\n FORGED"] {
                let mut wire = Wire::connect(service.address()).await.unwrap();
                let request = format!(
                    "POST {} HTTP/1.1\r\n{header}: {value}\r\nAuthorization: Bearer {SECRET}\r\nContent-Length: 0\r\n\r\n",
                    sale.at("/reservations")
                );
                wire.send(request).await.unwrap();
                let _ = wire.answer().await;
            }
        }
        // Failures are logged at every level.
        drop(redis);
        for place in [FORGED_IN_PATH, "a/stock/%C2%85FORGED"] {
            service.api().get(&format!("/v1/sales/{place}")).await;
        }
        sale.get("").await.expect(503, "store_unavailable");
        let log = service.log();
        assert!(log.lines().count() > before, "nothing is logged:\n{log}");
        let steers = |c: char| c != '\n' && c.is_control();
        assert!(!log.contains(steers) && !log.lines().any(|line| line.starts_with("FORGED")), "{log}");
        assert!(!log.contains(SECRET), "{log}");
        let is_whole = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object());
        assert!(form == "pretty" || log.lines().all(is_whole), "{log}");
    }
}
