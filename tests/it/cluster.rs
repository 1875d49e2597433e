//! A real Redis Cluster: each sale is one shard's, and goes on where its slot goes.

use crate::redis_cluster::{RedisCluster, slot_of};
use crate::sandbox::eventually;
use crate::service::{Sale, Service, new_key};
use crate::shop::*;
use crate::support::shared_with;
use serde_json::json;
use std::time::Duration;
use stockade::domain::*;
use stockade::store::intake::Source;
use stockade::store::{PoolConfig, Shared, Store, StoreError};

const SHARDS: usize = 3;
/// One that is dead must not stop the others.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];

async fn cluster() -> RedisCluster {
    RedisCluster::with(SHARDS, 0, &EACH_FOR_ITSELF).await
}

/// A sale on each shard, with 100 units of `red`.
async fn shops(cluster: &RedisCluster, shared: &Shared) -> Vec<Shop> {
    let mut found: Vec<Option<Shop>> = (0..SHARDS).map(|_| None).collect();
    while found.iter().any(Option::is_none) {
        let shop = Shop::with(shared.clone(), PutSale::default(), &[("red", 100)]).await;
        let shard = cluster.master_of(slot_of(&shop.key("stock"))).await;
        found[shard] = Some(shop);
    }
    found.into_iter().flatten().collect()
}

fn is_not_applied<T: std::fmt::Debug>(answer: &Result<T, StoreError>, word: &str) -> bool {
    matches!(answer, Err(StoreError::NotApplied(code)) if *code == word)
}

#[tokio::test]
async fn every_script_runs_wherever_its_keys_are() {
    let cluster = cluster().await;
    let shared = shared_with(cluster.url());
    let store = Store::open(&shared).unwrap();
    store.check_server().await.unwrap();
    // Each has a sale of another name.
    for _ in 0..2 * SHARDS {
        store.self_test().await.unwrap();
    }
    assert_eq!(store.ready().await, Ok(Vec::new()));
    for shop in shops(&cluster, &shared).await {
        let id = shop.hold("one", "red=2").await.id;
        assert_eq!(word(&shop.confirm(id).await), "confirmed");
        shop.hold("two", "red=3").await;
        assert_eq!(shop.level("red").await, [95, 3, 2, 100]);
        shop.assert_books_balance().await;
    }
    let all = store.audit(None).await.unwrap();
    assert!(all.is_clean() && all.is_complete() && all.sales >= 3, "{all}");
    let watched =
        store.watched(stockade::store::watched::WatchLimits { sales: 100, skus: 100 }).await.unwrap();
    assert_eq!(watched.holds.open, 3);
}

#[tokio::test]
async fn a_dead_shard_stops_its_own_sales_and_no_others() {
    let mut cluster = cluster().await;
    let brief = Duration::from_millis(300);
    let shared = shared_with(cluster.url());
    let config = PoolConfig { wait_timeout: brief, ..shared.config.clone() };
    let shops = shops(&cluster, &Shared { config, ..shared }).await;
    // The list of sales is one shard's, too.
    let list = cluster.master_of(slot_of("st:sales")).await;
    let dead = (list + 1) % SHARDS;
    for shop in &shops {
        shop.hold("before", "red=1").await;
    }
    cluster.kill(dead);
    for (shard, shop) in shops.iter().enumerate() {
        let taken = shop.take("after", "red=1").await;
        match shard == dead {
            true => assert!(is_not_applied(&taken, "store_unavailable"), "{taken:?}"),
            false => drop(held(taken)),
        }
    }
    assert_eq!(shops[0].store.ready().await, Ok(vec![cluster.address(dead).to_string()]));
    // Nor does it keep the others from being swept.
    shops[0].shared.clock.advance_ms(3_600_000);
    shops[0].sweep_all().await.unwrap();
    for (_, shop) in shops.iter().enumerate().filter(|(shard, _)| *shard != dead) {
        assert_eq!(shop.level("red").await, [100, 0, 0, 100]);
    }
    cluster.restart(dead);
    eventually("it is back", async || shops[dead].take("after", "red=1").await.is_ok()).await;
    eventually("all are ready", async || shops[0].store.ready().await == Ok(Vec::new())).await;
    shops[0].sweep_all().await.unwrap();
    for shop in &shops {
        shop.assert_books_balance().await;
    }
}

#[tokio::test]
async fn while_a_slot_moves_nothing_is_done_by_half() {
    let cluster = cluster().await;
    let shop = Shop::with(shared_with(cluster.url()), PutSale::default(), &[("red", 100)]).await;
    let first = shop.hold("first", "red=1").await.id;
    let slot = slot_of(&shop.key("stock"));
    let from = cluster.master_of(slot).await;
    let moving = cluster.begin_move(slot, (from + 1) % SHARDS).await;
    loop {
        // Some keys are here and some there, or are not yet: the servers refuse, and we say that nothing was done.
        let answers = [shop.take("second", "red=1").await, shop.confirm(first).await];
        for answer in answers {
            assert!(is_not_applied(&answer, "slot_moving"), "{answer:?}");
        }
        if cluster.move_keys(&moving, 2).await == 0 {
            break;
        }
    }
    // A command with one key is served by whoever has it.
    let source = Source::Sale(shop.sale.clone());
    assert_eq!(shop.store.ensure_group(&source, 0).await, Ok(true));
    assert!(shop.store.progress(&source).await.unwrap().is_some());
    cluster.end_move(moving).await;
    // Whoever has not heard of it is sent on, and hears nothing of that either.
    for (key, shop) in [("second", &shop), ("third", &shop.another())] {
        shop.hold(key, "red=1").await;
    }
    assert_eq!(word(&shop.confirm(first).await), "confirmed");
    assert_eq!(shop.level("red").await, [97, 2, 1, 100]);
    let patch = PatchSale { buyer_limit: Some(Some(7)), ..PatchSale::default() };
    cluster.move_slot(slot, (from + 2) % SHARDS).await;
    let patched = shop.store.patch_sale(&shop.sale, &Caller::default(), None, &Expect::Anything, patch).await;
    assert!(patched.is_ok(), "{patched:?}");
    shop.assert_books_balance().await;
}

/// By HTTP: orders over several shards, barriers, webhooks and live events.
#[tokio::test]
async fn what_spans_shards_works_through_http() {
    let cluster = cluster().await;
    let service = Service::on(cluster.url()).await;
    let api = service.api();
    let mut sales: Vec<Option<Sale>> = (0..SHARDS).map(|_| None).collect();
    while sales.iter().any(Option::is_none) {
        let sale = Sale::of(&api, 10).await;
        let shard = cluster.master_of(slot_of(&format!("{{{}}}", sale.name))).await;
        sales[shard] = Some(sale);
    }
    let sales: Vec<Sale> = sales.into_iter().flatten().collect();
    let mut listeners = Vec::new();
    for sale in &sales {
        listeners.push(api.listen(&format!("/v1/sales/{}/events/live?after=latest", sale.name), None).await);
    }
    let lines: Vec<_> =
        sales.iter().map(|sale| json!({"sale": sale.name, "sku": "a", "quantity": 1})).collect();
    let order = api.call("POST", "/v1/orders").key(&new_key()).json(&json!({ "lines": lines })).send().await;
    let id = order.expect(201, "").id();
    api.post(&format!("/v1/orders/{id}/confirm"), &json!({})).await.expect(200, "");
    for (sale, listener) in sales.iter().zip(&mut listeners) {
        assert_eq!(sale.level("a").await, crate::service::Level(9, 0, 1));
        // Its slot moves while the reader waits for what comes next.
        let slot = slot_of(&format!("{{{}}}", sale.name));
        let from = cluster.master_of(slot).await;
        cluster.move_slot(slot, (from + 1) % SHARDS).await;
        sale.reserve(&new_key(), json!({"lines": [{"sku": "a", "quantity": 1}]})).await.expect(201, "");
        let heard = listener.take(3).await;
        let kinds: Vec<_> = heard.iter().map(|heard| heard.data["type"].as_str().unwrap()).collect();
        let expected = ["held", "confirmed", "held"].map(|word| format!("dev.stockade.reservation.{word}"));
        assert_eq!(kinds, expected);
    }
    for number in 0..8 {
        let path = format!("/v1/barriers/b{number}");
        api.put(&path, &json!({"participants": ["one"]})).await.expect(201, "");
        api.post(&format!("{path}/arrivals"), &json!({"participant": "one"})).await.expect(200, "");
    }
    let barriers = api.get("/v1/barriers?status=completed").await.expect(200, "").body;
    assert_eq!(barriers["items"].as_array().unwrap().len(), 8);
    let ready = api.get("/readyz").await.expect(200, "").body;
    assert_eq!(ready, json!({"status": "ready"}));
}

/// Levels of a moment ago, of a fresh process each time: none has them in its cache.
async fn recent_level(shop: &Shop, sku: &str) -> Result<u64, StoreError> {
    let shared = shared_with(shop.shared.config.url.clone());
    let config =
        PoolConfig { reads_replicas: true, wait_timeout: Duration::from_millis(500), ..shared.config };
    let store = Store::open(&Shared::new(config, shared.metrics)).unwrap();
    let one = store.recent_level(shop.sale.clone(), sku.parse().unwrap()).await?;
    let page = PageRequest { limit: 10, after: None };
    let all = store.recent_levels(shop.sale.clone(), &page).await?;
    let (Decision::Done(_, one), Decision::Done(_, all)) = (one, all) else { panic!("refused") };
    let one: serde_json::Value = serde_json::from_slice(&one).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&all).unwrap();
    assert_eq!(one["available"], all["items"][0]["available"]);
    Ok(one["available"].as_u64().unwrap())
}

#[tokio::test]
async fn levels_can_be_read_from_a_replica() {
    let mut cluster = RedisCluster::with(1, 1, &EACH_FOR_ITSELF).await;
    let [master, replica] = [0, 1];
    let shop = Shop::with(shared_with(cluster.url()), PutSale::default(), &[("red", 100)]).await;
    shop.hold("one", "red=1").await;
    eventually("the replica has it", async || {
        // It is listed only once its master has heard how far it is.
        let listed: redis::Value = cluster.ask(master, &["CLUSTER", "SLOTS"]).await;
        format!("{listed:?}").contains(&cluster.address(replica).port().to_string())
            && cluster.ask::<u64>(master, &["WAIT", "1", "1000"]).await == 1
    })
    .await;
    let commands = async |node: usize| {
        let info: String = cluster.ask(node, &["INFO", "commandstats"]).await;
        let calls = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            matches!(name, "evalsha" | "eval").then(|| rest.split(',').next()?.parse::<u64>().ok())?
        };
        info.lines().filter_map(calls).sum::<u64>()
    };
    let before = [commands(master).await, commands(replica).await];
    assert_eq!(recent_level(&shop, "red").await, Ok(99));
    assert_eq!(commands(master).await, before[0], "the master was left alone");
    assert!(commands(replica).await > before[1]);
    // What the replica has not heard of, and what it cannot tell, the master does.
    cluster.kill(replica);
    shop.hold("two", "red=1").await;
    assert_eq!(recent_level(&shop, "red").await, Ok(98));
}
