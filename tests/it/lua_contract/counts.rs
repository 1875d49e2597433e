//! What every counter means after each transition. Conservation, the places in `due` and `done`, buyers' counts and
//! the ledger are audited after every call of every test here; these tests look at the numbers themselves.

use super::calls::{Rules, take};
use super::rig::{DAY, Rig, SECOND};
use stockade::store::ids::bucket;

impl Rig {
    /// available, held, sold, granted, archived of a SKU; of the sale without a name.
    async fn counters(&mut self, sku: &str) -> [i64; 5] {
        let snapshot = self.snapshot().await;
        ["a", "h", "s", "g", "x"].map(|name| {
            let count = snapshot.get(&format!("stock {sku}:{name}"));
            count.map_or(0, |count| count.parse().unwrap())
        })
    }

    async fn entry(&mut self, buyer: &str) -> Option<String> {
        let key = format!("buyers:{:x} {buyer}", bucket(buyer));
        self.snapshot().await.get(&key).cloned()
    }
}

#[tokio::test]
async fn units_go_from_available_to_held_to_sold_and_back() {
    let mut rig = Rig::with(&[("one", "10", ""), ("two", "10", "")]).await;
    rig.reserve(&[take("a", "one", 4).and("two", 2)]).await;
    assert_eq!(rig.counters("one").await, [6, 4, 0, 10, 0]);
    assert_eq!(rig.counters("").await, [14, 6, 0, 20, 0]);
    rig.confirm("a", "one=3").await;
    assert_eq!(rig.counters("one").await, [7, 0, 3, 10, 0], "the fourth came back");
    assert_eq!(rig.counters("two").await, [10, 0, 0, 10, 0], "a line that was left out came back");
    rig.give_back(&[("a", "op1", "one=1", "1", "f")]).await;
    assert_eq!(rig.counters("one").await, [8, 0, 2, 10, 0], "on sale again");
    rig.give_back(&[("a", "op2", "one=1", "0", "f")]).await;
    assert_eq!(rig.counters("one").await, [8, 0, 1, 9, 0], "damaged: gone from the supply, too");
    assert_eq!(rig.counters("").await, [18, 0, 1, 19, 0]);
    rig.adjust(&[("op3", "one", -8, "", "f")]).await;
    assert_eq!(rig.counters("one").await, [0, 0, 1, 1, 0]);
    rig.offset_ms = 31 * DAY;
    rig.each("archive", &["a"]).await.answer(&["archived"]);
    assert_eq!(rig.counters("one").await, [0, 0, 1, 1, 1], "sold stays; one of it has no record any more");
    assert_eq!(rig.counters("two").await, [10, 0, 0, 10, 0]);
}

#[tokio::test]
async fn archived_units_add_up_over_calls_and_records() {
    let mut rig = Rig::with(&[("one", "10", ""), ("two", "10", "")]).await;
    for (name, units) in [("a", 1), ("b", 2), ("c", 3)] {
        rig.reserve(&[take(name, "one", units).and("two", 1)]).await;
        rig.confirm(name, "").await;
    }
    rig.reserve(&[take("d", "one", 1)]).await;
    rig.give_back(&[("b", "op", "one=1", "0", "f"), ("c", "op2", "", "1", "f")]).await;
    rig.offset_ms = 31 * DAY;
    rig.each("archive", &["a", "b"]).await.answer(&["archived", "archived"]);
    assert_eq!(rig.counters("one").await, [6, 1, 2, 9, 2]);
    assert_eq!(rig.counters("two").await, [8, 0, 2, 10, 2]);
    // Returned ones have sold nothing; a hold that nobody swept is not archived.
    rig.each("archive", &["c", "d"]).await.answer(&["archived", "not_due"]);
    assert_eq!(rig.counters("one").await, [6, 1, 2, 9, 2]);
}

#[tokio::test]
async fn a_retake_sells_again_what_had_come_back() {
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(9), &[("one", "3", "3")]).await;
    rig.reserve(&[take("a", "one", 3).by("ann")]).await;
    assert_eq!(rig.entry("ann").await.as_deref(), Some("0|3|one=3"));
    rig.offset_ms = 600 * SECOND;
    let retaken = rig.retake("a", "one=2").await;
    retaken.answer(&["retaken/expired/#a/*"]);
    let event = retaken.changes.iter().find(|change| change.starts_with("events[2]")).unwrap();
    assert!(
        event.contains(" e expired/held/#a/expired/") && event.contains(" & retaken/expired/#a/*"),
        "{event}"
    );
    assert_eq!(rig.counters("one").await, [1, 0, 2, 3, 0]);
    assert_eq!(rig.entry("ann").await.as_deref(), Some("0|2|one=2"));
    rig.give_back(&[("a", "op", "", "1", "f")]).await;
    assert_eq!(rig.counters("one").await, [3, 0, 0, 3, 0]);
    assert_eq!(rig.entry("ann").await, None, "removed at zero");
}

#[tokio::test]
async fn buyers_are_counted_only_where_a_limit_is_set() {
    let mut rig = Rig::with(&[("one", "50", ""), ("two", "50", "")]).await;
    let ann = |name: &str| take(name, "one", 2).and("two", 1).by("ann");
    rig.reserve(&[ann("a")]).await;
    assert_eq!(rig.entry("ann").await, None, "nothing is limited");
    // A limit starts counting when it is set.
    rig.put("", "op1:f", None, &[("one", "", "4")]).await;
    rig.reserve(&[ann("b")]).await;
    assert_eq!(
        rig.entry("ann").await.as_deref(),
        Some("0|0|one=2"),
        "the hold before the limit does not count"
    );
    let rules = Rules::default().buyer_limit(7).buyer_holds_max(5);
    rig.put("", "op2:f", Some(&rules), &[]).await;
    rig.reserve(&[ann("c")]).await;
    assert_eq!(rig.entry("ann").await.as_deref(), Some("1|3|one=4"));
    rig.reserve(&[ann("d")]).await.answer(&["buyer_limit/one/4/4/2"]);
    // What was not counted is not taken off.
    rig.each("release", &["a"]).await;
    assert_eq!(rig.entry("ann").await.as_deref(), Some("1|3|one=4"));
    // A limit that is gone does not bind; what it had counted is taken off when it ends.
    rig.put("", "op3:f", Some(&Rules::default()), &[("one", "", "")]).await;
    rig.reserve(&[ann("d")]).await.answer(&["held//#d/*"]);
    assert_eq!(rig.entry("ann").await.as_deref(), Some("1|3|one=4"));
    rig.confirm("b", "").await;
    rig.confirm("c", "one=1").await;
    assert_eq!(
        rig.entry("ann").await.as_deref(),
        Some("0|1|one=3"),
        "an open hold less, and units that came back"
    );
    // Set again, it goes on with what it has counted.
    rig.put("", "op4:f", None, &[("one", "", "4")]).await;
    rig.reserve(&[ann("e")]).await.answer(&["buyer_limit/one/4/3/2"]);
    rig.give_back(&[("b", "r1", "one=1", "1", "f"), ("c", "r2", "", "0", "f")]).await;
    assert_eq!(rig.entry("ann").await.as_deref(), Some("0|0|one=1"));
    rig.give_back(&[("b", "r3", "", "1", "f")]).await;
    assert_eq!(rig.entry("ann").await, None);
    // One without a name is not counted, and not let in where a limit is.
    rig.reserve(&[take("n", "two", 1)]).await.answer(&["held//#n/*"]);
    rig.reserve(&[take("m", "one", 1)]).await.answer(&["buyer_required"]);
}

#[tokio::test]
async fn what_was_bought_counts_after_its_record_is_gone() {
    let mut rig = Rig::with(&[("one", "9", "2")]).await;
    rig.reserve(&[take("a", "one", 2).by("ann")]).await;
    rig.confirm("a", "").await;
    rig.offset_ms = 31 * DAY;
    rig.each("archive", &["a"]).await.answer(&["archived"]);
    assert_eq!(rig.entry("ann").await.as_deref(), Some("0|0|one=2"));
    rig.reserve(&[take("b", "one", 1).by("ann")]).await.answer(&["buyer_limit/one/2/2/1"]);
}

/// One entry a call, its events in the order of the requests, and then what it did to levels.
#[tokio::test]
async fn a_call_writes_one_entry_with_its_events_in_order() {
    let mut rig = Rig::with(&[("one", "2", ""), ("two", "2", "")]).await;
    let carts = [take("a", "one", 2), take("b", "one", 1), take("c", "two", 1)];
    let step = rig.reserve(&carts).await;
    step.has("events[1] = t {n} e held//#a/* & held//#c/* & sold_out//one/0/2/0/2/");
    let step = rig.each("release", &["c", "nothing", "a", "a"]).await;
    step.has("events[2] = t {n} e released/held/#c/* & released/held/#a/* & back_in_stock//one/2/0/0/2/");
    // What is taken and given back in one call was never sold out.
    rig.reserve(&[take("d", "one", 2)]).await;
    let step = rig.reserve(&[take("e", "one", 2).replacing("d")]).await;
    step.has("events[4] = t {n} e released/held/#d/* & held//#e/*");
    // Returned damaged: the ledger's entry comes first.
    rig.confirm("e", "").await;
    let step = rig.give_back(&[("e", "op", "", "0", "f")]).await;
    step.has("events[6] = t {n} e adjusted//#op/one/0/0/0/0//-2/damaged/ref/{n} & returned/confirmed/#e/*");
}

/// An id that stands in the wrong place, which no script leaves behind, is set right by the sweeper.
#[tokio::test]
async fn the_sweeper_sets_places_right() {
    let mut rig = Rig::with(&[("one", "9", "")]).await;
    rig.reserve(&[take("a", "one", 1), take("b", "one", 1)]).await;
    rig.each("release", &["b"]).await;
    let right = rig.snapshot().await;
    rig.tamper("ZADD", "due", &["1", &super::rig::id("a"), "1", &super::rig::id("b")]).await;
    rig.tamper("ZREM", "done", &[&super::rig::id("b")]).await;
    let (keys, args) = rig.settle_call("expire", &[("a", &[]), ("b", &[])]);
    let texts = rig.run("reservation/expire", &keys, &args).await.unwrap();
    assert_eq!(texts[4..], ["not_due", "not_due"]);
    let now: i64 = texts[1].parse().unwrap();
    let found = rig.snapshot().await;
    assert_eq!(found["done #b"], (now + DAY).to_string());
    let rest = |leaf: &&String| *leaf != "done #b";
    assert!(found.keys().filter(rest).eq(right.keys().filter(rest)));
    assert!(found.keys().filter(rest).all(|leaf| found[leaf] == right[leaf]));
}
