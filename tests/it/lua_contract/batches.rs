//! Many requests in one call: each reads and changes what the ones before it have left.

use super::calls::{Rules, Take, take};
use super::rig::{HOUR, Rig, SECOND};
use super::words::Answered;
use stockade::store::ids::bucket;

fn count(answers: &[String], word: &str) -> usize {
    answers.iter().filter(|answer| answer.split('/').next() == Some(word)).count()
}

#[tokio::test]
async fn fifty_copies_of_a_key_are_one_hold() {
    let mut rig = Rig::with(&[("one", "60", "")]).await;
    let step = rig.reserve(&vec![take("a", "one", 1); 50]).await;
    assert_eq!(step.answers[0], "held//#a/*");
    assert!(step.answers[1..].iter().all(|answer| answer == "replayed//#a/*"), "{step:?}");
    step.has("stock one:h = 1");
    step.has("events[1] = t {n} e held//#a/*");
    // Another body under the same key, in the same call.
    let mut copies = vec![take("b", "one", 1), take("b", "one", 1).fingerprint("other")];
    copies.extend(vec![take("b", "one", 1); 2]);
    let step = rig.reserve(&copies).await;
    step.answer(&["held//#b/*", "idempotency_key_reused", "replayed//#b/*", "replayed//#b/*"]);
}

#[tokio::test]
async fn limits_hold_inside_a_call() {
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(2), &[("one", "60", "")]).await;
    let carts: Vec<Take> = (0..5).map(|n| take(&format!("a{n}"), "one", 1).by("ann")).collect();
    let step = rig.reserve(&carts).await;
    assert_eq!((count(&step.answers, "held"), count(&step.answers, "buyer_limit")), (2, 3), "{step:?}");
    let mut rig = Rig::with_rules(Rules::default().buyer_holds_max(2), &[("one", "60", "")]).await;
    let step = rig.reserve(&carts).await;
    assert_eq!((count(&step.answers, "held"), count(&step.answers, "buyer_holds")), (2, 3), "{step:?}");
    let mut rig = Rig::with(&[("one", "60", "2"), ("two", "60", "")]).await;
    let mixed: Vec<Take> = carts.into_iter().map(|cart| cart.and("two", 3)).collect();
    let step = rig.reserve(&mixed).await;
    assert_eq!((count(&step.answers, "held"), count(&step.answers, "buyer_limit")), (2, 3), "{step:?}");
}

/// Bucket 1 and buyer `1x`, bucket 11 and buyer `x`: one after the other, both read `11x`.
#[tokio::test]
async fn buyers_of_two_buckets_are_never_one() {
    let pair = (0..100_000u32).find_map(|n| {
        let (long, short) = (format!("1{n}"), n.to_string());
        (bucket(&long) == 1 && bucket(&short) == 11).then_some((long, short))
    });
    let (long, short) = pair.expect("there are such buyers");
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(2), &[("one", "60", "")]).await;
    let carts = |round: &str| {
        [take(&format!("{round}1"), "one", 1).by(&long), take(&format!("{round}2"), "one", 1).by(&short)]
    };
    rig.reserve(&carts("a")).await.answer(&["held//#a1/*", "held//#a2/*"]);
    rig.reserve(&carts("b")).await.answer(&["held//#b1/*", "held//#b2/*"]);
    let full = ["buyer_limit//2/2/1"; 2];
    rig.reserve(&carts("c")).await.answer(&full);
    rig.each("release", &["a1", "a2", "b1", "b2"]).await;
    let left = rig.snapshot().await;
    assert!(!left.keys().any(|leaf| leaf.starts_with("buyers:")), "{left:?}");
}

/// Texts of entries are made once for equal counts: two holds of 10 units are not one hold of 2^24 + 10.
#[tokio::test]
async fn counts_of_buyers_in_a_call_are_never_mixed_up() {
    let rules = Rules::default().buyer_limit(100_000_000).buyer_holds_max(9);
    let mut rig = Rig::with_rules(rules, &[("one", "100000000", "")]).await;
    rig.reserve(&[take("a", "one", 5).by("ann")]).await;
    let both = [take("b", "one", 5).by("ann"), take("c", "one", (1 << 24) + 10).by("bob")];
    rig.reserve(&both).await.answer(&["held//#b/*", "held//#c/*"]);
    rig.each("release", &["a", "b", "c"]).await;
    let left = rig.snapshot().await;
    assert!(!left.keys().any(|leaf| leaf.starts_with("buyers:")), "{left:?}");
}

#[tokio::test]
async fn stock_runs_out_inside_a_call() {
    let mut rig = Rig::with(&[("one", "10", ""), ("two", "3", "")]).await;
    let carts: Vec<Take> = (0..20).map(|n| take(&format!("a{n}"), "one", 1)).collect();
    let step = rig.reserve(&carts).await;
    assert_eq!((count(&step.answers, "held"), count(&step.answers, "sold_out")), (10, 10));
    assert_eq!(step.answers[19], "sold_out/one=1,0,10");
    assert_eq!(step.head[2..], ["", ""], "no hold was there before this call");
    let event = step.changes.iter().find(|change| change.starts_with("events[1]")).unwrap();
    assert_eq!(event.split(" & ").count(), 11, "ten holds, and one word that it is sold out");
    assert!(event.ends_with(" & sold_out//one/0/10/0/10/"), "{event}");
    // All lines or none.
    let step =
        rig.reserve(&[take("b", "two", 2).and("one", 1), take("c", "two", 4), take("d", "two", 3)]).await;
    step.answer(&["sold_out/one=1,0,10", "sold_out/two=4,3,0", "held//#d/*"]);
    let back = rig.each("release", &["a0", "a1"]).await;
    let event = back.changes.iter().find(|change| change.starts_with("events[3]")).unwrap();
    assert!(event.ends_with(" & back_in_stock//one/2/8/0/10/"), "{event}");
}

#[tokio::test]
async fn a_reservation_that_is_settled_twice_in_a_call_ends_once() {
    let mut rig = Rig::with(&[("one", "60", ""), ("two", "9", "")]).await;
    let names = ["a", "b", "c", "d", "e"];
    rig.reserve(&names.map(|name| take(name, "one", 3).and("two", 1))).await;
    rig.each("release", &["a", "a"]).await.answer(&["released/held/#a/*", "replayed//#a/*"]);
    let all: &[&str] = &["refuse", "", ""];
    rig.settle("confirm", &[("b", all), ("b", all)]).await.answer(&["confirmed/held/#b/*", "replayed//#b/*"]);
    let (part, other): (&[&str], &[&str]) = (&["refuse", "", "one=2"], &["refuse", "", "one=1"]);
    let step = rig.settle("confirm", &[("c", part), ("c", other), ("c", part)]).await;
    step.answer(&["confirmed/held/#c/*", "already_confirmed//#c/*", "replayed//#c/*"]);
    step.has("stock one:s = 5");
    let twice: &[&str] = &["700000", "op"];
    rig.settle("extend", &[("d", twice), ("d", twice)])
        .await
        .answer(&["extended/held/#d/*", "replayed//#d/*"]);
    let returns =
        [("b", "op", "one=1", "1", "f"), ("b", "op", "one=1", "1", "f"), ("b", "all", "", "1", "f")];
    let step = rig.give_back(&returns).await;
    assert_eq!(step.answers.len(), 3);
    assert!(step.answers[0].starts_with("returned/confirmed/#b/confirmed/"), "{step:?}");
    assert_eq!(step.answers[1], step.answers[0].replacen("returned", "replayed", 1), "the same answer");
    assert_eq!(step.answers[2], "returned/confirmed/#b/*");
    let adjusted =
        rig.adjust(&[("x", "one", 5, "", "f"), ("x", "one", 5, "", "f"), ("x", "one", 6, "", "g")]).await;
    assert_eq!(adjusted.answers[1], adjusted.answers[0].replacen("adjusted", "replayed", 1));
    assert_eq!(adjusted.answers[2], "idempotency_key_reused");
    adjusted.has("stock one:g = 65");
    // Overdue: found expired by the first, retaken by the second.
    rig.offset_ms = HOUR;
    let retake: &[&str] = &["retake", "", ""];
    let step = rig.settle("confirm", &[("e", all), ("e", retake), ("e", retake)]).await;
    assert!(step.answers[0].starts_with("confirm_expired/1//held/#e/expired/"), "{step:?}");
    assert_eq!(step.answers[1..], ["retaken/expired/#e/*", "replayed//#e/*"]);
    rig.each("expire", &["d", "d"]).await.answer(&["expired/held/#d/*", "not_due"]);
}

#[tokio::test]
async fn a_chain_of_replacements_in_a_call_leaves_its_last_hold() {
    let rules = Rules::default().buyer_limit(4).buyer_holds_max(1);
    let mut rig = Rig::with_rules(rules, &[("one", "4", "4")]).await;
    let ann = |name: &str, units| take(name, "one", units).by("ann");
    let step = rig.reserve(&[ann("a", 2), ann("b", 4).replacing("a"), ann("c", 3).replacing("b")]).await;
    let bucket = format!("{:x}", bucket("ann"));
    let times = "{n+600000}/{n}/{n}/{n+3600000}";
    let b = format!("released/{times}/{bucket}/#a/#c/////fp//one=4/ann/ref/");
    assert!(step.answers[0].starts_with("held//#a/held/"));
    assert_eq!(step.answers[2], "held//#c/*");
    step.has(&format!("r:#a = released/{times}/{bucket}//#b/////fp//one=2/ann/ref/"));
    step.has(&format!("r:#b = {b}"));
    step.has(&format!(
        "r:#c = held/{{n+600000}}/{{n}}//{{n+3600000}}/{bucket}HU1/#b//////fp//one=3/ann/ref/"
    ));
    step.has(&format!("buyers:{bucket} ann = 1|3|one=3"));
    step.has("stock one:h = 3");
    step.has("stock one:r = 1");
    // The replaced one and its repeats, in the call that replaces it.
    let step = rig
        .reserve(&[ann("c", 3), ann("d", 1).replacing("c"), ann("c", 3), ann("d", 1).replacing("c")])
        .await;
    assert!(step.answers[0].starts_with("replayed//#c/held/"), "{step:?}");
    assert_eq!(step.answers[1..], ["held//#d/*", "already_released//#c/*", "replayed//#d/*"]);
    // Two that replace the same hold: one of them does.
    let step = rig.reserve(&[ann("e", 1).replacing("d"), ann("f", 1).replacing("d")]).await;
    step.answer(&["held//#e/*", "already_released//#d/*"]);
    // A replacement that is refused leaves the old hold, and what others may take.
    let step = rig.reserve(&[ann("g", 5).replacing("e"), take("h", "one", 3).by("bob")]).await;
    step.answer(&["buyer_limit//4/0/5", "held//#h/*"]);
    // An overdue hold is none to replace: a plain reserve.
    rig.offset_ms = 3_000 * SECOND;
    rig.each("expire", &["h"]).await;
    let step = rig.reserve(&[take("i", "one", 1).by("bob").replacing("h")]).await;
    assert!(!step.changes.iter().any(|change| change.starts_with("r:#h")), "{step:?}");
    step.answer(&["held//#i/*"]);
}

/// As many requests and lines as the committer ever puts into a call.
#[tokio::test]
async fn the_largest_calls_fit() {
    let names: Vec<String> = (0..1_000).map(|n| format!("s{n:03}")).collect();
    let skus: Vec<(&str, &str, &str)> =
        names.iter().map(|name| (name.as_str(), "1000000000", "9000")).collect();
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(1_000_000), &skus).await;
    let cart = |n: usize, prefix: &str| {
        let first = take(&format!("{prefix}{n}"), &names[n * 2], 1).by(&format!("buyer {n}"));
        first.and(&names[n * 2 + 1], 2)
    };
    let takes: Vec<Take> = (0..256).map(|n| cart(n, "a")).collect();
    let step = rig.reserve(&takes).await;
    assert_eq!(count(&step.answers, "held"), 256);
    assert!(step.changes.contains(&"stock :h = 768".to_owned()));
    let replaced: Vec<Take> = (0..256).map(|n| cart(n, "b").replacing(&format!("a{n}"))).collect();
    let step = rig.reserve(&replaced).await;
    assert_eq!(count(&step.answers, "held"), 256);
    let ids: Vec<String> = (0..256).map(|n| format!("b{n}")).collect();
    let all: Vec<(&str, &[&str])> = ids.iter().map(|id| (id.as_str(), &["refuse", "", ""][..])).collect();
    assert_eq!(count(&rig.settle("confirm", &all).await.answers, "confirmed"), 256);
    let operations: Vec<String> = (0..256).map(|n| format!("op{n}")).collect();
    let lines: Vec<String> = (0..256).map(|n| format!("{}=1", names[n * 2 + 1])).collect();
    let each = ids.iter().zip(&operations).zip(&lines);
    let returns: Vec<_> = each.map(|((id, op), lines)| (&**id, &**op, &**lines, "0", "f")).collect();
    let step = rig.give_back(&returns).await;
    assert_eq!(count(&step.answers, "returned"), 256);
    assert!(step.changes.contains(&"stock :g = 999999999744".to_owned()));
}

/// A call stops after 512 lines that it has read from records, and answers `deferred` to the rest.
pub async fn deferred() -> Answered {
    let names: Vec<String> = (0..100).map(|n| format!("s{n:02}")).collect();
    let skus: Vec<(&str, &str, &str)> = names.iter().map(|name| (name.as_str(), "99", "")).collect();
    let mut rig = Rig::with(&skus).await;
    let full = |name: &str| names[1..].iter().fold(take(name, &names[0], 1), |cart, sku| cart.and(sku, 1));
    let ids: Vec<String> = (0..8).map(|n| format!("a{n}")).collect();
    for name in &ids {
        rig.reserve(&[full(name)]).await;
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let deferred = |answers: &[String]| {
        let at = answers.iter().position(|answer| answer == "deferred").unwrap();
        assert!(answers[at..].iter().all(|answer| answer == "deferred"), "{answers:?}");
        at
    };
    let each = |args: &'static [&'static str]| ids.iter().map(|id| (*id, args)).collect::<Vec<_>>();
    let extend = rig.settle("extend", &each(&["700000", "op"])).await;
    assert_eq!(deferred(&extend.answers), 6, "6 times 100 lines are the first to reach 512");
    // What does not exist costs nothing.
    let mut mixed = vec!["nothing"; 20];
    mixed.extend(&ids);
    assert_eq!(deferred(&rig.each("release", &mixed).await.answers), 26);
    let confirmed = rig.settle("confirm", &each(&["refuse", "", ""])[6..]).await;
    assert_eq!(count(&confirmed.answers, "confirmed"), 2);
    assert_eq!(deferred(&rig.settle("confirm", &each(&["refuse", "", ""])).await.answers), 6);
    assert_eq!(deferred(&rig.each("expire", &ids).await.answers), 6);
    let returns: Vec<_> = ids.iter().map(|id| (*id, "op", "", "1", "f")).collect();
    assert_eq!(deferred(&rig.give_back(&returns).await.answers), 6);
    rig.offset_ms = 40 * 24 * HOUR;
    assert_eq!(deferred(&rig.each("archive", &ids).await.answers), 6);
    rig.each("archive", &ids[6..]).await.answer(&["archived", "archived"]);
    rig.answered
}
