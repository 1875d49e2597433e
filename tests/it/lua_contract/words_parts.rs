//! Parts of orders: pinned, ended by their order, and left alone by everybody else.

use super::audit::NEVER;
use super::calls::take;
use super::rig::{DAY, HOUR, Rig, SECOND, id};
use super::words::Answered;
use stockade::store::ids::bucket;

const ONE: &[(&str, &str, &str)] = &[("one", "10", "")];

pub async fn pin() -> Answered {
    let mut rig = Rig::with(ONE).await;
    rig.order_part("p").await;
    let ann = format!("{:x}", bucket("ann"));
    let record = format!("r:#p = held/{NEVER}/{{p}}//{{p+3600000}}/{ann}///////fp/#o/one=1/ann/ref/");
    rig.settle_part("pin", "p", "o")
        .await
        .is("pinned/held/#p/*", &["due #p = inf", "pinned #p = {n+30000}", &record, "stock one:r = 2"]);
    rig.offset_ms = 10 * SECOND;
    rig.settle_part("pin", "p", "o").await.is("replayed//#p/*", &["pinned #p = {n+30000}"]);
    rig.settle_part("confirm", "p", "o").await.is(
        "confirmed/held/#p/*",
        &[
            "done #p = {n+2592000000}",
            "due #p gone",
            "pinned #p gone",
            "events[2] = t {n} e confirmed/held/#p/*",
            &format!("r:#p = confirmed/{NEVER}/{{p}}/{{n}}/{{p+3600000}}/{ann}////1///fp/#o/one=1/ann/ref/"),
            "stock :h = 0",
            "stock :s = 1",
            "stock one:h = 0",
            "stock one:r = 3",
            "stock one:s = 1",
        ],
    );
    rig.settle_part("pin", "p", "o").await.is("replayed//#p/*", &[]);
    rig.give_back(&[("p", "op", "", "1", "f")]).await.answer(&["returned/confirmed/#p/*"]);
    rig.settle_part("pin", "p", "o").await.is("already_returned//#p/*", &[]);
    let back = rig.order_part("q").await;
    rig.settle_part("pin", "q", "o").await;
    rig.settle_part("release", "q", "o").await.is(
        "released/held/#q/*",
        &[
            "done #q = {n+86400000}",
            "due #q gone",
            "pinned #q gone",
            "events[5] = t {n} e released/held/#q/*",
            &format!("r:#q = released/{NEVER}/{{q}}/{{n}}/{{q+3600000}}/{ann}///////fp/#o/one=1/ann/ref/"),
            "stock :a = 10",
            "stock :h = 0",
            "stock one:a = 10",
            "stock one:h = 0",
            "stock one:r = 7",
        ],
    );
    back.has("due #q = {n+600000}");
    rig.settle_part("pin", "q", "o").await.is("already_released//#q/*", &[]);
    rig.settle_part("pin", "q", "other").await.is("part_of_order//#q/*", &[]);
    rig.order_part("late").await;
    rig.offset_ms = HOUR;
    let late = rig.settle_part("pin", "late", "o").await;
    late.answer(&["hold_expired/held/#late/*"]);
    late.has("due #late gone");
    rig.settle_part("pin", "late", "o").await.is("hold_expired//#late/*", &[]);
    rig.answered
}

pub async fn deferred() -> Answered {
    let names: Vec<String> = (0..100).map(|n| format!("s{n:02}")).collect();
    let skus: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "99", "")).collect();
    let mut rig = Rig::with(&skus).await;
    let parts: Vec<String> = (0..7).map(|n| format!("p{n}")).collect();
    for name in &parts {
        let cart = names[1..].iter().fold(take(name, &names[0], 1), |cart, sku| cart.and(sku, 1));
        rig.reserve(&[cart.part_of("o")]).await;
    }
    let order = id("o");
    let args = [order.as_str()];
    let all: Vec<(&str, &[&str])> = parts.iter().map(|name| (name.as_str(), &args[..])).collect();
    let step = rig.settle("pin", &all).await;
    assert!(step.answers[..6].iter().all(|answer| answer.starts_with("pinned/")), "{step:?}");
    assert_eq!(step.answers[6..], ["deferred"]);
    rig.settle("pin", &[all[0], all[6]]).await.answer(&["replayed//#p0/*", "pinned/held/#p6/*"]);
    rig.answered
}

/// A part `p` of order `o` in each status there can be.
async fn in_status(status: &str) -> Rig {
    let mut rig = Rig::with(ONE).await;
    rig.order_part("p").await;
    if matches!(status, "overdue" | "expired") {
        rig.offset_ms = HOUR;
    }
    let steps: &[&str] = match status {
        "pinned" => &["pin"],
        "confirmed" | "returned" => &["pin", "confirm"],
        "released" => &["pin", "release"],
        _ => &[],
    };
    for verb in steps {
        rig.settle_part(verb, "p", "o").await;
    }
    match status {
        "expired" => drop(rig.each("expire", &["p"]).await),
        "returned" => drop(rig.give_back(&[("p", "op", "", "1", "f")]).await),
        _ => {}
    }
    rig
}

/// What pin, confirm and release answer about a part, by its status, and what others are told in any of them.
#[tokio::test]
async fn a_part_moves_with_its_order_and_with_nobody_else() {
    let table = [
        ("held", ["pinned/held", "confirmed/held", "released/held"]),
        ("overdue", ["hold_expired/held", "confirm_expired/1//held", "expired/held"]),
        ("pinned", ["replayed/", "confirmed/held", "released/held"]),
        ("confirmed", ["replayed/", "replayed/", "already_confirmed/"]),
        ("released", ["already_released/", "already_released/", "replayed/"]),
        ("expired", ["hold_expired/", "confirm_expired/1//", "expired/"]),
        ("returned", ["already_returned/", "already_returned/", "already_returned/"]),
    ];
    for (status, answers) in table {
        let mut rig = in_status(status).await;
        let before = rig.bytes().await;
        for (verb, answer) in ["pin", "confirm", "release"].into_iter().zip(answers) {
            for order in ["other", ""] {
                let step = rig.settle_part(verb, "p", order).await;
                assert!(
                    step.answers[0].starts_with("part_of_order//#p/"),
                    "{verb} of a {status} part: {step:?}"
                );
                step.is_unchanged();
            }
            rig.settle_part(verb, "p", "o").await.answer(&[&format!("{answer}/#p/*")]);
            // The audit of each step has seen to it that it stands where it belongs.
            rig.restore(&before).await;
        }
        let step = rig.extend("p", 60 * SECOND, "x").await;
        assert!(step.answers[0].starts_with("part_of_order//#p/"), "extend of a {status} part: {step:?}");
        step.is_unchanged();
        let step = rig.reserve(&[take("new", "one", 1).by("ann").replacing("p")]).await;
        assert!(step.answers[0].starts_with("part_of_order//#p/"), "replacing a {status} part: {step:?}");
        step.is_unchanged();
        // A return is allowed to everybody, where there is something to return.
        let word = if matches!(status, "confirmed") { "returned" } else { "not_confirmed" };
        let word = if status == "returned" { "replayed" } else { word };
        let step = rig.give_back(&[("p", "op2", "", "1", "f")]).await;
        assert!(step.answers[0].starts_with(word), "return of a {status} part: {step:?}");
        // The key that made it finds it.
        let step = rig.reserve(&[take("p", "one", 1).by("ann").part_of("o")]).await;
        assert!(!step.answers[0].starts_with("held"), "{step:?}");
    }
}

/// To an order, a reservation that is a part of none, or of another, is not its own.
#[tokio::test]
async fn an_order_moves_nothing_but_its_parts() {
    let mut rig = Rig::with(ONE).await;
    rig.reserve(&[take("a", "one", 1)]).await;
    for verb in ["pin", "confirm", "release"] {
        rig.settle_part(verb, "a", "o").await.is("part_of_order//#a/*", &[]);
    }
    rig.settle_part("pin", "a", "").await.is("part_of_order//#a/*", &[]);
}

/// Twice in a call, the first pins and the second finds it so; what ends in a call is no longer pinned.
#[tokio::test]
async fn a_part_is_pinned_and_ended_once_in_a_call() {
    let mut rig = Rig::with(ONE).await;
    rig.order_part("p").await;
    let order = id("o");
    let own: &[&str] = &[&order];
    let step = rig.settle("pin", &[("p", own), ("p", own), ("p", &[])]).await;
    step.answer(&["pinned/held/#p/*", "replayed//#p/*", "part_of_order//#p/*"]);
    let step = rig.settle("release", &[("p", own), ("p", own)]).await;
    step.answer(&["released/held/#p/*", "replayed//#p/*"]);
    step.has("pinned #p gone");
}

/// A year later it is still held; its order is looked after by `resolve_at`.
#[tokio::test]
async fn the_sweeper_leaves_pinned_parts_alone_and_hears_of_them() {
    let mut rig = Rig::with(ONE).await;
    for name in ["p", "q"] {
        rig.order_part(name).await;
        rig.settle_part("pin", name, "o").await;
    }
    let resolve_at: i64 = rig.snapshot().await["pinned #p"].parse().unwrap();
    let due = rig.due(9).await;
    assert_eq!((&*due.head[2], &*due.head[11]), (&*resolve_at.to_string(), ""), "{due:?}");
    assert_eq!(due.head[3..5], ["2", "0"], "open, and never overdue");
    rig.offset_ms = 365 * DAY;
    let due = rig.due(9).await;
    assert_eq!(due.head[4..8], ["0", "0", "", ""], "nothing to expire: {due:?}");
    assert_eq!((&*due.head[2], &*due.head[11]), ("", "#p,#q"), "{due:?}");
    assert_eq!(rig.due(1).await.head[11], "#p");
    rig.each("expire", &["p"]).await.is("not_due", &[]);
    rig.each("archive", &["p"]).await.is("not_due", &[]);
    let seen = rig.each("read", &["p"]).await;
    seen.answer(&["found//#p/*"]);
    // The next one is looked for when it is due, whatever has been due for long.
    let again = rig.settle_part("pin", "q", "o").await;
    let due = rig.due(9).await;
    assert_eq!((&*due.head[2], &*due.head[11]), (&*(again.now + 30_000).to_string(), "#p"), "{due:?}");
}

/// A hold without a deadline never gives anything back by itself.
#[tokio::test]
async fn nobody_is_told_to_wait_for_a_pinned_part() {
    let mut rig = Rig::with(&[("one", "1", "")]).await;
    rig.order_part("p").await;
    rig.settle_part("pin", "p", "o").await;
    rig.offset_ms = DAY;
    let short = rig.reserve(&[take("a", "one", 1)]).await;
    short.is("sold_out/one=1,0,1", &[]);
    assert_eq!(short.head[2..], ["", ""], "no deadline, and none overdue");
    rig.put("", "more:f", None, &[("two", "1", "")]).await;
    let held = rig.reserve(&[take("b", "two", 1)]).await;
    let short = rig.reserve(&[take("a", "one", 1)]).await;
    assert_eq!(short.head[2], (held.now + 600 * SECOND).to_string(), "another hold's");
    assert_eq!(rig.delete().await.head[0], "sale_not_empty");
}

/// Lists go on behind a cursor whose score is no number.
#[tokio::test]
async fn pinned_parts_are_listed_behind_all_deadlines() {
    let mut rig = Rig::with(ONE).await;
    let held = rig.reserve(&[take("a", "one", 1)]).await;
    for name in ["r", "p", "q"] {
        rig.order_part(name).await;
        rig.settle_part("pin", name, "o").await;
    }
    let deadline = (held.now + 600 * SECOND).to_string();
    rig.list("due", "", "", 2).await.are(&["#a", &deadline, "#p", "inf"], &[]);
    rig.list("due", "inf", "p", 1).await.are(&["#q", "inf"], &[]);
    rig.settle_part("release", "q", "o").await;
    rig.list("due", "inf", "q", 9).await.are(&["#r", "inf"], &[]);
    assert!(rig.list("due", "inf", "r", 9).await.head.is_empty());
    let pinned = rig.list("pinned", "", "", 9).await;
    assert_eq!([&*pinned.head[0], &*pinned.head[2]], ["#r", "#p"], "by the time of their resolution");
}

/// What stands in the wrong place, which no script leaves behind, is set right by the sweeper.
#[tokio::test]
async fn the_sweeper_sets_places_of_parts_right() {
    let mut rig = Rig::with(ONE).await;
    for name in ["p", "q", "r", "gone"] {
        rig.order_part(name).await;
    }
    for name in ["p", "q", "gone"] {
        rig.settle_part("pin", name, "o").await;
    }
    rig.settle_part("release", "q", "o").await;
    let right = rig.snapshot().await;
    // Pinned, but in `due` at a time and not in `pinned`; ended, and not pinned, but in `pinned`.
    rig.tamper("ZADD", "due", &["1", &id("p")]).await;
    rig.tamper("ZREM", "pinned", &[&id("p")]).await;
    rig.tamper("ZADD", "pinned", &["1", &id("q"), "1", &id("r")]).await;
    rig.tamper("DEL", &format!("r:{}", id("gone")), &[]).await;
    let names = ["p", "q", "r", "gone"];
    let requests: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, &[][..])).collect();
    let (keys, args) = rig.settle_call("expire", &requests);
    let texts = rig.run("reservation/expire", &keys, &args).await.unwrap();
    assert_eq!(texts[4..], ["not_due", "not_due", "not_due", "orphaned"]);
    let now: i64 = texts[1].parse().unwrap();
    let found = rig.snapshot().await;
    assert_eq!(found["pinned #p"], (now + 30_000).to_string(), "it is looked after anew");
    for leaf in ["due #p", "due #r", "done #q"] {
        assert_eq!(found[leaf], right[leaf], "{leaf}");
    }
    for leaf in ["pinned #q", "pinned #r", "pinned #gone", "due #gone"] {
        assert!(!found.contains_key(leaf), "{leaf}");
    }
    assert!(found.contains_key("orphans #gone"));
    // One that stands in `pinned` alone is an orphan, too; another with its record where it belongs is let be.
    rig.tamper("ZADD", "pinned", &["1", &id("nothing"), "1", &id("p")]).await;
    let (keys, args) = rig.settle_call("expire", &[("nothing", &[]), ("p", &[])]);
    let texts = rig.run("reservation/expire", &keys, &args).await.unwrap();
    assert_eq!(texts[4..], ["orphaned", "not_due"]);
    let found = rig.snapshot().await;
    assert!(found.contains_key("orphans #nothing") && !found.contains_key("pinned #nothing"));
    assert_eq!(found["pinned #p"], "1", "the time of its resolution stays");
}

/// What a deleted sale had pinned, and the counter of its fences, go with it.
#[tokio::test]
async fn a_purge_leaves_neither_pinned_parts_nor_the_counter_of_fences() {
    let mut rig = Rig::with(ONE).await;
    rig.order_part("p").await;
    rig.settle_part("pin", "p", "o").await;
    rig.settle_part("release", "p", "o").await;
    rig.tamper("SET", "fence", &["1796061600000"]).await;
    assert_eq!(rig.delete().await.head[0], "deleted");
    rig.tamper("ZADD", "pinned", &["1", &id("left")]).await;
    assert_eq!(rig.purge(&["p"]).await.head, ["purged"]);
    assert!(rig.snapshot().await.is_empty());
}
