//! Each word of the scripts about locks, with all that it changes: of a lock in a sale, of a free-standing one, and of one
//! on a server of Redlock. Free-standing ones have tags of their own: a script takes any.

use super::rig::{Rig, Step, id};
use super::words::Answered;
use crate::redis_server::RedisServer;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Far behind the buckets that there are.
static BUCKETS: AtomicUsize = AtomicUsize::new(0x1000);
/// A minute, as the key's own end is shown in minutes: that is a minute later.
const TTL: &str = "60000";

struct Locks {
    rig: Rig,
    /// Of the sale, where there is one.
    rules: Option<String>,
}

impl Locks {
    async fn in_a_sale() -> Self {
        let rig = Rig::with(&[("one", "10", "")]).await;
        Self { rules: Some(rig.keys.rules().to_owned()), rig }
    }

    async fn free() -> Self {
        let mut rig = Rig::on(RedisServer::shared()).await;
        rig.prefix = format!("st:{{l:{:x}}}:", BUCKETS.fetch_add(1, Ordering::Relaxed));
        rig.generation.clear();
        Self { rig, rules: None }
    }

    /// Of the script: its keys, and its arguments with those of a caller.
    fn call(&self, script: &str, more: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut keys = vec![format!("{}lock:till", self.rig.prefix)];
        let is_plain = script == "abandon" || script.starts_with("node_");
        if script == "acquire" {
            keys.push(format!("{}fence", self.rig.prefix));
        }
        keys.extend(self.rules.clone().filter(|_| !is_plain));
        let more = more.iter().map(|text| (*text).to_owned());
        (keys, if is_plain { more.collect() } else { self.rig.with_head(more) })
    }

    async fn step(&mut self, script: &str, more: &[&str]) -> Step {
        let (keys, args) = self.call(script, more);
        self.rig.step(&format!("lock/{script}"), &keys, &args).await
    }

    async fn acquire(&mut self, who: &str) -> Step {
        self.step("acquire", &[&id(who), TTL]).await
    }

    async fn renew(&mut self, who: &str, ttl_ms: &str) -> Step {
        self.step("renew", &[&id(who), ttl_ms]).await
    }

    async fn release(&mut self, who: &str) -> Step {
        self.step("release", &[&id(who)]).await
    }

    async fn read(&mut self) -> Step {
        self.step("read", &[]).await
    }

    /// A whole life, and the next two.
    async fn live(&mut self) {
        self.read().await.are(&["free", "{n}"], &[]);
        let acquired = self.acquire("one").await;
        self.rig.remember("a", &acquired);
        acquired.are(
            &["acquired", "{n}", "{n}", "{n+60000}"],
            &["fence = {n}", "lock:till = #one:{n}:{n+60000}", "lock:till ttl = 2 min"],
        );
        self.acquire("two").await.are(&["lock_held", "{n}", "{a}", "{a+60000}"], &[]);
        let again = self.acquire("one").await;
        again.are(&["replayed", "{n}", "{a}", "{a+60000}"], &["lock:till = #one:{a}:{a+60000}:met"]);
        self.acquire("one").await.are(&["replayed", "{n}", "{a}", "{a+60000}"], &[]);
        self.read().await.are(&["lock_held", "{n}", "{a}", "{a+60000}"], &[]);
        // Whoever has met it keeps it, even if whoever took it is gone.
        let written = format!("{}:{}:{}", id("one"), acquired.now, acquired.now + 60_000);
        self.step("abandon", &[&written]).await.are(&["kept"], &[]);

        self.renew("two", TTL).await.are(&["not_owner", "{n}"], &[]);
        self.renew("one", "1").await.are(&["renewed", "{n}", "{a}", "{a+60000}"], &[]);
        self.renew("one", "300000").await.are(
            &["renewed", "{n}", "{a}", "{n+300000}"],
            &["lock:till = #one:{a}:{n+300000}:met", "lock:till ttl = 6 min"],
        );
        self.release("two").await.are(&["not_owner", "{n}"], &[]);
        self.release("one").await.are(&["released", "{n}"], &["lock:till = released:#one"]);
        self.release("one").await.are(&["replayed", "{n}"], &[]);
        self.read().await.are(&["free", "{n}"], &[]);
        self.acquire("one").await.are(&["lock_expired", "{n}"], &[]);
        self.renew("one", TTL).await.are(&["lock_expired", "{n}"], &[]);

        self.acquire("two").await.are(
            &["acquired", "{n}", "{a+1}", "{n+60000}"],
            &["fence = {a+1}", "lock:till = #two:{a+1}:{n+60000}", "lock:till ttl = 2 min"],
        );
        self.release("one").await.are(&["not_owner", "{n}"], &[]);
        // Its end by the clock; the key stays a while to say so.
        self.rig.offset_ms += 60_001;
        self.read().await.are(&["free", "{n}"], &[]);
        self.acquire("two").await.are(&["lock_expired", "{n}"], &[]);
        self.renew("two", TTL).await.are(&["lock_expired", "{n}"], &[]);
        self.release("two").await.are(&["lock_expired", "{n}"], &[]);
        let last = self.acquire("three").await;
        last.are(
            &["acquired", "{n}", "{a+2}", "{n+60000}"],
            &["fence = {a+2}", "lock:till = #three:{a+2}:{n+60000}"],
        );
        let written = format!("{}:{}:{}", id("three"), acquired.now + 2, last.now + 60_000);
        self.step("abandon", &["another"]).await.are(&["kept"], &[]);
        let gone = ["lock:till gone", "lock:till ttl gone"];
        self.step("abandon", &[&written]).await.are(&["abandoned"], &gone);
        self.step("abandon", &[&written]).await.are(&["kept"], &[]);
    }

    /// Each key of each script in turn is of another type, or of another form.
    async fn damage(&mut self) {
        self.acquire("one").await;
        let healthy = self.rig.bytes().await;
        let calls: [(&str, &[&str]); 8] = [
            ("acquire", &[&id("one"), TTL]),
            ("renew", &[&id("one"), TTL]),
            ("release", &[&id("one")]),
            ("read", &[]),
            ("abandon", &["another"]),
            ("node_take", &[&id("one"), TTL]),
            ("node_extend", &[&id("one"), TTL]),
            ("node_drop", &[&id("one")]),
        ];
        for (script, more) in calls {
            let (keys, args) = self.call(script, more);
            for key in &keys {
                let name = key.strip_prefix(&self.rig.prefix).unwrap().to_owned();
                for is_text in [false, true] {
                    // These compare texts, and that is one.
                    if is_text && (name == "rules" || script == "abandon" || script.starts_with("node_")) {
                        continue;
                    }
                    self.rig.restore(&healthy).await;
                    self.rig.tamper("DEL", &name, &[]).await;
                    self.rig.tamper(if is_text { "APPEND" } else { "RPUSH" }, &name, &["x"]).await;
                    let before = self.rig.bytes().await;
                    let answer = self.rig.run(&format!("lock/{script}"), &keys, &args).await;
                    let what = format!("{script} with {name} damaged: {answer:?}");
                    assert!(answer.is_err_and(|error| error.starts_with("CORRUPT ")), "{what}");
                    assert!(self.rig.bytes().await == before, "something was written by {what}");
                }
            }
        }
    }
}

pub async fn in_a_sale() -> Answered {
    let mut locks = Locks::in_a_sale().await;
    locks.live().await;
    locks.acquire("one").await;
    for (generation, word) in [("other", "stale_generation"), ("g1", "unknown_sale")] {
        locks.rig.generation = generation.to_owned();
        if generation == "g1" {
            locks.rig.tamper("HSET", "rules", &["status", "deleted"]).await;
        }
        locks.acquire("one").await.are(&[word], &[]);
        locks.renew("one", TTL).await.are(&[word], &[]);
        locks.release("one").await.are(&[word], &[]);
        locks.read().await.are(&[word], &[]);
    }
    locks.rig.tamper("DEL", "rules", &[]).await;
    locks.read().await.are(&["unknown_sale"], &[]);
    locks.rig.answered
}

pub async fn free() -> Answered {
    let mut locks = Locks::free().await;
    locks.live().await;
    locks.rig.answered
}

/// On one of several servers, where the lock is the token alone, and ends by the server's own clock.
pub async fn on_a_node() -> Answered {
    let mut locks = Locks::free().await;
    let (one, two) = (&id("one"), &id("two"));
    let new = ["lock:till = #one", "lock:till ttl = 1 min"];
    locks.step("node_take", &[one, TTL]).await.are(&["taken"], &new);
    locks.step("node_take", &[one, "1"]).await.are(&["own"], &[]);
    locks.step("node_take", &[two, TTL]).await.are(&["held"], &[]);
    locks.step("node_extend", &[two, TTL]).await.are(&["gone"], &[]);
    locks.step("node_extend", &[one, "1"]).await.are(&["extended"], &[]);
    locks.step("node_extend", &[one, "300000"]).await.are(&["extended"], &["lock:till ttl = 5 min"]);
    locks.step("node_take", &[one, "600000"]).await.are(&["own"], &["lock:till ttl = 10 min"]);
    locks.step("node_drop", &[two]).await.are(&["gone"], &[]);
    let gone = ["lock:till gone", "lock:till ttl gone"];
    locks.step("node_drop", &[one]).await.are(&["dropped"], &gone);
    locks.step("node_drop", &[one]).await.are(&["gone"], &[]);
    locks.step("node_extend", &[one, TTL]).await.are(&["gone"], &[]);
    locks.rig.answered
}

pub async fn wrong_types() -> Answered {
    let mut answered = Answered::new();
    for mut locks in [Locks::in_a_sale().await, Locks::free().await] {
        locks.damage().await;
        answered.extend(locks.rig.answered);
    }
    answered
}
