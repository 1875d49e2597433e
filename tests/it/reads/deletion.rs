//! A deleted sale and the next one of its name.

use super::{own_server, shop_on};
use crate::shop::{redis_cmd, skus, word};
use serde_json::Value;
use stockade::domain::{Caller, Decision, Expect, PutSale};

/// Neither what a process remembers nor what all share outlives the tombstone.
#[tokio::test]
async fn the_next_sale_never_shows_the_levels_of_the_last() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    let elsewhere = shop.elsewhere();
    for process in [&shop, &elsewhere] {
        assert_eq!(process.recent("a").await["available"], 5);
        assert_eq!(process.recent_list(9, None).await["items"][0]["available"], 5);
    }
    let Ok(Decision::Done(_, old)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "deleted");
    let put = async || {
        let rules = PutSale::default().rules().unwrap();
        let (store, caller) = (&shop.store, Caller::default());
        word(&store.put_sale(&shop.sale, &caller, None, &Expect::Anything, rules, skus(&[("a", 9)])).await)
    };
    // While anybody may still show a level of it, its name cannot be used.
    let mut waited_ms = 0;
    while shop.sweep_all().await.unwrap().purged == 0 {
        assert_eq!(put().await, "sale_deleting");
        shop.shared.clock.advance_ms(60);
        waited_ms += 60;
    }
    assert!((60..1_100).contains(&waited_ms), "{waited_ms} ms");
    assert_eq!(put().await, "created");

    // The page of the old one may still lie there, and even be young.
    let now = shop.store.due(&shop.sale, 1).await.unwrap().now.as_ms();
    let page = format!("{}\n1\n{now}\na\n5\n0\n0\n5\n", old.generation);
    let () = redis_cmd(&mut server.connection().await, &["SET", &shop.key("levels:0"), &page]).await;
    for process in [&shop, &elsewhere, &shop.elsewhere()] {
        assert_eq!(process.recent("a").await["available"], 9);
        assert_eq!(process.recent_list(9, None).await["items"][0]["available"], 9);
        assert_eq!(process.recent_list(9, Some("0")).await["items"][0]["available"], 9);
    }
}

#[tokio::test]
async fn a_deleted_sale_leaves_no_page() {
    let server = own_server();
    let shop = shop_on(&server, &[("a", 5)]).await;
    shop.recent_list(9, None).await;
    let mut connection = server.connection().await;
    let keys = async |connection: &mut _| redis_cmd::<Vec<String>>(connection, &["KEYS", "st:{t-*"]).await;
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "deleted");
    shop.shared.clock.advance_ms(1_000);
    shop.sweep_all().await.unwrap();
    for key in keys(&mut connection).await {
        assert!(key.contains(":levels:") || key.contains(":rebuild:"), "{key}");
        let ttl: i64 = redis_cmd(&mut connection, &["PTTL", &key]).await;
        assert!((-2..=1_000).contains(&ttl) && ttl != -1, "{key} runs out in {ttl} ms");
    }
    // Nor does a reader that comes late bring one back.
    let page = stockade::domain::PageRequest { limit: 9, after: None };
    let late = shop.elsewhere().store.recent_levels(shop.sale.clone(), &page).await;
    assert_eq!(word(&late), "unknown_sale");
    crate::sandbox::eventually("nothing is left", async || {
        keys(&mut server.connection().await).await.is_empty()
    })
    .await;
    let left: Value = serde_json::json!(keys(&mut connection).await);
    assert_eq!(left, serde_json::json!([]));
}
