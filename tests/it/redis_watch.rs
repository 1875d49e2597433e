//! What every process sees of Redis and of the stock, and shows in `/metrics`.

use crate::redis_server::{RedisServer, ServerOptions, valkey_program};
use crate::shop::*;
use crate::support::{sample, shared_on};
use std::collections::BTreeMap;
use stockade::domain::{PutSale, SaleId, Switch, Timestamp};
use stockade::store::watched::WatchLimits;
use stockade::store::{Shared, Store};
use stockade::workers::redis_watch;

const PLENTY: WatchLimits = WatchLimits { sales: 50, skus: 100 };

/// All series of these families, by their labels.
fn series(shared: &Shared, families: &[&str]) -> BTreeMap<String, f64> {
    let page = shared.metrics.render();
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let named = samples.filter_map(|line| line.rsplit_once(' '));
    let is_one = |name: &str| families.iter().any(|family| name.split('{').next() == Some(family));
    named
        .filter(|(name, _)| is_one(name))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

async fn look(shop: &Shop, limits: WatchLimits) {
    redis_watch::round(&shop.store, &shop.shared.metrics, limits).await.unwrap();
}

#[tokio::test]
async fn stock_is_shown_as_it_is_and_goes_with_its_sale() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5), ("blue", 2)]).await;
    let held = shop.hold("a", "red=2,blue=1").await;
    let waiting = shop.hold("b", "red=1").await;
    shop.confirm(held.id).await.unwrap();
    look(&shop, PLENTY).await;
    let sale = &shop.sale;
    let state = |of: &str| {
        ["available", "held", "sold", "granted"]
            .map(|state| sample(&shop.shared, &format!("stockade_{of},state=\"{state}\"}}")).unwrap())
    };
    assert_eq!(state(&format!("stock_units{{sale=\"{sale}\",sku=\"red\"")), [2.0, 1.0, 2.0, 5.0]);
    assert_eq!(state(&format!("stock_units{{sale=\"{sale}\",sku=\"blue\"")), [1.0, 0.0, 1.0, 2.0]);
    assert_eq!(state(&format!("sale_units{{sale=\"{sale}\"")), [3.0, 1.0, 3.0, 7.0]);

    let families = ["stockade_stock_units", "stockade_sale_units", "stockade_sale_status"];
    assert_eq!(series(&shop.shared, &families).len(), 2 * 4 + 4 + 4);
    shop.release(waiting.id).await.unwrap();
    shop.store.switch_sale(sale, Switch::Close).await.unwrap();
    shop.store.delete_sale(sale).await.unwrap();
    look(&shop, PLENTY).await;
    assert_eq!(series(&shop.shared, &families), BTreeMap::new());
}

#[tokio::test]
async fn the_doors_are_shown() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let opens_at = Timestamp::from_ms(4_102_444_800_500).unwrap();
    let rules = PutSale { opens_at: Some(opens_at), ..PutSale::default() };
    let (now, later) = (
        Shop::with(shared.clone(), PutSale::default(), &[("a", 1)]).await,
        Shop::with(shared, rules, &[("a", 1)]).await,
    );
    look(&now, PLENTY).await;
    let shown = |sale: &SaleId| {
        ["scheduled", "open", "paused", "closed"]
            .into_iter()
            .filter(|status| {
                let name = format!("stockade_sale_status{{sale=\"{sale}\",status=\"{status}\"}}");
                sample(&now.shared, &name).unwrap() == 1.0
            })
            .collect::<Vec<_>>()
    };
    assert_eq!((shown(&now.sale), shown(&later.sale)), (vec!["open"], vec!["scheduled"]));
    let doors = series(&now.shared, &["stockade_sale_opens_at_seconds"]);
    let name = format!("stockade_sale_opens_at_seconds{{sale=\"{}\"}}", later.sale);
    assert_eq!(doors, BTreeMap::from([(name, 4_102_444_800.5)]));
    now.store.switch_sale(&now.sale, Switch::Pause).await.unwrap();
    look(&now, PLENTY).await;
    assert_eq!(shown(&now.sale), ["paused"]);
}

/// 10,000 SKUs in 100 sales: what matters most is shown, the rest is counted.
#[tokio::test]
async fn any_number_of_sales_and_skus_makes_a_bounded_number_of_series() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let names: Vec<String> = (0..100).map(|n| format!("sku-{n:03}")).collect();
    let stock: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut shops = Vec::new();
    for _ in 0..100 {
        shops.push(Shop::with(shared.clone(), PutSale::default(), &stock).await);
        shops.last().unwrap().hold("k", "sku-000=1").await;
    }
    let small = Shop::with(shared.clone(), PutSale::default(), &[("only", 1)]).await;
    // Open sales come before others, whatever their names.
    for shop in &shops[10..] {
        shop.store.switch_sale(&shop.sale, Switch::Close).await.unwrap();
    }
    let limits = WatchLimits { sales: 11, skus: 100 };
    look(&small, limits).await;
    let states = series(&shared, &["stockade_sale_units"]);
    assert_eq!(states.len(), 11 * 4);
    for shop in shops[..10].iter().chain([&small]) {
        assert!(
            states.contains_key(&format!("stockade_sale_units{{sale=\"{}\",state=\"held\"}}", shop.sale))
        );
    }
    // The small one leaves what it does not need to the others.
    let levels = series(&shared, &["stockade_stock_units"]);
    assert_eq!(levels.len(), 100 * 4);
    assert!(levels.keys().any(|name| name.contains("\"only\"")));
    assert_eq!(sample(&shared, "stockade_sales_left_out"), Some(90.0));
    assert_eq!(sample(&shared, "stockade_skus_left_out"), Some(10_001.0 - 100.0));
    shared.metrics.upkeep();
    // Default of the limit: 50 sales. Everybody else is in `other`. Five words each, as nobody met another one.
    assert_eq!(series(&shared, &["stockade_sale_reservations_total"]).len(), 51 * 5);

    look(&small, WatchLimits { sales: 0, skus: 0 }).await;
    assert_eq!(
        series(&shared, &["stockade_sale_units", "stockade_stock_units", "stockade_sale_status"]).len(),
        0
    );
    assert_eq!(sample(&shared, "stockade_skus_left_out"), Some(10_001.0));
}

#[tokio::test]
async fn the_health_of_redis_is_what_it_says_itself() {
    for program in [None, Some(valkey_program())] {
        let args = [
            "--maxmemory",
            "64mb",
            "--latency-monitor-threshold",
            "20",
            "--slowlog-log-slower-than",
            "20000",
        ];
        let args = args.map(String::from).to_vec();
        let server = RedisServer::with(ServerOptions { program, args, ..ServerOptions::default() });
        let shop = Shop::open(&server, &[("red", 5)]).await;
        let mut redis = server.connection().await;
        look(&shop, PLENTY).await;
        let get = |name: &str| sample(&shop.shared, &format!("stockade_redis_{name}"));
        assert_eq!(get("memory_bytes{kind=\"max\"}"), Some(64.0 * 1024.0 * 1024.0));
        let slow_before = get("slowlog_entries_total").unwrap();
        let keys: u64 = redis_cmd(&mut redis, &["DBSIZE"]).await;
        assert_eq!(get("keys"), Some(keys as f64));
        assert_eq!(
            (get("up"), get("evicted_keys_total"), get("replicas")),
            (Some(1.0), Some(0.0), Some(0.0))
        );
        assert_eq!(get("persistence_ok{part=\"aof_write\"}"), Some(1.0));
        assert!(get("clients").unwrap() >= 2.0 && get("aof_bytes").unwrap() > 0.0);
        let before = get("commands_total").unwrap();

        // Something slow.
        let script = "local t = redis.call('TIME') repeat local n = redis.call('TIME') \
                      until (n[1] - t[1]) * 1e6 + n[2] - t[2] > 30000 return 1";
        let _: u64 = redis_cmd(&mut redis, &["EVAL", script, "0"]).await;
        look(&shop, PLENTY).await;
        let slow: u64 = redis_cmd(&mut redis, &["SLOWLOG", "LEN"]).await;
        assert!(slow > 0 && get("slowlog_entries_total").unwrap() <= slow as f64);
        assert!(get("slowlog_entries_total").unwrap() > slow_before);
        assert!(get("latency_seconds{event=\"command\"}").unwrap() >= 0.03);
        assert!(get("commands_total").unwrap() > before);
        let families = series(&shop.shared, &["stockade_redis_latency_seconds"]);
        assert_eq!(families.len(), 6);
    }
}

/// Nobody sweeps here.
#[tokio::test]
async fn holds_are_counted_whether_anybody_ends_them_or_not() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    let other = Shop::with(shop.shared.clone(), PutSale::default(), &[("blue", 5)]).await;
    shop.hold("a", "red=1").await;
    shop.shared.clock.advance_ms(400_000);
    shop.hold("b", "red=1").await;
    other.hold("c", "blue=1").await;
    let holds = async || {
        look(&shop, PLENTY).await;
        ["holds_open", "holds_overdue", "orphans"]
            .map(|name| sample(&shop.shared, &format!("stockade_{name}")).unwrap())
    };
    assert_eq!(holds().await, [3.0, 0.0, 0.0]);
    shop.shared.clock.advance_ms(300_000);
    assert_eq!(holds().await, [3.0, 1.0, 0.0]);
    shop.shared.clock.advance_ms(400_000);
    let mut redis = server.connection().await;
    let _: u64 = redis_cmd(&mut redis, &["ZADD", &other.key("orphans"), "1", "x"]).await;
    assert_eq!(holds().await, [3.0, 3.0, 1.0]);
    let () = redis_cmd(&mut redis, &["SET", &other.key("orphans"), "x"]).await;
    assert_eq!(holds().await, [3.0, 3.0, 0.0]);
}

#[tokio::test]
async fn a_sale_that_does_not_add_up_is_told_and_hides_no_other() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    let other = Shop::with(shop.shared.clone(), PutSale::default(), &[("blue", 5)]).await;
    look(&shop, PLENTY).await;
    assert_eq!(sample(&shop.shared, "stockade_sales_unreadable"), Some(0.0));
    let mut redis = server.connection().await;
    for wrong in ["red:h", ":h"] {
        let _: i64 = redis_cmd(&mut redis, &["HINCRBY", &shop.key("stock"), wrong, "1"]).await;
        look(&shop, PLENTY).await;
        assert_eq!(sample(&shop.shared, "stockade_sales_unreadable"), Some(1.0), "{wrong}");
        let levels = series(&shop.shared, &["stockade_stock_units"]);
        assert!(levels.len() == 4 && levels.keys().all(|name| name.contains(other.sale.as_str())));
    }
}

/// An old number would look like a present one.
#[tokio::test]
async fn what_cannot_be_seen_is_not_shown() {
    let mut server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 5)]).await;
    look(&shop, PLENTY).await;
    let seen = ["stockade_sale_units", "stockade_redis_clients", "stockade_holds_open"];
    assert_eq!(series(&shop.shared, &seen).len(), 4 + 1 + 1);
    server.kill();
    let failed = redis_watch::round(&shop.store, &shop.shared.metrics, PLENTY).await;
    assert!(failed.is_err());
    assert_eq!(series(&shop.shared, &seen), BTreeMap::new());
    assert_eq!(sample(&shop.shared, "stockade_redis_up"), Some(0.0));
    server.restart();
    // A connection that was idle is found out without a call.
    look(&Shop { store: Store::open(&shop.shared).unwrap(), ..shop.another() }, PLENTY).await;
    assert_eq!(sample(&shop.shared, "stockade_redis_up"), Some(1.0));
    assert_eq!(series(&shop.shared, &["stockade_sale_units"]).len(), 4);
}
