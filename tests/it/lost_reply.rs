//! What a caller can't know, a repeat with the same key finds out: lost answers, frozen, killed and full servers.

use crate::proxy::{Proxy, Travel, with_timeouts};
use crate::redis_server::{RedisServer, ServerOptions};
use crate::shop::*;
use crate::support::store_on;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stockade::domain::*;
use stockade::store::scripts::{Script, Scripts};
use stockade::store::{Store, StoreError};

const SECOND: Duration = Duration::from_secs(1);

/// A sale seen by two processes: one behind a proxy that loses answers.
struct Lossy {
    proxy: Proxy,
    behind: Shop,
    direct: Shop,
}

/// All scripts are known to the server: what is lost is the answer of the script, not that it is unknown.
async fn lossy(server: &RedisServer) -> Lossy {
    let direct = Shop::open(server, &[("red", 10), ("blue", 10)]).await;
    direct.store.self_test().await.unwrap();
    let proxy = Proxy::before(server);
    let shared = proxy.shared(&direct.shared);
    let behind = Shop { store: Store::open(&shared).unwrap(), shared, sale: direct.sale.clone() };
    // It knows the sale, so that the next request is the verb itself.
    assert_eq!(word(&behind.release(ReservationId(uuid::Uuid::nil())).await), "unknown_reservation");
    Lossy { proxy, behind, direct }
}

/// Everything that a second effect would change.
async fn effects(shop: &Shop) -> String {
    let mut connection = RedisServer::shared().connection().await;
    let key = |name: &str| shop.key(name);
    let stock: BTreeMap<String, String> = redis_cmd(&mut connection, &["HGETALL", &key("stock")]).await;
    let events: Vec<(String, Vec<String>)> =
        redis_cmd(&mut connection, &["XRANGE", &key("events"), "-", "+"]).await;
    let ledger: u64 = redis_cmd(&mut connection, &["XLEN", &key("adjustments")]).await;
    let rules: BTreeMap<String, redis::Value> = redis_cmd(&mut connection, &["HGETALL", &key("rules")]).await;
    let due: Vec<String> =
        redis_cmd(&mut connection, &["ZRANGE", &key("due"), "0", "-1", "WITHSCORES"]).await;
    let done: Vec<String> = redis_cmd(&mut connection, &["ZRANGE", &key("done"), "0", "-1"]).await;
    format!("{stock:?} {events:?} {ledger} {rules:?} {due:?} {done:?}")
}

/// Loses the answer of one call: it is unknown, it had its effect, and its repeat, here and elsewhere, has none but
/// says `again`.
async fn answer_is_lost<T: std::fmt::Debug>(
    Lossy { proxy, behind, direct }: &Lossy,
    script: &Script,
    again: &str,
    call: impl AsyncFn(&Shop) -> Result<Decision<T>, StoreError>,
) {
    let before = effects(direct).await;
    let lost = proxy.lost();
    proxy.lose_answer_to(&script.sha);
    let decided = call(behind).await;
    assert!(matches!(decided, Err(StoreError::Unknown(_))), "{}: {decided:?}", script.name);
    assert_eq!(proxy.lost(), lost + 1, "{}", script.name);
    let once = effects(direct).await;
    assert_ne!(once, before, "{}: it had no effect", script.name);
    for shop in [behind, direct, &direct.another()] {
        assert_eq!(word(&call(shop).await), again, "{}", script.name);
        assert_eq!(effects(direct).await, once, "{}: a second effect", script.name);
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_reservation_verb_is_told_by_its_repeat() {
    let sale = lossy(RedisServer::shared()).await;
    let (shop, scripts) = (&sale.direct, Scripts::new());
    answer_is_lost(&sale, &scripts.reserve, "replayed", async |s| s.take("one", "red=1,blue=2").await).await;
    let old = shop.hold("old", "red=2").await.id;
    let swap = Reserve { replaces: Some(old), ..cart("blue=3") };
    answer_is_lost(&sale, &scripts.reserve, "replayed", async |s| s.reserve("new", swap.clone()).await).await;

    let hold = async |name: &str| shop.hold(name, "red=2").await.id;
    let whole = hold("whole").await;
    answer_is_lost(&sale, &scripts.extend, "replayed", async |s| s.extend("x", whole, 900).await).await;
    answer_is_lost(&sale, &scripts.confirm, "replayed", async |s| s.confirm(whole).await).await;
    let one = Return { lines: Some(lines("red=1")), restock: true };
    let script = &scripts.return_reservation;
    answer_is_lost(&sale, script, "replayed", async |s| s.give_back("r", whole, one.clone()).await).await;
    let rest = Return { lines: None, restock: false };
    answer_is_lost(&sale, script, "replayed", async |s| s.give_back("s", whole, rest.clone()).await).await;

    let part = hold("part").await;
    let some = Confirm { lines: Some(lines("red=1")), ..Confirm::default() };
    let confirm = async |s: &Shop| s.store.confirm(&s.sale, part, some.clone()).await;
    answer_is_lost(&sale, &scripts.confirm, "replayed", confirm).await;
    let free = hold("free").await;
    answer_is_lost(&sale, &scripts.release, "replayed", async |s| s.release(free).await).await;

    let late = hold("late").await;
    shop.shared.clock.advance_ms(700_000);
    let retake = Confirm { if_expired: IfExpired::Retake, ..Confirm::default() };
    let confirm = async |s: &Shop| s.store.confirm(&s.sale, late, retake.clone()).await;
    answer_is_lost(&sale, &scripts.confirm, "replayed", confirm).await;
    let mut ids: Vec<String> = Vec::new();
    while ids.is_empty() {
        ids = shop.store.due(&shop.sale, 100).await.unwrap().overdue;
    }
    let sweep = async |s: &Shop| match s.store.expire(&s.sale, &ids).await {
        Ok(0) => Ok(Decision::Done(Outcome::Unchanged, ())),
        Ok(_) => Ok(Decision::Done(Outcome::Expired, ())),
        Err(error) => Err(error),
    };
    answer_is_lost(&sale, &scripts.expire, "unchanged", sweep).await;
    shop.assert_lives_are_lived_once().await;
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn a_lost_answer_to_a_sale_verb_is_told_by_its_repeat() {
    let sale = lossy(RedisServer::shared()).await;
    let scripts = Scripts::new();
    answer_is_lost(&sale, &scripts.adjust, "replayed", async |s| s.adjust("more", "red", 3).await).await;
    let put_sku = async |s: &Shop| {
        let (green, request) = ("green".parse().unwrap(), PutSku { initial: Some(4), buyer_limit: Some(2) });
        s.store.put_sku(&s.sale, &green, request).await
    };
    answer_is_lost(&sale, &scripts.put, "unchanged", put_sku).await;
    let put = async |s: &Shop| {
        let rules = PutSale { hold_seconds: Some(60), ..PutSale::default() }.rules().unwrap();
        let (caller, key) = (Caller::default(), key("put"));
        s.store.put_sale(&s.sale, &caller, Some(&key), &Expect::Anything, rules, skus(&[("grey", 1)])).await
    };
    answer_is_lost(&sale, &scripts.put, "replayed", put).await;
    for switch in [Switch::Pause, Switch::Resume, Switch::Close] {
        let call = async |s: &Shop| s.store.switch_sale(&s.sale, switch).await;
        answer_is_lost(&sale, &scripts.switch, "unchanged", call).await;
    }
    sale.direct.assert_books_balance().await;
    answer_is_lost(&sale, &scripts.delete, "replayed", async |s| s.store.delete_sale(&s.sale).await).await;
}

/// Nobody knows the sale yet: its creation is what is lost.
#[tokio::test]
async fn a_lost_answer_to_the_creation_of_a_sale_is_told_by_its_repeat() {
    let mut sale = lossy(RedisServer::shared()).await;
    let name: SaleId = format!("{}-new", sale.direct.sale).parse().unwrap();
    (sale.direct.sale, sale.behind.sale) = (name.clone(), name);
    let put = async |s: &Shop| {
        let (caller, key, rules) = (Caller::default(), key("put"), PutSale::default().rules().unwrap());
        s.store.put_sale(&s.sale, &caller, Some(&key), &Expect::Absent, rules, skus(&[("red", 1)])).await
    };
    answer_is_lost(&sale, &Scripts::new().put, "replayed", put).await;
    match put(&sale.direct).await {
        Ok(Decision::Done(_, answer)) => assert!(answer.created),
        other => panic!("{other:?}"),
    }
    sale.direct.assert_books_balance().await;
}

#[tokio::test]
async fn the_last_units_winner_finds_it_though_it_is_sold_out_by_now() {
    let Lossy { proxy, behind, direct } = lossy(RedisServer::shared()).await;
    direct.hold("others", "red=9").await;
    proxy.lose_answer_to(&Scripts::new().reserve.sha);
    assert!(matches!(behind.take("mine", "red=1").await, Err(StoreError::Unknown(_))));
    assert_eq!(word(&direct.take("late", "red=1").await), "sold_out");
    let mine = direct.store.reservation_by_key(&direct.sale, &Caller::default(), &key("mine")).await;
    let Ok(Decision::Done(_, mine)) = mine else { panic!("{mine:?}") };
    for shop in [&direct.another(), &behind] {
        match shop.take("mine", "red=1").await {
            Ok(Decision::Done(Outcome::Replayed, replay)) => assert_eq!(replay.id, mine.id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(direct.level("red").await, [0, 10, 0, 10]);
}

/// The answer to a whole round is lost: each of its requests is unknown, and each has one effect.
#[tokio::test]
async fn a_lost_round_is_told_by_the_repeats_of_its_requests() {
    let Lossy { proxy, behind, direct } = lossy(RedisServer::shared()).await;
    let (sold, free) = (direct.hold("sold", "blue=1").await.id, direct.hold("free", "blue=1").await.id);
    proxy.lose_answer_to(&Scripts::new().reserve.sha);
    let keys: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let takes = join_all(keys.iter().map(|key| behind.take(key, "red=1")));
    let (confirmed, released, takes) = tokio::join!(behind.confirm(sold), behind.release(free), takes);
    assert_eq!((word(&confirmed), word(&released)), ("outcome_unknown", "outcome_unknown"));
    assert!(takes.iter().all(|take| word(take) == "outcome_unknown"));
    let again = join_all(keys.iter().map(|key| behind.take(key, "red=1"))).await;
    let count = |wanted: &str| again.iter().filter(|take| word(take) == wanted).count();
    assert_eq!((count("replayed"), count("sold_out"), count("held")), (10, 10, 0));
    assert_eq!(
        (word(&behind.confirm(sold).await), word(&behind.release(free).await)),
        ("replayed", "replayed")
    );
    assert_eq!((direct.level("red").await, direct.level("blue").await), ([0, 10, 0, 10], [9, 0, 1, 10]));
    direct.assert_lives_are_lived_once().await;
    direct.assert_books_balance().await;
}

#[tokio::test]
async fn answers_may_come_byte_by_byte_and_late() {
    let Lossy { proxy, behind, direct } = lossy(RedisServer::shared()).await;
    for (n, travel) in [
        Travel { chunk: 1, delay: Duration::ZERO },
        Travel { chunk: 7, delay: Duration::ZERO },
        Travel { chunk: 0, delay: Duration::from_millis(20) },
    ]
    .into_iter()
    .enumerate()
    {
        proxy.travel(travel);
        let hold = behind.hold(&format!("k{n}"), "red=1,blue=1").await;
        assert_eq!(word(&behind.confirm(hold.id).await), "confirmed", "{travel:?}");
        let keys: Vec<String> = (0..20).map(|k| format!("{n}-{k}")).collect();
        let takes = join_all(keys.iter().map(|key| behind.take(key, "red=1"))).await;
        // Each answer is about the id that was asked for.
        let asked = join_all(keys.iter().map(|name| async {
            direct.store.reservation_by_key(&direct.sale, &Caller::default(), &key(name)).await
        }))
        .await;
        for (take, asked) in takes.iter().zip(&asked) {
            match (take, asked) {
                (Ok(Decision::Done(_, taken)), Ok(Decision::Done(_, found))) => {
                    assert_eq!(taken.id, found.id)
                }
                (Ok(Decision::Refused(_)), Ok(Decision::Refused(_))) => {}
                other => panic!("{other:?}"),
            }
        }
        behind.store.sale(&behind.sale).await.unwrap();
        for take in takes {
            if let Ok(Decision::Done(_, taken)) = take {
                assert_eq!(word(&behind.release(taken.id).await), "released");
            }
        }
    }
    direct.assert_books_balance().await;
}

#[tokio::test]
async fn a_frozen_server_is_an_unknown_outcome_with_one_effect() {
    let server = RedisServer::start();
    let shared = with_timeouts(&server, Duration::from_millis(300), SECOND);
    let shop = Shop::with(shared, PutSale::default(), &[("red", 10)]).await;
    shop.hold("warm", "red=1").await;
    for round in 0..3 {
        let (key, since) = (format!("k{round}"), Instant::now());
        server.freeze();
        let frozen = shop.take(&key, "red=1").await;
        assert!(matches!(frozen, Err(StoreError::Unknown(_))), "{frozen:?}");
        assert!(since.elapsed() < 3 * SECOND, "{:?}", since.elapsed());
        server.thaw();
        let again = shop.take(&key, "red=1").await;
        assert!(["held", "replayed"].contains(&word(&again)), "{again:?}");
        assert_eq!(word(&shop.take(&key, "red=1").await), "replayed");
    }
    assert_eq!(shop.level("red").await, [6, 4, 0, 10]);
    assert_eq!(shop.assert_lives_are_lived_once().await["held"], 4);
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_applied() {
    let mut server = RedisServer::start();
    let shared = with_timeouts(&server, SECOND, Duration::from_millis(300));
    let shop = Shop::with(shared.clone(), PutSale::default(), &[("red", 10)]).await;
    server.kill();
    let cold = shop.another();
    let refused = cold.take("k", "red=1").await;
    assert_eq!(refused, Err(StoreError::NotApplied("store_unavailable")));
    server.restart();
    assert_eq!(word(&cold.take("k", "red=1").await), "held");
    // A connection that died while nobody used it costs one answer, not a unit.
    let warm = shop.take("other", "red=1").await;
    assert!(["held", "outcome_unknown"].contains(&word(&warm)), "{warm:?}");
    let again = shop.take("other", "red=1").await;
    assert!(["held", "replayed"].contains(&word(&again)), "{again:?}");
    assert_eq!(shop.level("red").await, [8, 2, 0, 10]);
}

/// Shoppers who repeat a key until it is answered, while the server is killed twenty times: nothing answered is lost,
/// nothing is done twice, and stores recover by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_restarts_under_load_lose_nothing() {
    let mut server = RedisServer::start();
    let shared = with_timeouts(&server, SECOND, SECOND);
    let shop = Shop::with(shared, PutSale::default(), &[("red", 1_000_000)]).await;
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let shoppers = (0..8).map(|shopper| {
        let (shop, over, answered) = (shop.another(), Arc::clone(&over), Arc::clone(&answered));
        tokio::spawn(async move {
            let (mut sold, mut held, mut unknown) = (Vec::new(), Vec::new(), 0);
            for n in 0.. {
                if over.load(Ordering::Relaxed) {
                    return (sold, held, unknown);
                }
                let key = format!("{shopper}-{n}");
                let id = loop {
                    match shop.take(&key, "red=1").await {
                        Ok(Decision::Done(_, reservation)) => break reservation.id,
                        Err(StoreError::Unknown(_) | StoreError::NotApplied(_)) => unknown += 1,
                        other => panic!("{other:?}"),
                    }
                    tokio::task::yield_now().await;
                };
                answered.fetch_add(1, Ordering::Relaxed);
                match shop.confirm(id).await {
                    Ok(Decision::Done(..)) => sold.push(id),
                    Ok(refused) => panic!("{refused:?}"),
                    Err(_) => held.push(id), // or sold: nobody was told
                }
            }
            unreachable!()
        })
    });
    let shoppers: Vec<_> = shoppers.collect();
    for restart in 0..20 {
        let before = answered.load(Ordering::Relaxed);
        let since = Instant::now();
        while answered.load(Ordering::Relaxed) < before + 20 {
            assert!(since.elapsed() < 15 * SECOND, "no recovery after restart {restart}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::task::block_in_place(|| server.restart());
    }
    over.store(true, Ordering::Relaxed);
    let shop = shop.another(); // without connections that died idle
    let results: Vec<_> = join_all(shoppers).await.into_iter().map(Result::unwrap).collect();
    let (mut told, mut unsure, mut unknown) = (0, 0, 0);
    for (sold, held, errors) in results {
        for id in &sold {
            let found = shop.store.reservation(&shop.sale, *id).await;
            let Ok(Decision::Done(_, found)) = found else { panic!("{id} is lost: {found:?}") };
            assert_eq!(found.status, ReservationStatus::Confirmed, "{id}");
        }
        (told, unsure, unknown) = (told + sold.len(), unsure + held.len(), unknown + errors);
    }
    eprintln!("{told} sold, {unsure} unsure, {unknown} repeats");
    let [available, held, sold, granted] = shop.level("red").await;
    assert_eq!(available + held + sold, granted);
    assert_eq!(held + sold, (told + unsure) as u64);
    assert!(sold >= told as u64);
    shop.assert_lives_are_lived_once().await;
    shop.assert_books_balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_forgotten_script_is_sent_again() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 100_000)]).await;
    let over = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (mut connection, over) = (server.connection().await, Arc::clone(&over));
        tokio::spawn(async move {
            let mut flushes = 0;
            while !over.load(Ordering::Relaxed) {
                let _: String = redis_cmd(&mut connection, &["SCRIPT", "FLUSH"]).await;
                flushes += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            flushes
        })
    };
    let shoppers = (0..16).map(|shopper| {
        let shop = shop.another();
        tokio::spawn(async move {
            for n in 0..60 {
                let name = format!("{shopper}-{n}");
                let hold = shop.hold(&name, "red=2").await.id;
                assert_eq!(word(&shop.extend(&name, hold, 700).await), "extended");
                if n % 2 == 0 {
                    assert_eq!(word(&shop.confirm(hold).await), "confirmed");
                    assert_eq!(word(&shop.give_back(&name, hold, Return::default()).await), "returned");
                } else {
                    assert_eq!(word(&shop.release(hold).await), "released");
                }
                assert_eq!(word(&shop.adjust(&name, "red", 1).await), "adjusted");
                shop.level("red").await;
            }
        })
    });
    join_all(shoppers).await.into_iter().for_each(Result::unwrap);
    over.store(true, Ordering::Relaxed);
    let flushes: usize = flusher.await.unwrap();
    eprintln!("{flushes} flushes");
    assert!(flushes > 10);
    assert_eq!(shop.level("red").await, [100_960, 0, 0, 100_960]);
    shop.assert_lives_are_lived_once().await;
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn a_full_server_takes_nothing_and_gives_everything_back() {
    let server = RedisServer::with(ServerOptions::default());
    let shop = Shop::open(&server, &[("red", 100_000)]).await;
    store_on(&server).self_test().await.unwrap();
    let mut connection = server.connection().await;
    let info: String = redis_cmd(&mut connection, &["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.trim().parse::<u64>().unwrap() + 100_000;
    let _: String = redis_cmd(&mut connection, &["CONFIG", "SET", "maxmemory", &limit.to_string()]).await;
    let mut holds = Vec::new();
    let full = loop {
        match shop.take(&format!("k{}", holds.len()), "red=1").await {
            Ok(Decision::Done(_, hold)) => holds.push(hold.id),
            other => break other,
        }
        assert!(holds.len() < 5_000, "it is never full");
    };
    assert_eq!(full, Err(StoreError::NotApplied("store_full")));
    // From here on it is full whatever a call frees or needs.
    let limit = (limit - 100_000).to_string();
    let _: String = redis_cmd(&mut connection, &["CONFIG", "SET", "maxmemory", &limit]).await;
    let before = shop.level("red").await;
    assert_eq!(before, [100_000 - holds.len() as u64, holds.len() as u64, 0, 100_000]);
    assert_eq!(shop.adjust("more", "red", 1).await.unwrap_err(), StoreError::NotApplied("store_full"));
    assert_eq!(shop.level("red").await, before);

    // It is full, yet what is held can be sold, given back, returned, and expired; to keep it longer gives nothing back.
    assert_eq!(shop.extend("x", holds[0], 900).await.unwrap_err(), StoreError::NotApplied("store_full"));
    assert_eq!(word(&shop.confirm(holds[0]).await), "confirmed");
    assert_eq!(word(&shop.give_back("r", holds[0], Return::default()).await), "returned");
    assert_eq!(word(&shop.release(holds[1]).await), "released");
    shop.shared.clock.advance_ms(2_000_000);
    assert_eq!(shop.sweep().await, holds.len() - 2);
    assert_eq!(shop.level("red").await, [100_000, 0, 0, 100_000]);
    assert_eq!(shop.take("still", "red=1").await, Err(StoreError::NotApplied("store_full")));
    // A day later the records go, and with them the memory.
    shop.shared.clock.advance_ms(3 * 86_400_000);
    loop {
        let ended = shop.store.due(&shop.sale, 100).await.unwrap().ended;
        if ended.is_empty() {
            break;
        }
        shop.store.archive(&shop.sale, &ended).await.unwrap();
    }
    let _: String = redis_cmd(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(word(&shop.take("still", "red=1").await), "held");
    shop.assert_lives_are_lived_once().await;
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn connections_that_are_cut_at_random_cost_answers_but_no_unit() {
    let Lossy { proxy, behind, direct } = lossy(RedisServer::shared()).await;
    direct.adjust("plenty", "red", 1_000).await.unwrap();
    let scripts = Scripts::new();
    let verbs = [&scripts.reserve, &scripts.confirm, &scripts.release];
    let mut unknown = 0;
    for n in 0..150 {
        if n % 3 != 2 {
            proxy.lose_answer_to(&verbs[n % 2 + n % 5 / 4].sha);
        }
        let key = format!("k{n}");
        let id = loop {
            match behind.take(&key, "red=1").await {
                Ok(Decision::Done(_, hold)) => break hold.id,
                Err(StoreError::Unknown(_)) => unknown += 1,
                other => panic!("{other:?}"),
            }
        };
        loop {
            let ended = if n % 2 == 0 { behind.confirm(id).await } else { behind.release(id).await };
            match ended {
                Ok(Decision::Done(..)) => break,
                Err(StoreError::Unknown(_)) => unknown += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(unknown > 20, "only {unknown} answers were lost");
    assert_eq!(direct.level("red").await, [1_010 - 75, 0, 75, 1_010]);
    direct.assert_lives_are_lived_once().await;
    direct.assert_books_balance().await;
}
