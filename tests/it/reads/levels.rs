//! The level of one SKU.

use super::{assert_adds_up, calls, forget_calls, own_server, process, shop_on, stopped_service};
use crate::service::{Level, Sale};
use crate::shop::{Shop, redis_cmd, word};
use futures_util::future::join_all;
use serde_json::{Value, json};
use stockade::store::Store;

#[tokio::test]
async fn a_crowd_makes_one_call() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    shop.level("a").await; // the script is loaded now
    let workers = [shop.another(), shop.another(), shop.another(), shop.another()];
    forget_calls(&server).await;
    let crowd = (0..100).map(|n| workers[n % workers.len()].recent("a"));
    let answers = join_all(crowd).await;
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer["available"] == 5));
    assert_eq!((calls(&server, "evalsha").await, calls(&server, "eval").await), (1, 0));
    assert_eq!(shop.counted("levels"), [99, 1, 0]);
    // Who comes later finds it there; another process reads for itself.
    shop.recent("a").await;
    assert_eq!(calls(&server, "evalsha").await, 1);
    shop.elsewhere().recent("a").await;
    assert_eq!(calls(&server, "evalsha").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_in_many_threads_makes_one_call() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    shop.level("a").await;
    forget_calls(&server).await;
    let ask = |_| {
        let worker = shop.another();
        tokio::spawn(async move { worker.recent("a").await })
    };
    let answers = join_all((0..100).map(ask)).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap()["available"] == 5));
    assert_eq!(calls(&server, "evalsha").await, 1);
}

#[tokio::test]
async fn an_answer_runs_out_and_tells_its_age() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    let first = shop.recent("a").await;
    let hold = shop.hold("k", "a=2").await;
    assert!(first["as_of"].as_str().unwrap() <= hold.created_at.to_string().as_str());
    shop.shared.clock.advance_ms(79);
    assert_eq!(shop.recent("a").await, first, "the same, and the same age");
    shop.shared.clock.advance_ms(42);
    let second = shop.recent("a").await;
    assert_eq!((&second["available"], &second["held"]), (&json!(3), &json!(2)));
    assert!(second["as_of"].as_str().unwrap() > first["as_of"].as_str().unwrap());
}

#[tokio::test]
async fn what_is_not_there_is_not_there_for_no_longer_than_an_answer_lasts() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    let nowhere = "nowhere".parse().unwrap();
    let ask = async |sale: &stockade::domain::SaleId, sku: &str| {
        word(&shop.store.recent_level(sale.clone(), sku.parse().unwrap()).await)
    };
    let list = async |sale: &stockade::domain::SaleId| {
        let request = stockade::domain::PageRequest { limit: 9, after: None };
        word(&shop.store.recent_levels(sale.clone(), &request).await)
    };
    assert_eq!(ask(&nowhere, "a").await, "unknown_sale");
    assert_eq!(list(&nowhere).await, "unknown_sale");
    assert_eq!(ask(&shop.sale, "b").await, "unknown_sku");
    // The crowd that asks for what is not there costs no more than the one that finds something.
    forget_calls(&server).await;
    join_all((0..100).map(|_| ask(&nowhere, "a"))).await;
    assert_eq!(calls(&server, "evalsha").await, 0);

    let put = async |sale: &stockade::domain::SaleId, stock: &[(&str, u64)]| {
        let (caller, rules) = Default::default();
        let rules: stockade::domain::PutSale = rules;
        let anything = stockade::domain::Expect::Anything;
        let rules = rules.rules().unwrap();
        let put = shop.store.put_sale(sale, &caller, None, &anything, rules, crate::shop::skus(stock)).await;
        assert!(["created", "changed"].contains(&word(&put)), "{put:?}");
    };
    put(&nowhere, &[("a", 1)]).await;
    put(&shop.sale, &[("b", 1)]).await;
    shop.shared.clock.advance_ms(121);
    assert_eq!(ask(&nowhere, "a").await, "unchanged");
    assert_eq!(list(&nowhere).await, "unchanged");
    assert_eq!(ask(&shop.sale, "b").await, "unchanged");
}

/// A take is decided by the script, whatever a cache says.
#[tokio::test]
async fn fresh_skips_the_caches_and_takes_never_ask_them() {
    let service = stopped_service();
    let sale = Sale::of(&service.api, 3).await;
    let old = sale.get("/stock/a").await.expect(200, "").body;
    let old_list = sale.get("/stock").await.expect(200, "").body;
    assert_eq!(old_list["items"][0]["available"], 3);
    sale.take(3).await.expect(201, "");
    assert_eq!(sale.get("/stock/a").await.expect(200, "").body, old);
    assert_eq!(sale.get("/stock?fresh=false").await.expect(200, "").body, old_list);
    assert_eq!(sale.take(1).await.expect(409, "sold_out").body["shortfalls"][0]["available"], 0);
    assert_eq!(sale.level("a").await, Level(0, 3, 0));
    let list = sale.get("/stock?fresh=true").await.expect(200, "").body;
    assert_eq!(list["items"][0]["held"], 3);
    let list = sale.get("/stock?fresh=true&limit=1&after=0").await.expect(200, "").body;
    assert_eq!((&list["items"][0]["held"], &list["next"]), (&json!(3), &json!("a")));
    // What was read past the caches is not put into them either.
    assert_eq!(sale.get("/stock/a").await.expect(200, "").body, old);
    for bad in ["fresh", "fresh=1", "fresh=TRUE", "fresh=true&fresh=true"] {
        sale.get(&format!("/stock/a?{bad}")).await.names("fresh");
        sale.get(&format!("/stock?{bad}")).await.names("fresh");
    }
    sale.get("/stock/a?limit=1").await.names("limit");
    sale.get("/stock/b?fresh=true").await.expect(404, "unknown_sku");
    sale.get("/stock/b").await.expect(404, "unknown_sku");
    service.advance_seconds(1);
    assert_eq!(sale.get("/stock/a").await.expect(200, "").body["held"], 3);
    assert_eq!(sale.get("/stock").await.expect(200, "").body["items"][0]["held"], 3);
}

#[tokio::test]
async fn an_error_is_not_kept() {
    let mut server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    server.kill();
    let lost = || shop.store.recent_level(shop.sale.clone(), "a".parse().unwrap());
    for answer in join_all((0..50).map(|_| lost())).await {
        assert!(["store_unavailable", "outcome_unknown"].contains(&word(&answer)), "{answer:?}");
    }
    server.restart();
    shop.shared.clock.advance_ms(1);
    assert_eq!(shop.recent("a").await["available"], 5);
}

/// Everybody asks for something else: all are answered, with half of the connections at most, so that takes have some.
#[tokio::test]
async fn a_flood_of_names_leaves_connections_to_others() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    // A worker that has no connection yet.
    let shop = shop.elsewhere();
    let clients = async || {
        let list: String = redis_cmd(&mut server.connection().await, &["CLIENT", "LIST"]).await;
        list.lines().count()
    };
    let before = clients().await;
    let names: Vec<String> = (0..2_000).map(|n| format!("x{n}")).collect();
    let ask = |name: &String| shop.store.recent_level(shop.sale.clone(), name.parse().unwrap());
    let flood = join_all(names.iter().map(ask)).await;
    assert!(flood.iter().all(|answer| ["unknown_sku", "store_busy"].contains(&word(answer))));
    assert!(flood.iter().any(|answer| word(answer) == "unknown_sku"));
    assert_eq!(shop.shared.config.size, 4);
    assert!(clients().await - before <= 2, "{} before, {} after", before, clients().await);
}

/// While units move, every answer adds up, whichever process gives it.
#[tokio::test]
async fn every_cached_answer_adds_up() {
    let server = own_server();
    let shop = Shop::open(&server, &[("a", 40), ("b", 40)]).await; // its clock runs
    let elsewhere = Shop { shared: process(&shop.shared), ..shop.another() };
    let elsewhere = Shop { store: Store::open(&elsewhere.shared).unwrap(), ..elsewhere };
    let done = std::cell::Cell::new(0);
    let trade = async |n: usize| {
        for turn in 0..40 {
            let hold = shop.hold(&format!("{n} {turn}"), "a=2,b=1").await;
            if turn % 2 == 0 {
                assert_eq!(word(&shop.release(hold.id).await), "released");
            } else {
                assert_eq!(word(&shop.confirm(hold.id).await), "confirmed");
                let back = stockade::domain::Return::default();
                assert_eq!(word(&shop.give_back(&format!("{n} {turn} b"), hold.id, back).await), "returned");
            }
        }
        done.set(done.get() + 1);
    };
    let watch = async |shop: &Shop| {
        let mut seen: Vec<Value> = Vec::new();
        while done.get() < 4 {
            let level = shop.recent("a").await;
            shop.recent_list(1, None).await["items"].as_array().unwrap().iter().for_each(assert_adds_up);
            if seen.last() != Some(&level) {
                seen.push(level);
            }
            tokio::task::yield_now().await;
        }
        seen
    };
    let (seen, also_seen, ..) =
        tokio::join!(watch(&shop), watch(&elsewhere), trade(0), trade(1), trade(2), trade(3));
    for seen in [seen, also_seen] {
        let times: Vec<&str> = seen.iter().map(|level| level["as_of"].as_str().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
    assert_eq!(shop.level("a").await, [40, 0, 0, 40]);
}
