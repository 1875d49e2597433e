//! Pages of levels that all processes share.

use super::{calls, forget_calls, own_server, shop_on};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::shop::{Shop, redis_cmd, word};
use crate::support::shared_on;
use futures_util::future::join_all;
use serde_json::json;
use stockade::domain::{Decision, Timestamp};
use stockade::store::level_cache::PageTimes;

async fn command(server: &RedisServer, words: &[&str]) -> redis::Value {
    redis_cmd(&mut server.connection().await, words).await
}

/// Loads the scripts of pages.
async fn list_another_sale(shop: &Shop) {
    let other = Shop::with(shop.shared.clone(), Default::default(), &[("x", 1)]).await;
    other.recent_list(1, None).await;
}

/// A sale whose pages are young for a minute and shown for ten: long beside what a slow machine takes.
async fn slow_shop_on(server: &RedisServer) -> Shop {
    let mut shared = shared_on(server);
    shared.clock.stop();
    shared.page_times = PageTimes { fresh_ms: 60_000, stale_ms: 600_000, guard_ms: 3_600_000 };
    Shop::with(shared, Default::default(), &[("a", 5)]).await
}

const OLD_MS: i64 = 61_000;
const TOO_OLD_MS: i64 = 601_000;

#[tokio::test]
async fn one_process_makes_a_page_and_the_others_have_it() {
    let server = own_server();
    let shop = slow_shop_on(&server).await;
    list_another_sale(&shop).await;
    forget_calls(&server).await;
    let answers = join_all((0..100).map(|_| shop.recent_list(100, None))).await;
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(calls(&server, "evalsha").await, 3, "looked for, read, kept");
    shop.hold("k", "a=1").await;

    let others = [shop.elsewhere(), shop.elsewhere()];
    forget_calls(&server).await;
    for other in &others {
        assert_eq!(other.recent_list(100, None).await, answers[0]);
        assert_eq!(other.counted("pages"), [1, 0, 0]);
    }
    assert_eq!(calls(&server, "evalsha").await, 2, "looked for by each");
    assert_eq!(shop.counted("pages"), [0, 2, 0]);
}

#[tokio::test]
async fn an_old_page_is_shown_while_a_new_one_is_made() {
    let server = own_server();
    let shop = slow_shop_on(&server).await;
    let old = shop.recent_list(9, None).await;
    shop.hold("k", "a=1").await;
    // Whose turn it was to make a new one is dead: the guard of the first is there, for an hour.
    assert!(shop.has_key(&server, "rebuild:0").await);
    shop.shared.clock.advance_ms(OLD_MS);
    assert_eq!(shop.recent_list(9, None).await, old);
    assert_eq!(shop.elsewhere().recent_list(9, None).await, old);
    assert_eq!(shop.counted("pages"), [0, 1, 1]);

    // His turn runs out, and somebody else's begins.
    let guard = shop.key("rebuild:0");
    command(&server, &["PEXPIRE", &guard, "1"]).await;
    eventually("the guard has run out", async || !shop.has_key(&server, "rebuild:0").await).await;
    shop.shared.clock.advance_ms(121);
    let new = shop.recent_list(9, None).await;
    assert_eq!(new["items"][0]["held"], 1);
    assert_eq!(shop.counted("pages"), [0, 2, 1]);
    assert_eq!(shop.elsewhere().recent_list(9, None).await, new);
}

#[tokio::test]
async fn pages_and_guards_run_out_by_themselves() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    shop.recent_list(9, None).await;
    for (name, most_ms) in [("levels:0", 1_000), ("rebuild:0", 200)] {
        let left: i64 = redis_cmd(&mut server.connection().await, &["PTTL", &shop.key(name)]).await;
        assert!(left <= most_ms && left != -1, "{name} runs out in {left} ms");
    }
    for name in ["levels:0", "rebuild:0"] {
        eventually("it is gone", async || !shop.has_key(&server, name).await).await;
    }
}

/// As `keep_page` wrote it.
async fn page_text(shop: &Shop, list: &serde_json::Value) -> String {
    let level = &list["items"][0];
    let as_of: Timestamp = serde_json::from_value(level["as_of"].clone()).unwrap();
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    let units = ["available", "held", "sold", "granted"].map(|field| level[field].to_string());
    format!("{}\n1\n{}\na\n{}\n", sale.generation, as_of.as_ms(), units.join("\n"))
}

/// Whoever finds neither a page nor the right to make one reads for himself: nobody waits for the dead.
#[tokio::test]
async fn nobody_waits_for_who_makes_a_page() {
    let server = own_server();
    let shop = slow_shop_on(&server).await;
    command(&server, &["SET", &shop.key("rebuild:0"), ""]).await;
    assert_eq!(shop.recent_list(9, None).await["items"][0]["available"], 5);
    assert!(!shop.has_key(&server, "levels:0").await, "it was not his to keep");
    command(&server, &["DEL", &shop.key("rebuild:0")]).await;
    shop.shared.clock.advance_ms(121);
    shop.recent_list(9, None).await;
    shop.hold("k", "a=1").await;
    // An old page is not shown for ever.
    shop.shared.clock.advance_ms(TOO_OLD_MS);
    assert!(shop.has_key(&server, "levels:0").await && shop.has_key(&server, "rebuild:0").await);
    assert_eq!(shop.recent_list(9, None).await["items"][0]["held"], 1);
}

#[tokio::test]
async fn a_full_store_keeps_no_pages_and_is_read_all_the_same() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    shop.hold("k", "a=1").await;
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(shop.recent_list(9, None).await["items"][0]["held"], 1);
    assert_eq!(shop.recent("a").await["held"], 1);
    assert_eq!(shop.recent_list(9, Some("0")).await["items"][0]["held"], 1);
    for key in ["levels:0", "rebuild:0"] {
        assert!(!shop.has_key(&server, key).await, "{key}");
    }
    assert_eq!(word(&shop.take("another", "a=1").await), "store_full", "it is");
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    shop.shared.clock.advance_ms(121);
    assert_eq!(shop.recent_list(9, None).await["items"][0]["held"], 1);
    assert!(shop.has_key(&server, "levels:0").await);
}

/// A page that lies, by a damaged or a hostile store, is not shown.
#[tokio::test]
async fn a_damaged_page_is_none() {
    let server = own_server();
    let shop = slow_shop_on(&server).await;
    let good = shop.recent_list(9, None).await;
    let text = page_text(&shop, &good).await;
    let kept: String = redis_cmd(&mut server.connection().await, &["GET", &shop.key("levels:0")]).await;
    assert_eq!(kept, text);
    for bad in [
        text.replace("a\n5\n0\n0\n5", "a\n6\n0\n0\n5"),
        text.replace("a\n5\n", "a\n-5\n"),
        text.replace("a\n5\n", "a b\n5\n"),
        text.replace("a\n5\n0\n", "a\n5\n"),
        "nonsense".to_owned(),
    ] {
        assert_ne!(bad, text);
        command(&server, &["SET", &shop.key("levels:0"), &bad]).await;
        assert_eq!(shop.elsewhere().recent_list(9, None).await["items"][0]["available"], json!(5), "{bad:?}");
    }
    command(&server, &["DEL", &shop.key("levels:0")]).await;
    command(&server, &["RPUSH", &shop.key("levels:0"), "x"]).await;
    assert_eq!(shop.elsewhere().recent_list(9, None).await["items"][0]["available"], json!(5));
}

/// What may be lost at any time costs neither log nor replicas anything.
#[tokio::test]
async fn pages_are_not_in_the_log() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    let logged = async || {
        let info: String = redis_cmd(&mut server.connection().await, &["INFO", "persistence"]).await;
        let size = info.lines().find_map(|line| line.strip_prefix("aof_current_size:"));
        size.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = logged().await;
    assert!(before > 0);
    shop.recent_list(9, None).await;
    assert!(shop.counted("pages") == [0, 1, 0] && logged().await == before);
    shop.hold("k", "a=1").await;
    assert!(logged().await > before);
}
