//! A service that starts before its Redis does, or while that is busy.

use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Service, ServiceOptions};

fn launched_on(server: &RedisServer) -> Service {
    Service::launched(ServiceOptions { redis_url: Some(server.url()), ..ServiceOptions::default() })
}

async fn waits(service: &Service) {
    eventually("it says that it waits", async || service.log().contains("Redis is waited for")).await;
    assert!(service.api().call("GET", "/readyz").try_send().await.is_err(), "nobody is served yet");
}

#[tokio::test]
async fn a_start_waits_for_a_redis_that_comes_a_little_later() {
    let mut server = RedisServer::start();
    server.kill();
    let mut service = launched_on(&server);
    waits(&service).await;
    server.restart();
    service.is_ready().await;
}

#[tokio::test]
async fn a_start_waits_for_a_redis_that_does_not_answer_in_time() {
    let server = RedisServer::start();
    server.freeze();
    let mut service = launched_on(&server);
    waits(&service).await;
    server.thaw();
    service.is_ready().await;
}

#[tokio::test]
async fn a_start_that_waits_can_be_stopped() {
    let server = RedisServer::start();
    server.freeze();
    let mut service = launched_on(&server);
    waits(&service).await;
    service.signal("TERM");
    assert_eq!(service.ended().await.code(), Some(0), "{}", service.log());
}

#[tokio::test]
async fn a_start_without_a_redis_ends_and_says_why() {
    let mut server = RedisServer::start();
    server.kill();
    let mut service = launched_on(&server);
    assert_eq!(service.ended().await.code(), Some(1));
    assert!(
        service.log().contains("Redis cannot be used: not applied: store_unavailable"),
        "{}",
        service.log()
    );
}
