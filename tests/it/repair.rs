//! What was tampered with is set right or refused, and never makes a unit while the sale may sell.

use crate::audit::{Busy, busy};
use crate::redis_server::RedisServer;
use crate::shop::*;
use crate::support::shared_on;
use futures_util::future::join_all;
use rand::Rng;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stockade::audit_command;
use stockade::domain::*;
use stockade::store::audit::Repair;

/// `available` of each SKU, as it stands in the hash; none where it is no number.
async fn available(shop: &Shop) -> Vec<Option<u64>> {
    let mut connection = RedisServer::shared().connection().await;
    let key = shop.key("stock");
    let texts: Vec<Option<String>> =
        redis_cmd(&mut connection, &["HMGET", &key, "red:a", "blue:a", "grey:a"]).await;
    texts.into_iter().map(|text| text?.parse().ok()).collect()
}

async fn by_hand(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let _: redis::Value = redis_cmd(&mut RedisServer::shared().connection().await, &words).await;
}

async fn repair(shop: &Shop) -> Repair {
    shop.store.repair(&shop.sale).await.unwrap().expect("a sale")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Tampers with an open sale and repairs it: it says all of `said`, raises nothing, and the sale goes on. `red` is then
/// at `[available, held, sold, granted]`.
async fn is_repaired(tamper: impl Fn(&Busy) -> Vec<String>, said: &[&str], red: [u64; 4]) {
    let busy = busy().await;
    let (shop, tampering) = (&busy.shop, tamper(&busy));
    by_hand(&tampering).await;
    assert!(!shop.store.audit(Some(&shop.sale)).await.unwrap().is_clean(), "{tampering:?}");
    let before = available(shop).await;
    let done = repair(shop).await.to_string();
    for said in said {
        let said = said.replace("HELD_ID", &short(busy.held)).replace("SOLD_ID", &short(busy.sold));
        assert!(done.contains(&said), "{tampering:?}: {said} is not said:\n{done}");
    }
    let after = available(shop).await;
    assert!(
        before.iter().zip(&after).all(|(before, after)| after <= before),
        "{tampering:?}: a unit was made"
    );
    shop.assert_books_balance().await;
    assert_eq!(shop.level("red").await, red, "{tampering:?}:\n{done}");
    // Once more: there is nothing left to do. And the sale goes on.
    assert_eq!(repair(shop).await.to_string(), "", "{tampering:?}");
    let request = Reserve { buyer: Some("new".parse().unwrap()), ..cart("red=1,blue=1") };
    let hold = held(shop.reserve("after", request).await);
    assert_eq!(word(&shop.confirm(hold.id).await), "confirmed");
    shop.assert_books_balance().await;
}

/// Nothing is written, and the books stay wrong.
async fn is_refused(tamper: impl Fn(&Busy) -> Vec<String>, said: &[&str]) {
    let busy = busy().await;
    let (shop, tampering) = (&busy.shop, tamper(&busy));
    by_hand(&tampering).await;
    let mut connection = RedisServer::shared().connection().await;
    let key = shop.key("stock");
    let before: redis::Value = redis_cmd(&mut connection, &["HGETALL", &key]).await;
    let done = repair(shop).await.to_string();
    for said in said {
        assert!(done.contains(said), "{tampering:?}: {said} is not said:\n{done}");
    }
    let after: redis::Value = redis_cmd(&mut connection, &["HGETALL", &key]).await;
    assert_eq!(before, after, "{tampering:?}:\n{done}");
    assert!(!shop.store.audit(Some(&shop.sale)).await.unwrap().is_clean(), "{tampering:?}");
}

fn stock(field: &'static str, units: &'static str) -> impl Fn(&Busy) -> Vec<String> {
    move |busy| words(&["HINCRBY", &busy.shop.key("stock"), field, units])
}

#[tokio::test]
async fn a_changed_counter_is_set_right() {
    let right = [18, 2, 4, 24];
    is_repaired(stock("red:a", "1"), &["/red: repaired: available 18", "was 19, 2, 4, 24"], right).await;
    is_repaired(stock("red:h", "1"), &["/red: repaired", "was 18, 3, 4, 24"], right).await;
    is_repaired(stock("red:s", "-1"), &["/red: repaired", "was 18, 2, 3, 24"], right).await;
    is_repaired(stock("red:g", "3"), &["/red: repaired", "was 18, 2, 4, 27"], right).await;
    is_repaired(stock(":h", "1"), &["/(totals): repaired"], right).await;
    is_repaired(|b| words(&["HDEL", &b.shop.key("stock"), ":g"]), &["/(totals): repaired"], right).await;
    // Archived units have no records: their count is believed.
    is_repaired(stock("red:x", "1"), &["/red: repaired: available 17, held 2, sold 5"], [17, 2, 5, 24]).await;
    // One that is missing is written off.
    let said = ["/red: repaired: available 17, held 2, sold 4, granted 23", "1 units written off"];
    is_repaired(stock("red:a", "-1"), &said, [17, 2, 4, 23]).await;
}

#[tokio::test]
async fn units_of_a_lost_record_are_written_off_while_the_sale_may_sell() {
    let record = |b: &Busy, id: ReservationId| b.shop.key(&format!("r:{}", short(id)));
    let orphaned =
        ["HELD_ID: repaired", "/red: repaired", "2 units written off", "/blue: repaired", "1 units"];
    is_repaired(|b| words(&["DEL", &record(b, b.held)]), &orphaned, [18, 0, 4, 22]).await;
    is_repaired(|b| words(&["SET", &record(b, b.held), "held"]), &orphaned, [18, 0, 4, 22]).await;
    let sold = ["SOLD_ID: repaired", "3 units written off", "/blue: repaired"];
    is_repaired(|b| words(&["DEL", &record(b, b.sold)]), &sold, [18, 2, 1, 21]).await;
}

#[tokio::test]
async fn an_id_out_of_its_place_is_put_back() {
    let right = [18, 2, 4, 24];
    let place = |b: &Busy, key: &str, id: ReservationId| words(&["ZADD", &b.shop.key(key), "7", &short(id)]);
    is_repaired(|b| place(b, "due", b.held), &["HELD_ID: repaired"], right).await;
    is_repaired(|b| place(b, "done", b.held), &["HELD_ID: repaired"], right).await;
    is_repaired(|b| place(b, "due", b.sold), &["SOLD_ID: repaired"], right).await;
    let stray = |b: &Busy, key: &str| words(&["ZADD", &b.shop.key(key), "7", "AAAAAAAAAAAAAAAAAAAAAA"]);
    for key in ["due", "done"] {
        is_repaired(|b| stray(b, key), &["AAAAAAAAAAAAAAAAAAAAAA: repaired"], right).await;
    }
    // One that stands nowhere can't be seen. Its units are missed; should it be confirmed, that is an error.
    let busy = busy().await;
    by_hand(&words(&["ZREM", &busy.shop.key("due"), &short(busy.held)])).await;
    assert!(repair(&busy.shop).await.to_string().contains("2 units written off"));
    busy.shop.assert_books_balance().await;
    assert_eq!(word(&busy.shop.confirm(busy.held).await), "corrupt");
    busy.shop.assert_books_balance().await;
}

#[tokio::test]
async fn a_ledger_is_believed_if_it_begins_with_the_initial_stock() {
    let entry = |b: &Busy, text: &str| words(&["XADD", &b.shop.key("adjustments"), "*", "e", text]);
    let more = "op\nred\n1\n1\n1\n1\n\n7\nwhy\n\n1";
    is_repaired(|b| entry(b, more), &["/red: repaired", "7 units written off"], [18, 2, 4, 24]).await;
    let less = "op\nred\n1\n1\n1\n1\n\n-7\nwhy\n\n1";
    is_repaired(|b| entry(b, less), &["/red: repaired: available 11"], [11, 2, 4, 17]).await;
    let far_less = "op\nred\n1\n1\n1\n1\n\n-20\nwhy\n\n1";
    is_refused(|b| entry(b, far_less), &["/red: not repaired: 2 units more are held and sold"]).await;
    is_refused(|b| entry(b, "nonsense"), &[]).await;
    let gone = ["/red: not repaired: its ledger does not begin", "/blue: not repaired"];
    is_refused(|b| words(&["DEL", &b.shop.key("adjustments")]), &gone).await;
    // With one corrupt entry no sum can be trusted.
    let busy = busy().await;
    by_hand(&entry(&busy, "nonsense")).await;
    by_hand(&stock("red:a", "1")(&busy)).await;
    let done = repair(&busy.shop).await.to_string();
    assert!(done.contains("/red: not repaired: an entry of the ledger is corrupt"), "{done}");
    assert_eq!(available(&busy.shop).await[0], Some(19));
}

#[tokio::test]
async fn what_is_no_number_is_left_to_the_operator() {
    is_refused(|b| words(&["HSET", &b.shop.key("stock"), "red:h", "x"]), &[]).await;
    is_refused(|b| words(&["DEL", &b.shop.key("stock")]), &[]).await;
    is_refused(
        |b| words(&["SET", &b.shop.key("due"), "x"]),
        &["/due: not repaired: holds what no script wrote"],
    )
    .await;
}

#[tokio::test]
async fn a_buyers_count_is_set_right_unless_records_were_archived() {
    use sha2::Digest;
    let bucket = |b: &Busy, buyer: &str| {
        let digit = sha2::Sha256::digest(buyer.as_bytes())[0] >> 4;
        b.shop.key(&format!("buyers:{digit:x}"))
    };
    let right = [18, 2, 4, 24];
    for wrong in ["2|8|blue=3", "1|7|blue=3", "1|8|blue=2", "1|9|blue=3", "1|8|blue=3,red=1", "1|8", "x"] {
        let set = |b: &Busy| words(&["HSET", &bucket(b, "ann"), "ann", wrong]);
        let said = format!("/ann: repaired: counted 1|8|blue=3, was {wrong}");
        is_repaired(set, &[&said], right).await;
    }
    let said = "/zoe: repaired: counted nothing";
    is_repaired(|b| words(&["HSET", &bucket(b, "zoe"), "zoe", "1|1|"]), &[said], right).await;
    // An entry in another's bucket.
    let elsewhere = |b: &Busy| {
        let digit = sha2::Sha256::digest(b"ann")[0] >> 4;
        words(&["HSET", &b.shop.key(&format!("buyers:{:x}", 15 - digit)), "ann", "1|8|blue=3"])
    };
    is_repaired(elsewhere, &["/ann: repaired: counted nothing"], right).await;
    is_repaired(|b| words(&["HDEL", &bucket(b, "bob"), "bob"]), &["/bob: repaired"], right).await;

    let busy = busy().await;
    let shop = &busy.shop;
    shop.shared.clock.advance_ms(40 * 86_400_000);
    shop.sweep().await;
    let due = shop.store.due(&shop.sale, 100).await.unwrap();
    shop.store.archive(&shop.sale, &due.ended).await.unwrap();
    // What he holds is known; what he has bought is not.
    by_hand(&words(&["HSET", &bucket(&busy, "ann"), "ann", "3|5|blue=2"])).await;
    let done = repair(shop).await.to_string();
    assert!(
        done.contains("/ann: not repaired: records that may have counted for him were archived"),
        "{done}"
    );
}

#[tokio::test]
async fn paused_and_empty_it_is_set_to_what_the_books_say() {
    let Busy { shop, held, .. } = busy().await;
    by_hand(&words(&["HINCRBY", &shop.key("stock"), "red:a", "-3"])).await;
    by_hand(&words(&["HINCRBY", &shop.key("stock"), "red:h", "3"])).await;
    shop.store.switch_sale(&shop.sale, Switch::Pause).await.unwrap();
    assert_eq!(word(&shop.release(held).await), "released");
    let done = repair(&shop).await.to_string();
    assert!(done.contains("/red: repaired: available 20, held 0, sold 4, granted 24"), "{done}");
    shop.assert_books_balance().await;
    assert_eq!(shop.level("red").await, [20, 0, 4, 24]);

    // A lost record whose id was set aside: its units are back.
    let Busy { shop, held, .. } = busy().await;
    shop.store.switch_sale(&shop.sale, Switch::Pause).await.unwrap();
    by_hand(&words(&["DEL", &shop.key(&format!("r:{}", short(held)))])).await;
    let done = repair(&shop).await.to_string();
    assert!(!done.contains("written off"), "{done}");
    assert_eq!(shop.level("red").await, [20, 0, 4, 24]);
    shop.assert_books_balance().await;

    // The ledger does not add up: what it says beyond what is there is not believed.
    let Busy { shop, held, .. } = busy().await;
    shop.release(held).await.unwrap();
    shop.store.switch_sale(&shop.sale, Switch::Pause).await.unwrap();
    let more = "op\nred\n1\n1\n1\n1\n\n7\nwhy\n\n1";
    by_hand(&words(&["XADD", &shop.key("adjustments"), "*", "e", more])).await;
    assert!(repair(&shop).await.to_string().contains("7 units written off"));
    assert_eq!(shop.level("red").await, [20, 0, 4, 24]);
}

#[tokio::test]
async fn a_repair_stands_in_the_ledger_and_in_the_feed() {
    let Busy { shop, .. } = busy().await;
    by_hand(&words(&["HINCRBY", &shop.key("stock"), "red:a", "-1"])).await;
    repair(&shop).await;
    let page = PageRequest { limit: 100, after: None };
    let Ok(Decision::Done(_, ledger)) =
        shop.store.adjustments(&shop.sale, &"red".parse().unwrap(), &page).await
    else {
        panic!("no ledger")
    };
    let last = ledger.items.last().unwrap();
    assert_eq!((last.delta, last.reason.as_str()), (-1, "repair"));
    assert_eq!(last.reference.as_ref().unwrap().as_str(), "was a=17 h=2 s=4 g=24");
    assert_eq!((last.level.available, last.level.granted), (17, 23));
    assert!(shop.assert_lives_are_lived_once().await["adjusted"] >= 5);
}

/// Shoppers go on while counters drift, balanced so that nobody notices, and are set right under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_beside_racing_writers_loses_nothing() {
    let mut rng = seeded("a_repair_beside_racing_writers_loses_nothing");
    let names: Vec<String> = (0..12).map(|n| format!("s{n:02}")).collect();
    let stock: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 5_000)).collect();
    let shop = Arc::new(Shop::with(shared_on(RedisServer::shared()), PutSale::default(), &stock).await);
    let over = Arc::new(AtomicBool::new(false));
    let shoppers: Vec<_> = (0..4)
        .map(|shopper| {
            let (shop, over, names) = (shop.another(), Arc::clone(&over), names.clone());
            let mut rng: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(rng.random());
            tokio::spawn(async move {
                let mut sold = 0;
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return sold;
                    }
                    // They keep to a few for a while, so that the others stand still now and then.
                    let sku = &names[(n / 20 + rng.random_range(0..3)) % names.len()];
                    let hold = shop.hold(&format!("{shopper}-{n}"), &format!("{sku}=1")).await;
                    if rng.random() {
                        assert_eq!(word(&shop.confirm(hold.id).await), "confirmed");
                        sold += 1;
                    } else {
                        assert_eq!(word(&shop.release(hold.id).await), "released");
                    }
                }
                unreachable!()
            })
        })
        .collect();
    let mut connection = RedisServer::shared().connection().await;
    let mut repaired = 0;
    for _ in 0..6 {
        let (key, sku) = (shop.key("stock"), &names[rng.random_range(0..names.len())]);
        let (a, g) = (format!("{sku}:a"), format!("{sku}:g"));
        let mut pipe = redis::pipe();
        pipe.atomic();
        for field in [&a, &g, ":a", ":g"] {
            pipe.cmd("HINCRBY").arg(&key).arg(field).arg(5).ignore();
        }
        let () = pipe.query_async(&mut connection).await.unwrap();
        let done = repair(&shop).await;
        assert!(!done.to_string().contains("written off"), "{done}");
        repaired += done.lines.iter().filter(|line| line.what.starts_with("repaired: available")).count();
    }
    over.store(true, Ordering::Relaxed);
    let sold: u64 = join_all(shoppers).await.into_iter().map(Result::unwrap).sum();
    eprintln!("{repaired} of 6 repaired beside {sold} sales");
    repair(&shop).await;
    shop.assert_books_balance().await;
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    let Totals { available, held, sold: of_sale, granted } = sale.totals;
    assert_eq!((available + of_sale, held, of_sale, granted), (60_000, 0, sold, 60_000));
    shop.assert_lives_are_lived_once().await;
}

#[tokio::test]
async fn the_command_repairs_and_says_what_is_left() {
    let Busy { shop, .. } = busy().await;
    let code =
        async |repair: bool| format!("{:?}", audit_command::run(&shop.store, Some(&shop.sale), repair).await);
    let number = |code: u8| format!("{:?}", ExitCode::from(code));
    by_hand(&words(&["HINCRBY", &shop.key("stock"), "red:h", "1"])).await;
    assert_eq!(code(false).await, number(1));
    assert_eq!(code(true).await, number(0));
    assert_eq!(code(false).await, number(0));
    by_hand(&words(&["HSET", &shop.key("stock"), "red:h", "x"])).await;
    assert_eq!(code(true).await, number(1));
    let nowhere: SaleId = "no-such-sale".parse().unwrap();
    let none = audit_command::run(&shop.store, Some(&nowhere), true).await;
    assert_eq!(format!("{none:?}"), number(2));
}
