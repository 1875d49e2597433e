//! Records and values that no script wrote: the request is `corrupt` or the call is an error, and nothing is written.

use super::calls::take;
use super::rig::{Rig, id};
use super::wrong_types::{busy_sale, calls};
use stockade::store::ids::bucket;

impl Rig {
    /// Sets one field of a record, counted as `lua/README.md` does.
    pub async fn set_field(&mut self, name: &str, field: usize, value: &str) {
        let record = self.snapshot().await[&format!("r:#{name}")].clone();
        let mut fields: Vec<&str> = record.split('\n').collect();
        fields[field - 1] = value;
        let text = fields.join("\n");
        self.tamper("SET", &format!("r:{}", id(name)), &[&text]).await;
    }
}

const DIGITS: &str = "99999999999999999999";

/// Texts that are no record: of a held or of a confirmed one, the field and what it says instead.
const BAD_FIELDS: &[(&str, usize, &str)] = &[
    ("a", 1, "sold"),
    ("a", 1, ""),
    ("a", 1, "confirmed"),
    ("a", 2, "x"),
    ("a", 2, "-5"),
    ("a", 2, ""),
    ("a", 2, DIGITS),
    ("a", 3, "x"),
    ("a", 3, "1\n2"),
    ("a", 4, "x"),
    ("a", 4, "5"),
    ("a", 5, ""),
    ("a", 5, DIGITS),
    ("a", 6, "H"),
    ("a", 6, "U1"),
    ("a", 6, "3H2"),
    ("a", 6, "3H0"),
    ("a", 9, "2"),
    ("a", 10, "1"),
    ("a", 11, "1"),
    ("a", 14, "x\ny"),
    ("a", 15, ""),
    ("a", 15, "one"),
    ("a", 15, "one=x"),
    ("a", 15, "one=2,"),
    ("a", 15, "=2"),
    ("a", 15, "one=99999999999999999999"),
    ("a", 15, "nine=2"),
    ("b", 4, ""),
    ("b", 10, ""),
    ("b", 10, "3"),
    ("b", 10, "x"),
    ("b", 10, "1,1"),
    ("b", 10, ",2"),
    ("b", 11, "3"),
    ("b", 11, "1,"),
];

#[tokio::test]
async fn a_corrupt_record_makes_its_request_corrupt_and_is_moved_to_orphans() {
    let mut rig = busy_sale().await;
    let healthy = rig.bytes().await;
    for (name, field, value) in BAD_FIELDS {
        rig.restore(&healthy).await;
        rig.set_field(name, *field, value).await;
        let before = rig.bytes().await;
        let what = format!("{name} with field {field} {value:?}");
        let settle = |verb: &str, args: &[&str]| rig.settle_call(verb, &[(name, args)]);
        let calls = [
            ("confirm", settle("confirm", &["retake", "", ""])),
            ("release", settle("release", &[])),
            ("pin", settle("pin", &[])),
            ("extend", settle("extend", &["700000", "op"])),
            ("return_reservation", rig.return_call(&[(name, "op", "", "1", "f")])),
            ("read", settle("read", &[])),
            ("reserve", rig.reserve_call(&[take(name, "one", 2).by("ann")])),
            ("reserve", rig.reserve_call(&[take("new", "one", 1).by("ann").replacing(name)])),
        ];
        for (script, (keys, args)) in calls {
            if script == "read" && *value == "nine=2" {
                continue; // it does not look at the stock
            }
            let answer = rig.run(&format!("reservation/{script}"), &keys, &args).await;
            let texts = answer.unwrap_or_else(|error| panic!("{script} {what}: {error}"));
            assert_eq!(texts[4], "corrupt", "{script} {what}");
            assert!(rig.bytes().await == before, "{script} {what} wrote something");
        }
        // The sweeper moves it out of the way and goes on with the next.
        for (script, place, next) in [("expire", "due", "o"), ("archive", "done", "c")] {
            rig.restore(&before).await;
            rig.tamper("ZREM", "due", &[&id(name)]).await;
            rig.tamper("ZREM", "done", &[&id(name)]).await;
            rig.tamper("ZADD", place, &["1", &id(name)]).await;
            let (keys, args) = rig.settle_call(script, &[(name, &[]), (next, &[])]);
            let texts = rig.run(&format!("reservation/{script}"), &keys, &args).await.unwrap();
            assert_eq!(texts[4], "orphaned", "{script} {what}");
            assert!(texts[5].starts_with("expired") || texts[5] == "archived", "{script} {what}: {texts:?}");
            let after = rig.snapshot().await;
            assert!(after.contains_key(&format!("orphans #{name}")), "{script} {what}");
            assert!(!after.contains_key(&format!("{place} #{name}")), "{script} {what}");
            assert!(!after.contains_key(&format!("{place} #{next}")), "{script} {what}");
        }
    }
}

/// Fields of fixed keys, and what they say instead (`-` = nothing).
const BAD_VALUES: &[(&str, &str, &str)] = &[
    ("stock", "one:a", "x"),
    ("stock", "one:a", "-1"),
    ("stock", "one:a", "1"),
    ("stock", "one:h", "1e3"),
    ("stock", "one:s", "-"),
    ("stock", "one:g", "-"),
    ("stock", "one:g", "1.5"),
    ("stock", "one:i", "-"),
    ("stock", "one:l", "x"),
    ("stock", "one:r", "-"),
    ("stock", "one:x", "x"),
    ("stock", ":a", "x"),
    ("stock", ":a", "-1"),
    ("stock", ":h", "5"),
    ("stock", ":a", "-"),
    ("stock", ":g", DIGITS),
    ("buyers", "ann", "x"),
    ("buyers", "ann", "1|2"),
    ("buyers", "ann", "-1|2|one=2"),
    ("buyers", "ann", "2|6|one"),
    ("buyers", "ann", "2|6|one=x"),
    ("buyers", "ann", "2|6|one=6,"),
    ("buyers", "ann", "99999999999999999999|6|one=6"),
    ("rules", "status", "x"),
    ("rules", "status", "-"),
    ("rules", "hold_ms", ""),
    ("rules", "hold_ms_max", "x"),
    ("rules", "opens_at_ms", "-1"),
    ("rules", "buyer_limit", "x"),
    ("rules", "confirmed_retention_ms", "-"),
    ("rules", "ended_retention_ms", "1e9"),
];

#[tokio::test]
async fn a_corrupt_value_of_the_sale_makes_each_call_an_error() {
    let mut rig = busy_sale().await;
    let healthy = rig.bytes().await;
    let verbs = ["reserve", "pin", "confirm", "release", "return_reservation", "expire", "archive"];
    for (key, field, value) in BAD_VALUES {
        rig.restore(&healthy).await;
        let name = if *key == "buyers" { format!("buyers:{:x}", bucket("ann")) } else { (*key).to_owned() };
        match *value {
            "-" => rig.tamper("HDEL", &name, &[field]).await,
            value => rig.tamper("HSET", &name, &[field, value]).await,
        }
        let before = rig.bytes().await;
        for call in calls(&rig).iter().filter(|call| verbs.iter().any(|verb| call.script.ends_with(verb))) {
            let answer = rig.run(call.script, &call.keys, &call.args).await;
            let what = format!("{} with {name} {field} {value:?}: {answer:?}", call.script);
            assert_eq!(
                answer.err().map(|error| error.split(' ').take(2).collect::<Vec<_>>().join(" ")),
                Some(format!("CORRUPT {key}")),
                "{what}"
            );
            assert!(rig.bytes().await == before, "something was written by {what}");
        }
    }
}

/// A count that would fall below zero is found before anything is written.
#[tokio::test]
async fn a_buyer_who_has_less_than_his_records_say_is_an_error() {
    let mut rig = busy_sale().await;
    let healthy = rig.bytes().await;
    let buyers = format!("buyers:{:x}", bucket("ann"));
    for text in ["0|6|one=6", "3|1|one=6", "3|6|one=1", "3|6|"] {
        rig.restore(&healthy).await;
        rig.tamper("HSET", &buyers, &["ann", text]).await;
        let before = rig.bytes().await;
        let calls = [
            ("release", rig.settle_call("release", &[("a", &[])])),
            ("expire", rig.settle_call("expire", &[("o", &[])])),
            ("reserve", rig.reserve_call(&[take("new", "one", 2).by("ann").replacing("a")])),
        ];
        for (script, (keys, args)) in calls {
            let error = rig.run(&format!("reservation/{script}"), &keys, &args).await.unwrap_err();
            assert!(error.starts_with("CORRUPT buyers"), "{script} with {text}: {error}");
            assert!(rig.bytes().await == before, "{script} with {text} wrote something");
        }
    }
}

#[tokio::test]
async fn a_corrupt_operation_makes_its_request_corrupt() {
    let mut rig = busy_sale().await;
    for text in ["", "f", "f\n", "\nadjusted"] {
        rig.tamper("SET", &format!("op:{}", id("op")), &[text]).await;
        let before = rig.bytes().await;
        let calls = [
            ("sale/adjust", rig.adjust_call(&[("op", "one", 1, "", "f")])),
            ("reservation/return_reservation", rig.return_call(&[("b", "op", "one=1", "1", "f")])),
        ];
        for (script, (keys, args)) in calls {
            let texts = rig.run(script, &keys, &args).await.unwrap();
            assert_eq!(texts[4], "corrupt", "{script} with {text:?}");
            assert!(rig.bytes().await == before, "{script} with {text:?} wrote something");
        }
    }
}
