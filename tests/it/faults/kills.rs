//! kill -9 of the service and of Redis, at random moments.

use super::Chance;
use super::books;
use super::driver::Driver;
use crate::redis_server::RedisServer;
use crate::sandbox::{eventually, signal};
use crate::service::{Level, Sale, Service, new_key};
use serde_json::json;

fn engine_url(service: &Service) -> String {
    format!("unix://{}", service.data_dir().join("stockade.sock").display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_is_killed() {
    let mut chance = Chance::new("the_service_is_killed");
    let mut service = Service::start().await;
    let engine = service.engine_pid();
    let mut driver = Driver::start(vec![service.api()], chance.seed).await;
    while chance.goes_on() {
        driver.answers(chance.calls_until_fault()).await;
        service.kill();
        service.restart().await;
    }
    driver.answers(100).await;
    let (sale, history) = driver.stop().await;
    println!("{} kills", chance.faults);
    assert!(history.failures > 0, "nobody noticed");
    assert_eq!(service.engine_pid(), engine, "its engine lived on");
    books::check(&sale, &engine_url(&service), &history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_redis_is_killed() {
    let mut chance = Chance::new("the_embedded_redis_is_killed");
    let service = Service::start().await;
    let mut driver = Driver::start(vec![service.api()], chance.seed).await;
    while chance.goes_on() {
        driver.answers(chance.calls_until_fault()).await;
        let engine = service.engine_pid().expect("it runs");
        signal("KILL", engine);
        // The service restarts it by itself.
        eventually("the engine is another", async || service.engine_pid().is_some_and(|pid| pid != engine))
            .await;
    }
    driver.answers(100).await;
    let (sale, history) = driver.stop().await;
    println!("{} kills", chance.faults);
    assert!(history.failures > 0, "nobody noticed");
    books::check(&sale, &engine_url(&service), &history).await;
}

/// Deadlines that pass while nobody is there to see them are found at the next start.
#[tokio::test]
async fn holds_that_ran_out_while_the_service_was_away_come_back() {
    let mut service = Service::start().await;
    let sale = Sale::of(&service.api(), 100).await;
    let brief = json!({"lines": [{"sku": "a", "quantity": 1}], "hold_seconds": 1});
    let holds = (0..100).map(|_| {
        let (sale, brief) = (&sale, brief.clone());
        async move { sale.reserve(&new_key(), brief).await.expect(201, "") }
    });
    futures_util::future::join_all(holds).await;
    service.kill();
    service.restart().await;
    eventually("all are back", async || sale.level("a").await == Level(100, 0, 0)).await;
    let events = sale.all("/events", 500).await;
    let expired = events.iter().filter(|event| event["type"] == "dev.stockade.reservation.expired").count();
    assert_eq!(expired, 100, "each once");
}

/// Two processes serve one sale, while their Redis is killed and each of them is, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_services_share_a_redis_and_all_are_killed() {
    let mut chance = Chance::new("two_services_share_a_redis_and_all_are_killed");
    let mut redis = RedisServer::start();
    let mut services = [Service::on(redis.url()).await, Service::on(redis.url()).await];
    let mut driver = Driver::start(services.iter().map(Service::api).collect(), chance.seed).await;
    while chance.goes_on() {
        driver.answers(chance.calls_until_fault()).await;
        match chance.faults % 3 {
            turn @ (0 | 1) => {
                services[turn].kill();
                // The other one serves meanwhile.
                driver.answers(50).await;
                services[turn].restart().await;
            }
            _ => redis.restart(),
        }
    }
    driver.answers(100).await;
    let (sale, history) = driver.stop().await;
    println!("{} kills", chance.faults);
    assert!(history.failures > 0, "nobody noticed");
    books::check(&sale, &redis.url(), &history).await;
}
