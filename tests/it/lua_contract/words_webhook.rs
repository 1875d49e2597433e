//! Each word of the scripts about deliveries, with all that it changes, and keys of other types in each place.

use super::calls::take;
use super::rig::{DAY, HOUR, Rig, SECOND, Step, id};
use super::words::Answered;
use stockade::store::intake::GROUP;
use stockade::store::keys::QueueKeys;

const PACKED: &str = "kind\nsource\n1\nbody";
/// What ARGV of `settle` begin with.
const KEEP: [&str; 2] = ["86400000", "2592000000"];

/// The queue of an endpoint that no other test has.
struct Queue {
    rig: Rig,
    keys: QueueKeys,
}

impl Queue {
    async fn empty() -> Self {
        let mut rig = Rig::empty().await;
        let webhook = rig.prefix.replace(['{', '}', ':'], "-");
        rig.prefix = format!("st:{{w:{webhook}}}:");
        Self { rig, keys: QueueKeys::new(&webhook) }
    }

    fn records(&self, fixed: usize, names: &[&str]) -> Vec<String> {
        let records = names.iter().map(|name| self.keys.record(id(name)));
        self.keys.fixed[..fixed].iter().cloned().chain(records).collect()
    }

    async fn call(&mut self, verb: &str, fixed: usize, names: &[&str], args: &[&str]) -> Step {
        let keys = self.records(fixed, names);
        let offset = self.rig.offset_ms.to_string();
        let args: Vec<String> =
            std::iter::once(offset).chain(args.iter().map(|arg| (*arg).to_owned())).collect();
        self.rig.step(&format!("webhook/{verb}"), &keys, &args).await
    }

    async fn enqueue(&mut self, pending_max: &str, names: &[&str]) -> Step {
        let args: Vec<&str> = [pending_max].into_iter().chain(names.iter().map(|_| PACKED)).collect();
        self.call("enqueue", 1, names, &args).await
    }

    async fn claim(&mut self, token: &str, names: &[&str]) -> Step {
        self.call("claim", 1, names, &["30000", token, "9999"]).await
    }

    /// Token, status, delay_ms, answer, error.
    async fn settle(&mut self, name: &str, one: [&str; 5]) -> Step {
        self.call("settle", 3, &[name], &[&KEEP[..], &one[..]].concat()).await
    }
}

/// Into the queue, each once.
async fn queued(queue: &mut Queue) {
    let step = queue.enqueue("2", &["a"]).await;
    step.is("queued", &["d:#a = pending/0/{n}//{n}////kind/source/1/body", "due #a = {n}"]);
    queue.rig.remember("a", &step);
    queue.rig.tamper("RPUSH", &format!("d:{}", id("list")), &["x"]).await;
    let step = queue.enqueue("2", &["list", "a", "b", "c"]).await;
    let changes = ["d:#b = pending/0/{n}//{n}////kind/source/1/body", "due #b = {n}"];
    step.are(&["corrupt", "known", "queued", "full"], &changes);
    queue.rig.remember("b", &step);
    queue.rig.tamper("DEL", &format!("d:{}", id("list")), &[]).await;
}

/// A claim ends by its token, or with its lease.
async fn claimed(queue: &mut Queue) {
    let step = queue.claim("t1", &["a", "none"]).await;
    let record = "pending/1/{a}//{a}///t1/kind/source/1/body";
    step.are(
        &[&format!("claimed/{record}"), "not_due"],
        &[&format!("d:#a = {record}"), "due #a = {n+30000}"],
    );
    queue.claim("t2", &["a"]).await.is("not_due", &[]);
    queue.call("redeliver", 3, &["a"], &["9"]).await.is("under_way", &[]);
    queue.settle("a", ["", "dead", "0", "", "why"]).await.is("under_way", &[]);
    queue.settle("a", ["t2", "delivered", "0", "200", ""]).await.is("lost", &[]);
    queue.settle("none", ["", "dead", "0", "", "why"]).await.is("lost", &[]);
    queue.rig.offset_ms = 30 * SECOND;
    queue.claim("t2", &["a"]).await.answer(&["claimed/pending/2/{a}//{a}///t2/kind/source/1/body"]);
    queue.settle("a", ["t1", "delivered", "0", "200", ""]).await.is("lost", &[]);
    let step = queue.settle("a", ["t2", "pending", "5000", "500", "why"]).await;
    step.is("settled", &["d:#a = pending/2/{a}//{a}/500/why//kind/source/1/body", "due #a = {n+5000}"]);
    // More bytes than one call reads: the first one comes whatever it is.
    queue.rig.offset_ms = 60 * SECOND;
    let step = queue.call("claim", 1, &["a", "b"], &["30000", "t3", "1"]).await;
    assert_eq!(step.answers[1], "deferred");
    assert!(step.answers[0].starts_with("claimed/"));
}

/// What has ended is kept, forgotten, or begins anew.
async fn ended(queue: &mut Queue) {
    let step = queue.settle("a", ["t3", "delivered", "0", "204", ""]).await;
    let changes =
        ["d:#a = delivered/3/{a}/{n}/{a}/204///kind/source/1/body", "done #a = {n+86400000}", "due #a gone"];
    step.is("settled", &changes);
    queue.settle("a", ["t3", "delivered", "0", "204", ""]).await.is("lost", &[]);
    queue.claim("t4", &["a"]).await.is("not_due", &[]);
    let step = queue.settle("b", ["", "dead", "0", "", "why"]).await;
    let changes =
        ["d:#b = dead/0/{b}/{n}/{b}//why//kind/source/1/body", "dead #b = {n+2592000000}", "due #b gone"];
    step.is("settled", &changes);
    queue.enqueue("9", &["a", "b"]).await.are(&["known", "known"], &[]);
    let state = queue.call("due", 3, &[], &["9", "1"]).await;
    state.shows(&["{n}", "", "0", "1", "1", "", "", ""], 0);
    queue.call("forget", 3, &["a", "b", "none"], &["1"]).await.are(&["kept", "kept", "kept"], &[]);
    // One dead letter too many, and one that was delivered long ago.
    queue.enqueue("9", &["c"]).await;
    queue.settle("c", ["", "dead", "0", "", "why"]).await;
    let state = queue.call("due", 3, &[], &["9", "1"]).await;
    state.shows(&["{n}", "", "0", "1", "2", "", "", "#b"], 0);
    let step = queue.call("forget", 3, &["b", "c"], &["1"]).await;
    step.are(&["overflown", "kept"], &["d:#b gone", "dead #b gone"]);
    queue.rig.offset_ms += DAY + HOUR;
    let state = queue.call("due", 3, &[], &["9", "1"]).await;
    state.shows(&["{n}", "", "0", "1", "1", "", "#a", ""], 0);
    queue.call("forget", 3, &["a"], &["1"]).await.is("forgotten", &["d:#a gone", "done #a gone"]);

    let step = queue.call("redeliver", 3, &["a", "c"], &["9"]).await;
    assert_eq!(step.answers, ["unknown_delivery", "requeued"]);
    step.has("due #c = {n}");
    step.has("dead #c gone");
    assert!(queue.rig.snapshot().await[&format!("d:#{}", "c")].starts_with("pending\n0\n"));
    queue.settle("c", ["", "dead", "0", "", "why"]).await.answer(&["settled"]);
    queue.enqueue("9", &["d"]).await;
    queue.call("redeliver", 3, &["c"], &["1"]).await.is("full", &[]);
    // One that waits begins anew at once, though the queue is full.
    queue.call("redeliver", 3, &["d"], &["1"]).await.answer(&["requeued"]);
}

/// What a record must be; and what a deleted endpoint leaves.
async fn damaged(queue: &mut Queue) {
    for (name, text) in [("d", "pending\nx"), ("e", "lost\n0\n1\n\n1\n\n\n\nk\ns\n1\nb")] {
        queue.enqueue("9", &[name]).await;
        queue.rig.tamper("SET", &format!("d:{}", id(name)), &[text]).await;
        queue.settle(name, ["", "dead", "0", "", "why"]).await.is("lost", &[]);
        queue.call("redeliver", 3, &[name], &["9"]).await.is("unknown_delivery", &[]);
        let gone = [format!("d:#{name} gone"), format!("due #{name} gone")];
        queue.claim("t", &[name]).await.is("orphaned", &gone.each_ref().map(String::as_str));
    }
    queue.enqueue("9", &["f"]).await;
    let step = queue.call("forget", 3, &["c", "f"], &[""]).await;
    step.are(&["forgotten", "forgotten"], &["d:#c gone", "d:#f gone", "dead #c gone", "due #f gone"]);
    assert!(queue.rig.snapshot().await.is_empty());
}

pub async fn deliveries() -> Answered {
    let mut queue = Queue::empty().await;
    queued(&mut queue).await;
    claimed(&mut queue).await;
    ended(&mut queue).await;
    damaged(&mut queue).await;
    queue.rig.answered
}

/// Each fixed key in turn is of another type: nothing is written.
pub async fn wrong_types() -> Answered {
    let mut queue = Queue::empty().await;
    let settle = [&KEEP[..], &["", "dead", "0", "", "why"]].concat();
    let calls: [(&str, usize, &[&str]); 6] = [
        ("enqueue", 1, &["9", PACKED]),
        ("due", 3, &["9", "9"]),
        ("claim", 1, &["30000", "t", "9999"]),
        ("settle", 3, &settle),
        ("redeliver", 3, &["9"]),
        ("forget", 3, &["9"]),
    ];
    for (verb, fixed, args) in calls {
        for name in &["due", "done", "dead"][..fixed] {
            for key in ["due", "done", "dead", &format!("d:{}", id("a"))] {
                queue.rig.tamper("DEL", key, &[]).await;
            }
            if verb != "enqueue" {
                queue.enqueue("9", &["a"]).await;
            }
            queue.rig.tamper("DEL", name, &[]).await;
            queue.rig.tamper("RPUSH", name, &["x"]).await;
            let before = queue.rig.bytes().await;
            let keys = queue.records(fixed, if verb == "due" { &[] } else { &["a"] });
            let args: Vec<String> = ["0"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
            let answer = queue.rig.run(&format!("webhook/{verb}"), &keys, &args).await;
            assert!(answer.clone().is_err_and(|error| error.starts_with("CORRUPT ")), "{verb}: {answer:?}");
            assert!(queue.rig.bytes().await == before, "{verb} wrote something");
        }
    }
    queue.rig.answered
}

/// A consumer with entries stays, however long it is idle.
pub async fn dismiss() -> Answered {
    let mut rig = Rig::with(&[("one", "10", "")]).await;
    rig.reserve(&[take("a", "one", 1)]).await;
    let events = vec![rig.keys.events().to_owned()];
    let args = [GROUP.to_owned(), "0".to_owned()];
    rig.step("webhook/dismiss", &events, &args).await.is("no_group", &[]);
    let mut setup = redis::pipe();
    setup.cmd("XGROUP").arg("CREATE").arg(&events).arg(GROUP).arg("0").ignore();
    setup.cmd("XGROUP").arg("CREATECONSUMER").arg(&events).arg(GROUP).arg("two").ignore();
    let cmd = setup.cmd("XREADGROUP").arg("GROUP").arg(GROUP).arg("one").arg("COUNT").arg(9);
    cmd.arg("STREAMS").arg(&events).arg(">").ignore();
    let () = setup.query_async(&mut rig.admin).await.unwrap();
    let long = [GROUP.to_owned(), "3600000".to_owned()];
    rig.step("webhook/dismiss", &events, &long).await.is_word("dismissed", "0");
    rig.step("webhook/dismiss", &events, &args).await.is_word("dismissed", "1");
    rig.step("webhook/dismiss", &events, &args).await.is_word("dismissed", "0");
    let mut pending = redis::cmd("XPENDING");
    pending.arg(&events).arg(GROUP).arg("-").arg("+").arg(9).arg("one");
    let left: Vec<redis::Value> = pending.query_async(&mut rig.admin).await.unwrap();
    assert_eq!(left.len(), 2);
    rig.tamper("DEL", "events", &[]).await;
    rig.tamper("RPUSH", "events", &["x"]).await;
    assert!(rig.run("webhook/dismiss", &events, &args).await.unwrap_err().starts_with("CORRUPT "));
    rig.answered
}

/// A registration changes only as it was read.
pub async fn register() -> Answered {
    let mut rig = Rig::empty().await;
    let keys = vec![format!("{}webhooks", rig.prefix)];
    let args = |args: [&str; 4]| args.map(str::to_owned);
    let mut call = async |one: [&str; 4]| rig.step("webhook/register", &keys, &args(one)).await;
    call(["a", "", "first", "1"]).await.is("kept", &["webhooks a = first"]);
    call(["a", "", "other", "1"]).await.is("lost", &[]);
    call(["a", "other", "", "1"]).await.is("lost", &[]);
    call(["b", "", "first", "1"]).await.is("too_many_webhooks", &[]);
    call(["b", "first", "second", "1"]).await.is("lost", &[]);
    call(["a", "first", "second", "1"]).await.is("kept", &["webhooks a = second"]);
    call(["b", "", "", "1"]).await.is("kept", &[]);
    call(["a", "second", "", "1"]).await.is("kept", &["webhooks a gone"]);
    rig.tamper("RPUSH", "webhooks", &["x"]).await;
    let answer = rig.run("webhook/register", &keys, &args(["a", "", "first", "1"])).await;
    assert_eq!(answer.unwrap_err().split(" script:").next(), Some("CORRUPT webhooks"));
    rig.answered
}
