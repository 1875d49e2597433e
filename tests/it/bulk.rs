//! Bulk calls beside others in the queues of one worker.

use crate::redis_server::RedisServer;
use crate::shop::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use stockade::domain::*;
use stockade::store::sweep::Purge;
use tokio::task::LocalSet;

const CLIENTS: usize = 12;
const CALL: usize = 500;

fn requests(count: usize, sku: &str) -> Vec<BulkRequest> {
    let json = format!(r#"{{"lines":[{{"sku":"{sku}","quantity":1}}]}}"#);
    vec![serde_json::from_str(&json).unwrap(); count]
}

/// One thread runs the tasks, so a batch is counted just before its answers are sent, and none in between.
///
/// A request that comes while a batch is under way waits for that one, and is in the next, however many bulk items
/// came before it: 12 times 256 of them wait, which is 12 batches.
#[tokio::test]
async fn one_request_waits_for_no_more_than_the_batch_under_way() {
    let shop = Rc::new(Shop::open(RedisServer::shared(), &[("red", 100_000_000)]).await);
    let batches = || {
        let page = shop.shared.metrics.render();
        let name = "stockade_commit_duration_seconds_count{script=\"reserve\"} ";
        let count = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        count.parse::<u64>().unwrap()
    };
    let waiting = || {
        let page = shop.shared.metrics.render();
        page.lines().find_map(|line| line.strip_prefix("stockade_commit_queue_depth ")).unwrap().to_owned()
    };
    let over = Rc::new(Cell::new(false));
    LocalSet::new()
        .run_until(async {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (shop, over) = (Rc::clone(&shop), Rc::clone(&over));
                    tokio::task::spawn_local(async move {
                        let mut held = 0;
                        while !over.get() {
                            let requests = requests(CALL, "red");
                            let caller = Caller::default();
                            let decided =
                                shop.store.reserve_bulk(shop.sale.clone(), caller, None, requests).await;
                            held += decided.into_iter().map(held_of).sum::<u64>();
                        }
                        held
                    })
                })
                .collect();
            let mut crowded = 0;
            for n in 0..50 {
                let before = batches();
                crowded += usize::from(waiting().parse::<f64>().unwrap() >= 3.0 * 256.0);
                shop.hold(&n.to_string(), "red=1").await;
                let waited = batches() - before;
                assert!(waited <= 2, "it waited for {waited} batches");
            }
            assert!(crowded > 25, "only {crowded} of 50 met a queue of more than two batches");
            over.set(true);
            let mut bulk_held = 0;
            for client in clients {
                bulk_held += client.await.unwrap();
            }
            assert_eq!(shop.level("red").await[1], bulk_held + 50);
        })
        .await;
}

fn held_of(decided: stockade::store::Decided<Reservation>) -> u64 {
    held(decided).lines[0].quantity
}

/// The other way round: a crowd that never ends does not starve a bulk call. Each batch leaves it 32 places.
#[tokio::test]
async fn a_crowd_does_not_starve_a_bulk_call() {
    let shop = Rc::new(Shop::open(RedisServer::shared(), &[("red", 100_000_000)]).await);
    let over = Rc::new(Cell::new(false));
    LocalSet::new()
        .run_until(async {
            let shoppers: Vec<_> = (0..400)
                .map(|n| {
                    let (shop, over) = (Rc::clone(&shop), Rc::clone(&over));
                    tokio::task::spawn_local(async move {
                        let mut turn = 0;
                        while !over.get() {
                            shop.hold(&format!("{n} {turn}"), "red=1").await;
                            turn += 1;
                        }
                        turn
                    })
                })
                .collect();
            let requests = requests(CALL, "red");
            let decided = shop.store.reserve_bulk(shop.sale.clone(), Caller::default(), None, requests).await;
            over.set(true);
            assert_eq!(decided.into_iter().map(held_of).sum::<u64>(), CALL as u64);
            let mut taken = 0;
            for shopper in shoppers {
                taken += shopper.await.unwrap();
            }
            assert_eq!(shop.level("red").await[1], CALL as u64 + taken);
        })
        .await;
}

/// A worker that remembers the sale before: every request goes to the present one.
#[tokio::test]
async fn a_call_finds_the_next_sale_of_the_name() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 10)]).await;
    let (other, late) = (shop.another(), shop.another());
    let old = other.hold("k", "red=1").await;
    assert_eq!(word(&late.take("k", "red=1").await), "replayed");
    assert_eq!(word(&shop.release(old.id).await), "released");
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "deleted");
    let caller = Caller::default();
    let words = async |shop: &Shop| {
        let (requests, key) = (requests(200, "red"), Some(key("k")));
        let decided = shop.store.reserve_bulk(shop.sale.clone(), caller.clone(), key, requests).await;
        decided.iter().map(word).collect::<Vec<_>>()
    };
    assert_eq!(words(&other).await, ["unknown_sale"; 200]);
    while shop.store.purge(&shop.sale, &sale.generation).await.unwrap() == Purge::Going {}

    let (third, rules) = (shop.another(), PutSale::default().rules().unwrap());
    let stock = skus(&[("red", 500)]);
    third.store.put_sale(&shop.sale, &caller, None, &Expect::Absent, rules, stock).await.unwrap();
    assert_eq!(words(&late).await, ["held"; 200]);
    assert_eq!(words(&other).await, ["replayed"; 200]);
    assert_eq!(third.level("red").await, [300, 200, 0, 500]);
}

/// A call that falls short while holds are overdue expires them first.
#[tokio::test]
async fn overdue_holds_are_expired_for_a_bulk_call_too() {
    let shop = Arc::new(Shop::open(RedisServer::shared(), &[("red", 300)]).await);
    let first =
        shop.store.reserve_bulk(shop.sale.clone(), Caller::default(), None, requests(300, "red")).await;
    assert!(first.iter().all(|decided| word(decided) == "held"));
    shop.shared.clock.advance_ms(601_000);
    let second =
        shop.store.reserve_bulk(shop.sale.clone(), Caller::default(), None, requests(400, "red")).await;
    let words: Vec<_> = second.iter().map(word).collect();
    assert_eq!(words, [vec!["held"; 300], vec!["sold_out"; 100]].concat());
    assert_eq!(shop.level("red").await, [0, 300, 0, 300]);
    shop.assert_books_balance().await;
}
