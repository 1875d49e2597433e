//! Who may start where.

use crate::redis_server::{RedisServer, ServerOptions};
use crate::service::{Level, Sale, Service, ServiceOptions, failed_start};
use serde_json::Value;

#[tokio::test]
async fn a_second_service_on_one_folder_is_refused_and_disturbs_nothing() {
    let service = Service::start().await;
    let sale = Sale::of(&service.api(), 5).await;
    let id = sale.hold(1).await;
    let (engine, folder) = (service.engine_pid(), service.data_dir());
    let (status, said) = tokio::task::spawn_blocking(move || failed_start(&folder, &[])).await.unwrap();
    assert!(!status.success(), "{said}");
    assert!(said.contains("already") || said.contains("another"), "it says why: {said}");
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(service.engine_pid(), engine);
    sale.settle(&id, "confirm", Value::Null).await.expect(200, "");
    assert_eq!(sale.level("a").await, Level(4, 0, 1));
}

/// As in a container: no server, nowhere to write, and nobody has said which Redis to use.
#[tokio::test]
async fn where_no_private_redis_can_be_the_variable_is_named() {
    let start = || failed_start("/proc/stockade-data".as_ref(), &[]);
    let (status, said) = tokio::task::spawn_blocking(start).await.unwrap();
    assert!(!status.success() && said.contains("STOCKADE_REDIS_URL"), "{said}");
    assert!(said.contains("/proc/stockade-data"), "{said}");
}

#[tokio::test]
async fn a_redis_that_may_evict_stock_is_refused() {
    let args = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"].map(String::from).to_vec();
    let redis = RedisServer::with(ServerOptions { args, ..ServerOptions::default() });
    let url = redis.url();
    let start = move || failed_start("/nonexistent".as_ref(), &["--redis-url", &url]);
    let (status, said) = tokio::task::spawn_blocking(start).await.unwrap();
    assert!(!status.success() && said.contains("noeviction"), "{said}");
}

#[tokio::test]
async fn strangers_are_not_served_by_accident() {
    let start = || failed_start("/nonexistent".as_ref(), &["--listen", "0.0.0.0:0"]);
    let (status, said) = tokio::task::spawn_blocking(start).await.unwrap();
    assert!(!status.success() && said.contains("STOCKADE_ALLOW_NO_KEYS"), "{said}");
}

/// A log line is one line, whatever a client sends.
#[tokio::test]
async fn the_log_cannot_be_forged() {
    let redis = RedisServer::start();
    let service =
        Service::with(ServiceOptions { redis_url: Some(redis.url()), ..ServiceOptions::default() }).await;
    let api = service.api();
    let redis = redis; // killed below, so that every request is logged
    drop(redis);
    for path in [
        "/v1/sales/a%0d%0a%7B%22level%22%3A%22ERROR%22%7D",
        "/v1/sales/x%1b%5B2J/stock",
        "/v1/sales/s/stock/%C2%85",
    ] {
        api.call("GET", path)
            .header("User-Agent", "evil\u{85}\u{1f4a9}")
            .header("X-Request-Id", "a\"b")
            .send()
            .await;
    }
    api.get("/v1/sales/s").await.expect(503, "store_unavailable");
    for line in service.log().lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()), "{line:?}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
}
