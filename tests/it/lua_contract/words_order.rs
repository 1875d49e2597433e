//! Each word of the scripts about orders, with all that it changes. They have buckets of their own: a script takes any
//! tag.

use super::rig::{DAY, Rig, Step, id};
use super::words::Answered;
use crate::redis_server::RedisServer;
use std::sync::atomic::{AtomicUsize, Ordering};
use stockade::store::keys::OrderKeys;

/// Far behind the buckets that there are.
static BUCKETS: AtomicUsize = AtomicUsize::new(0x1000);
const LEASE_MS: i64 = 15_000;

struct Orders {
    rig: Rig,
    bucket: OrderKeys,
}

impl Orders {
    async fn empty() -> Self {
        let mut rig = Rig::on(RedisServer::shared()).await;
        let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
        rig.prefix = format!("st:{{o:{number:x}}}:");
        Self { rig, bucket: OrderKeys::new(number) }
    }

    fn keys(&self, order: &str) -> Vec<String> {
        self.bucket.fixed.iter().cloned().chain([self.bucket.record(id(order))]).collect()
    }

    /// The clock offset, then `more`.
    fn args(&self, more: &[&str]) -> Vec<String> {
        let offset = self.rig.offset_ms.to_string();
        [offset.as_str()].iter().chain(more).map(|text| (*text).to_owned()).collect()
    }

    async fn call(&mut self, script: &str, order: &str, args: &[&str]) -> Step {
        let (keys, args) = (self.keys(order), self.args(args));
        self.rig.step(&format!("order/{script}"), &keys, &args).await
    }

    async fn begin(&mut self, order: &str, attempt: &str) -> Step {
        self.call("begin", order, &[attempt, "15000", "s=a=a=1=p", "fp", "", "ann", "ref", ""]).await
    }

    async fn claim(&mut self, order: &str, attempt: &str, want: &str) -> Step {
        self.call("claim", order, &[attempt, "15000", want]).await
    }

    async fn step(&mut self, order: &str, attempt: &str, to: &str) -> Step {
        let (lines, goal) = match to {
            "pinning" => ("s=a=a=1=q", ""),
            "released" | "expired" | "refused" => ("", to),
            _ => ("", ""),
        };
        let to = if goal.is_empty() { to } else { "aborting" };
        self.call("step", order, &[attempt, "15000", to, lines, goal]).await
    }

    /// Held from the time of the step `t` on, for a minute.
    async fn hold(&mut self, order: &str) {
        self.begin(order, "one").await;
        let now = self.rig.time().await;
        let expires = (now + 60_000).to_string();
        assert_eq!(self.call("hold", order, &["one", "s=a=a=1=p", &expires]).await.head[0], "held");
    }
}

/// Text of an order as the answers have it: status, attempt, times, goal and lines differ.
fn text(order: &str, [status, attempt, expires, ended, goal, lines]: [&str; 6]) -> String {
    format!("#{order}/{status}/{attempt}/{{t}}/{expires}/{ended}/{goal}/{lines}/fp//ann/ref/")
}

/// The record that the text shows.
fn record(text: &str) -> String {
    format!("o:#x = {}", text.strip_prefix("#x/").unwrap())
}

/// From the first step to the last.
pub async fn confirmed() -> Answered {
    let mut o = Orders::empty().await;
    let begun = o.begin("x", "one").await;
    o.rig.remember("t", &begun);
    let holding = text("x", ["holding", "one", "", "", "", "s=a=a=1=p"]);
    let new = holding.replace("{t}", "{n}");
    begun.are(&["begun", "{n}", "", &new], &["due #x = {n+15000}", "index #x = 0", &record(&new)]);
    o.begin("x", "two").await.are(&["exists", "{n}", "holding", &holding], &[]);
    let other = ["two", "15000", "s=a=a=1=p", "other", "", "", "", ""];
    o.call("begin", "x", &other).await.are(&["idempotency_key_reused", "{n}"], &[]);
    // Only who has begun it goes on, and with nothing but what comes next.
    let until = (begun.now + 60_000).to_string();
    o.call("hold", "x", &["two", "s=b=a=1=p", &until]).await.are(&["lost", "{n}"], &[]);
    o.step("x", "one", "confirming").await.are(&["lost", "{n}"], &[]);
    o.claim("x", "two", "confirm").await.are(&["in_progress", "{n}", "holding", &holding], &[]);
    let held = text("x", ["held", "one", "{t+60000}", "", "", "s=b=a=1=p"]);
    o.call("hold", "x", &["one", "s=b=a=1=p", &until]).await.are(
        &["held", "{n}", "holding", &held],
        &["due #x = {t+60000}", &format!("events[0] = t {{n}} e held/holding/{held}"), &record(&held)],
    );
    o.call("hold", "x", &["one", "s=b=a=1=p", &until]).await.are(&["lost", "{n}"], &[]);
    o.call("read", "x", &[]).await.are(&["found", "{n}", "held", &held], &[]);
    o.claim("x", "two", "recover").await.are(&["not_due", "{n}", "held", &held], &[]);

    let pinning = text("x", ["pinning", "two", "{t+60000}", "", "", "s=b=a=1=p"]);
    o.claim("x", "two", "confirm")
        .await
        .are(&["pinning", "{n}", "held", &pinning], &["due #x = {n+15000}", &record(&pinning)]);
    o.step("x", "one", "confirming").await.are(&["lost", "{n}"], &[]);
    let again = text("x", ["pinning", "two", "{t+60000}", "", "", "s=a=a=1=q"]);
    let step = o.step("x", "two", "pinning").await;
    step.are(&["pinning", "{n}", "pinning", &again], &["due #x = {n+15000}", &record(&again)]);
    let confirming = text("x", ["confirming", "two", "{t+60000}", "", "", "s=a=a=1=q"]);
    let step = o.step("x", "two", "confirming").await;
    step.are(&["confirming", "{n}", "pinning", &confirming], &["due #x = {n+15000}", &record(&confirming)]);
    // It is decided.
    o.step("x", "two", "released").await.are(&["lost", "{n}"], &[]);
    o.claim("x", "three", "release").await.are(&["in_progress", "{n}", "confirming", &confirming], &[]);
    let confirmed = text("x", ["confirmed", "two", "{t+60000}", "{n}", "", "s=a=a=1=q"]);
    let step = o.step("x", "two", "confirmed").await;
    o.rig.remember("c", &step);
    step.are(
        &["confirmed", "{n}", "confirming", &confirmed],
        &[
            "done #x = {n+2592000000}",
            "due #x gone",
            &format!("events[1] = t {{n}} e confirmed/confirming/{confirmed}"),
            &record(&confirmed),
        ],
    );
    let confirmed = confirmed.replace("{n}", "{c}");
    for want in ["confirm", "retake", "release", "recover"] {
        o.claim("x", "four", want).await.are(&["ended", "{n}", "confirmed", &confirmed], &[]);
    }
    o.begin("x", "four").await.are(&["exists", "{n}", "confirmed", &confirmed], &[]);
    o.claim("y", "one", "confirm").await.are(&["unknown_order", "{n}"], &[]);
    o.call("read", "y", &[]).await.are(&["unknown_order", "{n}"], &[]);
    o.rig.answered
}

/// Refused, released, expired; and taken again.
pub async fn undone() -> Answered {
    let mut o = Orders::empty().await;
    o.begin("x", "one").await;
    o.step("x", "one", "undone").await.are(&["lost", "{n}"], &[]);
    assert_eq!(o.step("x", "one", "refused").await.head[0], "aborting");
    let step = o.step("x", "one", "undone").await;
    assert_eq!(step.head[0], "removed");
    assert_eq!(step.changes, ["due #x gone", "index #x gone", "o:#x gone"]);

    o.hold("x").await;
    let step = o.claim("x", "two", "release").await;
    assert_eq!([&step.head[0], &step.head[2]], ["aborting", "held"]);
    let step = o.step("x", "two", "undone").await;
    assert_eq!([&step.head[0], &step.head[2]], ["released", "aborting"]);
    assert!(step.changes[2].contains(" e released/aborting/#x/released/two/"), "{:?}", step.changes);
    assert_eq!(o.claim("x", "two", "retake").await.head[0], "ended");

    // Late: a reader sees it expired, and whoever calls undoes it.
    o.hold("y").await;
    o.rig.offset_ms = 60_001;
    let seen = o.call("read", "y", &[]).await;
    assert_eq!([&seen.head[0], &seen.head[2]], ["found", "held"]);
    assert!(seen.head[3].starts_with("#y/expired/one/"), "{:?}", seen.head);
    for (want, word) in [("recover", "aborting"), ("release", "in_progress")] {
        assert_eq!(o.claim("y", "two", want).await.head[0], word);
    }
    let step = o.step("y", "two", "undone").await;
    assert_eq!(step.head[0], "expired");
    assert!(step.changes[0].starts_with("done #y = "), "{:?}", step.changes);
    assert_eq!(o.claim("y", "three", "confirm").await.head[0], "ended");
    let step = o.claim("y", "three", "retake").await;
    assert_eq!([&step.head[0], &step.head[2]], ["pinning", "expired"]);
    assert_eq!(step.changes[0], "done #y gone");
    assert_eq!(o.step("y", "three", "expired").await.head[0], "aborting");
    assert_eq!(o.step("y", "three", "undone").await.head[0], "expired");
    // Late, and wanted nevertheless.
    o.rig.offset_ms = 0;
    o.hold("z").await;
    o.rig.offset_ms = 60_001;
    assert_eq!(o.claim("z", "two", "retake").await.head[0], "pinning");
    o.rig.answered
}

/// What another process makes of each step that nobody has finished.
pub async fn taken_over() -> Answered {
    let mut o = Orders::empty().await;
    o.begin("holding", "one").await;
    for order in ["pinning", "confirming", "aborting"] {
        o.hold(order).await;
        o.claim(order, "one", if order == "aborting" { "release" } else { "confirm" }).await;
    }
    o.step("confirming", "one", "confirming").await;
    for want in ["recover", "confirm", "release"] {
        assert_eq!(o.claim("holding", "two", want).await.head[0], "in_progress");
    }
    o.rig.offset_ms = LEASE_MS + 1;
    for (order, status, end) in [
        ("holding", "aborting", "removed"),
        ("pinning", "aborting", "released"),
        ("confirming", "confirming", "confirmed"),
        ("aborting", "aborting", "released"),
    ] {
        let step = o.claim(order, "two", "recover").await;
        assert_eq!([&step.head[0], &step.head[2]], [status, order]);
        // The first one is too late, whatever it wants.
        for to in ["pinning", "confirming", "confirmed", "released", "undone"] {
            o.step(order, "one", to).await.are(&["lost", "{n}"], &[]);
        }
        let to = if end == "confirmed" { end } else { "undone" };
        assert_eq!(o.step(order, "two", to).await.head[0], end);
    }
    o.rig.answered
}

/// What the sweeper is told, and what it forgets.
pub async fn kept() -> Answered {
    let mut o = Orders::empty().await;
    o.hold("x").await;
    o.hold("y").await;
    o.claim("y", "two", "release").await;
    o.step("y", "two", "undone").await;
    let due = |o: &Orders| {
        let [_, due, done, _] = o.bucket.fixed.clone();
        (vec![due, done], o.args(&["9"]))
    };
    let (keys, args) = due(&o);
    let told = o.rig.run("order/due", &keys, &args).await.unwrap();
    assert_eq!(&told[2..], ["", ""]);
    assert!(told[1].parse::<i64>().unwrap() <= o.rig.time().await + 60_000);
    o.rig.offset_ms = DAY + 1;
    let (keys, args) = due(&o);
    let told = o.rig.run("order/due", &keys, &args).await.unwrap();
    assert_eq!(&told[1..], ["".to_owned(), id("x"), id("y")]);
    let [index, _, done, _] = o.bucket.fixed.clone();
    let keys =
        vec![index, done, o.bucket.record(id("x")), o.bucket.record(id("y")), o.bucket.record(id("z"))];
    let args = o.args(&[]);
    o.rig
        .step("order/forget", &keys, &args)
        .await
        .are(&["1"], &["done #y gone", "index #y gone", "o:#y gone"]);
    // A damaged one is left alone, but for the time of the next look.
    o.rig.tamper("SET", &format!("o:{}", id("x")), &["what"]).await;
    let step = o.claim("x", "two", "recover").await;
    step.are(&["corrupt", "{n}"], &["due #x = {n+3600000}"]);
    // One that is gone leaves nothing.
    o.rig.tamper("DEL", &format!("o:{}", id("x")), &[]).await;
    let step = o.claim("x", "two", "recover").await;
    step.are(&["unknown_order", "{n}"], &["due #x gone", "index #x gone"]);
    o.rig.answered
}

/// Each key of each script in turn is of another type.
pub async fn wrong_types() -> Answered {
    let mut o = Orders::empty().await;
    for order in ["held", "old"] {
        o.hold(order).await;
    }
    o.begin("begun", "one").await;
    o.claim("old", "one", "release").await;
    o.step("old", "one", "undone").await;
    o.rig.offset_ms = DAY + 1;
    let healthy = o.rig.bytes().await;
    let begin = ["one", "15000", "s=a=a=1=p", "fp", "", "", "", ""];
    let [index, due, done, _] = o.bucket.fixed.clone();
    let calls = [
        ("begin", o.keys("new"), o.args(&begin)),
        ("hold", o.keys("begun"), o.args(&["one", "s=a=a=1=p", "9"])),
        ("claim", o.keys("held"), o.args(&["two", "15000", "release"])),
        ("step", o.keys("begun"), o.args(&["one", "15000", "aborting", "", "refused"])),
        ("read", o.keys("held"), o.args(&[])),
        ("due", vec![due, done.clone()], o.args(&["9"])),
        ("forget", vec![index, done, o.bucket.record(id("old"))], o.args(&[])),
    ];
    for (script, keys, args) in calls {
        for key in &keys {
            o.rig.restore(&healthy).await;
            let name = key.strip_prefix(&o.rig.prefix).unwrap().to_owned();
            o.rig.tamper("DEL", &name, &[]).await;
            o.rig.tamper("RPUSH", &name, &["x"]).await;
            let before = o.rig.bytes().await;
            let answer = o.rig.run(&format!("order/{script}"), &keys, &args).await;
            let what = format!("{script} with a list in {name}: {answer:?}");
            let is_record = name.starts_with("o:");
            match &answer {
                // It has put off its next look.
                Ok(texts) if texts[0] == "corrupt" => assert!(is_record && script == "claim", "{what}"),
                // A record is deleted, whatever it is.
                Ok(texts) if texts[0] == "1" => assert!(is_record && script == "forget", "{what}"),
                Ok(_) => assert!(script == "read" && !is_record, "{what}"),
                Err(error) => {
                    assert!(error.starts_with("CORRUPT "), "{what}");
                    assert!(o.rig.bytes().await == before, "something was written by {what}");
                }
            }
        }
    }
    o.rig.answered
}
