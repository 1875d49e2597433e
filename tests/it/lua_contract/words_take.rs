//! Each word of `reserve.lua`, with all that it changes.

use super::calls::{Rules, take};
use super::rig::{HOUR, Rig, SECOND};
use super::words::Answered;

const TWO_SKUS: &[(&str, &str, &str)] = &[("one", "10", ""), ("two", "5", "")];

pub async fn held_then_repeats() -> Answered {
    let mut rig = Rig::with(TWO_SKUS).await;
    let cart = [take("a", "one", 2).and("two", 1)];
    let held = rig.reserve(&cart).await;
    rig.remember("a", &held);
    held.is(
        "held//#a/*",
        &[
            "due #a = {n+600000}",
            "events[1] = t {n} e held//#a/*",
            "r:#a = held/{n+600000}/{n}//{n+3600000}////////fp//one=2,two=1//ref/",
            "stock :a = 12",
            "stock :h = 3",
            "stock one:a = 8",
            "stock one:h = 2",
            "stock one:r = 1",
            "stock two:a = 4",
            "stock two:h = 1",
            "stock two:r = 1",
        ],
    );
    rig.offset_ms = 10 * SECOND;
    rig.reserve(&cart).await.is("replayed//#a/*", &[]);
    rig.reserve(&[cart[0].clone().fingerprint("other")]).await.is("idempotency_key_reused", &[]);
    // Overdue but not swept: shown as expired, and nothing is written.
    rig.offset_ms = 600 * SECOND;
    let seen = "/expired/{a+600000}/{a}/{a+600000}/{a+3600000}////////fp//one=2,two=1//ref/";
    rig.reserve(&cart).await.is(&format!("hold_expired//#a{seen}"), &[]);
    rig.each("expire", &["a"]).await;
    rig.reserve(&cart).await.is("hold_expired//#a/*", &[]);

    rig.reserve(&[take("b", "one", 1)]).await;
    rig.each("release", &["b"]).await;
    rig.reserve(&[take("b", "one", 1)]).await.is("already_released//#b/*", &[]);
    rig.reserve(&[take("c", "one", 1)]).await;
    rig.confirm("c", "").await;
    rig.reserve(&[take("c", "one", 1)]).await.is("replayed//#c/*", &[]);
    rig.give_back(&[("c", "op", "", "1", "f")]).await;
    rig.reserve(&[take("c", "one", 1)]).await.is("already_returned//#c/*", &[]);
    rig.tamper("SET", &format!("r:{}", super::rig::id("d")), &["held"]).await;
    let (keys, args) = rig.reserve_call(&[take("d", "one", 1)]);
    assert_eq!(rig.run("reservation/reserve", &keys, &args).await.unwrap()[4], "corrupt");
    rig.answered
}

pub async fn refused_by_the_sale() -> Answered {
    let mut rig = Rig::empty().await;
    let cart = [take("a", "one", 1)];
    rig.reserve(&cart).await.is("unknown_sale", &[]);
    rig.put("", "made:fp", Some(&Rules::default()), TWO_SKUS).await;
    rig.generation = "g0".into();
    rig.reserve(&cart).await.is("stale_generation", &[]);
    rig.generation = "g1".into();
    rig.switch("paused").await;
    rig.reserve(&cart).await.is("sale_paused", &[]);
    rig.switch("closed").await;
    rig.reserve(&cart).await.is("sale_closed", &[]);
    let resumed = rig.switch("active").await;
    let (opens_at, closes_at) = (resumed.now + HOUR, resumed.now + 2 * HOUR);
    let window = Rules::default().opens_at(opens_at).closes_at(closes_at);
    rig.put("", "window:fp", Some(&window), &[]).await;
    rig.reserve(&cart).await.is(&format!("sale_not_open/{opens_at}"), &[]);
    rig.switch("paused").await;
    rig.reserve(&cart).await.is("sale_paused", &[]);
    rig.offset_ms = 2 * HOUR;
    rig.reserve(&cart).await.is("sale_closed", &[]);
    rig.switch("active").await;
    rig.reserve(&cart).await.is("sale_closed", &[]);
    rig.offset_ms = HOUR;
    rig.reserve(&cart).await.answer(&["held//#a/*"]);
    rig.offset_ms = 2 * HOUR;
    // The window is asked about after the key: what was held is found.
    rig.reserve(&cart).await.answer(&[&format!(
        "hold_expired//#a/expired/{0}/{1}/{0}/{2}////////fp//one=1//ref/",
        value(&rig.snapshot().await["r:#a"], 1),
        value(&rig.snapshot().await["r:#a"], 2),
        value(&rig.snapshot().await["r:#a"], 4),
    )]);
    rig.answered
}

fn value(record: &str, field: usize) -> &str {
    record.split('\n').nth(field).unwrap()
}

pub async fn refused_for_the_cart() -> Answered {
    let rules = Rules::default().buyer_holds_max(2).buyer_limit(4);
    let mut rig = Rig::with_rules(rules, &[("one", "10", "3"), ("two", "5", "")]).await;
    let ann = |name: &str, sku: &str, units| take(name, sku, units).by("ann");
    let long = rig.reserve(&[ann("a", "one", 1).for_ms(HOUR + 1)]).await;
    long.is("hold_too_long/{n+3600000}", &[]);
    rig.reserve(&[ann("a", "three", 1)]).await.is("unknown_sku/three", &[]);
    rig.reserve(&[take("a", "one", 1)]).await.is("buyer_required", &[]);
    let short = rig.reserve(&[ann("a", "one", 4)]).await;
    short.is("buyer_limit/one/3/0/4", &[]);
    assert_eq!(&short.head[2..], ["", ""], "nothing is held");
    let held = rig.reserve(&[ann("a", "one", 3)]).await;
    rig.remember("a", &held);
    let bucket = stockade::store::ids::bucket("ann");
    held.is(
        "held//#a/*",
        &[
            &format!("buyers:{bucket:x} ann = 1|3|one=3"),
            "due #a = {n+600000}",
            "events[1] = t {n} e held//#a/*",
            &format!("r:#a = held/{{n+600000}}/{{n}}//{{n+3600000}}/{bucket:x}HU1///////fp//one=3/ann/ref/"),
            "stock :a = 12",
            "stock :h = 3",
            "stock one:a = 7",
            "stock one:h = 3",
            "stock one:r = 1",
        ],
    );
    let short = rig.reserve(&[ann("b", "two", 2)]).await;
    short.is("buyer_limit//4/3/2", &[]);
    assert_eq!(short.head[2], (held.now + 600 * SECOND).to_string(), "the earliest deadline");
    rig.reserve(&[ann("b", "two", 1)]).await.answer(&["held//#b/*"]);
    rig.reserve(&[ann("c", "two", 1)]).await.is("buyer_holds/2/2", &[]);
    let bob = take("d", "one", 3).by("bob").and("two", 1);
    rig.reserve(&[bob]).await.answer(&["held//#d/*"]);
    let both = [take("e", "one", 3).by("eve"), take("f", "one", 2).by("fay")];
    rig.reserve(&both).await.answer(&["held//#e/*", "sold_out/one=2,1,9"]);
    rig.offset_ms = 600 * SECOND;
    let late = rig.reserve(&[take("g", "one", 2).by("gil")]).await;
    late.is("sold_out/one=2,1,9", &[]);
    assert!(late.head[3].starts_with("#a,#b,#d"), "overdue ids, oldest first: {late:?}");
    rig.answered
}

pub async fn met_by_replaces() -> Answered {
    let mut rig = Rig::with(&[("one", "10", "5"), ("two", "5", "")]).await;
    let ann = |name: &str, units| take(name, "one", units).by("ann");
    let held = rig.reserve(&[ann("a", 2)]).await;
    rig.remember("a", &held);
    rig.reserve(&[ann("b", 1).replacing("nothing")]).await.is("unknown_reservation", &[]);
    rig.reserve(&[take("b", "one", 1).by("bob").replacing("a")]).await.is("unknown_reservation", &[]);
    rig.offset_ms = 10 * SECOND;
    let bucket = stockade::store::ids::bucket("ann");
    let replaced = rig.reserve(&[ann("b", 5).replacing("a")]).await;
    replaced.is(
        "held//#b/*",
        &[
            &format!("buyers:{bucket:x} ann = 0|0|one=5"),
            "done #a = {n+86400000}",
            "due #a gone",
            "due #b = {a+600000}",
            "events[2] = t {n} e released/held/#a/* & held//#b/*",
            &format!(
                "r:#a = released/{{a+600000}}/{{a}}/{{n}}/{{a+3600000}}/{bucket:x}//#b/////fp//one=2/ann/ref/"
            ),
            &format!("r:#b = held/{{a+600000}}/{{n}}//{{a+3600000}}/{bucket:x}1/#a//////fp//one=5/ann/ref/"),
            "stock :a = 10",
            "stock :h = 5",
            "stock one:a = 5",
            "stock one:h = 5",
            "stock one:r = 2",
        ],
    );
    rig.reserve(&[ann("c", 6).replacing("b")]).await.is("buyer_limit/one/5/0/6", &[]);
    rig.reserve(&[ann("c", 1).and("two", 6).replacing("b")]).await.is("sold_out/two=6,5,0", &[]);
    let long = rig.reserve(&[ann("c", 1).for_ms(HOUR).replacing("b")]).await;
    long.is("hold_too_long/{a+3600000}", &[]);
    rig.reserve(&[ann("c", 1).replacing("a")]).await.is("already_released//#a/*", &[]);
    rig.confirm("b", "one=1").await;
    rig.reserve(&[ann("c", 1).replacing("b")]).await.is("already_confirmed//#b/*", &[]);
    rig.give_back(&[("b", "op", "", "1", "f")]).await;
    rig.reserve(&[ann("c", 1).replacing("b")]).await.is("already_returned//#b/*", &[]);
    rig.order_part("p").await;
    rig.reserve(&[ann("c", 1).replacing("p")]).await.is("part_of_order//#p/*", &[]);
    rig.answered
}
