//! A sale whose scripts are called one by one, each as a user who may touch the keys of that very call and no others.

use super::audit::audit;
use super::snapshot::{Bytes, Snapshot, bytes, changes, restore, snapshot};
use crate::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stockade::store::keys::SaleKeys;
use stockade::store::scripts::{Script, Scripts};

/// Units of time, in milliseconds.
pub const SECOND: i64 = 1_000;
pub const HOUR: i64 = 3_600 * SECOND;
pub const DAY: i64 = 24 * HOUR;

pub struct Rig {
    pub keys: SaleKeys,
    pub prefix: String,
    /// Of the sale, as the caller knows it.
    pub generation: String,
    /// Added to the server's time by each script.
    pub offset_ms: i64,
    /// Script and first word of every answer so far, and the answers themselves.
    pub answered: BTreeSet<(String, String, String)>,
    pub admin: MultiplexedConnection,
    limited: MultiplexedConnection,
    user: String,
    scripts: Scripts,
    times: BTreeMap<String, i64>,
}

/// What one call did.
#[derive(Debug)]
pub struct Step {
    pub now: i64,
    /// `now`, the earliest deadline, overdue ids; or a whole answer that is not a list of answers.
    pub head: Vec<String>,
    pub answers: Vec<String>,
    pub changes: Vec<String>,
    times: BTreeMap<String, i64>,
}

/// The 22-character id that stands as `#name` in what a test compares.
pub fn id(name: &str) -> String {
    format!("{name:_<21}A")
}

impl Rig {
    /// No sale yet.
    pub async fn empty() -> Self {
        Self::on(RedisServer::shared()).await
    }

    /// On a server of one's own.
    pub async fn on(server: &RedisServer) -> Self {
        static SALES: AtomicUsize = AtomicUsize::new(0);
        let sale = format!("contract-{}", SALES.fetch_add(1, Ordering::Relaxed));
        let (mut admin, mut limited) = (connect(server).await, connect(server).await);
        let rights = ["on", ">secret", "resetkeys", "+@all", "-@dangerous"];
        let () =
            redis::cmd("ACL").arg("SETUSER").arg(&sale).arg(&rights).query_async(&mut admin).await.unwrap();
        let () = redis::cmd("AUTH").arg(&sale).arg("secret").query_async(&mut limited).await.unwrap();
        Self {
            keys: SaleKeys::new(&sale),
            prefix: format!("st:{{{sale}}}:"),
            generation: "g1".into(),
            offset_ms: 0,
            answered: BTreeSet::new(),
            admin,
            limited,
            user: sale,
            scripts: Scripts::new(),
            times: BTreeMap::new(),
        }
    }

    pub fn script(&self, name: &str) -> &Script {
        self.scripts
            .all()
            .into_iter()
            .find(|script| script.name == name)
            .unwrap_or_else(|| panic!("no script {name}"))
    }

    /// Remembers the time of a step: `{name+5000}` in what a test compares is five seconds later.
    pub fn remember(&mut self, name: &str, step: &Step) {
        self.times.insert(name.to_owned(), step.now);
    }

    /// The scripts' time.
    pub async fn time(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut self.admin).await.unwrap();
        seconds * 1_000 + micros / 1_000 + self.offset_ms
    }

    pub async fn snapshot(&mut self) -> Snapshot {
        snapshot(&mut self.admin, &self.prefix).await
    }

    pub async fn bytes(&mut self) -> Bytes {
        bytes(&mut self.admin, &self.prefix).await
    }

    /// All keys of the sale as they were.
    pub async fn restore(&mut self, bytes: &Bytes) {
        restore(&mut self.admin, &self.prefix, bytes).await;
    }

    /// Calls a script with rights to `keys` only. An error is the text of the error reply.
    pub async fn run(&mut self, name: &str, keys: &[String], args: &[String]) -> Result<Vec<String>, String> {
        let mut rights = redis::cmd("ACL");
        rights.arg("SETUSER").arg(&self.user).arg("resetkeys");
        for key in keys {
            rights.arg(format!("~{key}"));
        }
        let () = rights.query_async(&mut self.admin).await.unwrap();
        let script = self.script(name);
        let mut call = script.call(keys.len());
        call.arg(keys).arg(args);
        let mut answer = call.query_async::<Vec<String>>(&mut self.limited).await;
        if answer.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT")) {
            let call = self.script(name).with_source(&call);
            answer = call.query_async(&mut self.limited).await;
        }
        let answer = answer
            .map_err(|error| format!("{} {}", error.code().unwrap_or(""), error.detail().unwrap_or("")));
        self.note(name, &answer);
        answer
    }

    fn note(&mut self, name: &str, answer: &Result<Vec<String>, String>) {
        let mut note = |text: &str| {
            let word = text.split(['\n', ' ']).next().unwrap_or_default();
            self.answered.insert((name.to_owned(), word.to_owned(), text.to_owned()));
        };
        match answer {
            Err(error) => note(error),
            Ok(texts) => {
                texts.first().into_iter().for_each(|word| note(word));
                let answers = if texts.first().is_some_and(|word| word == "ok") { &texts[4..] } else { &[] };
                answers.iter().for_each(|answer| note(answer));
                texts.iter().filter(|text| *text == "wrong_type").for_each(|text| note(text));
            }
        }
    }

    /// Calls a script and compares all keys of the sale before and after.
    pub async fn step(&mut self, name: &str, keys: &[String], args: &[String]) -> Step {
        self.step_of(name, keys, args, |_, text| text).await
    }

    /// The same; `complete` makes of each answer, by its place, what its caller makes of it.
    pub async fn step_of(
        &mut self,
        name: &str,
        keys: &[String],
        args: &[String],
        complete: impl Fn(usize, String) -> String,
    ) -> Step {
        let before = self.snapshot().await;
        let mut texts = self.run(name, keys, args).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        for (place, text) in texts.iter_mut().skip(4).enumerate() {
            *text = complete(place, std::mem::take(text));
        }
        let after = self.snapshot().await;
        audit(&after);
        // The next step is later by a millisecond at least: the time that it writes is always a change.
        let done = self.time().await;
        while self.time().await == done {}
        let entries =
            |snapshot: &Snapshot| snapshot.keys().filter(|leaf| leaf.starts_with("events[")).count();
        assert!(entries(&after) <= entries(&before) + 1, "{name} wrote more than one entry of events");
        let is_batch = texts.first().is_some_and(|word| word == "ok");
        let now = texts.iter().take(2).find_map(|text| text.parse().ok()).unwrap_or(0);
        let (head, answers) = if is_batch { texts.split_at(4) } else { (&texts[..], &[][..]) };
        let mut times = self.times.clone();
        times.insert("n".into(), now);
        Step {
            now,
            head: head.iter().map(|text| after.shorten(text)).collect(),
            answers: answers.iter().map(|answer| after.shorten(answer)).collect(),
            changes: changes(&before, &after),
            times,
        }
    }

    /// The fixed keys of a reservation script, then `more`.
    pub fn with_fixed(&self, more: impl IntoIterator<Item = String>) -> Vec<String> {
        self.keys.fixed.iter().cloned().chain(more).collect()
    }

    /// The clock offset and the generation, then `more`.
    pub fn with_head(&self, more: impl IntoIterator<Item = String>) -> Vec<String> {
        [self.offset_ms.to_string(), self.generation.clone()].into_iter().chain(more).collect()
    }

    /// Ids of the entries of events.
    pub async fn entry_ids(&mut self) -> Vec<String> {
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(self.keys.events()).arg("-").arg("+");
        let entries: Vec<(String, Vec<String>)> = cmd.query_async(&mut self.admin).await.unwrap();
        entries.into_iter().map(|(id, _)| id).collect()
    }

    /// One command on the keys of the sale, past all scripts.
    pub async fn tamper(&mut self, command: &str, key: &str, args: &[&str]) {
        let key = format!("{}{key}", self.prefix);
        let _: redis::Value =
            redis::cmd(command).arg(key).arg(args).query_async(&mut self.admin).await.unwrap();
    }
}

impl Step {
    /// Compares the only answer, and everything that changed.
    #[track_caller]
    pub fn is(&self, answer: &str, changes: &[&str]) {
        self.are(&[answer], changes);
    }

    /// Compares all answers, and everything that changed. LF is written as `/`, RS as ` & `, an id as `#name`, a
    /// record that stands in its own key as `*`, and the time of a step as `{n}`, `{n+5000}`.
    #[track_caller]
    pub fn are(&self, answers: &[&str], changes: &[&str]) {
        let expand = |texts: &[&str]| texts.iter().map(|text| self.expand(text)).collect::<Vec<_>>();
        let shown = if self.answers.is_empty() { &self.head } else { &self.answers };
        similar(shown, &expand(answers), "answers");
        let mut expected = expand(changes);
        expected.sort();
        similar(&self.changes, &expected, "changes");
    }

    /// Whether this is among what changed.
    #[track_caller]
    pub fn has(&self, change: &str) {
        let change = self.expand(change);
        assert!(self.changes.contains(&change), "{change}\nis not in {:#?}", self.changes);
    }

    /// Compares a part of a whole answer.
    #[track_caller]
    pub fn shows(&self, texts: &[&str], at: usize) {
        let expected: Vec<String> = texts.iter().map(|text| self.expand(text)).collect();
        similar(&self.head[at..at + texts.len()], &expected, "answer");
    }

    /// Whether nothing changed.
    #[track_caller]
    pub fn is_unchanged(&self) {
        similar(&self.changes, &[], "changes");
    }

    /// Compares a whole answer of two words.
    #[track_caller]
    pub fn is_word(&self, word: &str, value: &str) {
        similar(&self.head, &[word.to_owned(), value.to_owned()], "answer");
    }

    /// Compares answers alone.
    #[track_caller]
    pub fn answer(&self, answers: &[&str]) {
        let expected: Vec<String> = answers.iter().map(|text| self.expand(text)).collect();
        let shown = if self.answers.is_empty() { &self.head } else { &self.answers };
        similar(shown, &expected, "answers");
    }

    fn expand(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((plain, tail)) = rest.split_once('{') {
            let (name, after) = tail.split_once('}').unwrap_or_else(|| panic!("a brace is open in {text}"));
            let at = name.find(['+', '-']).unwrap_or(name.len());
            let shift: i64 = if at == name.len() { 0 } else { name[at..].parse().unwrap() };
            let time = self.times.get(&name[..at]).unwrap_or_else(|| panic!("no time {name}"));
            out.push_str(plain);
            out.push_str(&(time + shift).to_string());
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// Patient: some of these tests keep a loaded machine busy.
async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(30)))
        .set_response_timeout(Some(Duration::from_secs(30)));
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server answers")
}

#[track_caller]
fn similar(found: &[String], expected: &[String], what: &str) {
    let lines = |texts: &[String]| texts.iter().map(|text| format!("  {text}\n")).collect::<String>();
    assert!(found == expected, "{what} found:\n{}expected:\n{}", lines(found), lines(expected));
}
