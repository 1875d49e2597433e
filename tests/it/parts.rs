//! Parts of orders, as those who work on orders see them, through group commit; and what everybody else sees.

use crate::redis_server::RedisServer;
use crate::shop::*;
use crate::support::shared_on;
use futures_util::future::join_all;
use rand::Rng;
use stockade::domain::page::is_reservation_cursor;
use stockade::domain::*;
use stockade::store::{Decided, EventsAfter, ReservationFilter};
use uuid::Uuid;

const YEAR_MS: i64 = 365 * 86_400_000;

/// A part of an order.
#[derive(Debug, Clone, Copy)]
struct Part {
    id: ReservationId,
    order: OrderId,
}

impl Shop {
    /// Holds a unit of `red` as a part of an order.
    async fn part(&self) -> Part {
        let part = Part { id: ReservationId(Uuid::new_v4()), order: OrderId(Uuid::new_v4()) };
        let held = held(self.store.reserve_part(&self.sale, part.id, part.order, cart("red=1")).await);
        assert_eq!((held.id, held.order), (part.id, Some(part.order)));
        assert!(held.expires_at.is_some());
        part
    }

    async fn pin(&self, part: Part) -> Decided<Reservation> {
        self.store.pin_part(&self.sale, part.id, part.order).await
    }

    async fn confirm_part(&self, part: Part) -> Decided<Reservation> {
        self.store.confirm_part(&self.sale, part.id, part.order).await
    }

    async fn release_part(&self, part: Part) -> Decided<Reservation> {
        self.store.release_part(&self.sale, part.id, part.order).await
    }

    async fn pinned_part(&self) -> Part {
        let part = self.part().await;
        assert_eq!(word(&self.pin(part).await), "pinned");
        part
    }
}

/// Its order was to decide within seconds, and there is none.
#[tokio::test]
async fn the_sweeper_gives_back_a_pinned_part_without_an_order() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 3)]).await;
    let part = shop.pinned_part().await;
    shop.sweep_all().await.unwrap();
    assert_eq!(shop.level("red").await, [2, 1, 0, 3], "it has time");
    shop.shared.clock.advance_ms(30_001);
    shop.sweep_all().await.unwrap();
    assert_eq!(shop.level("red").await, [3, 0, 0, 3]);
    assert_eq!(word(&shop.release_part(part).await), "replayed");
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn a_pinned_part_is_held_without_a_deadline_until_its_order_ends_it() {
    let server = RedisServer::start();
    let shop = Shop::open(&server, &[("red", 3)]).await;
    let (sold, freed) = (shop.pinned_part().await, shop.pinned_part().await);
    assert_eq!(word(&shop.pin(sold).await), "replayed");
    shop.shared.clock.advance_ms(YEAR_MS);
    let due = shop.store.due(&shop.sale, 100).await.unwrap();
    assert_eq!((due.overdue.len(), due.holds_open, due.holds_overdue), (0, 2, 0));
    let mut expected = [sold, freed].map(|part| short(part.id));
    expected.sort();
    let mut pinned = due.pinned;
    pinned.sort();
    assert_eq!(pinned, expected);
    let seen = match shop.store.reservation(&shop.sale, sold.id).await.unwrap() {
        Decision::Done(_, seen) => seen,
        refused => panic!("{refused:?}"),
    };
    assert_eq!((seen.status, seen.expires_at, seen.ended_at), (ReservationStatus::Held, None, None));
    shop.assert_books_balance().await;
    // Others are told to ask the order, and a sale that holds something cannot be deleted.
    for decided in [
        shop.confirm(sold.id).await,
        shop.release(sold.id).await,
        shop.extend("x", sold.id, 900).await,
        shop.reserve("new", Reserve { replaces: Some(sold.id), ..cart("red=1") }).await,
        shop.confirm_part(Part { order: freed.order, ..sold }).await,
        shop.release_part(Part { order: freed.order, ..sold }).await,
        shop.pin(Part { order: freed.order, ..sold }).await,
    ] {
        assert_eq!(word(&decided), "part_of_order");
    }
    assert_eq!(word(&shop.give_back("x", sold.id, Return::default()).await), "not_confirmed");
    shop.store.switch_sale(&shop.sale, Switch::Close).await.unwrap();
    assert_eq!(word(&shop.store.delete_sale(&shop.sale).await), "sale_not_empty");

    assert_eq!(word(&shop.confirm_part(sold).await), "confirmed");
    assert_eq!(word(&shop.confirm_part(sold).await), "replayed");
    assert_eq!(word(&shop.release_part(sold).await), "already_confirmed");
    assert_eq!(word(&shop.release_part(freed).await), "released");
    assert_eq!(word(&shop.release_part(freed).await), "replayed");
    assert_eq!(shop.store.due(&shop.sale, 100).await.unwrap().pinned, Vec::<String>::new());
    assert_eq!(shop.level("red").await, [2, 0, 1, 3]);
    assert_eq!(word(&shop.give_back("y", sold.id, Return::default()).await), "returned");
    shop.assert_books_balance().await;
    // Nobody heard of the pinning; what they heard of says no deadline that is none.
    let counts = shop.assert_lives_are_lived_once().await;
    assert_eq!((counts["held"], counts["confirmed"], counts["released"]), (2, 1, 1));
    let Decision::Done(_, page) = shop.store.events(&shop.sale, EventsAfter::Oldest, 500).await.unwrap()
    else {
        panic!("no events");
    };
    for event in page.items {
        if let EventKind::Reservation { reservation, .. } = event.data {
            assert!([sold.order, freed.order].map(Some).contains(&reservation.order));
            let is_first = reservation.status == ReservationStatus::Held;
            assert_eq!(reservation.expires_at.is_some(), is_first, "{reservation:?}");
        }
    }
}

#[tokio::test]
async fn an_overdue_part_is_not_pinned_any_more() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 3)]).await;
    let parts = [shop.part().await, shop.part().await, shop.part().await];
    shop.shared.clock.advance_ms(600_000);
    let refused = shop.pin(parts[0]).await;
    let Ok(Decision::Refused(Refusal::HoldExpired(expired, None))) = refused else { panic!("{refused:?}") };
    assert_eq!((expired.status, expired.order), (ReservationStatus::Expired, Some(parts[0].order)));
    assert_eq!(shop.level("red").await, [1, 2, 0, 3], "it is expired by the same call");
    assert_eq!(word(&shop.confirm_part(parts[1]).await), "hold_expired");
    assert_eq!(word(&shop.release_part(parts[2]).await), "expired");
    let unknown = Part { id: ReservationId(Uuid::new_v4()), ..parts[0] };
    assert_eq!(word(&shop.pin(unknown).await), "unknown_reservation");
    assert_eq!(shop.level("red").await, [3, 0, 0, 3]);
    shop.assert_books_balance().await;
}

/// Page after page over holds with deadlines and parts without: each once, whatever ends meanwhile.
#[tokio::test]
async fn pages_of_held_ones_go_on_behind_the_last_deadline() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 20)]).await;
    for n in 0..3 {
        shop.hold(&n.to_string(), "red=1").await;
    }
    let mut parts = Vec::new();
    for _ in 0..7 {
        parts.push(shop.pinned_part().await);
    }
    let (mut page, mut seen) = (PageRequest { limit: 2, after: None }, Vec::new());
    loop {
        let listed = shop.store.reservations(&shop.sale, ReservationFilter::Held, &page).await.unwrap();
        let Decision::Done(_, Page { items, next }) = listed else { panic!("{listed:?}") };
        seen.extend(items.iter().map(|reservation| reservation.id));
        match next {
            Some(next) => {
                assert!(is_reservation_cursor(&next), "{next}");
                // The one that the cursor names need not be there any more.
                if let Some(part) = parts.iter().find(|part| next == format!("inf-{}", short(part.id))) {
                    shop.release_part(*part).await.unwrap();
                }
                page.after = Some(next);
            }
            None => break,
        }
    }
    assert_eq!(seen.len(), 10);
    assert!(parts.iter().all(|part| seen[3..].contains(&part.id)), "those without a deadline come last");
    shop.assert_books_balance().await;
}

/// Whatever comes first, a part is pinned or expired, never both; an order that has pinned all of its parts can sell
/// all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_that_race_the_deadline_win_or_lose_once() {
    let mut rng = seeded("pins_that_race_the_deadline_win_or_lose_once");
    let shop = Shop::open(RedisServer::shared(), &[("red", 60)]).await;
    let other = shop.another();
    let mut parts = Vec::new();
    for _ in 0..60 {
        parts.push(shop.part().await);
    }
    let early = rng.random_range(0..60);
    let pins = parts.iter().enumerate().map(|(n, part)| {
        let (shop, other) = (&shop, &other);
        async move {
            if n == early {
                shop.shared.clock.advance_ms(600_000);
                return (None, other.sweep().await);
            }
            (Some((*part, shop.pin(*part).await)), 0)
        }
    });
    let (mut pinned, mut expired) = (Vec::new(), 0);
    for (pin, _) in join_all(pins).await {
        match pin.as_ref().map(|(part, decided)| (part, word(decided))) {
            Some((part, "pinned")) => pinned.push(*part),
            Some((_, "hold_expired")) => expired += 1,
            None => expired += 1,
            Some((_, other)) => panic!("{other}"),
        }
    }
    shop.sweep().await;
    let count = pinned.len() as u64;
    assert_eq!(count + expired, 60);
    assert_eq!(shop.level("red").await, [60 - count, count, 0, 60]);
    shop.assert_books_balance().await;
    let sold = join_all(pinned.iter().map(|part| shop.confirm_part(*part))).await;
    assert!(sold.iter().all(|decided| word(decided) == "confirmed"));
    assert_eq!(shop.level("red").await, [60 - count, 0, count, 60]);
    shop.assert_books_balance().await;
    shop.assert_lives_are_lived_once().await;
}

/// What a hand can do to a pinned part is found and named by the audit, and set right by the repair.
#[tokio::test]
async fn misplaced_parts_are_found_and_set_right() {
    let mut connection = RedisServer::shared().connection().await;
    let cases: [(&[&str], &str); 7] = [
        (&["ZREM", "pinned", "PINNED"], "PINNED: held without a deadline, but not in pinned"),
        (&["ZADD", "due", "7", "PINNED"], "PINNED: in due at another time than its deadline"),
        (&["ZADD", "due", "inf", "HELD"], "HELD: in due at another time than its deadline"),
        (&["ZADD", "pinned", "7", "HELD"], "HELD: in pinned, but not held without a deadline"),
        (&["ZADD", "pinned", "7", "ENDED"], "ENDED: in pinned, but not held without a deadline"),
        (&["ZADD", "pinned", "7", "NOTHING"], "NOTHING: in pinned alone"),
        (&["ZREM", "due", "PINNED"], "PINNED: in pinned alone"),
    ];
    for (command, named) in cases {
        let shop = Shop::with(shared_on(RedisServer::shared()), PutSale::default(), &[("red", 5)]).await;
        let (pinned, held, ended) = (shop.pinned_part().await, shop.part().await, shop.pinned_part().await);
        shop.release_part(ended).await.unwrap();
        let with_ids = |text: &str| {
            text.replace("PINNED", &short(pinned.id))
                .replace("HELD", &short(held.id))
                .replace("ENDED", &short(ended.id))
                .replace("NOTHING", &short(ReservationId(Uuid::nil())))
        };
        shop.assert_books_balance().await;
        let [word_of, key, rest @ ..] = command else { panic!("{command:?}") };
        let mut words = vec![(*word_of).to_owned(), shop.key(key)];
        words.extend(rest.iter().map(|text| with_ids(text)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _: redis::Value = redis_cmd(&mut connection, &words).await;
        let report = shop.store.audit(Some(&shop.sale)).await.unwrap().to_string();
        assert!(report.contains(&with_ids(named)), "{command:?}:\n{report}");
        shop.store.repair(&shop.sale).await.unwrap();
        shop.assert_books_balance().await;
        assert_eq!(shop.level("red").await, [3, 2, 0, 5], "{command:?}");
        assert_eq!(word(&shop.confirm_part(pinned).await), "confirmed", "{command:?}");
        shop.assert_books_balance().await;
    }
}
