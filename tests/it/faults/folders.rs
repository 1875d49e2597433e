//! Who may start where.

use crate::redis_server::{RedisServer, ServerOptions};
use crate::service::{Level, Sale, Service, failed_start};
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
