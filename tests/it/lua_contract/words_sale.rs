//! Each word of the scripts of a sale, with all that it changes.

use super::calls::{Rules, take};
use super::rig::{HOUR, Rig};
use super::words::Answered;

const RULES: &str = "//600000/3600000///2592000000/86400000";

pub async fn put() -> Answered {
    let mut rig = Rig::empty().await;
    let rules = Rules::default();
    rig.put("", "op1:fp", None, &[("one", "10", "")]).await.is("unknown_sale", &[]);
    rig.put("g1-1", "op1:fp", Some(&rules), &[]).await.is("precondition_failed", &[]);
    rig.generation = String::new();
    rig.put("", "op1:fp", Some(&rules), &[]).await.is("unknown_sale", &[]);
    rig.generation = "g1".into();
    let made = rig.put("absent", "op1:fp", Some(&rules), &[("one", "10", "3")]).await;
    let sale = format!("g1/1/active/{RULES}/1/10/0/0/10");
    let ledger = "op1/one/10/0/0/10/3/10/initial//{n}";
    made.are(
        &["created", "{n}", &sale],
        &[
            &format!("adjustments[0] = e {ledger}"),
            &format!("events[0] = t {{n}} e created//{sale} & adjusted//{ledger}"),
            "rules buyer_holds_max = ",
            "rules buyer_limit = ",
            "rules closes_at_ms = ",
            "rules confirmed_retention_ms = 2592000000",
            "rules ended_retention_ms = 86400000",
            "rules generation = g1",
            "rules hold_ms = 600000",
            "rules hold_ms_max = 3600000",
            "rules id_key = idkey",
            "rules last_op = op1:fp created",
            "rules opens_at_ms = ",
            "rules status = active",
            "rules version = 1",
            "skus one = 0",
            "stock :a = 10",
            "stock :g = 10",
            "stock :h = 0",
            "stock :s = 0",
            "stock one:a = 10",
            "stock one:g = 10",
            "stock one:h = 0",
            "stock one:i = 10",
            "stock one:l = 3",
            "stock one:r = 0",
            "stock one:s = 0",
        ],
    );
    let again = rig.put("absent", "op1:fp", Some(&rules), &[("one", "10", "3")]).await;
    again.are(&["replayed_created", "{n}", &sale], &[]);
    rig.put("", "op1:other", Some(&rules), &[]).await.is("idempotency_key_reused", &[]);
    rig.put("absent", "op2:fp", Some(&rules), &[]).await.is("precondition_failed", &[]);
    rig.put("g1-2", "op2:fp", Some(&rules), &[]).await.is("precondition_failed", &[]);
    let same = rig.put("g1-1", "op2:fp", Some(&rules), &[("one", "10", "3")]).await;
    same.are(&["unchanged", "{n}", &sale], &[]);
    rig.put("", "op2:fp", None, &[("one", "9", "3")]).await.are(&["stock_exists", "one", "10"], &[]);
    rig.put("", "op2:fp", None, &[("two", "", "")]).await.is("initial_required", &[]);
    rig.put("", "op2:fp", None, &[("two", "999999999991", "")]).await.is("too_many_units", &[]);
    // Another buyer limit of the sale, none of the SKU any more, and another SKU.
    let rules = rules.buyer_limit(7);
    let changed = rig.put("g1-1", "op3:fp", Some(&rules), &[("one", "10", ""), ("two", "5", "")]).await;
    let sale = "g1/2/active///600000/3600000/7//2592000000/86400000/2/15/0/0/15";
    let ledger = "op3/two/5/0/0/5//5/initial//{n}";
    changed.are(
        &["changed", "{n}", sale],
        &[
            &format!("adjustments[1] = e {ledger}"),
            &format!("events[1] = t {{n}} e changed//{sale} & adjusted//{ledger}"),
            "rules buyer_limit = 7",
            "rules last_op = op3:fp changed",
            "rules version = 2",
            "skus two = 0",
            "stock :a = 15",
            "stock :g = 15",
            "stock one:l gone",
            "stock two:a = 5",
            "stock two:g = 5",
            "stock two:h = 0",
            "stock two:i = 5",
            "stock two:r = 0",
            "stock two:s = 0",
        ],
    );
    let again = rig.put("g1-1", "op3:fp", Some(&rules), &[("one", "10", ""), ("two", "5", "")]).await;
    again.are(&["replayed_changed", "{n}", sale], &[]);
    let limited = rig.put("", "op4:fp", None, &[("two", "", "2")]).await;
    let sale = sale.replace("g1/2", "g1/3");
    limited.are(
        &["changed", "{n}", &sale],
        &[
            &format!("events[2] = t {{n}} e changed//{sale}"),
            "rules last_op = op4:fp changed",
            "rules version = 3",
            "stock two:l = 2",
        ],
    );
    rig.switch("closed").await;
    rig.delete().await;
    rig.put("", "op5:fp", Some(&rules), &[]).await.is("sale_deleting", &[]);
    too_many_skus(&mut rig).await;
    rig.answered
}

async fn too_many_skus(rig: &mut Rig) {
    let mut full = Rig::with(&[]).await;
    let names: Vec<String> = (0..10_001).map(|n| format!("s{n}")).collect();
    for chunk in names[..10_000].chunks(1_000) {
        let skus: Vec<(&str, &str, &str)> = chunk.iter().map(|sku| (sku.as_str(), "1", "")).collect();
        let (keys, args) = full.put_call("", &format!("{}:fp", chunk[0]), None, &skus);
        assert_eq!(full.run("sale/put", &keys, &args).await.unwrap()[0], "created");
    }
    let (keys, args) = full.put_call("", "last:fp", None, &[(&names[10_000], "1", "")]);
    let before = full.snapshot().await;
    assert_eq!(full.run("sale/put", &keys, &args).await.unwrap()[0], "too_many_skus");
    assert!(before == full.snapshot().await);
    rig.answered.extend(full.answered);
}

pub async fn adjust() -> Answered {
    let mut rig = Rig::with(&[("one", "10", "")]).await;
    let ledger = "#op/one/7/0/0/7//-3/why/ref/{n}";
    rig.adjust(&[("op", "one", -3, "10", "f")]).await.is(
        &format!("adjusted/{ledger}"),
        &[
            &format!("adjustments[1] = e {ledger}"),
            &format!("events[1] = t {{n}} e adjusted//{ledger}"),
            &format!("op:#op = f/{ledger}"),
            "op:#op ttl = 1440 min",
            "stock :a = 7",
            "stock :g = 7",
            "stock one:a = 7",
            "stock one:g = 7",
            "stock one:r = 1",
        ],
    );
    let kept = rig.snapshot().await["op:#op"].replace('\n', "/").replacen('f', "replayed", 1);
    rig.adjust(&[("op", "one", -3, "10", "f")]).await.is(&kept, &[]);
    rig.adjust(&[("op", "one", -4, "", "g")]).await.is("idempotency_key_reused", &[]);
    rig.adjust(&[("no", "two", 1, "", "f")]).await.is("unknown_sku/two", &[]);
    rig.adjust(&[("no", "one", 1, "10", "f")]).await.is("granted_changed/one/7/0/0/7/", &[]);
    rig.adjust(&[("no", "one", -8, "", "f")]).await.is("insufficient_available/one/7/0/0/7/", &[]);
    rig.adjust(&[("no", "one", 999_999_999_994, "", "f")]).await.is("too_many_units", &[]);
    let sold_out = rig.adjust(&[("op2", "one", -7, "", "f")]).await;
    let ledger = "#op2/one/0/0/0/0//-7/why/ref/{n}";
    let event = format!("events[2] = t {{n}} e adjusted//{ledger} & sold_out//one/0/0/0/0/");
    sold_out.answer(&[&format!("adjusted/{ledger}")]);
    sold_out.has(&event);
    let back = rig.adjust(&[("op3", "one", 2, "0", "f")]).await;
    back.has("events[3] = t {n} e adjusted//#op3/one/2/0/0/2//2/why/ref/{n} & back_in_stock//one/2/0/0/2/");
    rig.answered
}

pub async fn switch_and_delete() -> Answered {
    let mut rig = Rig::empty().await;
    rig.switch("paused").await.is("unknown_sale", &[]);
    rig.delete().await.is("unknown_sale", &[]);
    rig.purge(&[]).await.is("not_deleted", &[]);
    rig.put("", "made:fp", Some(&Rules::default()), &[("one", "10", "")]).await;
    rig.purge(&[]).await.is("not_deleted", &[]);
    let text =
        |version: u32, status: &str, counts: &str| format!("g1/{version}/{status}/{RULES}/1/{counts}/10");
    for (version, status, word, previous) in [
        (2, "paused", "paused", "active"),
        (3, "active", "resumed", "paused"),
        (4, "closed", "closed", "active"),
    ] {
        let sale = text(version, status, "10/0/0");
        rig.switch(status).await.are(
            &["changed", "{n}", &sale],
            &[
                &format!("events[{}] = t {{n}} e {word}/{previous}/{sale}", version - 1),
                &format!("rules status = {status}"),
                &format!("rules version = {version}"),
            ],
        );
        rig.switch(status).await.are(&["unchanged", "{n}", &sale], &[]);
    }
    rig.switch("active").await;
    rig.reserve(&[take("a", "one", 1), take("b", "one", 2)]).await;
    rig.delete().await.are(&["sale_not_empty", "3", "0"], &[]);
    rig.each("release", &["a"]).await;
    rig.confirm("b", "").await;
    rig.delete().await.are(&["sale_not_empty", "0", "2"], &[]);
    rig.switch("closed").await;
    rig.delete().await.are(
        &["deleted", "{n}"],
        &[
            &format!("events[9] = t {{n}} e deleted/closed/{}", text(7, "deleted", "8/0/2")),
            "rules deleted_at_ms = {n}",
            "rules status = deleted",
            "rules version = 7",
        ],
    );
    rig.delete().await.are(&["replayed", "{n}"], &[]);
    rig.switch("active").await.is("unknown_sale", &[]);
    rig.reserve(&[take("c", "one", 1)]).await.is("unknown_sale", &[]);
    rig.generation = "g0".into();
    rig.purge(&["a"]).await.is("not_deleted", &[]);
    rig.generation = "g1".into();
    rig.purge(&["a"]).await.are(&["purging", "1"], &["done #a gone", "r:#a gone"]);
    assert_eq!(rig.purge(&["b"]).await.head, ["purged"]);
    assert!(rig.snapshot().await.is_empty());
    rig.answered
}

pub async fn read() -> Answered {
    let mut rig = Rig::empty().await;
    rig.read_sale().await.is("unknown_sale", &[]);
    rig.levels("one", "one", 1).await.is("unknown_sale", &[]);
    let due = rig.due(10).await;
    assert_eq!(due.head[1..], ["", "", "0", "0", "0", "", "", "0", "", "", ""]);
    let skus = [("one", "10", "2"), ("two", "5", ""), ("One", "0", "")];
    let made = rig.put("", "made:fp", Some(&Rules::default()), &skus).await.now.to_string();
    let sale = format!("g1/1/active/{RULES}/3/15/0/0/15");
    rig.read_sale().await.are(&["found", "{n}", &sale], &[]);
    rig.levels("one", "one", 1).await.are(&["found", "{n}", "g1", "3", "one/10/0/0/10/2"], &[]);
    rig.levels("one", "none", 1).await.are(&["unknown_sku", "none"], &[]);
    let first = rig.levels("page", "", 2).await;
    first.are(&["found", "{n}", "g1", "3", "One/0/0/0/0/", "one/10/0/0/10/2"], &[]);
    rig.levels("page", "one", 2).await.are(&["found", "{n}", "g1", "3", "two/5/0/0/5/"], &[]);
    rig.levels("page", "two", 2).await.are(&["found", "{n}", "g1", "3"], &[]);
    rig.levels("ranks", "1", 1).await.are(&["found", "{n}", "g1", "3", "one/10/0/0/10/2"], &[]);
    rig.levels("ranks", "3", 250).await.are(&["found", "{n}", "g1", "3"], &[]);
    let held = rig.reserve(&[take("b", "two", 1), take("a", "two", 1), take("B", "two", 1)]).await;
    held.answer(&["held//#b/*", "held//#a/*", "held//#B/*"]);
    let deadline = (held.now + 600_000).to_string();
    rig.list("due", "", "", 2).await.are(&["#B", &deadline, "#a", &deadline], &[]);
    // The cursor need not be there any more; names are ordered by bytes, whatever the server's locale.
    rig.list("due", &deadline, "B", 9).await.are(&["#a", &deadline, "#b", &deadline], &[]);
    rig.list("due", &deadline, "aa", 9).await.are(&["#b", &deadline], &[]);
    assert!(rig.list("due", &deadline, "b", 9).await.head.is_empty());
    let due = rig.due(2).await;
    assert_eq!(due.head[1..], ["active", &deadline, "3", "0", "0", "", "", "2", &made, "", ""]);
    rig.offset_ms = HOUR;
    let due = rig.due(2).await;
    assert_eq!(due.head[1..], ["active", &deadline, "3", "3", "0", "#B,#a", "", "2", &made, "", ""]);
    rig.answered
}

/// A shared page: found or not by its age and by the SKUs that it was made of; one caller at a time makes it.
pub async fn shared_pages() -> Answered {
    let mut rig = Rig::empty().await;
    rig.find_page(0).await.is("unknown_sale", &[]);
    rig.keep_page(0, "1", 7, "one").await.is("stale_generation", &[]);
    rig.put("", "made:fp", Some(&Rules::default()), &[("one", "10", "2")]).await;
    rig.find_page(0).await.is("yours", &["rebuild:0 = ", "rebuild:0 ttl = 60 min"]);
    rig.find_page(0).await.is("none", &[]);
    // Another page is another's to make.
    rig.find_page(1).await.has("rebuild:1 = ");
    let now = rig.levels("one", "one", 1).await.now;
    let kept = rig.keep_page(0, "1", now, "x\u{1e}y").await;
    kept.is("kept", &[&format!("levels:0 = g1/1/{now}/x & y"), "levels:0 ttl = 10 min"]);
    // Long beside what a slow machine takes between two calls.
    for (later, word) in
        [(0, "fresh"), (59_000, "fresh"), (61_000, "stale"), (540_000, "stale"), (601_000, "none")]
    {
        rig.offset_ms = later;
        let found = rig.find_page(0).await;
        let all = [word, "g1", "1", &now.to_string(), "x & y"];
        let shown = if word == "none" { &all[..1] } else { &all[..] };
        assert_eq!(found.head, shown, "{later} ms later");
        found.is_unchanged();
    }
    // A clock that went back tells no age.
    rig.offset_ms = -60_000;
    assert_eq!(rig.find_page(0).await.head, ["none"]);
    rig.offset_ms = 0;
    assert_eq!(rig.find_page(0).await.head[0], "fresh");
    // An old one is made anew by the first who finds nobody at it.
    rig.offset_ms = 61_000;
    rig.tamper("DEL", "rebuild:0", &[]).await;
    assert_eq!(rig.find_page(0).await.head, ["yours"]);
    assert_eq!(rig.find_page(0).await.head[0], "stale");
    rig.offset_ms = 0;
    // Of fewer SKUs, of another incarnation, or damaged, it is none.
    rig.put("", "more:fp", None, &[("two", "5", "")]).await;
    assert_eq!(rig.find_page(0).await.head, ["none"]);
    rig.keep_page(0, "1", now, "old").await.is("stale_generation", &[]);
    for page in ["", "g1", "g1\n2\nx\ny", &format!("g0\n2\n{now}\nx"), &format!("g1\n{now}\nx")] {
        rig.tamper("SET", "levels:0", &[page]).await;
        assert_eq!(rig.find_page(0).await.head, ["none"], "{page:?}");
    }
    assert_eq!(rig.keep_page(0, "2", now, "new").await.head, ["kept"]);
    assert_eq!(rig.find_page(0).await.head[0], "fresh");
    rig.delete().await;
    rig.find_page(0).await.is("unknown_sale", &[]);
    rig.keep_page(0, "2", now, "late").await.is("stale_generation", &[]);
    rig.answered
}
