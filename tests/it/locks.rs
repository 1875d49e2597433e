//! Locks: one holder at a time, its fence larger than any before, and nothing left of those who are gone.

mod calls;
mod guard;
mod lost;
mod nodes;
mod waits;

use crate::service::{Answer, Api, Sale, new_key};
use serde_json::{Value, json};
use stockade::domain::*;
use stockade::store::{Decided, Store};
use uuid::Uuid;

/// One lock over HTTP, as a test's own.
#[derive(Clone)]
struct Held {
    api: Api,
    path: String,
}

impl Held {
    /// A name that no other test has, in no sale.
    fn free(api: &Api) -> Self {
        Self { api: api.clone(), path: format!("/v1/locks/l{}", Uuid::new_v4().simple()) }
    }

    fn of(sale: &Sale) -> Self {
        Self { api: sale.api.clone(), path: sale.at("/locks/till") }
    }

    async fn acquire(&self, key: &str, body: Value) -> Answer {
        self.api.call("POST", &self.path).key(key).json(&body).send().await
    }

    /// A new lease of a minute.
    async fn take(&self) -> Value {
        self.acquire(&new_key(), json!({"ttl_ms": 60_000})).await.expect(201, "").body
    }

    async fn renew(&self, lease: &Value, ttl_ms: u64) -> Answer {
        let body = json!({"token": lease["token"], "ttl_ms": ttl_ms});
        self.api.post(&format!("{}/renew", self.path), &body).await
    }

    async fn release(&self, lease: &Value) -> Answer {
        self.api.post(&format!("{}/release", self.path), &json!({"token": lease["token"]})).await
    }

    async fn state(&self) -> Value {
        self.api.get(&self.path).await.expect(200, "").body
    }
}

/// The same without HTTP: a name that no other test has.
fn name() -> LockName {
    format!("l{}", Uuid::new_v4().simple()).parse().unwrap()
}

const FREE: LockPlace = LockPlace::Free;

fn request(ttl_ms: u64, wait_ms: u64) -> AcquireLock {
    AcquireLock { ttl_ms, wait_ms }
}

async fn acquire(store: &Store, name: &LockName, key: &str, request: AcquireLock) -> Decided<Lock> {
    store.acquire_lock(&FREE, name, &Caller::default(), Some(&crate::shop::key(key)), request).await
}

async fn taken(store: &Store, name: &LockName, key: &str) -> Lock {
    done(acquire(store, name, key, request(60_000, 0)).await)
}

#[track_caller]
fn done<T: std::fmt::Debug>(decided: Decided<T>) -> T {
    match decided {
        Ok(Decision::Done(_, value)) => value,
        other => panic!("{other:?}"),
    }
}

async fn is_held(store: &Store, name: &LockName) -> bool {
    done(store.lock_state(&FREE, name).await).held
}
