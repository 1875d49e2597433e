//! Keys of another type, in each place of each script: the request is `corrupt` or the call is an error, and nothing is
//! written.

use super::calls::{Rules, take};
use super::rig::{DAY, Rig, SECOND, id};
use super::snapshot::Bytes;
use super::words::Answered;
use super::words_fence::TOKEN;
use stockade::store::ids::bucket;

/// A script and a call of it that would write, were all well.
pub struct Call {
    pub script: &'static str,
    pub keys: Vec<String>,
    pub args: Vec<String>,
    /// Keys that this call need not look at.
    blind_to: &'static [&'static str],
}

/// `a` held and `b` confirmed, both ann's; `c` expired long ago, and may be archived; `o` overdue;
/// `p` and `q` are parts of an order, `q` is pinned; the
/// lock `till` is held.
pub async fn busy_sale() -> Rig {
    let rules = Rules::default().buyer_limit(100).buyer_holds_max(10);
    let mut rig = Rig::with_rules(rules, &[("one", "20", "50"), ("two", "20", "")]).await;
    let ann = |name: &str| take(name, "one", 2).by("ann");
    rig.reserve(&[ann("c"), ann("b")]).await;
    rig.confirm("b", "").await;
    rig.offset_ms = 600 * SECOND;
    rig.each("expire", &["c"]).await;
    rig.reserve(&[ann("o")]).await;
    rig.offset_ms = 2 * DAY;
    let part = |name: &str| take(name, "one", 1).by("ann").part_of("o");
    rig.reserve(&[ann("a"), part("p"), part("q")]).await;
    rig.settle_part("pin", "q", "o").await;
    rig.lock("till", TOKEN, 7, DAY).await;
    rig
}

/// A call of each script.
pub fn calls(rig: &Rig) -> Vec<Call> {
    const FIXED: &[&str] = &["pinned", "orphans", "other buyers"];
    const PINNED: &[&str] = &["orphans", "other buyers"];
    const SWEEP: &[&str] = &["pinned", "other buyers"];
    const READ: &[&str] = &["stock", "due", "pinned", "done", "orphans", "events", "buyers"];
    const PURGE: &[&str] =
        &["stock", "due", "pinned", "events", "buyers", "skus", "adjustments", "fence", "r:"];
    // A cache may be damaged: it is made anew.
    const PAGE: &[&str] = &["levels:", "rebuild:"];
    let call = |script, (keys, args), blind_to| Call { script, keys, args, blind_to };
    let settle = |script: &'static str, name, args: &[&str], blind_to| {
        let verb = script.strip_prefix("reservation/").unwrap();
        call(script, rig.settle_call(verb, &[(name, args)]), blind_to)
    };
    let k = &rig.keys;
    let offset = rig.offset_ms.to_string();
    let level_args = ["page", "", "9"].map(String::from);
    let (sale_keys, sale_args) = rig.read_sale_call();
    let (switch_keys, _) = rig.switch_call("");
    let due_keys =
        [k.rules(), k.due(), k.pinned(), k.done(), k.orphans(), k.events()].map(String::from).to_vec();
    let cart = take("new", "one", 1).by("ann");
    let bucket = bucket("ann").to_string();
    let claim = format!("1:{TOKEN}:7");
    let fenced = |call: (Vec<String>, Vec<String>)| rig.with_locks(call, &["till"]);
    let mut fenced_adjust = fenced(rig.adjust_call(&[("op", "one", 1, "", "f")]));
    *fenced_adjust.1.last_mut().unwrap() = claim.clone();
    vec![
        call("sale/adjust", fenced_adjust, &[]),
        call("reservation/reserve", rig.reserve_call(&[cart.clone().fenced("till", TOKEN, 7)]), FIXED),
        call(
            "reservation/confirm",
            fenced(rig.settle_call("confirm", &[("a", &["refuse", "", "", "", &claim])])),
            FIXED,
        ),
        call("reservation/release", fenced(rig.settle_call("release", &[("a", &["", &claim])])), FIXED),
        call("sale/put", rig.put_call("", "op:fp", Some(&Rules::default()), &[("three", "5", "1")]), &[]),
        call("sale/switch", rig.switch_call("paused"), &[]),
        call("sale/adjust", rig.adjust_call(&[("op", "one", 1, "", "f")]), &[]),
        call("sale/delete", (switch_keys, vec![offset.clone()]), &[]),
        call("sale/purge", rig.purge_call(&["b"]), PURGE),
        call("sale/repair", rig.repair_call(&[["one", "0", "1,1,1,3,0", "1", "1", "3", "1"]]), &[]),
        call(
            "sale/repair_buyers",
            rig.repair_buyers_call("0", &[[&bucket, "ann", "", ""]]),
            &["other buyers"],
        ),
        call("sale/trim", rig.trim_call(DAY, 2, 9), &[]),
        call("sale/read", rig.read_sale_call(), &[]),
        call("sale/read_levels", (sale_keys, [&sale_args[..], &level_args[..]].concat()), &[]),
        call("sale/find_page", rig.find_page_call(0), PAGE),
        call("sale/keep_page", rig.keep_page_call(0, "2", 1, "x"), PAGE),
        call("reservation/reserve", rig.reserve_call(std::slice::from_ref(&cart)), FIXED),
        call("reservation/reserve", rig.reserve_call(&[cart.replacing("a")]), FIXED),
        settle("reservation/confirm", "a", &["refuse", "", "one=1"], FIXED),
        settle("reservation/confirm", "c", &["retake", "", ""], FIXED),
        settle("reservation/release", "a", &[], FIXED),
        settle("reservation/pin", "p", &[&id("o")], PINNED),
        settle("reservation/pin", "q", &[&id("o")], PINNED),
        settle("reservation/confirm", "q", &["refuse", "", "", &id("o")], PINNED),
        settle("reservation/release", "q", &[&id("o")], PINNED),
        settle("reservation/extend", "a", &["700000", "op"], FIXED),
        call("reservation/return_reservation", rig.return_call(&[("b", "op", "one=1", "0", "f")]), FIXED),
        settle("reservation/expire", "o", &[], SWEEP),
        settle("reservation/archive", "c", &[], SWEEP),
        settle("reservation/read", "a", &[], READ),
        call("reservation/inspect", rig.inspect_call(&["a"]), &["r:"]),
        call("reservation/list", (vec![k.due().to_owned()], ["", "", "9"].map(String::from).to_vec()), &[]),
        call("reservation/due", (due_keys, vec![offset, "9".into()]), &[]),
    ]
}

/// Each key of each script in turn is of another type.
pub async fn wrong_types() -> Answered {
    let mut rig = busy_sale().await;
    let healthy = rig.bytes().await;
    let bucket = format!("{}buyers:{:x}", rig.prefix, bucket("ann"));
    for call in calls(&rig) {
        for (n, key) in call.keys.iter().enumerate() {
            rig.restore(&healthy).await;
            if call.script == "sale/delete" {
                rig.tamper("HSET", "stock", &[":h", "0", ":a", "38"]).await;
                rig.tamper("HSET", "rules", &["status", "closed"]).await;
            } else if call.script == "sale/purge" {
                rig.tamper("HSET", "rules", &["status", "deleted"]).await;
            }
            let name = key.strip_prefix(&rig.prefix).unwrap().to_owned();
            rig.tamper("DEL", &name, &[]).await;
            rig.tamper("RPUSH", &name, &["x"]).await;
            let before = rig.bytes().await;
            let answer = rig.run(call.script, &call.keys, &call.args).await;
            let what = format!("{} with KEYS[{}] = a list in {name}: {answer:?}", call.script, n + 1);
            let is_blind = call.blind_to.iter().any(|blind| match *blind {
                "other buyers" => name.starts_with("buyers:") && *key != bucket,
                blind => name.starts_with(blind),
            });
            match &answer {
                Ok(texts) if texts.get(4).is_some_and(|answer| answer == "orphaned") => {
                    assert!(name.starts_with("r:"), "{what}");
                    rig.moved_to_orphans(&name, &before, &what).await;
                    continue;
                }
                Ok(texts) if texts.get(4).is_some_and(|answer| answer == "corrupt") => {
                    assert!(["r:", "op:", "lock:"].iter().any(|start| name.starts_with(start)), "{what}");
                }
                Ok(_) => {
                    assert!(is_blind, "{what}");
                    continue;
                }
                Err(error) => assert!(error.starts_with("CORRUPT ") && !is_blind, "{what}"),
            }
            assert!(rig.bytes().await == before, "something was written by {what}");
        }
    }
    rig.answered
}

impl Rig {
    /// Nothing changed but that an id moved from `due` or `done` to `orphans`.
    async fn moved_to_orphans(&mut self, record: &str, before: &Bytes, what: &str) {
        let after = self.bytes().await;
        let moved = |key: &str| {
            ["due", "done", "pinned", "orphans"].iter().any(|name| key == format!("{}{name}", self.prefix))
        };
        let rest = |bytes: &Bytes| {
            bytes
                .iter()
                .filter(|(key, _)| !moved(key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<Vec<_>>()
        };
        assert!(rest(before) == rest(&after), "something else was written by {what}");
        let snapshot = self.snapshot().await;
        let id = record.strip_prefix("r:").unwrap().trim_end_matches('A').trim_end_matches('_');
        assert!(snapshot.contains_key(&format!("orphans #{id}")), "{what}");
        assert!(!snapshot.contains_key(&format!("due #{id}")), "{what}");
        assert!(!snapshot.contains_key(&format!("done #{id}")), "{what}");
    }
}
