//! Each word of the sweeper's scripts, with all that it changes; and what all scripts that take ids have in common.

use super::calls::{Rules, take};
use super::rig::{DAY, Rig, SECOND, id};
use super::words::Answered;
use super::words_settle::one_hold;
use stockade::store::intake::GROUP;

pub async fn sweep() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.each("expire", &["a"]).await.is("not_due", &[]);
    rig.each("archive", &["a"]).await.is("not_due", &[]);
    rig.offset_ms = 600 * SECOND;
    rig.each("expire", &["a"]).await.is(
        "expired/held/#a/*",
        &[
            "done #a = {n+86400000}",
            "due #a gone",
            "events[2] = t {n} e expired/held/#a/*",
            "r:#a = expired/{a+600000}/{a}/{a+600000}/{a+3600000}////////fp//one=2//ref/",
            "stock :a = 10",
            "stock :h = 0",
            "stock one:a = 10",
            "stock one:h = 0",
            "stock one:r = 2",
        ],
    );
    rig.each("expire", &["a"]).await.is("not_due", &[]);
    rig.each("expire", &["nothing"]).await.is("orphaned", &[]);
    rig.reserve(&[take("b", "one", 3)]).await;
    rig.confirm("b", "one=2").await;
    rig.offset_ms = 600 * SECOND + DAY + 60 * SECOND;
    rig.each("archive", &["a", "b"]).await.are(&["archived", "not_due"], &["done #a gone", "r:#a gone"]);
    rig.each("archive", &["a"]).await.is("not_due", &[]);
    rig.offset_ms = 31 * DAY;
    let gone = ["done #b gone", "r:#b gone", "stock one:r = 5", "stock one:x = 2"];
    rig.each("archive", &["b", "b"]).await.are(&["archived", "not_due"], &gone);
    rig.tamper("ZADD", "done", &["1", &id("c")]).await;
    let (keys, args) = rig.settle_call("archive", &[("c", &[])]);
    assert_eq!(rig.run("reservation/archive", &keys, &args).await.unwrap()[4], "orphaned");
    assert!(rig.snapshot().await.contains_key("orphans #c"));
    rig.answered
}

pub async fn unknown() -> Answered {
    let mut rig = Rig::empty().await;
    let op: &[&str] = &["refuse", "", ""];
    let verbs: [(&str, &[&str]); 7] = [
        ("pin", &[]),
        ("confirm", op),
        ("release", &[]),
        ("extend", &["1000", "op"]),
        ("expire", &[]),
        ("archive", &[]),
        ("read", &[]),
    ];
    for made in [false, true] {
        if made {
            rig.put("", "made:fp", Some(&Rules::default()), &[("one", "200000", "")]).await;
            rig.generation = "other".into();
        }
        let word = if made { "stale_generation" } else { "unknown_sale" };
        for (verb, args) in verbs {
            rig.settle(verb, &[("a", args)]).await.is(word, &[]);
        }
        rig.give_back(&[("a", "op", "", "1", "f")]).await.is(word, &[]);
        rig.adjust(&[("op", "one", 1, "", "f")]).await.is(word, &[]);
    }
    rig.generation = "g1".into();
    for (verb, args) in verbs.into_iter().filter(|(verb, _)| !matches!(*verb, "expire" | "archive")) {
        rig.settle(verb, &[("a", args)]).await.is("unknown_reservation", &[]);
    }
    rig.give_back(&[("a", "op", "", "1", "f")]).await.is("unknown_reservation", &[]);
    rig.reserve(&[take("a", "one", 1)]).await;
    rig.each("read", &["a"]).await.is("found//#a/*", &[]);
    rig.answered
}

/// Records with their places, whatever they hold.
pub async fn inspect() -> Answered {
    let (mut rig, _) = one_hold().await;
    rig.reserve(&[take("b", "one", 1)]).await;
    rig.each("release", &["b"]).await;
    let (keys, args) = rig.inspect_call(&["a", "b", "nothing"]);
    let expected = ["{a+600000}", "", "", "held/{a+600000}/{a}//{a+3600000}////////fp//one=2//ref/"];
    let step = rig.step("reservation/inspect", &keys, &args).await;
    step.shows(&expected, 0);
    assert_eq!(step.head[4], "");
    assert!(step.head[5].parse::<i64>().is_ok() && step.head[7].starts_with("released/"), "{step:?}");
    assert_eq!(step.head[8..], ["", "", "", ""]);
    step.is_unchanged();
    rig.tamper("RPUSH", &format!("r:{}", id("bad")), &["x"]).await;
    let (keys, args) = rig.inspect_call(&["bad"]);
    assert_eq!(rig.run("reservation/inspect", &keys, &args).await.unwrap(), ["", "", "", "wrong_type"]);
    rig.answered
}

/// The oldest entries go, by time or by number, as many as a call may take; those that the group had not acknowledged
/// are counted.
pub async fn trim() -> Answered {
    let mut rig = Rig::empty().await;
    rig.trim(DAY, 9, 9).await.is("unknown_sale", &[]);
    rig.put("", "made:fp", Some(&Rules::default()), &[("one", "10", "")]).await;
    rig.reserve(&[take("a", "one", 9)]).await;
    rig.reserve(&[take("b", "one", 1)]).await; // two events: the last units
    rig.offset_ms = DAY;
    rig.switch("paused").await;
    let ids = rig.entry_ids().await;
    rig.trim(2 * DAY, 4, 9).await.are(&["kept", "{n}"], &[]);
    rig.generation = "g0".into();
    rig.trim(0, 0, 9).await.is("stale_generation", &[]);
    rig.generation = "g1".into();
    let trimmed = |id: &str, n: usize| format!("rules events_trimmed = {id}-{n}");
    let healthy = rig.bytes().await;
    for (args, limit, gone, last_event) in [
        // By number, by time, by both; each as far as it may.
        ((2 * DAY, 3), 9, 1, 1),
        ((2 * DAY, 1), 9, 3, 1),
        ((2 * DAY, 0), 9, 4, 0),
        ((2 * DAY, 0), 2, 2, 0),
        ((DAY / 2, 9), 9, 3, 1),
        ((DAY / 2, 9), 1, 1, 1),
    ] {
        rig.restore(&healthy).await;
        let left = rig.entry_ids().await.split_off(gone);
        let step = rig.trim(args.0, args.1, limit).await;
        step.answer(&["trimmed", "{n}", &gone.to_string(), "0"]);
        assert_eq!(rig.entry_ids().await, left);
        step.has(&trimmed(&ids[gone - 1], last_event));
    }
    // How far a group has read, what it has acknowledged of that, and how many entries go; then what it misses.
    for (group, read, acknowledged, gone, missed) in [
        (GROUP, 0, 0, 3, 3),
        (GROUP, 3, 0, 3, 3),
        (GROUP, 3, 2, 3, 1),
        (GROUP, 2, 2, 3, 1),
        (GROUP, 4, 0, 2, 2),
        (GROUP, 4, 3, 3, 0),
        ("another", 0, 0, 3, 0),
    ] {
        rig.restore(&healthy).await;
        let events = rig.keys.events().to_owned();
        let mut setup = redis::pipe();
        setup.cmd("XGROUP").arg("CREATE").arg(&events).arg(group).arg("0").ignore();
        if read > 0 {
            let cmd = setup.cmd("XREADGROUP").arg("GROUP").arg(group).arg("one").arg("COUNT").arg(read);
            cmd.arg("STREAMS").arg(&events).arg(">").ignore();
        }
        for id in &ids[..acknowledged] {
            setup.cmd("XACK").arg(&events).arg(group).arg(id).ignore();
        }
        let () = setup.query_async(&mut rig.admin).await.unwrap();
        let step = rig.trim(2 * DAY, 4 - gone, 9).await;
        step.answer(&["trimmed", "{n}", &gone.to_string(), &missed.to_string()]);
        let mut pending = redis::cmd("XPENDING");
        pending.arg(&events).arg(group).arg("-").arg("+").arg(9);
        let left: Vec<redis::Value> = pending.query_async(&mut rig.admin).await.unwrap();
        assert_eq!(left.len(), read - acknowledged.max(gone as usize).min(read), "what went is acknowledged");
    }
    rig.answered
}
