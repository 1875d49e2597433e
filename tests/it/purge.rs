//! A deleted sale with many records goes in small steps, gives others their turn, and goes on after any death.

use crate::redis_server::{RedisServer, ServerOptions};
use crate::shop::*;
use crate::support::shared_on;
use rand::Rng;
use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use stockade::domain::*;
use stockade::store::sweep::{PURGE_IDS_MAX, Purge, TOMBSTONE_MS};
use stockade::workers::sweeper::PURGE_STEPS_MAX;

const MANY: usize = 20_000;

/// Records of released reservations, as the scripts leave them, written by the thousand.
const END_MANY: &str = r"
local prefix, first, last = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
for n = first, last do
  local id = string.format('%022d', n)
  redis.call('SET', prefix .. 'r:' .. id,
    'released\n2\n1\n1\n3\n\n\n\n\n\n\n\nfp\n\nred=1\n\n\n')
  redis.call('ZADD', prefix .. 'done', 9000000000000 + n, id)
  redis.call('HSET', prefix .. 'buyers:7', id, '0|1|')
  redis.call('XADD', prefix .. 'events', '*', 't', n, 'e', id)
end";

async fn end_many(shop: &Shop, connection: &mut MultiplexedConnection) {
    for first in (1..=MANY).step_by(1_000) {
        let last = (first + 999).to_string();
        let _: redis::Value =
            redis_cmd(connection, &["EVAL", END_MANY, "1", &shop.key(""), &first.to_string(), &last]).await;
    }
}

/// A deleted sale with many records, on a server of its own.
async fn deleted_sale(server: &RedisServer) -> (Shop, String) {
    let shop = Shop::open(server, &[("red", 10)]).await;
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    end_many(&shop, &mut server.connection().await).await;
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "deleted");
    shop.shared.clock.advance_ms(TOMBSTONE_MS);
    (shop, sale.generation)
}

fn quick_server() -> RedisServer {
    let args = ["--appendfsync", "no"].map(String::from).to_vec();
    RedisServer::with(ServerOptions { args, ..ServerOptions::default() })
}

async fn dbsize(connection: &mut MultiplexedConnection) -> usize {
    redis_cmd(connection, &["DBSIZE"]).await
}

/// `INFO` of a section, by name.
async fn info(connection: &mut MultiplexedConnection, section: &str) -> BTreeMap<String, String> {
    let text: String = redis_cmd(connection, &["INFO", section]).await;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// How often a command was called.
fn calls(stats: &BTreeMap<String, String>, command: &str) -> usize {
    let said = stats.get(&format!("cmdstat_{command}")).map_or("", String::as_str);
    let count = said.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

async fn put(shop: &Shop) -> &'static str {
    let (caller, rules) = (Caller::default(), PutSale::default().rules().unwrap());
    word(&shop.store.put_sale(&shop.sale, &caller, None, &Expect::Anything, rules, skus(&[("red", 1)])).await)
}

#[tokio::test]
async fn each_step_of_a_purge_is_bounded() {
    let server = quick_server();
    let (shop, generation) = deleted_sale(&server).await;
    let mut connection = server.connection().await;
    let () = redis_cmd(&mut connection, &["CONFIG", "RESETSTAT"]).await;
    let (mut steps, mut there) = (0, dbsize(&mut connection).await);
    assert!(there > MANY);
    while shop.store.purge(&shop.sale, &generation).await.unwrap() == Purge::Going {
        steps += 1;
        let left = dbsize(&mut connection).await;
        assert!(there - left == PURGE_IDS_MAX, "{} keys in one step", there - left);
        there = left;
        if steps % 50 == 0 {
            assert_eq!(put(&shop).await, "sale_deleting");
        }
    }
    assert_eq!(steps, MANY / PURGE_IDS_MAX - 1);
    assert_eq!(dbsize(&mut connection).await, 0);
    let stats = info(&mut connection, "commandstats").await;
    // A script's call of its own, of up to 100 keys, and one for each fixed key; the tombstone alone is small enough
    // to be freed at once.
    assert_eq!(calls(&stats, "unlink"), steps + 1 + 25);
    assert_eq!((calls(&stats, "del"), calls(&stats, "zrem")), (1, 2 * (steps + 1) + 1));
    for walks in ["hgetall", "smembers", "keys", "scan", "xtrim", "zremrangebyrank"] {
        assert_eq!(calls(&stats, walks), 0, "{walks}");
    }
    // The buyers of a bucket and the events, which are many in one key, were freed off the main thread.
    let memory = info(&mut connection, "memory").await;
    let count = |name: &str| memory[name].parse::<usize>().unwrap();
    assert!(count("lazyfreed_objects") + count("lazyfree_pending_objects") >= 2, "{memory:?}");
    assert_eq!(put(&shop).await, "created");
}

#[tokio::test]
async fn other_sales_have_their_turn_while_one_is_purged() {
    let server = quick_server();
    let (shop, _) = deleted_sale(&server).await;
    let other = Shop::with(shared_on(&server), PutSale::default(), &[("blue", 5)]).await;
    let mut connection = server.connection().await;
    let done = async |connection: &mut MultiplexedConnection| -> usize {
        redis_cmd(connection, &["ZCARD", &shop.key("done")]).await
    };
    let mut left = done(&mut connection).await;
    let mut rounds = 0;
    while left > PURGE_STEPS_MAX * PURGE_IDS_MAX {
        rounds += 1;
        other.hold(&format!("hold {rounds}"), "blue=5").await;
        other.shared.clock.advance_ms(600_000);
        let round = other.sweep_all().await.unwrap();
        assert_eq!((round.expired, round.next_in_ms), (1, Some(0)), "round {rounds}");
        assert_eq!(other.level("blue").await, [5, 0, 0, 5]);
        let now = done(&mut connection).await;
        assert!(left - now <= PURGE_STEPS_MAX * PURGE_IDS_MAX, "{} in one round", left - now);
        left = now;
    }
    assert_eq!(rounds, MANY / (PURGE_STEPS_MAX * PURGE_IDS_MAX) - 1);
    assert_eq!(other.sweep_all().await.unwrap().purged, 1);
    let keys: Vec<String> = redis_cmd(&mut connection, &["KEYS", &shop.key("*")]).await;
    assert!(keys.is_empty(), "{keys:?}");
    other.assert_books_balance().await;
}

/// The sweeper dies at any point, and Redis is killed with it; whoever comes next goes on.
#[tokio::test]
async fn a_purge_goes_on_after_kill_9() {
    let mut rng = seeded("a_purge_goes_on_after_kill_9");
    let mut server = RedisServer::start();
    let (shop, _) = deleted_sale(&server).await;
    let mut left = MANY;
    for _ in 0..6 {
        let sweeper = shop.another();
        let task = tokio::spawn(async move {
            loop {
                // The server may be gone in the middle of it.
                let _ = sweeper.sweep_all().await;
            }
        });
        let mut connection = server.connection().await;
        let until = left.saturating_sub(rng.random_range(500..3_000));
        while left > until {
            left = redis_cmd(&mut connection, &["ZCARD", &shop.key("done")]).await;
            tokio::task::yield_now().await;
        }
        server.kill();
        task.abort();
        assert!(task.await.is_err());
        server.restart();
        assert_eq!(put(&shop.another()).await, "sale_deleting");
    }
    let next = shop.another();
    while next.sweep_all().await.unwrap().purged == 0 {}
    assert_eq!(dbsize(&mut server.connection().await).await, 0);
    assert_eq!(put(&next).await, "created");
}

/// It found nothing under an entry; before it removes that, the sale is created and registered once more.
#[tokio::test]
async fn who_looked_too_early_takes_no_sale_off_the_list() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("there is a sale") };
    let page = PageRequest { limit: 10, after: None };
    let entries = async || shop.store.sale_entries(&page).await.unwrap().0;
    let entry = (shop.sale.clone(), sale.generation.clone());
    shop.store.unregister_absent(&shop.sale, &sale.generation).await.unwrap();
    assert_eq!(entries().await, std::slice::from_ref(&entry));
    // One that nobody has created, or whose sale is another one by now, goes.
    let mut redis = server.connection().await;
    for name in [shop.sale.as_str(), "nobody"] {
        let _: u64 = redis_cmd(&mut redis, &["ZADD", "st:sales", "0", &format!("{name}:0123")]).await;
    }
    assert_eq!(entries().await.len(), 3);
    for (name, generation) in entries().await {
        shop.store.unregister_absent(&name, &generation).await.unwrap();
    }
    assert_eq!(entries().await, [entry]);
}
