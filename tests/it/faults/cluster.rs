//! A Redis Cluster whose hot slot moves, and whose masters hand over, under load.

use super::Chance;
use super::books;
use super::driver::Driver;
use crate::redis_cluster::{RedisCluster, slot_of};
use crate::service::Service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hot_slot_moves() {
    let mut chance = Chance::new("the_hot_slot_moves");
    let cluster = RedisCluster::start(3, 0).await;
    let service = Service::on(cluster.url()).await;
    let mut driver = Driver::start(vec![service.api()], chance.seed).await;
    let slot = slot_of(&format!("{{{}}}", driver.sale()));
    while chance.goes_on() {
        driver.answers(chance.calls_until_fault()).await;
        let from = cluster.master_of(slot).await;
        cluster.move_slot(slot, (from + 1 + chance.faults % 2) % 3).await;
    }
    driver.answers(100).await;
    let (sale, history) = driver.stop().await;
    println!("{} moves", chance.faults);
    books::check(&sale, &cluster.url(), &history).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_hand_over() {
    let mut chance = Chance::new("masters_hand_over");
    let cluster = RedisCluster::start(3, 1).await;
    let service = Service::on(cluster.url()).await;
    let mut driver = Driver::start(vec![service.api()], chance.seed).await;
    // There and back, no node twice (`RedisCluster::failover` says why): so it doesn't go on for as long as one likes.
    for first_slot in [0, 5_461, 10_922].repeat(2) {
        driver.answers(chance.calls_until_fault()).await;
        cluster.failover(cluster.master_of(first_slot).await).await;
    }
    driver.answers(100).await;
    let (sale, history) = driver.stop().await;
    println!("{} handovers", chance.faults);
    books::check(&sale, &cluster.url(), &history).await;
}
