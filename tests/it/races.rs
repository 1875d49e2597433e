//! Many at once: what must hold for every interleaving. Nothing sleeps until it is time, nothing is tried again, and
//! what is random can be repeated with `STOCKADE_TEST_SEED`.

use crate::redis_server::RedisServer;
use crate::shop::*;
use crate::support::shared_on;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockade::domain::*;
use stockade::store::Decided;
use stockade::store::sweep::Purge;

/// Workers, each with a store of its own, as in several processes.
const WORKERS: usize = 4;

fn workers(shop: &Shop) -> Vec<Arc<Shop>> {
    (0..WORKERS).map(|_| Arc::new(shop.another())).collect()
}

/// `count` tasks at once take what `request` says; answers all decisions.
async fn crowd(
    shop: &Shop,
    count: usize,
    request: impl Fn(usize) -> (String, &'static str),
) -> Vec<Decided<Reservation>> {
    let workers = workers(shop);
    let start = Arc::new(tokio::sync::Barrier::new(count));
    let tasks = (0..count).map(|n| {
        let (worker, start, (key, lines)) =
            (Arc::clone(&workers[n % WORKERS]), Arc::clone(&start), request(n));
        tokio::spawn(async move {
            start.wait().await;
            worker.take(&key, lines).await
        })
    });
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

fn count<T>(decided: &[Decided<T>], wanted: &str) -> usize {
    let errors: Vec<_> = decided.iter().filter_map(|decided| decided.as_ref().err()).collect();
    assert!(errors.is_empty(), "{} errors, the first: {:?}", errors.len(), errors.first());
    decided.iter().filter(|decided| word(decided) == wanted).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_for_ten_units_are_ten_holds() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 10)]).await;
    let decided = crowd(&shop, 200, |n| (n.to_string(), "red=1")).await;
    assert_eq!((count(&decided, "held"), count(&decided, "sold_out")), (10, 190));
    assert_eq!(shop.level("red").await, [0, 10, 0, 10]);
    shop.assert_books_balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_unit_has_one_winner_fifty_times() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 0)]).await;
    for round in 1..=50 {
        assert_eq!(word(&shop.adjust(&format!("unit {round}"), "red", 1).await), "adjusted");
        let decided = crowd(&shop, 200, |n| (format!("{round}-{n}"), "red=1")).await;
        assert_eq!((count(&decided, "held"), count(&decided, "sold_out")), (1, 199), "round {round}");
        assert_eq!(shop.level("red").await, [0, round, 0, round]);
    }
    shop.assert_books_balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_units_for_ten_thousand_shoppers_are_a_hundred_holds() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 100), ("blue", 10_000)]).await;
    // Carts: whoever gets no red must not keep blue.
    let decided = crowd(&shop, 10_000, |n| (n.to_string(), "blue=1,red=1")).await;
    assert_eq!((count(&decided, "held"), count(&decided, "sold_out")), (100, 9_900));
    assert_eq!(
        (shop.level("red").await, shop.level("blue").await),
        ([0, 100, 0, 100], [9_900, 100, 0, 10_000])
    );
    shop.assert_books_balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_copies_of_a_key_are_one_hold() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 1_000)]).await;
    for round in 0..20 {
        let decided = crowd(&shop, 50, |_| (format!("key {round}"), "red=2")).await;
        assert_eq!((count(&decided, "held"), count(&decided, "replayed")), (1, 49));
        let id = |decided: Decided<Reservation>| match decided {
            Ok(Decision::Done(_, reservation)) => reservation.id,
            other => panic!("{other:?}"),
        };
        assert_eq!(decided.into_iter().map(id).collect::<BTreeSet<_>>().len(), 1);
    }
    assert_eq!(shop.level("red").await, [960, 40, 0, 1_000]);
    assert_eq!(shop.assert_lives_are_lived_once().await["held"], 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_copies_of_each_settle_verb_have_one_effect() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 100)]).await;
    let workers = workers(&shop);
    let hold = shop.hold("k", "red=6").await.id;
    let at = |n: usize| &workers[n % WORKERS];
    let copies = join_all((0..50).map(|n| at(n).extend("x", hold, 900))).await;
    assert_eq!((count(&copies, "extended"), count(&copies, "replayed")), (1, 49));
    let copies = join_all((0..50).map(|n| at(n).confirm(hold))).await;
    assert_eq!((count(&copies, "confirmed"), count(&copies, "replayed")), (1, 49));
    let some = Return { lines: Some(lines("red=1")), restock: false };
    let copies = join_all((0..50).map(|n| at(n).give_back("y", hold, some.clone()))).await;
    assert_eq!((count(&copies, "returned"), count(&copies, "replayed")), (1, 49));
    let copies = join_all((0..50).map(|n| at(n).give_back("z", hold, Return::default()))).await;
    assert_eq!((count(&copies, "returned"), count(&copies, "replayed")), (1, 49));
    let copies = join_all((0..50).map(|n| at(n).adjust("a", "red", 10))).await;
    assert_eq!((count(&copies, "adjusted"), count(&copies, "replayed")), (1, 49));
    let other = shop.hold("other", "red=1").await.id;
    let copies = join_all((0..50).map(|n| at(n).release(other))).await;
    assert_eq!((count(&copies, "released"), count(&copies, "replayed")), (1, 49));
    assert_eq!(shop.level("red").await, [109, 0, 0, 109]);
    shop.assert_lives_are_lived_once().await;
    shop.assert_books_balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_clients_that_add_one_a_thousand_times_add_three_thousand() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 0)]).await;
    let clients = (0..3).map(|client| {
        let shop = shop.another();
        tokio::spawn(async move {
            for n in 0..1_000 {
                assert_eq!(word(&shop.adjust(&format!("{client}-{n}"), "red", 1).await), "adjusted");
            }
        })
    });
    join_all(clients).await.into_iter().for_each(Result::unwrap);
    assert_eq!(shop.level("red").await, [3_000, 0, 0, 3_000]);
    shop.assert_books_balance().await;
}

/// Confirm, release, extend and the sweeper meet within the millisecond of the deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_its_deadline_a_hold_ends_once() {
    let mut rng = seeded("at_its_deadline_a_hold_ends_once");
    let shop = Shop::open(RedisServer::shared(), &[("red", 1_000)]).await;
    let workers = workers(&shop);
    let (mut confirmed, mut expired) = (0, 0);
    for round in 0..150 {
        let hold = shop.hold(&format!("k{round}"), "red=1").await;
        let deadline = hold.expires_at.unwrap().as_ms();
        let now = shop.store.due(&shop.sale, 1).await.unwrap().now.as_ms();
        shop.shared.clock.advance_ms(deadline - now - rng.random_range(0..5));
        let sweeps = async || {
            let mut count = 0;
            for _ in 0..3 {
                count += workers[1].sweep().await;
            }
            count
        };
        let (sold, swept, extended, also) =
            tokio::join!(workers[0].confirm(hold.id), sweeps(), workers[2].extend("x", hold.id, 1), async {
                workers[3].store.expire(&shop.sale, &[short(hold.id)]).await.unwrap()
            },);
        let end = match shop.store.reservation(&shop.sale, hold.id).await.unwrap() {
            Decision::Done(_, reservation) => reservation.status,
            Decision::Refused(refusal) => panic!("{refusal:?}"),
        };
        match word(&sold) {
            "confirmed" => {
                assert_eq!((end, swept + also), (ReservationStatus::Confirmed, 0), "round {round}")
            }
            "hold_expired" => assert_eq!(end, ReservationStatus::Expired, "round {round}"),
            other => panic!("round {round}: {other}"),
        }
        assert!(swept + also <= 1, "round {round}");
        assert!(["already_confirmed", "hold_expired", "extended"].contains(&word(&extended)), "{extended:?}");
        confirmed += usize::from(end == ReservationStatus::Confirmed);
        expired += usize::from(end == ReservationStatus::Expired);
    }
    eprintln!("{confirmed} confirmed, {expired} expired");
    shop.sweep().await;
    assert_eq!(shop.level("red").await, [1_000 - confirmed as u64, 0, confirmed as u64, 1_000]);
    let counts = shop.assert_lives_are_lived_once().await;
    assert_eq!((counts["held"], counts["confirmed"] + counts["expired"]), (150, 150));
    shop.assert_books_balance().await;
}

/// A store that remembers a sale must not bring it back: the next one has another generation, and other ids.
#[tokio::test]
async fn a_sale_made_again_is_another_one_for_every_store() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 5)]).await;
    let other = shop.another();
    let old = shop.hold("k", "red=1").await;
    assert_eq!(word(&other.take("k", "red=1").await), "replayed");
    assert_eq!(word(&shop.release(old.id).await), "released");
    let Ok(Decision::Done(_, sale)) = shop.store.sale(&shop.sale).await else { panic!("no sale") };
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "deleted");
    while shop.store.purge(&shop.sale, &sale.generation).await.unwrap() == Purge::Going {}

    let rules = PutSale::default().rules().unwrap();
    let (caller, stock) = (Caller::default(), skus(&[("red", 5)]));
    let put = other.store.put_sale(&shop.sale, &caller, None, &Expect::Anything, rules, stock).await;
    let Ok(Decision::Done(Outcome::Created, answer)) = put else { panic!("not made") };
    assert_ne!(answer.sale.generation, sale.generation);
    let new = other.hold("k", "red=1").await;
    assert_ne!(new.id, old.id);
    let third = shop.another();
    for store in [&shop, &other, &third] {
        match store.take("k", "red=1").await {
            Ok(Decision::Done(Outcome::Replayed, replay)) => assert_eq!(replay.id, new.id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shop.level("red").await, [4, 1, 0, 5]);
}

/// `12` and `x`, `1` and `2x`: two buyers in two buckets that read the same when joined.
#[tokio::test]
async fn buyers_of_one_round_are_kept_apart() {
    let bucket = |buyer: &str| Sha256::digest(buyer.as_bytes())[0] >> 4;
    let pair = (0..).map(|n| (format!("x{n}"), format!("2x{n}")));
    let (one, two) = { pair }.find(|(one, two)| bucket(one) == 12 && bucket(two) == 1).unwrap();
    let rules = PutSale { buyer_limit: Some(2), ..PutSale::default() };
    let shop = Shop::with(shared_on(RedisServer::shared()), rules, &[("red", 10)]).await;
    let take = |buyer: &str| {
        let request = Reserve { buyer: Some(buyer.parse().unwrap()), ..cart("red=2") };
        let (shop, key) = (&shop, buyer.to_owned());
        async move { shop.reserve(&key, request).await }
    };
    let decided = join_all([take(&one), take(&two)]).await;
    assert_eq!(count(&decided, "held"), 2, "{decided:?}");
    shop.assert_books_balance().await;
}

/// What each of the mixed crowd does next.
async fn act(shop: &Shop, rng: &mut StdRng, holds: &mut Vec<ReservationId>, name: &str) {
    let skus = ["a", "b", "c"];
    let any = |rng: &mut StdRng, holds: &[ReservationId]| holds[rng.random_range(0..holds.len())];
    let verb = if holds.is_empty() { 0 } else { rng.random_range(0..16) };
    let decided: Decided<Reservation> = match verb {
        0..=5 => {
            let (one, two) = (rng.random_range(0..3), rng.random_range(0..3));
            let lines = match one == two {
                true => format!("{}=2", skus[one]),
                false => {
                    format!("{}=1,{}={}", skus[one.min(two)], skus[one.max(two)], rng.random_range(1..4))
                }
            };
            let request = Reserve {
                buyer: Some(format!("buyer {}", rng.random_range(0..5)).parse().unwrap()),
                hold_seconds: Some(rng.random_range(1..20)),
                replaces: (verb == 5 && !holds.is_empty()).then(|| any(rng, holds)),
                ..cart(&lines)
            };
            let decided = shop.reserve(name, request.clone()).await;
            if let Ok(Decision::Done(Outcome::Held, held)) = &decided {
                holds.push(held.id);
            }
            if rng.random_bool(0.2) {
                drop(shop.reserve(name, request).await.unwrap());
            }
            decided
        }
        6 | 7 => shop.confirm(any(rng, holds)).await,
        8 => {
            let request = Confirm { if_expired: IfExpired::Retake, ..Confirm::default() };
            shop.store.confirm(&shop.sale, any(rng, holds), request).await
        }
        9 => {
            let request = Confirm { lines: Some(lines("a=1")), ..Confirm::default() };
            shop.store.confirm(&shop.sale, any(rng, holds), request).await
        }
        10 | 11 => shop.release(any(rng, holds)).await,
        12 => shop.extend(name, any(rng, holds), rng.random_range(1..30)).await,
        13 => {
            let request = Return { lines: Some(lines("b=1")), restock: rng.random() };
            shop.give_back(name, any(rng, holds), request).await
        }
        14 => shop.give_back(name, any(rng, holds), Return::default()).await,
        _ => {
            let decided =
                shop.adjust(name, skus[rng.random_range(0..3)], [-2, 1, 3][rng.random_range(0..3)]).await;
            decided.expect("an answer");
            return;
        }
    };
    decided.expect("an answer");
}

/// All verbs at once, the clock jumping, the sweeper running; somebody reads all the time and sees only books that
/// balance.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conservation_holds_at_every_read() {
    let mut rng = seeded("conservation_holds_at_every_read");
    let rules = PutSale { buyer_limit: Some(60), buyer_holds_max: Some(12), ..PutSale::default() };
    let shop = Shop::with(shared_on(RedisServer::shared()), rules, &[("a", 40), ("b", 40), ("c", 40)]).await;
    let workers = workers(&shop);
    let actors = (0..24).map(|actor| {
        let (shop, mut rng) = (Arc::clone(&workers[actor % WORKERS]), StdRng::seed_from_u64(rng.random()));
        tokio::spawn(async move {
            let mut holds = Vec::new();
            for n in 0..120 {
                act(&shop, &mut rng, &mut holds, &format!("{actor}-{n}")).await;
                if n % 30 == 0 {
                    shop.shared.clock.advance_ms(rng.random_range(0..3_000));
                }
            }
        })
    });
    let actors: Vec<_> = actors.collect();
    let over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (shop, over) = (Arc::clone(&workers[0]), Arc::clone(&over));
        tokio::spawn(async move {
            let mut reads = 0;
            while !over.load(Ordering::Relaxed) {
                // A level that doesn't balance can't be read: that is an error.
                let page = PageRequest { limit: 10, after: None };
                let (levels, sale) =
                    tokio::join!(shop.store.levels(&shop.sale, &page), shop.store.sale(&shop.sale));
                let (Ok(Decision::Done(..)), Ok(Decision::Done(_, sale))) = (&levels, &sale) else {
                    panic!("{levels:?} {sale:?}")
                };
                let Totals { available, held, sold, granted } = sale.totals;
                assert_eq!(available + held + sold, granted);
                shop.sweep().await;
                reads += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            reads
        })
    };
    join_all(actors).await.into_iter().for_each(Result::unwrap);
    over.store(true, Ordering::Relaxed);
    let reads: usize = reader.await.unwrap();
    let counts = shop.assert_lives_are_lived_once().await;
    eprintln!("{reads} reads, events: {counts:?}");
    assert!(reads > 10, "only {reads} reads");
    shop.assert_books_balance().await;
    shop.shared.clock.advance_ms(100_000);
    shop.sweep().await;
    shop.assert_books_balance().await;
}

/// Nothing swept them: the take itself expires overdue holds, a hundred at a time, a thousand at most.
#[tokio::test]
async fn a_take_expires_what_is_overdue_before_it_falls_short() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 1_100)]).await;
    let hold_all = async |round: &str, count: usize| {
        let keys: Vec<String> = (0..count).map(|n| format!("{round}-{n}")).collect();
        let takes = join_all(keys.iter().map(|key| shop.take(key, "red=1"))).await;
        assert_eq!(self::count(&takes, "held"), count);
        shop.shared.clock.advance_ms(700_000);
    };
    hold_all("first", 950).await;
    shop.hold("all", "red=1100").await;
    shop.shared.clock.advance_ms(700_000);
    assert_eq!(shop.sweep().await, 1);
    hold_all("second", 1_100).await;
    match shop.take("all again", "red=1100").await {
        Ok(Decision::Refused(Refusal::SoldOut { retry_at: Some(retry_at), .. })) => {
            // Some are overdue still: to try again at once is worth it.
            assert!(retry_at <= shop.store.due(&shop.sale, 1).await.unwrap().now);
        }
        other => panic!("{other:?}"),
    }
    shop.hold("all again", "red=1100").await;
    shop.assert_books_balance().await;
}
