//! The audit finds what was tampered with and names it; what goes on under it is no drift.

use crate::redis_server::RedisServer;
use crate::sandbox::Sandbox;
use crate::service::program;
use crate::shop::*;
use crate::support::shared_on;
use futures_util::future::join_all;
use rand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stockade::audit_command;
use stockade::domain::*;
use stockade::store::audit::Report;

/// A sale in which everything has happened once: `red` is held, sold, returned; `blue` has limits.
pub struct Busy {
    pub shop: Shop,
    pub held: ReservationId,
    pub sold: ReservationId,
}

pub async fn busy() -> Busy {
    let rules = PutSale { buyer_limit: Some(50), buyer_holds_max: Some(9), ..PutSale::default() };
    let shop =
        Shop::with(shared_on(RedisServer::shared()), rules, &[("red", 20), ("blue", 20), ("grey", 0)]).await;
    let blue = PutSku { initial: None, buyer_limit: Some(10) };
    shop.store.put_sku(&shop.sale, &"blue".parse().unwrap(), blue).await.unwrap();
    let take = |name: &'static str, lines: &'static str, buyer: &str| {
        let request = Reserve { buyer: Some(buyer.parse().unwrap()), ..cart(lines) };
        let shop = &shop;
        async move { held(shop.reserve(name, request).await).id }
    };
    let held = take("held", "red=2,blue=1", "ann").await;
    let sold = take("sold", "red=3,blue=2", "ann").await;
    assert_eq!(word(&shop.confirm(sold).await), "confirmed");
    let part = take("part", "red=4,blue=3", "bob").await;
    let some = Confirm { lines: Some(lines("red=2,blue=1")), ..Confirm::default() };
    shop.store.confirm(&shop.sale, part, some).await.unwrap();
    let one = Return { lines: Some(lines("red=1")), restock: false };
    assert_eq!(word(&shop.give_back("one", part, one).await), "returned");
    let back = take("back", "blue=1", "cid").await;
    shop.confirm(back).await.unwrap();
    assert_eq!(word(&shop.give_back("all", back, Return::default()).await), "returned");
    let free = take("free", "blue=2", "cid").await;
    assert_eq!(word(&shop.release(free).await), "released");
    assert_eq!(word(&shop.adjust("more", "red", 5).await), "adjusted");
    Busy { shop, held, sold }
}

async fn audit(shop: &Shop) -> Report {
    shop.store.audit(Some(&shop.sale)).await.unwrap()
}

/// Does one thing by hand, and expects the report to be unclean and to name all of `named`.
async fn tampering_is_found(tamper: impl Fn(&Busy) -> Vec<String>, named: &[&str]) {
    let busy = busy().await;
    busy.shop.assert_books_balance().await;
    let words = tamper(&busy);
    let mut connection = RedisServer::shared().connection().await;
    let _: redis::Value =
        redis_cmd(&mut connection, &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let report = audit(&busy.shop).await;
    let text = report.to_string();
    assert!(!report.is_clean() && report.is_complete(), "{words:?} is not found:\n{text}");
    for name in named {
        let name = name.replace("HELD_ID", &short(busy.held)).replace("SOLD_ID", &short(busy.sold));
        assert!(text.contains(&name), "{words:?}: {name} is not named:\n{text}");
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn is_clean_after_a_busy_run_and_after_all_was_archived() {
    let Busy { shop, .. } = busy().await;
    shop.assert_books_balance().await;
    shop.shared.clock.advance_ms(40 * 86_400_000);
    shop.assert_books_balance().await; // overdue, and not swept yet
    assert_eq!(shop.sweep().await, 1);
    shop.assert_books_balance().await;
    shop.shared.clock.advance_ms(2 * 86_400_000);
    let due = shop.store.due(&shop.sale, 100).await.unwrap();
    assert_eq!(shop.store.archive(&shop.sale, &due.ended).await.unwrap(), 5);
    shop.assert_books_balance().await;
    let report = audit(&shop).await;
    assert_eq!((report.holds, report.ended, report.skus), (0, 0, 3));
    assert_eq!(shop.level("red").await, [20, 0, 4, 24]);
}

#[tokio::test]
async fn a_changed_counter_is_found() {
    for (field, named) in [
        ("red:a", "unbalanced"),
        ("red:h", "3 (books: 2)"),
        ("red:s", "5 (books: 4)"),
        ("red:g", "25 (books: 24)"),
    ] {
        tampering_is_found(|b| texts(&["HINCRBY", &b.shop.key("stock"), field, "1"]), &["/red", named]).await;
    }
    tampering_is_found(
        |b| texts(&["HINCRBY", &b.shop.key("stock"), "red:x", "1"]),
        &["/red", "4 (books: 5)"],
    )
    .await;
    tampering_is_found(|b| texts(&["HINCRBY", &b.shop.key("stock"), ":h", "1"]), &["/(totals)"]).await;
    tampering_is_found(|b| texts(&["HSET", &b.shop.key("stock"), "red:h", "x"]), &["/red: its counters"])
        .await;
    tampering_is_found(|b| texts(&["DEL", &b.shop.key("stock")]), &["/red", "/blue", "/grey", "/(totals)"])
        .await;
}

#[tokio::test]
async fn a_lost_or_changed_record_is_found() {
    let record = |b: &Busy, id: ReservationId| b.shop.key(&format!("r:{}", short(id)));
    tampering_is_found(|b| texts(&["DEL", &record(b, b.held)]), &["/red", "/blue", "HELD_ID: no record"])
        .await;
    tampering_is_found(|b| texts(&["DEL", &record(b, b.sold)]), &["/red", "/blue", "SOLD_ID: no record"])
        .await;
    tampering_is_found(|b| texts(&["SET", &record(b, b.held), "held"]), &["HELD_ID: record is corrupt"])
        .await;
    tampering_is_found(|b| texts(&["APPEND", &record(b, b.held), "\nx"]), &["HELD_ID: record is corrupt"])
        .await;
}

#[tokio::test]
async fn an_id_out_of_its_place_is_found() {
    let place = |b: &Busy, command: &str, key: &str, rest: &[&str]| {
        let key = b.shop.key(key);
        [&[command, &key], rest].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (red, held) = ("2 (books: 0)", "HELD_ID");
    tampering_is_found(|b| place(b, "ZREM", "due", &[&short(b.held)]), &["/red", "/blue", red]).await;
    tampering_is_found(|b| place(b, "ZREM", "done", &[&short(b.sold)]), &["/red", "/blue", "4 (books: 1)"])
        .await;
    tampering_is_found(|b| place(b, "ZADD", "due", &["7", &short(b.held)]), &[held, "another time"]).await;
    tampering_is_found(|b| place(b, "ZADD", "done", &["7", &short(b.held)]), &[held, "in due and in done"])
        .await;
    tampering_is_found(
        |b| place(b, "ZADD", "due", &["7", &short(b.sold)]),
        &["SOLD_ID", "in due and in done"],
    )
    .await;
    tampering_is_found(|b| place(b, "ZADD", "due", &["7", "AAAAAAAAAAAAAAAAAAAAAA"]), &["no record"]).await;
    tampering_is_found(|b| place(b, "SET", "due", &["7"]), &["/due: holds what no"]).await;
}

#[tokio::test]
async fn a_changed_ledger_is_found() {
    let ledger = |b: &Busy, text: &str| texts(&["XADD", &b.shop.key("adjustments"), "*", "e", text]);
    tampering_is_found(|b| ledger(b, "op\nred\n1\n1\n1\n1\n\n7\nwhy\n\n1"), &["/red", "24 (books: 31)"])
        .await;
    tampering_is_found(|b| ledger(b, "nonsense"), &["entry of the ledger is corrupt"]).await;
    tampering_is_found(|b| texts(&["DEL", &b.shop.key("adjustments")]), &["24 (books: 0)", "/blue"]).await;
    tampering_is_found(|b| ledger(b, "op\nnone\n1\n1\n1\n1\n\n7\nwhy\n\n1"), &["/none: named by"]).await;
}

#[tokio::test]
async fn a_buyers_changed_count_is_found() {
    use sha2::Digest;
    let bucket = |b: &Busy, buyer: &str| {
        let digit = sha2::Sha256::digest(buyer.as_bytes())[0] >> 4;
        b.shop.key(&format!("buyers:{digit:x}"))
    };
    let set = |b: &Busy, buyer: &str, text: &str| texts(&["HSET", &bucket(b, buyer), buyer, text]);
    for wrong in ["2|8|blue=3", "1|7|blue=3", "1|8|blue=2", "1|9|blue=3", "1|8|blue=3,red=1", "1|8", "x"] {
        tampering_is_found(|b| set(b, "ann", wrong), &["ann: buyer's counts"]).await;
    }
    tampering_is_found(|b| set(b, "zoe", "1|1|"), &["zoe: buyer's counts"]).await;
    tampering_is_found(|b| texts(&["HDEL", &bucket(b, "bob"), "bob"]), &["bob: buyer's counts"]).await;
}

#[tokio::test]
async fn counts_orphans_and_sees_their_units_missing() {
    let Busy { shop, held, .. } = busy().await;
    let mut connection = RedisServer::shared().connection().await;
    let _: u64 = redis_cmd(&mut connection, &["DEL", &shop.key(&format!("r:{}", short(held)))]).await;
    shop.store.expire(&shop.sale, &[short(held)]).await.unwrap();
    let report = audit(&shop).await;
    assert_eq!(report.orphans, 1);
    assert!(!report.is_clean() && report.to_string().contains("2 (books: 0)"), "{report}");
}

#[tokio::test]
async fn the_command_says_in_its_exit_code_what_it_found() {
    use std::process::ExitCode;
    let Busy { shop, .. } = busy().await;
    let code =
        async |sale: &SaleId| format!("{:?}", audit_command::run(&shop.store, Some(sale), false).await);
    let number = |code: u8| format!("{:?}", ExitCode::from(code));
    assert_eq!(code(&shop.sale).await, number(0));
    assert_eq!(code(&"no-such-sale".parse().unwrap()).await, number(2));
    let mut connection = RedisServer::shared().connection().await;
    let _: i64 = redis_cmd(&mut connection, &["HINCRBY", &shop.key("stock"), "red:h", "1"]).await;
    assert_eq!(code(&shop.sale).await, number(1));
}

/// Whoever asks for the books and gets none is not told that they drift.
#[test]
fn the_command_says_so_when_there_are_no_books_to_read() {
    let sandbox = Sandbox::new();
    let no_folder = sandbox.path().join("file");
    std::fs::write(&no_folder, "").unwrap();
    let audit = program(sandbox.path()).args(["audit", "--data-dir"]).arg(&no_folder).output().unwrap();
    assert_eq!(audit.status.code(), Some(2), "{}", String::from_utf8_lossy(&audit.stderr));
}

#[tokio::test]
async fn reads_more_records_than_a_page() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 2_000)]).await;
    let keys: Vec<String> = (0..1_300).map(|n| n.to_string()).collect();
    let ids = join_all(keys.iter().map(|key| shop.hold(key, "red=1"))).await;
    join_all(ids.iter().take(600).map(|hold| shop.confirm(hold.id))).await;
    shop.assert_books_balance().await;
    let report = audit(&shop).await;
    assert_eq!((report.holds, report.ended), (700, 600));
}

/// All sales of a server: the audit of many, one of them in drift.
#[tokio::test]
async fn audits_all_sales() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let mut shops = Vec::new();
    for _ in 0..3 {
        shops.push(Shop::with(shared.clone(), PutSale::default(), &[("red", 5)]).await);
        shops.last().unwrap().hold("k", "red=1").await;
    }
    let report = shops[0].store.audit(None).await.unwrap();
    assert!(report.is_clean() && (report.sales, report.skus, report.holds) == (3, 3, 3), "{report}");
    let _: i64 =
        redis_cmd(&mut server.connection().await, &["HINCRBY", &shops[1].key("stock"), "red:s", "2"]).await;
    let report = shops[0].store.audit(None).await.unwrap();
    assert!(!report.is_clean());
    assert!(report.drifts.iter().all(|drift| drift.sale == shops[1].sale), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_sale_shows_no_false_drift() {
    let mut rng = seeded("a_live_sale_shows_no_false_drift");
    let rules = PutSale { buyer_holds_max: Some(50), ..PutSale::default() };
    let names: Vec<String> = (0..40).map(|n| format!("s{n:02}")).collect();
    let stock: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 500)).collect();
    let shop = Arc::new(Shop::with(shared_on(RedisServer::shared()), rules, &stock).await);
    let over = Arc::new(AtomicBool::new(false));
    let mut shoppers = Vec::new();
    for shopper in 0..8 {
        let (shop, over, names) = (Arc::clone(&shop), Arc::clone(&over), names.clone());
        let mut rng: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(rng.random());
        shoppers.push(tokio::spawn(async move {
            let mut old = None;
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    return n;
                }
                // Half of the shoppers keep to a few SKUs, so that the others stand still now and then.
                let sku = &names[rng.random_range(0..if shopper < 4 { 3 } else { names.len() })];
                let lines = format!("{sku}=2,{}=1", names[rng.random_range(0..3)]);
                let (buyer, key) = (Some("ann".parse().unwrap()), format!("{shopper}-{n}"));
                let request = Reserve { buyer, replaces: old, ..cart(&lines) };
                let Ok(Decision::Done(_, hold)) = shop.reserve(&key, request).await else {
                    old = None;
                    continue;
                };
                old = None;
                match rng.random_range(0..5) {
                    0 => old = Some(hold.id),
                    1 => drop(shop.extend(&key, hold.id, 900).await.unwrap()),
                    2 => {
                        shop.confirm(hold.id).await.unwrap();
                        let some = Return { lines: Some(hold_line(&hold)), restock: rng.random() };
                        shop.give_back(&key, hold.id, some).await.unwrap();
                    }
                    3 => drop(shop.adjust(&key, sku, 1).await.unwrap()),
                    _ => drop(shop.release(hold.id).await.unwrap()),
                }
            }
            unreachable!()
        }));
    }
    let mut checked = 0;
    let slowly = shop.store.auditing_slowly();
    for n in 0..20 {
        let store = if n % 4 == 0 { &slowly } else { &shop.store };
        let report = store.audit(Some(&shop.sale)).await.unwrap();
        assert!(report.is_clean(), "{report}");
        checked += names.len().saturating_sub(report.unchecked.len());
    }
    over.store(true, Ordering::Relaxed);
    let rounds: usize = join_all(shoppers).await.into_iter().map(Result::unwrap).sum();
    eprintln!("{rounds} carts under 20 audits, {checked} SKUs checked");
    assert!(checked > 0, "nothing stood still");
    shop.assert_books_balance().await;
}

fn hold_line(hold: &Reservation) -> Lines {
    lines(&format!("{}=1", hold.lines[0].sku))
}

/// Extends and swaps leave every level as it is, but move holds behind the page that the audit is reading.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_move_while_they_are_counted_are_no_drift() {
    let shop = Arc::new(Shop::open(RedisServer::shared(), &[("red", 3_000)]).await);
    let keys: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    let holds = join_all(keys.iter().map(|key| shop.hold(key, "red=1"))).await;
    let over = Arc::new(AtomicBool::new(false));
    let mover = {
        let (shop, over) = (Arc::new(shop.another()), Arc::clone(&over));
        tokio::spawn(async move {
            let mut swapped = None;
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    return n;
                }
                let key = format!("move {n}");
                let moved = shop.extend(&key, holds[n % 1_900].id, 700 + (n as u64) % 2_000).await;
                assert_eq!(word(&moved), "extended");
                let replaces = swapped.or(Some(holds[1_999].id));
                let swap = Reserve { replaces, hold_seconds: Some(3_000), ..cart("red=1") };
                swapped = Some(held(shop.reserve(&key, swap).await).id);
            }
            unreachable!()
        })
    };
    for _ in 0..5 {
        let report = audit(&shop).await;
        assert!(report.is_clean(), "{report}");
    }
    over.store(true, Ordering::Relaxed);
    assert!(mover.await.unwrap() > 0);
    shop.assert_books_balance().await;
}
