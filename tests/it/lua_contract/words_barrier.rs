//! Each word of the scripts about barriers, with all that it changes. They have buckets of their own: a script takes any
//! tag.

use super::rig::{Rig, Step};
use super::words::Answered;
use crate::redis_server::RedisServer;
use std::sync::atomic::{AtomicUsize, Ordering};
use stockade::store::keys::BucketKeys;

/// Far behind the buckets that there are.
static BUCKETS: AtomicUsize = AtomicUsize::new(0x1000);

pub struct Barriers {
    pub rig: Rig,
    pub bucket: BucketKeys,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Barriers {
    pub async fn empty() -> Self {
        Self::on(RedisServer::shared()).await
    }

    pub async fn on(server: &RedisServer) -> Self {
        let mut rig = Rig::on(server).await;
        let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
        rig.prefix = format!("st:{{b:{number:x}}}:");
        Self { rig, bucket: BucketKeys::new(number) }
    }

    /// `due`, `events`, `index` as far as a script takes them, then four keys a barrier.
    pub fn keys(&self, fixed: usize, names: &[&str]) -> Vec<String> {
        let all = [&self.bucket.due, &self.bucket.events, &self.bucket.index];
        let own = names.iter().flat_map(|name| self.bucket.barrier(name));
        all[..fixed].iter().map(|key| (*key).clone()).chain(own).collect()
    }

    /// The clock offset, then `more`.
    pub fn args(&self, more: &[&str]) -> Vec<String> {
        [vec![self.rig.offset_ms.to_string()], owned(more)].concat()
    }

    async fn call(&mut self, script: &str, fixed: usize, names: &[&str], args: &[&str]) -> Step {
        let (keys, args) = (self.keys(fixed, names), self.args(args));
        self.rig.step(&format!("barrier/{script}"), &keys, &args).await
    }

    /// Mode, expected, tolerated; a deadline after 100 s, kept for 10 s.
    pub async fn put(&mut self, name: &str, spec: [&str; 3], names: &[&str]) -> Step {
        let [mode, expected, tolerated] = spec;
        let args = ["", "fp", mode, expected, tolerated, "100000", "10000", "http://a/"];
        self.call("put", 3, &[name], &[&args, names].concat()).await
    }

    /// Participant, outcome, note of each.
    pub async fn arrive(&mut self, name: &str, arrivals: &[[&str; 3]]) -> Step {
        let args: Vec<&str> =
            arrivals.iter().flat_map(|arrival| ["1"].iter().chain(arrival)).copied().collect();
        self.call("arrive", 2, &[name], &args).await
    }

    pub async fn sweep(&mut self, names: &[&str]) -> Step {
        self.call("sweep", 3, names, &[]).await
    }
}

pub async fn fill() -> Answered {
    let mut b = Barriers::empty().await;
    b.arrive("x", &[["p", "completed", ""]]).await.is("unknown_barrier", &[]);
    let made = b.put("x", ["members", "3", "1"], &["p", "q"]).await;
    b.rig.remember("t", &made);
    let state = |status: &str, counts: &str, ended: &str| {
        format!("x/{status}/members/3/{counts}/1/{{t}}/{{t+100000}}/{ended}/10000/http://a/")
    };
    made.are(
        &["created", "{n}", "", &state("open", "0/0/2", "").replace("{t", "{n")],
        &[
            "b:x completed = 0",
            "b:x created_ms = {n}",
            "b:x deadline_ms = {n+100000}",
            "b:x expected = 3",
            "b:x failed = 0",
            "b:x mode = members",
            "b:x notify = http://a/",
            "b:x retention_ms = 10000",
            "b:x spec = fp",
            "b:x status = open",
            "b:x tolerated = 1",
            "b:x:missing p = 0",
            "b:x:missing q = 0",
            "due x = {n+100000}",
            "index x = 0",
        ],
    );
    let again = b.put("x", ["members", "3", "1"], &["p", "q"]).await;
    again.are(&["replayed", "{n}", "open", &state("open", "0/0/2", "")], &[]);
    let args = ["", "other", "members", "3", "", "1", "1", ""];
    let other = b.call("put", 3, &["x"], &args).await;
    other.are(&["barrier_exists", "{n}", "open", &state("open", "0/0/2", "")], &[]);
    let absent = b.call("put", 3, &["x"], &["absent", "fp", "members", "3", "", "1", "1", ""]).await;
    absent.are(&["precondition_failed", "{n}", "open", &state("open", "0/0/2", "")], &[]);

    let failed = b.arrive("x", &[["p", "failed", "\"why\""]]).await;
    b.rig.remember("p", &failed);
    failed.is(
        &format!("arrived/open//{}", state("open", "0/1/2", "")),
        &[
            "b:x failed = 1",
            "b:x n:p = \"why\"",
            "b:x:failed p = {n}",
            "b:x:marks p = {n}",
            "b:x:missing p gone",
        ],
    );
    b.arrive("x", &[["p", "failed", ""]])
        .await
        .is(&format!("replayed/open//{}", state("open", "0/1/2", "")), &[]);
    // The later wins, within one call too; the time of the first stays.
    b.arrive("x", &[["p", "completed", ""], ["p", "failed", ""]]).await.are(
        &[
            &format!("arrived/open//{}", state("open", "1/0/2", "")),
            &format!("replayed/open//{}", state("open", "1/0/2", "")),
        ],
        &["b:x completed = 1", "b:x failed = 0", "b:x n:p gone", "b:x:failed p gone"],
    );
    // One call: the third is nobody's, the second completes nothing yet, the last does, and is told so again.
    let last = b
        .arrive(
            "x",
            &[
                ["r", "failed", "\"r\""],
                ["s", "completed", ""],
                ["q", "completed", ""],
                ["q", "completed", ""],
            ],
        )
        .await;
    let end = state("completed", "2/1/3", "{n}");
    last.are(
        &[
            &format!("arrived/open//{}", state("open", "1/1/3", "")),
            "unknown_participant",
            &format!("arrived/open/1/{end}"),
            &format!("replayed/completed/1/{end}"),
        ],
        &[
            "b:x completed = 2",
            "b:x ended_ms = {n}",
            "b:x failed = 1",
            "b:x fired = a:completed:q",
            "b:x n:r = \"r\"",
            "b:x status = completed",
            "b:x:failed r = {n}",
            "b:x:marks q = {n}",
            "b:x:marks r = {n}",
            "b:x:missing q gone",
            "due x = {n+10000}",
            &format!("events[0] = t {{n}} e completed/open/{end}///r \"r\""),
        ],
    );
    b.rig.remember("e", &last);
    let end = state("completed", "2/1/3", "{e}");
    b.arrive("x", &[["p", "failed", ""], ["s", "failed", ""]])
        .await
        .are(&[&format!("replayed/completed//{end}"), &format!("barrier_ended/completed//{end}")], &[]);
    let (keys, args) = (b.keys(0, &["x", "y"]), b.args(&[]));
    b.rig.step("barrier/read", &keys, &args).await.are(&[&format!("found/{end}"), "unknown_barrier"], &[]);
    b.rig.answered
}

/// A hash of marks, and numbers; nothing of names besides.
pub async fn count() -> Answered {
    let mut b = Barriers::empty().await;
    let made = b.put("x", ["count", "2", ""], &[]).await;
    b.rig.remember("t", &made);
    let state = |status: &str, counts: &str, ended: &str| {
        format!("x/{status}/count/2/{counts}//{{t}}/{{t+100000}}/{ended}/10000/http://a/")
    };
    b.arrive("x", &[["p", "failed", "\"why\""]]).await.is(
        &format!("arrived/open//{}", state("open", "0/1/1", "")),
        &["b:x failed = 1", "b:x:marks p = failed"],
    );
    let step = b.arrive("x", &[["p", "completed", ""], ["q", "completed", ""]]).await;
    let end = state("completed", "2/0/2", "{n}");
    step.are(
        &[&format!("arrived/open//{}", state("open", "1/0/1", "")), &format!("arrived/open/1/{end}")],
        &[
            "b:x completed = 2",
            "b:x ended_ms = {n}",
            "b:x failed = 0",
            "b:x fired = a:completed:q",
            "b:x status = completed",
            "b:x:marks p = completed",
            "b:x:marks q = completed",
            "due x = {n+10000}",
            &format!("events[0] = t {{n}} e completed/open/{end}//"),
        ],
    );
    let args = b.args(&["p"]);
    assert_eq!(b.rig.run("barrier/declare", &b.keys(2, &["x"]), &args).await.unwrap(), ["names_not_kept"]);
    b.rig.answered
}

pub async fn seal() -> Answered {
    let mut b = Barriers::empty().await;
    for (script, args) in [("seal", &["2"][..]), ("declare", &["p"]), ("extend", &["1"]), ("cancel", &[])] {
        b.call(script, 2, &["x"], args).await.are(&["unknown_barrier"], &[]);
    }
    let made = b.put("x", ["members", "", ""], &[]).await;
    b.rig.remember("t", &made);
    let state = |status: &str, expected: &str, counts: &str, ended: &str| {
        format!("x/{status}/members/{expected}/{counts}//{{t}}/{{t+100000}}/{ended}/10000/http://a/")
    };
    b.call("seal", 2, &["x"], &[""]).await.are(&["nothing_declared"], &[]);
    b.call("declare", 2, &["x"], &["p", "q"]).await.are(
        &["declared", "{n}", "open", &state("open", "", "0/0/2", "")],
        &["b:x:missing p = 0", "b:x:missing q = 0"],
    );
    let again = b.call("declare", 2, &["x"], &["q"]).await;
    again.are(&["replayed", "{n}", "open", &state("open", "", "0/0/2", "")], &[]);
    b.call("seal", 2, &["x"], &["1"]).await.are(&["too_many_arrivals", "{n}", "2"], &[]);
    b.arrive("x", &[["p", "completed", ""], ["q", "completed", ""]]).await;
    let sealed = b.call("seal", 2, &["x"], &[""]).await;
    let end = state("completed", "2", "2/0/2", "{n}");
    sealed.are(
        &["sealed", "{n}", "open", &end, "1"],
        &[
            "b:x ended_ms = {n}",
            "b:x expected = 2",
            "b:x fired = s:2",
            "b:x status = completed",
            "due x = {n+10000}",
            &format!("events[0] = t {{n}} e completed/open/{end}//"),
        ],
    );
    b.rig.remember("e", &sealed);
    let end = state("completed", "2", "2/0/2", "{e}");
    for (args, word, fired) in [("", "replayed", "1"), ("2", "replayed", "1"), ("3", "barrier_ended", "")] {
        b.call("seal", 2, &["x"], &[args]).await.are(&[word, "{n}", "completed", &end, fired], &[]);
    }
    b.call("declare", 2, &["x"], &["r"]).await.are(&["barrier_ended", "{n}", "completed", &end], &[]);
    b.call("extend", 2, &["x"], &["1"]).await.are(&["barrier_ended", "{n}", "completed", &end], &[]);
    b.call("cancel", 2, &["x"], &[]).await.are(&["barrier_ended", "{n}", "completed", &end], &[]);

    b.put("y", ["members", "2", ""], &["p"]).await;
    b.call("seal", 2, &["y"], &[""]).await.are(&["already_sealed", "{n}", "2"], &[]);
    b.call("declare", 2, &["y"], &["p", "q", "r"]).await.are(&["unknown_participant", "r"], &[]);
    // All the participants that there can be.
    b.put("z", ["members", "", ""], &[]).await;
    for from in (0..100_000).step_by(10_000) {
        let members: Vec<String> =
            (from..from + 10_000).flat_map(|n| ["0".into(), format!("m{n}")]).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        b.rig.tamper("ZADD", "b:z:missing", &members).await;
    }
    let (keys, args) = (b.keys(2, &["z"]), b.args(&["p"]));
    assert_eq!(b.rig.run("barrier/declare", &keys, &args).await.unwrap(), ["too_many_participants"]);
    let args = b.args(&["1", "p", "completed", ""]);
    assert_eq!(b.rig.run("barrier/arrive", &keys, &args).await.unwrap()[4], "too_many_participants");
    b.rig.answered
}

pub async fn end() -> Answered {
    let mut b = Barriers::empty().await;
    let made = b.put("x", ["members", "", "0"], &["p"]).await;
    b.rig.remember("t", &made);
    let state = |status: &str, deadline: &str, ended: &str| {
        format!("x/{status}/members//0/0/1/0/{{t}}/{deadline}/{ended}/10000/http://a/")
    };
    let same = b.call("extend", 2, &["x"], &["1000"]).await;
    same.are(&["unchanged", "{n}", "open", &state("open", "{t+100000}", "")], &[]);
    let extended = b.call("extend", 2, &["x"], &["200000"]).await;
    b.rig.remember("m", &extended);
    extended.are(
        &["extended", "{n}", "open", &state("open", "{n+200000}", "")],
        &["b:x deadline_ms = {n+200000}", "due x = {n+200000}"],
    );
    let cancelled = b.call("cancel", 2, &["x"], &[]).await;
    let end = state("cancelled", "{m+200000}", "{n}");
    cancelled.are(
        &["cancelled", "{n}", "open", &end],
        &[
            "b:x ended_ms = {n}",
            "b:x status = cancelled",
            "due x = {n+10000}",
            &format!("events[0] = t {{n}} e cancelled/open/{end}//p"),
        ],
    );
    b.rig.remember("e", &cancelled);
    let end = state("cancelled", "{m+200000}", "{e}");
    b.call("cancel", 2, &["x"], &[]).await.are(&["replayed", "{n}", "cancelled", &end], &[]);
    b.rig.answered
}

pub async fn sweep() -> Answered {
    let mut b = Barriers::empty().await;
    let made = b.put("x", ["members", "2", ""], &["p"]).await;
    b.rig.remember("t", &made);
    b.put("y", ["count", "1", ""], &[]).await;
    let due = b.call("due", 2, &[], &["9"]).await;
    due.answer(&["{n}", "{t+100000}", "0", ""]);
    b.sweep(&["x", "y"]).await.are(&["not_due", "not_due"], &[]);
    // Its place is set right, whatever somebody has done to it.
    b.rig.tamper("ZADD", "due", &["5", "x"]).await;
    b.sweep(&["x"]).await.is("not_due", &["due x = {t+100000}"]);
    b.arrive("y", &[["p", "completed", ""]]).await;
    b.rig.offset_ms = 100_000;
    let (keys, args) = (b.keys(0, &["x"]), b.args(&[]));
    let state = "x/timed_out/members/2/0/0/1//{t}/{t+100000}/{t+100000}/10000/http://a/";
    b.rig.step("barrier/read", &keys, &args).await.is(&format!("found/{state}"), &[]);
    let late = b.sweep(&["x", "y", "z"]).await;
    late.are(
        &[&format!("timed_out/open//{state}"), "removed", "removed"],
        &[
            "b:x ended_ms = {t+100000}",
            "b:x status = timed_out",
            "b:y completed gone",
            "b:y created_ms gone",
            "b:y deadline_ms gone",
            "b:y ended_ms gone",
            "b:y expected gone",
            "b:y failed gone",
            "b:y fired gone",
            "b:y mode gone",
            "b:y notify gone",
            "b:y retention_ms gone",
            "b:y spec gone",
            "b:y status gone",
            "b:y tolerated gone",
            "b:y:marks p gone",
            "due x = {n+10000}",
            "due y gone",
            &format!("events[1] = t {{n}} e timed_out/open/{state}//p"),
            "index y gone",
        ],
    );
    b.sweep(&["x"]).await.is("not_due", &[]);
    b.rig.offset_ms = 120_000;
    assert_eq!(b.sweep(&["x"]).await.answers, ["removed"]);
    let left = b.rig.snapshot().await;
    assert!(left.keys().all(|leaf| leaf.starts_with("events[")), "{left:?}");

    // Damaged ones are left alone, but for the time of the next look.
    for (n, damage) in
        [("b:bad status", "what"), ("b:bad completed", "1"), ("b:bad deadline_ms", "")].iter().enumerate()
    {
        let name = format!("bad{n}");
        b.put(&name, ["members", "2", ""], &["p"]).await;
        let field = damage.0.split_once(' ').unwrap().1;
        b.rig.tamper("HSET", &format!("b:{name}"), &[field, damage.1]).await;
        b.arrive(&name, &[["p", "completed", ""]]).await.is("corrupt", &[]);
        let (keys, args) = (b.keys(0, &[&name]), b.args(&[]));
        b.rig.step("barrier/read", &keys, &args).await.is("corrupt", &[]);
        let step = b.sweep(&[&name]).await;
        step.is("corrupt", &[&format!("due {name} = {{n+3600000}}")]);
    }
    b.rig.answered
}

/// Script, keys, arguments, and the keys that it need not look at.
type Call = (&'static str, Vec<String>, Vec<String>, &'static [&'static str]);

/// A call of each script that would write, were all well.
fn calls(b: &Barriers) -> Vec<Call> {
    const NEW: &[&str] = &["b:new:marks", "b:new:missing", "b:new:failed"];
    let put = ["", "fp", "members", "2", "", "100000", "10000", ""];
    vec![
        ("barrier/put", b.keys(3, &["new"]), b.args(&put), NEW),
        ("barrier/put", b.keys(3, &["x"]), b.args(&put), &[]),
        ("barrier/arrive", b.keys(2, &["x"]), b.args(&["1", "q", "failed", ""]), &[]),
        ("barrier/declare", b.keys(2, &["x"]), b.args(&["r"]), &[]),
        ("barrier/seal", b.keys(2, &["x"]), b.args(&["2"]), &[]),
        ("barrier/extend", b.keys(2, &["x"]), b.args(&["200000"]), &[]),
        ("barrier/cancel", b.keys(2, &["x"]), b.args(&[]), &[]),
        ("barrier/due", b.keys(2, &[]), b.args(&["9"]), &[]),
        ("barrier/sweep", b.keys(3, &["late"]), b.args(&[]), &[]),
        ("barrier/read", b.keys(0, &["x"]), b.args(&[]), &[]),
    ]
}

/// `x` open, with some of each; `late` overdue.
async fn busy(server: &RedisServer) -> Barriers {
    let mut b = Barriers::on(server).await;
    b.put("late", ["members", "2", ""], &["p"]).await;
    b.arrive("late", &[["o", "failed", ""]]).await;
    b.put("done", ["members", "", ""], &[]).await;
    b.call("cancel", 2, &["done"], &[]).await;
    b.rig.offset_ms = 100_000;
    b.put("x", ["members", "", ""], &["p", "q"]).await;
    b.arrive("x", &[["p", "failed", ""]]).await;
    b
}

/// Each key of each script in turn is of another type.
pub async fn wrong_types() -> Answered {
    let mut b = busy(RedisServer::shared()).await;
    let healthy = b.rig.bytes().await;
    for (script, keys, args, blind_to) in calls(&b) {
        for key in &keys {
            b.rig.restore(&healthy).await;
            let name = key.strip_prefix(&b.rig.prefix).unwrap().to_owned();
            b.rig.tamper("DEL", &name, &[]).await;
            b.rig.tamper("RPUSH", &name, &["x"]).await;
            let before = b.rig.bytes().await;
            let answer = b.rig.run(script, &keys, &args).await;
            let what = format!("{script} with a list in {name}: {answer:?}");
            match &answer {
                Ok(texts) if texts.get(4).is_some_and(|answer| answer == "corrupt") => {
                    assert!(name.starts_with("b:"), "{what}");
                    if script == "barrier/sweep" {
                        continue; // it has put off its next look
                    }
                }
                Ok(_) => {
                    assert!(blind_to.contains(&&*name), "{what}");
                    continue;
                }
                Err(error) => assert!(error.starts_with("CORRUPT "), "{what}"),
            }
            assert!(b.rig.bytes().await == before, "something was written by {what}");
        }
    }
    b.rig.answered
}

/// A full Redis takes no more, and can still end and remove what it has.
#[tokio::test]
async fn a_full_store_can_end_and_remove_barriers() {
    use crate::redis_server::ServerOptions;
    let server = RedisServer::with(ServerOptions { cluster: true, ..ServerOptions::default() });
    let mut b = busy(&server).await;
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query_async(&mut b.rig.admin).await.unwrap();
    let before = b.rig.bytes().await;
    for (script, keys, args, _) in calls(&b) {
        if ["put", "arrive", "declare", "seal", "extend"].iter().any(|name| script.ends_with(name)) {
            let refused = b.rig.run(script, &keys, &args).await.unwrap_err();
            assert!(refused.starts_with("OOM "), "{script}: {refused}");
        }
    }
    assert!(b.rig.bytes().await == before);
    assert_eq!(b.call("cancel", 2, &["x"], &[]).await.head[0], "cancelled");
    let swept = b.sweep(&["late", "done"]).await;
    assert!(swept.answers[0].starts_with("timed_out/"), "{swept:?}");
    assert_eq!(swept.answers[1], "removed");
}

/// Sixty barriers and more in one call, each with its own answers; one of them is damaged, one is not there.
#[tokio::test]
async fn arrivals_at_many_barriers_share_a_call() {
    let mut b = Barriers::empty().await;
    let names: Vec<String> = (0..64).map(|n| format!("x{n}")).collect();
    for name in &names[1..] {
        b.put(name, ["members", "2", ""], &[]).await;
    }
    b.rig.tamper("HSET", "b:x7", &["failed", "1"]).await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut args = Vec::new();
    for participant in ["a", "b"] {
        for n in 1..=64 {
            args.extend([n.to_string(), participant.to_owned(), "completed".to_owned(), String::new()]);
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let step = b.call("arrive", 2, &names, &args).await;
    assert_eq!(step.answers.len(), 128);
    for (n, answer) in step.answers.iter().enumerate() {
        let expected = match n % 64 {
            0 => "unknown_barrier",
            7 => "corrupt",
            _ if n < 64 => "arrived/open//",
            _ => "arrived/open/1/",
        };
        assert!(answer.starts_with(expected), "{n}: {answer}");
    }
    let snapshot = b.rig.snapshot().await;
    let events = &snapshot["events[0]"];
    assert_eq!(events.matches("completed\nopen\n").count(), 62);
}
