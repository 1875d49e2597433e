//! Each word of the scripts that settle, with all that it changes.

use super::calls::{Rules, take};
use super::rig::{HOUR, Rig, SECOND, Step};
use super::words::Answered;

/// One SKU of ten units; `a` holds 2 of them for ten minutes.
pub async fn one_hold() -> (Rig, Step) {
    let mut rig = Rig::with(&[("one", "10", "")]).await;
    let held = rig.reserve(&[take("a", "one", 2)]).await;
    rig.remember("a", &held);
    (rig, held)
}

impl Rig {
    /// A hold of a unit that is part of the order `o`.
    pub async fn order_part(&mut self, name: &str) -> Step {
        let held = self.reserve(&[take(name, "one", 1).by("ann").part_of("o")]).await;
        assert!(held.answers[0].starts_with("held"));
        self.remember(name, &held);
        held
    }
}

pub async fn confirm() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.confirm("a", "one=3").await.is("quantity_exceeds_reservation//#a/*", &[]);
    rig.confirm("a", "two=1").await.is("quantity_exceeds_reservation//#a/*", &[]);
    rig.settle("confirm", &[("a", &["refuse", "paid", "one=1"])]).await.is(
        "confirmed/held/#a/*",
        &[
            "done #a = {n+2592000000}",
            "due #a gone",
            "events[2] = t {n} e confirmed/held/#a/*",
            "r:#a = confirmed/{a+600000}/{a}/{n}/{a+3600000}/////1///fp//one=2//paid/",
            "stock :a = 9",
            "stock :h = 0",
            "stock :s = 1",
            "stock one:a = 9",
            "stock one:h = 0",
            "stock one:r = 2",
            "stock one:s = 1",
        ],
    );
    rig.confirm("a", "one=1").await.is("replayed//#a/*", &[]);
    rig.confirm("a", "").await.is("replayed//#a/*", &[]);
    rig.confirm("a", "one=2").await.is("already_confirmed//#a/*", &[]);
    rig.give_back(&[("a", "op", "", "1", "f")]).await;
    rig.confirm("a", "").await.is("already_returned//#a/*", &[]);
    rig.reserve(&[take("b", "one", 1)]).await;
    rig.each("release", &["b"]).await;
    rig.confirm("b", "").await.is("already_released//#b/*", &[]);
    rig.order_part("p").await;
    rig.confirm("p", "").await.is("part_of_order//#p/*", &[]);
    rig.answered
}

pub async fn retake() -> Answered {
    let rules = Rules::default().buyer_limit(3);
    let mut rig = Rig::with_rules(rules, &[("one", "4", ""), ("two", "9", "")]).await;
    let held = rig.reserve(&[take("a", "one", 3).by("ann")]).await;
    rig.remember("a", &held);
    let bucket = format!("{:x}", stockade::store::ids::bucket("ann"));
    rig.offset_ms = 600 * SECOND;
    let expired = rig.confirm("a", "").await;
    rig.remember("e", &expired);
    expired.is(
        "confirm_expired/1//held/#a/*",
        &[
            &format!("buyers:{bucket} ann gone"),
            "done #a = {n+86400000}",
            "due #a gone",
            "events[2] = t {n} e expired/held/#a/*",
            &format!("r:#a = expired/{{a+600000}}/{{a}}/{{a+600000}}/{{a+3600000}}/{bucket}///////fp//one=3/ann/ref/"),
            "stock :a = 13",
            "stock :h = 0",
            "stock one:a = 4",
            "stock one:h = 0",
            "stock one:r = 2",
        ],
    );
    rig.confirm("a", "").await.is("confirm_expired/1///#a/*", &[]);
    rig.reserve(&[take("b", "one", 2).by("bob")]).await;
    rig.confirm("a", "").await.is("confirm_expired/0/one=3,2,2//#a/*", &[]);
    rig.retake("a", "").await.is("retake_sold_out/one=3,2,2//#a/*", &[]);
    rig.each("release", &["b"]).await;
    rig.reserve(&[take("c", "two", 1).by("ann")]).await;
    rig.confirm("a", "").await.is("confirm_expired/0///#a/*", &[]);
    rig.retake("a", "").await.is("buyer_limit//3/1/3", &[]);
    rig.retake("a", "one=2").await.is(
        "retaken/expired/#a/*",
        &[
            &format!("buyers:{bucket} ann = 0|3|"),
            "done #a = {n+2592000000}",
            "events[6] = t {n} e retaken/expired/#a/*",
            &format!(
                "r:#a = confirmed/{{a+600000}}/{{a}}/{{n}}/{{a+3600000}}/{bucket}U///1/2///fp//one=3/ann/ref/"
            ),
            "stock :a = 10",
            "stock :s = 2",
            "stock one:a = 2",
            "stock one:r = 5",
            "stock one:s = 2",
        ],
    );
    rig.retake("a", "one=2").await.is("replayed//#a/*", &[]);
    rig.answered
}

pub async fn release() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.offset_ms = 5 * SECOND;
    rig.each("release", &["a"]).await.is(
        "released/held/#a/*",
        &[
            "done #a = {n+86400000}",
            "due #a gone",
            "events[2] = t {n} e released/held/#a/*",
            "r:#a = released/{a+600000}/{a}/{n}/{a+3600000}////////fp//one=2//ref/",
            "stock :a = 10",
            "stock :h = 0",
            "stock one:a = 10",
            "stock one:h = 0",
            "stock one:r = 2",
        ],
    );
    rig.each("release", &["a"]).await.is("replayed//#a/*", &[]);
    let held = rig.reserve(&[take("b", "one", 1)]).await;
    rig.remember("b", &held);
    rig.offset_ms = 605 * SECOND;
    rig.each("release", &["b"]).await.is(
        "expired/held/#b/*",
        &[
            "done #b = {n+86400000}",
            "due #b gone",
            "events[4] = t {n} e expired/held/#b/*",
            "r:#b = expired/{b+600000}/{b}/{b+600000}/{b+3600000}////////fp//one=1//ref/",
            "stock :a = 10",
            "stock :h = 0",
            "stock one:a = 10",
            "stock one:h = 0",
            "stock one:r = 4",
        ],
    );
    rig.each("release", &["b"]).await.is("expired//#b/*", &[]);
    rig.reserve(&[take("c", "one", 1)]).await;
    rig.confirm("c", "").await;
    rig.each("release", &["c"]).await.is("already_confirmed//#c/*", &[]);
    rig.give_back(&[("c", "op", "", "1", "f")]).await;
    rig.each("release", &["c"]).await.is("already_returned//#c/*", &[]);
    rig.order_part("p").await;
    rig.each("release", &["p"]).await.is("part_of_order//#p/*", &[]);
    rig.answered
}

pub async fn extend() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.offset_ms = 60 * SECOND;
    rig.extend("a", 700 * SECOND, "x").await.is(
        "extended/held/#a/*",
        &[
            "due #a = {n+700000}",
            "events[2] = t {n} e extended/held/#a/*",
            "r:#a = held/{n+700000}/{a}//{a+3600000}///////#x/fp//one=2//ref/",
            "stock one:r = 2",
        ],
    );
    rig.extend("a", 700 * SECOND, "x").await.is("replayed//#a/*", &[]);
    rig.extend("a", 800 * SECOND, "x:other").await.is("idempotency_key_reused", &[]);
    rig.extend("a", HOUR, "y").await.is("hold_too_long/{a+3600000}", &[]);
    // Never shorter than it is.
    let shorter = rig.extend("a", SECOND, "z").await;
    assert_eq!(shorter.changes.len(), 3, "the record keeps the operation, and an event tells: {shorter:?}");
    rig.offset_ms = HOUR;
    rig.extend("a", SECOND, "late").await.answer(&["hold_expired/held/#a/*"]);
    rig.extend("a", SECOND, "late").await.is("hold_expired//#a/*", &[]);
    for name in ["b", "c"] {
        rig.reserve(&[take(name, "one", 1)]).await;
    }
    rig.each("release", &["b"]).await;
    rig.extend("b", SECOND, "y").await.is("already_released//#b/*", &[]);
    rig.confirm("c", "").await;
    rig.extend("c", SECOND, "y").await.is("already_confirmed//#c/*", &[]);
    rig.give_back(&[("c", "op", "", "1", "f")]).await;
    rig.extend("c", SECOND, "y").await.is("already_returned//#c/*", &[]);
    rig.order_part("p").await;
    rig.extend("p", SECOND, "y").await.is("part_of_order//#p/*", &[]);
    rig.answered
}

pub async fn give_back() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.give_back(&[("a", "op", "", "1", "f")]).await.is("not_confirmed//#a/*", &[]);
    let confirmed = rig.confirm("a", "").await;
    rig.remember("c", &confirmed);
    rig.offset_ms = 20 * SECOND;
    rig.give_back(&[("a", "op", "one=3", "1", "f")]).await.is("quantity_exceeds_reservation//#a/*", &[]);
    let lost = rig.give_back(&[("a", "op", "one=1", "0", "f")]).await;
    rig.remember("l", &lost);
    let ledger = "#op/one/8/0/1/9//-1/damaged/ref/{n}";
    lost.is(
        "returned/confirmed/#a/*",
        &[
            &format!("adjustments[1] = e {ledger}"),
            "done #a = {n+2592000000}",
            &format!("events[3] = t {{n}} e adjusted//{ledger} & returned/confirmed/#a/*"),
            "op:#op = f/confirmed/#a/*",
            "op:#op ttl = 1440 min",
            "r:#a = confirmed/{a+600000}/{a}/{c}/{a+3600000}/////2/1//fp//one=2//ref/",
            "stock :g = 9",
            "stock :s = 1",
            "stock one:g = 9",
            "stock one:r = 3",
            "stock one:s = 1",
        ],
    );
    rig.give_back(&[("a", "op", "one=1", "0", "f")]).await.is("replayed/confirmed/#a/*", &[]);
    rig.give_back(&[("a", "op", "one=1", "1", "g")]).await.is("idempotency_key_reused", &[]);
    rig.give_back(&[("a", "rest", "", "1", "f")]).await.is(
        "returned/confirmed/#a/*",
        &[
            "done #a = {n+86400000}",
            "events[4] = t {n} e returned/confirmed/#a/*",
            "r:#a = returned/{a+600000}/{a}/{n}/{a+3600000}/////2/2//fp//one=2//ref/",
            "stock :a = 9",
            "stock :s = 0",
            "stock one:a = 9",
            "stock one:r = 4",
            "stock one:s = 0",
        ],
    );
    rig.give_back(&[("a", "rest", "", "1", "f")]).await.is("replayed//#a/*", &[]);
    // The answer of an operation stays what it was, also when the reservation has gone on.
    let before = "replayed/confirmed/#a/confirmed/{a+600000}/{a}/{c}/{a+3600000}/////2/1//fp//one=2//ref/";
    rig.give_back(&[("a", "op", "one=1", "0", "f")]).await.is(before, &[]);
    rig.reserve(&[take("b", "one", 1)]).await;
    rig.offset_ms = HOUR;
    rig.give_back(&[("b", "op2", "one=1", "1", "f")]).await.answer(&["not_confirmed/held/#b/*"]);
    rig.give_back(&[("b", "op2", "", "1", "f")]).await.is("not_confirmed//#b/*", &[]);
    rig.answered
}
