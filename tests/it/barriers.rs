//! Barriers: complete when all have arrived, and exactly one call fires; whatever is repeated, late, lost or at once.

mod ends;
mod lists;
mod lost;
mod once;
mod seals;
mod sweeps;
mod waits;
mod wrong;

use crate::service::{Answer, Api};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use stockade::domain::Event;
use stockade::store::events::read_bucket_entries;
use stockade::store::keys::BucketKeys;
use uuid::Uuid;

/// One barrier, as a test's own.
#[derive(Clone)]
pub struct Barrier {
    pub api: Api,
    pub name: String,
}

impl Barrier {
    /// A name that no other test has; nothing is made.
    pub fn named(api: &Api) -> Self {
        Self { api: api.clone(), name: format!("b{}", Uuid::new_v4().simple()) }
    }

    pub async fn put(api: &Api, spec: Value) -> Self {
        let barrier = Self::named(api);
        barrier.api.put(&barrier.at(""), &spec).await.expect(201, "");
        barrier
    }

    /// A path below the barrier's.
    pub fn at(&self, rest: &str) -> String {
        format!("/v1/barriers/{}{rest}", self.name)
    }

    pub async fn put_again(&self, spec: Value) -> Answer {
        self.api.put(&self.at(""), &spec).await
    }

    pub async fn get(&self) -> Value {
        self.api.get(&self.at("")).await.expect(200, "").body
    }

    pub async fn read(&self, rest: &str) -> Answer {
        self.api.get(&self.at(rest)).await
    }

    pub async fn post(&self, rest: &str, body: Value) -> Answer {
        self.api.post(&self.at(rest), &body).await
    }

    pub async fn arrive(&self, participant: &str) -> Answer {
        self.post("/arrivals", json!({"participant": participant})).await
    }

    pub async fn fail(&self, participant: &str, note: &str) -> Answer {
        let body = json!({"participant": participant, "outcome": "failed", "note": note});
        self.post("/arrivals", body).await
    }

    pub async fn cancel(&self) -> Answer {
        self.api.call("DELETE", &self.at("")).send().await
    }

    /// Its events: the whole stream of its bucket is looked through.
    pub async fn events(&self, redis: &mut MultiplexedConnection) -> Vec<Event> {
        let mut found = Vec::new();
        for keys in BucketKeys::all() {
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(keys.events).arg("-").arg("+");
            let entries = read_bucket_entries(cmd.query_async(redis).await.unwrap()).unwrap();
            found.extend(entries.into_iter().flat_map(|(_, events)| events));
        }
        found.retain(|event| event.subject.as_deref() == Some(&self.name));
        found
    }
}

/// A client with connections of its own.
fn fresh(api: &Api) -> Api {
    Api::new(format!("http://{}", api.authority()))
}

/// Names `p0`, `p1`, ...
fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("p{n}")).collect()
}

/// What the parts of an answer say.
#[track_caller]
fn says(answer: &Value, expected: Value) {
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(answer[field], *value, "{field} of {answer}");
    }
}
