//! What a call costs Redis: no script walks all SKUs of a large sale.

use super::{own_server, shop_on};
use crate::redis_server::RedisServer;
use crate::shop::{Shop, redis_cmd, skus};
use futures_util::StreamExt;
use stockade::domain::*;

/// A call as Redis saw it: words of the command, and of all the commands that its script gave.
struct Seen {
    command: String,
    words: usize,
}

/// Watches everything that Redis does while `work` runs.
async fn watched(server: &RedisServer, work: impl Future<Output = ()>) -> Vec<Seen> {
    let client = redis::Client::open(server.url()).unwrap();
    let monitor = client.get_async_monitor().await.unwrap();
    let mut lines = monitor.into_on_message::<String>();
    work.await;
    let mut connection = server.connection().await;
    let _: String = redis_cmd(&mut connection, &["ECHO", "that was all"]).await;
    let mut seen: Vec<Seen> = Vec::new();
    while let Some(line) = lines.next().await {
        if line.contains("\"that was all\"") {
            return seen;
        }
        // `<time> [0 lua] "HMGET" "key" "field" ...`: a command of the script whose call is shown after it.
        let (who, words) = line.split_once("] ").unwrap();
        let words: Vec<&str> = words.split("\" \"").collect();
        match seen.last_mut() {
            Some(call) if who.ends_with("lua") => call.words += words.len(),
            _ => seen.push(Seen { command: words[0].trim_matches('"').to_lowercase(), words: 0 }),
        }
    }
    panic!("the monitor ended");
}

#[track_caller]
fn longest(seen: &[Seen], calls: usize) -> usize {
    let scripts: Vec<usize> =
        seen.iter().filter(|call| call.command.starts_with("eval")).map(|call| call.words).collect();
    assert!(scripts.len() >= calls, "only {} calls were seen", scripts.len());
    let others = seen.iter().filter(|call| !call.command.starts_with("eval"));
    let known = [
        "hello",
        "client",
        "zlexcount",
        "zrange",
        "zadd",
        "hmget",
        "select",
        "watch",
        "unwatch",
        "multi",
        "exec",
    ];
    others.for_each(|call| assert!(known.contains(&&*call.command), "{}", call.command));
    scripts.into_iter().max().unwrap()
}

/// Fields of a level, and some words around them.
const PAGE_WORDS: usize = 250 * 8 + 60;

#[tokio::test]
async fn no_read_of_a_large_sale_walks_all_its_skus() {
    let server = own_server();
    let shop = shop_on(&server, &[]).await;
    let names: Vec<String> = (0..10_000).map(|n| format!("s{n:05}")).collect();
    let put = async {
        for some in names.chunks(1_000) {
            let stock: Vec<(&str, u64)> = some.iter().map(|sku| (sku.as_str(), 3)).collect();
            let (rules, caller) = (PutSale::default().rules().unwrap(), Caller::default());
            let put =
                shop.store.put_sale(&shop.sale, &caller, None, &Expect::Anything, rules, skus(&stock)).await;
            assert_eq!(crate::shop::word(&put), "changed");
        }
    };
    // Putting costs by what is put: eight fields read, at most seven written and one entry of the ledger for each.
    let longest_put = longest(&watched(&server, put).await, 10);
    assert!((8_000..32_000).contains(&longest_put), "{longest_put}");

    let list = async {
        for limit in [250, 499] {
            assert_eq!(shop.recent_all(limit).await.len(), 10_000);
            shop.shared.clock.advance_ms(2_000);
        }
    };
    let seen = watched(&server, list).await;
    let longest_list = longest(&seen, 2 * 40 * 2);
    assert!((2_000..=PAGE_WORDS).contains(&longest_list), "{longest_list} words in one call");

    let by_name = async {
        let (mut after, mut count) = (None, 0);
        loop {
            let page = shop.store.levels(&shop.sale, &PageRequest { limit: 250, after }).await;
            let Ok(Decision::Done(_, page)) = page else { panic!("{page:?}") };
            count += page.items.len();
            match page.next {
                Some(next) => after = Some(next),
                None => return assert_eq!(count, 10_000),
            }
        }
    };
    let longest_by_name = longest(&watched(&server, by_name).await, 40);
    assert!((2_000..=PAGE_WORDS).contains(&longest_by_name), "{longest_by_name} words in one call");

    // The sale with its totals, the list of sales, one level, a switch.
    let small = async {
        the_sale(&shop).await;
        let sales =
            shop.store.sales(&Caller::default(), &PageRequest { limit: 500, after: None }).await.unwrap();
        assert_eq!(sales.items[0].totals.granted, 30_000);
        shop.recent("s09999").await;
        shop.store.switch_sale(&shop.sale, Switch::Pause).await.unwrap();
        shop.store.due(&shop.sale, 100).await.unwrap();
    };
    let longest_small = longest(&watched(&server, small).await, 5);
    assert!(longest_small <= 60, "{longest_small} words in one call");
}

async fn the_sale(shop: &Shop) {
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    assert_eq!((sale.skus, sale.totals.granted), (10_000, 30_000));
}
