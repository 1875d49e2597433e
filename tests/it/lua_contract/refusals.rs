//! A refusal leaves every key as it was, to the byte and to the time of its expiry; so does the second of two equal
//! calls. The one exception: a verb that settles and meets an overdue hold expires it.

use super::calls::{Rules, take};
use super::rig::{HOUR, Rig, SECOND};

/// `a` held, `b` confirmed, `c` released, `d` expired, `e` returned, `f` returned in part by operation `op`.
async fn one_of_each() -> Rig {
    let rules = Rules::default().buyer_limit(30).buyer_holds_max(1);
    let mut rig = Rig::with_rules(rules, &[("one", "20", "9"), ("two", "3", "")]).await;
    for (name, buyer) in [("b", "bob"), ("c", "cat"), ("e", "eve"), ("f", "fay")] {
        rig.reserve(&[take(name, "one", 2).by(buyer)]).await;
    }
    rig.each("release", &["c"]).await;
    for name in ["b", "e", "f"] {
        rig.confirm(name, "").await;
    }
    rig.give_back(&[("e", "all", "", "1", "f"), ("f", "op", "one=1", "0", "f")]).await;
    rig.adjust(&[("op", "one", 5, "", "f")]).await;
    rig.reserve(&[take("d", "one", 2).by("dan")]).await;
    rig.offset_ms = 600 * SECOND;
    rig.each("expire", &["d"]).await;
    rig.reserve(&[take("a", "one", 2).by("ann").for_ms(HOUR)]).await;
    rig
}

#[tokio::test]
async fn a_refusal_or_a_repeat_leaves_all_keys_equal() {
    let mut rig = one_of_each().await;
    let cart = |name: &str, buyer: &str| take(name, "one", 2).by(buyer);
    let all = ["a", "b", "c", "d", "e", "f", "nothing"];
    let mut calls = Vec::new();
    // Repeats and other bodies under known keys.
    for (name, buyer) in [("b", "bob"), ("c", "cat"), ("d", "dan"), ("e", "eve"), ("f", "fay")] {
        calls.push(("reservation/reserve", rig.reserve_call(&[cart(name, buyer)])));
        calls.push(("reservation/reserve", rig.reserve_call(&[cart(name, buyer).fingerprint("x")])));
        calls.push(("reservation/reserve", rig.reserve_call(&[cart("new", "zoe").replacing(name)])));
        if !matches!(name, "d") {
            calls.push(("reservation/reserve", rig.reserve_call(&[cart("new", buyer).replacing(name)])));
        }
    }
    let refused = [
        cart("a", "ann"),
        cart("new", "ann"),
        cart("new", "zoe").for_ms(2 * HOUR),
        cart("new", "zoe").and("three", 1),
        take("new", "one", 1),
        take("new", "one", 10).by("zoe"),
        take("new", "two", 31).by("zoe"),
        take("new", "two", 4).by("zoe"),
        cart("new", "ann").and("two", 4).replacing("a"),
        cart("new", "ann").for_ms(2 * HOUR).replacing("a"),
        cart("new", "zoe").replacing("nothing"),
    ];
    calls.extend(
        refused.iter().map(|cart| ("reservation/reserve", rig.reserve_call(std::slice::from_ref(cart)))),
    );
    // All of them in one call.
    calls.push(("reservation/reserve", rig.reserve_call(&refused)));
    let settled = &all[1..];
    for lines in ["", "one=1", "one=3", "two=1"] {
        let requests: Vec<_> = settled.iter().map(|name| (*name, vec!["refuse", "", lines])).collect();
        let requests: Vec<(&str, &[&str])> = requests.iter().map(|(name, args)| (*name, &args[..])).collect();
        calls.push(("reservation/confirm", rig.settle_call("confirm", &requests)));
    }
    let each = |verb: &str, names: &[&'static str], args: &'static [&'static str]| {
        rig.settle_call(verb, &names.iter().map(|name| (*name, args)).collect::<Vec<_>>())
    };
    calls.push(("reservation/confirm", each("confirm", &["a"], &["refuse", "", "one=3"])));
    calls.push(("reservation/confirm", each("confirm", &["d"], &["retake", "", "one=3"])));
    calls.push(("reservation/release", each("release", settled, &[])));
    calls.push(("reservation/extend", each("extend", settled, &["60000", "op"])));
    calls.push(("reservation/extend", each("extend", &["a"], &["3600001", "op"])));
    calls.push(("reservation/expire", each("expire", &["a", "b", "c", "d", "e", "f"], &[])));
    calls.push(("reservation/archive", each("archive", &all, &[])));
    calls.push(("reservation/read", each("read", &all, &[])));
    let returns = |names: &[&'static str], lines: &'static str| {
        let requests: Vec<_> = names.iter().map(|name| (*name, "new", lines, "1", "f")).collect();
        rig.return_call(&requests)
    };
    let give_back = "reservation/return_reservation";
    calls.push((give_back, returns(&["a", "c", "d", "e", "nothing"], "")));
    calls.push((give_back, returns(&["a", "b", "c", "d", "e", "f"], "one=3")));
    calls.push((
        give_back,
        rig.return_call(&[("f", "op", "one=1", "0", "f"), ("f", "op", "one=1", "1", "x")]),
    ));
    let adjustments = [
        ("op", "one", 5, "", "f"),
        ("op", "one", 6, "", "x"),
        ("new", "nine", 1, "", "f"),
        ("new", "one", -99, "", "f"),
        ("new", "one", 1, "7", "f"),
        ("new", "one", 999_999_999_999, "", "f"),
    ];
    calls.push(("sale/adjust", rig.adjust_call(&adjustments)));
    let rules = Rules::default();
    for (expect, operation) in [("", "made:x"), ("absent", "new:fp"), ("g1-9", "new:fp")] {
        calls.push(("sale/put", rig.put_call(expect, operation, Some(&rules), &[("nine", "1", "")])));
    }
    for sku in [("one", "19", ""), ("nine", "", ""), ("nine", "999999999999", "")] {
        calls.push(("sale/put", rig.put_call("", "new:fp", None, &[sku])));
    }
    calls.push(("sale/switch", rig.switch_call("active")));
    let (keys, _) = rig.switch_call("");
    calls.push(("sale/delete", (keys, vec![rig.offset_ms.to_string()])));
    calls.push(("sale/purge", rig.purge_call(&["b", "c"])));
    let before = rig.bytes().await;
    for (script, (keys, args)) in &calls {
        let answer = rig.run(script, keys, args).await;
        assert!(answer.is_ok(), "{script} {args:?}: {answer:?}");
        assert!(rig.bytes().await == before, "{script} {args:?} wrote something: {answer:?}");
    }
    // The same calls to a sale of that name, but of another incarnation.
    for (script, (keys, args)) in &mut calls {
        if args.get(1).is_some_and(|generation| *generation == rig.generation) && *script != "sale/put" {
            args[1] = "g0".into();
            assert_eq!(rig.run(script, keys, args).await.unwrap(), ["stale_generation"], "{script}");
        }
    }
    assert!(rig.bytes().await == before);
}

/// Whatever a verb that settles was asked, an overdue hold is expired by it, exactly as the sweeper would.
#[tokio::test]
async fn a_verb_that_settles_expires_what_is_overdue_and_does_no_more() {
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(5), &[("one", "2", "2")]).await;
    rig.reserve(&[take("a", "one", 2).by("ann")]).await;
    rig.offset_ms = 600 * SECOND;
    let held = rig.bytes().await;
    let swept = rig.each("expire", &["a"]).await;
    // Times differ by what passed meanwhile.
    let plain = |step: &super::rig::Step| {
        let now = step.now.to_string();
        let kept = (step.now + 24 * HOUR).to_string();
        step.changes
            .iter()
            .map(|change| change.replace(&kept, "kept").replace(&now, "now"))
            .collect::<Vec<_>>()
    };
    let expected = plain(&swept);
    assert!(expected.contains(&"stock one:a = 2".to_owned()), "{expected:?}");
    let refuse: &[&str] = &["refuse", "", ""];
    for (verb, args) in [("confirm", refuse), ("release", &[]), ("extend", &["1000", "op"])] {
        rig.restore(&held).await;
        assert_eq!(plain(&rig.settle(verb, &[("a", args)]).await), expected, "{verb}");
    }
    rig.restore(&held).await;
    assert_eq!(plain(&rig.give_back(&[("a", "op", "one=1", "0", "f")]).await), expected, "return");
    // A quantity that was never held is refused before the deadline is looked at.
    rig.restore(&held).await;
    rig.confirm("a", "one=3").await.is_unchanged();
    // Takes and reads only compute it.
    let answer = rig.reserve(&[take("a", "one", 2).by("ann")]).await;
    assert!(answer.answers[0].starts_with("hold_expired//#a/expired/"), "{answer:?}");
    answer.is_unchanged();
    rig.each("read", &["a"]).await.is_unchanged();
}
