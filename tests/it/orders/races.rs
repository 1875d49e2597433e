//! Many orders at once.

use super::*;
use crate::service::{Level, lines, shared_api};
use futures_util::future::join_all;
use std::collections::BTreeMap;

/// (a, b) against (b, a): locks are taken in one order, so nobody waits for whom who waits for him.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opposite_orders_do_not_block_each_other() {
    const ROUNDS: usize = 500;
    let api = shared_api();
    let [one, two] = two_sales(&api, 2 * ROUNDS as u64).await;
    for _ in 0..ROUNDS {
        let (there, back) =
            ([line(&one, "a", 1), line(&two, "a", 1)], [line(&two, "a", 1), line(&one, "a", 1)]);
        let (there, back) = tokio::join!(held(&api, &there), held(&api, &back));
        assert_ne!(there, back);
    }
    let all = Level(0, 2 * ROUNDS as u64, 0);
    assert_eq!((one.level("a").await, two.level("a").await), (all, all));
}

/// Each of fifty copies of one call gets the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_of_a_call_are_one_order() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 60).await;
    let body = order(&[line(&one, "a", 1), line(&two, "a", 1)]);
    let answers = join_all((0..50).map(|_| place(&api, &one.name, &body))).await;
    let mut words: BTreeMap<(u16, String), usize> = BTreeMap::new();
    let id = answers[0].id();
    for answer in answers {
        assert_eq!(answer.id(), id);
        *words.entry((answer.status, answer.outcome().to_owned())).or_default() += 1;
    }
    assert_eq!(words[&(201, "held".to_owned())], 1, "{words:?}");
    assert_eq!((one.level("a").await, two.level("a").await), (Level(59, 1, 0), Level(59, 1, 0)));
    let answers = join_all((0..50).map(|_| verb(&api, &id, "confirm", Value::Null))).await;
    let first = answers.iter().filter(|answer| answer.outcome() == "confirmed").count();
    assert!(first == 1 && answers.iter().all(|answer| answer.status == 200));
    assert_eq!((one.level("a").await, two.level("a").await), (Level(59, 0, 1), Level(59, 0, 1)));
}

/// Confirm against release: one of them wins, for all parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_order_is_confirmed_or_released_as_a_whole() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 40).await;
    let mut sold = 0;
    for _ in 0..40 {
        let id = held(&api, &[line(&one, "a", 1), line(&two, "a", 1)]).await;
        let (confirmed, released) =
            tokio::join!(verb(&api, &id, "confirm", Value::Null), verb(&api, &id, "release", Value::Null));
        let outcome = (confirmed.status, released.status);
        assert!(outcome == (200, 409) || outcome == (409, 200), "{outcome:?}");
        sold += u64::from(outcome.0 == 200);
    }
    assert_eq!(
        (one.level("a").await, two.level("a").await),
        (Level(40 - sold, 0, sold), Level(40 - sold, 0, sold))
    );
}

/// Orders and carts for the same few units: no more than there are, and no order without all its parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn orders_and_carts_sell_the_last_units_once() {
    let api = shared_api();
    let [one, two] = two_sales(&api, 15).await;
    let orders = (0..20).map(|n| {
        let there = [line(&one, "a", 1), line(&two, "a", 1)];
        let body = if n % 2 == 0 { order(&there) } else { order(&[there[1].clone(), there[0].clone()]) };
        let api = api.clone();
        async move { place(&api, &new_key(), &body).await }
    });
    let carts = (0..20).map(|n| {
        let sale = if n % 2 == 0 { one.clone() } else { two.clone() };
        async move { (n % 2, sale.reserve(&new_key(), lines(&[("a", 1)])).await) }
    });
    let (orders, carts) = tokio::join!(join_all(orders), join_all(carts));
    let mut taken = [0, 0];
    for answer in orders {
        match answer.status {
            201 => taken = [taken[0] + 1, taken[1] + 1],
            _ => drop(answer.expect(409, "sold_out")),
        }
    }
    for (n, answer) in carts {
        match answer.status {
            201 => taken[n] += 1,
            _ => drop(answer.expect(409, "sold_out")),
        }
    }
    let level = |taken: u64| Level(15 - taken, taken, 0);
    assert_eq!((one.level("a").await, two.level("a").await), (level(taken[0]), level(taken[1])));
}
