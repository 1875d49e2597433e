//! Each word of the scripts that repair, with all that it changes.

use super::calls::{Rules, take};
use super::rig::{Rig, Step};
use super::words::Answered;
use stockade::store::ids::bucket;

impl Rig {
    async fn repair(&mut self, skus: &[[&str; 7]]) -> Step {
        let (keys, args) = self.repair_call(skus);
        self.step("sale/repair", &keys, &args).await
    }

    /// The answers alone, where the books are wrong and stay so; nothing may be written.
    async fn try_repair(&mut self, skus: &[[&str; 7]]) -> Vec<String> {
        let (keys, args) = self.repair_call(skus);
        let before = self.bytes().await;
        let texts = self.run("sale/repair", &keys, &args).await.unwrap();
        assert!(self.bytes().await == before, "{texts:?}");
        texts
    }
}

/// `one`: 10 granted, 3 held, 2 sold; `two`: 5, untouched.
async fn half_sold() -> Rig {
    let mut rig = Rig::with(&[("one", "10", "4"), ("two", "5", "")]).await;
    rig.reserve(&[take("a", "one", 3).by("ann"), take("b", "one", 2).by("bob")]).await;
    rig.confirm("b", "").await;
    rig
}

pub async fn levels() -> Answered {
    let mut rig = half_sold().await;
    // Nothing to do: the totals are right, and what is not as it was read has moved.
    rig.repair(&[]).await.are(&["totals_right"], &[]);
    for moved in [
        ["one", "1", "5,3,2,10,0", "3", "2", "10", "1"],
        ["one", "2", "5,3,2,10,1", "3", "2", "10", "1"],
        ["one", "2", "6,3,2,10,0", "3", "2", "10", "1"],
        ["none", "0", ",,,,0", "0", "0", "0", "1"],
    ] {
        rig.repair(&[moved]).await.are(&["moved", "totals_right"], &[]);
    }
    // Two units too many are available: they go, and totals with them.
    rig.tamper("HSET", "stock", &["one:a", "7", ":a", "12"]).await;
    let seen = ["one", "2", "7,3,2,10,0", "3", "2", "10", "1"];
    assert_eq!(
        rig.try_repair(&[["two", "1", "5,0,0,5,0", "0", "0", "5", "1"]]).await[4..],
        ["moved", "totals_unknown"]
    );
    let ledger = "#opone/one/5/3/2/10/4/0/repair/was a=7 h=3 s=2 g=10/{n}";
    rig.repair(&[seen]).await.are(
        &["repaired/one/5/3/2/10/4/0", "totals_repaired"],
        &[
            &format!("adjustments[2] = e {ledger}"),
            &format!("events[3] = t {{n}} e adjusted//{ledger}"),
            "stock :a = 10",
            "stock one:a = 5",
            "stock one:r = 3",
        ],
    );
    // A unit is missing: nothing is made of nothing while the sale may sell.
    rig.tamper("HSET", "stock", &["one:a", "4", ":a", "9"]).await;
    let short = ["one", "3", "4,3,2,10,0", "3", "2", "10", "1"];
    let ledger = "#opone/one/4/3/2/9/4/-1/repair/was a=4 h=3 s=2 g=10/{n}";
    rig.repair(&[short]).await.are(
        &["written_off/one/4/3/2/9/4/-1", "totals_repaired"],
        &[
            &format!("adjustments[3] = e {ledger}"),
            &format!("events[4] = t {{n}} e adjusted//{ledger}"),
            "stock :g = 14",
            "stock one:g = 9",
            "stock one:r = 4",
        ],
    );
    // More is held and sold than was ever granted: nobody can say whose it is.
    let oversold = ["one", "4", "4,3,2,9,0", "3", "2", "4", "1"];
    rig.repair(&[oversold]).await.are(&["oversold/1", "totals_right"], &[]);
    // Totals alone.
    rig.tamper("HSET", "stock", &[":h", "x", ":s", "7"]).await;
    rig.repair(&[]).await.are(&["totals_repaired"], &["stock :h = 3", "stock :s = 2"]);
    paused(&mut rig).await;
    let (keys, args) = rig.repair_call(&[]);
    rig.generation = "g0".into();
    assert_eq!(rig.try_repair(&[]).await, ["stale_generation"]);
    rig.generation = "g1".into();
    rig.tamper("DEL", "rules", &[]).await;
    assert_eq!(rig.run("sale/repair", &keys, &args).await.unwrap(), ["unknown_sale"]);
    rig.answered
}

/// Paused, and nothing held: the level is what the books say, if the ledger adds up.
async fn paused(rig: &mut Rig) {
    rig.tamper("HSET", "stock", &["one:a", "2", "one:h", "5", ":a", "7", ":h", "5"]).await;
    rig.switch_off("paused").await;
    // `a` is held still.
    let (keys, args) = rig.repair_call(&[["one", "4", "2,5,2,9,0", "3", "2", "9", "1"]]);
    let held = rig.run("sale/repair", &keys, &args).await.unwrap();
    assert_eq!(held[4], "written_off\none\n2\n3\n2\n7\n4\n-2");
    rig.each("release", &["a"]).await;
    rig.tamper("HSET", "stock", &["one:a", "0", "one:h", "5", ":a", "5", ":h", "5"]).await;
    let torn = ["one", "6", "0,5,2,7,0", "0", "2", "7", "0"];
    let (keys, args) = rig.repair_call(&[torn]);
    let healthy = rig.bytes().await;
    let torn = rig.run("sale/repair", &keys, &args).await.unwrap();
    assert_eq!(torn[4], "written_off\none\n0\n0\n2\n2\n4\n-5");
    rig.restore(&healthy).await;
    let whole = rig.repair(&[["one", "6", "0,5,2,7,0", "0", "2", "7", "1"]]).await;
    whole.answer(&["repaired/one/5/0/2/7/4/0", "totals_repaired"]);
    assert!(
        whole.changes.iter().any(|change| change.contains(" & back_in_stock//one/5/0/2/7/4")),
        "{whole:?}"
    );
}

impl Rig {
    /// A switch while the books are wrong.
    async fn switch_off(&mut self, status: &str) {
        let (keys, args) = self.switch_call(status);
        assert_eq!(self.run("sale/switch", &keys, &args).await.unwrap()[0], "changed");
    }
}

pub async fn buyers() -> Answered {
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(9), &[("one", "10", "4")]).await;
    rig.reserve(&[take("a", "one", 3).by("ann"), take("b", "one", 2).by("bob")]).await;
    let [ann, bob, zoe] = ["ann", "bob", "zoe"].map(|buyer| bucket(buyer).to_string());
    let hash = |buyer: &str| format!("buyers:{:x}", bucket(buyer));
    rig.tamper("HSET", &hash("ann"), &["ann", "0|4|one=3"]).await;
    rig.tamper("HSET", &hash("zoe"), &["zoe", "1|1|"]).await;
    rig.tamper("HDEL", &hash("bob"), &["bob"]).await;
    let right = [
        [&*ann, "ann", "0|4|one=3", "0|3|one=3"],
        [&*bob, "bob", "", "0|2|one=2"],
        [&*zoe, "zoe", "1|1|", ""],
    ];
    // Some record has changed since, or one entry has.
    let (keys, args) = rig.repair_buyers_call("0", &right);
    let texts = rig.run("sale/repair_buyers", &keys, &args).await.unwrap();
    assert_eq!(texts[4..], ["moved", "moved", "moved"]);
    let (keys, args) = rig.repair_buyers_call("1", &[[&*ann, "ann", "0|5|one=3", "0|3|one=3"]]);
    assert_eq!(rig.run("sale/repair_buyers", &keys, &args).await.unwrap()[4], "moved");
    let (keys, args) = rig.repair_buyers_call("1", &right);
    let gone = format!("{} zoe gone", hash("zoe"));
    let set = [format!("{} ann = 0|3|one=3", hash("ann")), format!("{} bob = 0|2|one=2", hash("bob"))];
    let step = rig.step("sale/repair_buyers", &keys, &args).await;
    step.are(&["repaired", "repaired", "repaired"], &[&set[0], &set[1], &gone]);
    rig.generation = "g0".into();
    let (keys, stale) = rig.repair_buyers_call("1", &[]);
    assert_eq!(rig.run("sale/repair_buyers", &keys, &stale).await.unwrap(), ["stale_generation"]);
    rig.tamper("DEL", "rules", &[]).await;
    assert_eq!(rig.run("sale/repair_buyers", &keys, &args).await.unwrap(), ["unknown_sale"]);
    rig.answered
}
