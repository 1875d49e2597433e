//! Locks: acquire, renew, release, read; who waits for one (`wait`, `queue`); the guard that holds one while work is done
//! (`docs/adr/0021-locks.md`); and locks on several servers (`redlock`, `majority`).

mod calls;
mod check;
mod guard;
mod majority;
mod queue;
mod redlock;
mod wait;

pub use guard::{LeaseLost, LockGuard};
pub use queue::LockQueues;
pub use redlock::{Granted, NoMajority, Redlock};

use super::ids::{self, IdMaker};
use super::keys;
use super::scripts::{Script, Scripts};
use super::{Decided, Store, StoreError, reply};
use crate::domain::*;
use calls::{Home, Source};
use std::time::{Duration, Instant};

/// A lease that somebody got, and when the try was sent that got it.
#[derive(Debug)]
struct Got {
    lock: Lock,
    /// As it was written.
    deadline: Timestamp,
    sent: Instant,
}

impl Store {
    /// Takes a lock, or waits for it. The same key has one lease, however often it is tried. What a caller gets who has
    /// gone by then is given back.
    pub async fn acquire_lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: AcquireLock,
    ) -> Decided<Lock> {
        let source = match key {
            Some(key) => Source::Key(caller.clone(), key.clone()),
            None => Source::random()?,
        };
        let decided = self.wait_for_lock(place, name, source, request).await;
        let decided = decided.map(|decision| match decision {
            Decision::Done(outcome, got) => Decision::Done(outcome, got.lock),
            Decision::Refused(refusal) => Decision::Refused(refusal),
        });
        self.count_lock("acquire", decided)
    }

    /// The servers that decide about a lock, if it is not the store alone.
    fn nodes_of(&self, place: &LockPlace) -> Option<&Redlock> {
        self.redlock.as_deref().filter(|_| *place == LockPlace::Free)
    }

    async fn try_lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        source: &Source,
        ttl_ms: u64,
    ) -> Decided<Got> {
        match self.nodes_of(place) {
            Some(redlock) => self.try_majority(redlock, name, source, ttl_ms).await,
            None => self.try_here(place, name, source, ttl_ms).await,
        }
    }

    async fn try_here(
        &self,
        place: &LockPlace,
        name: &LockName,
        source: &Source,
        ttl_ms: u64,
    ) -> Decided<Got> {
        let sent = Instant::now();
        let args = |ids: &IdMaker| Ok(vec![source.token(ids, name)?.to_string(), ttl_ms.to_string()]);
        let called = self.lock_call(place, name, |scripts| &scripts.acquire_lock, true, args).await?;
        let Some((args, answer)) = called else { return Ok(Decision::Refused(Refusal::UnknownSale)) };
        let outcome = match answer.word.as_str() {
            "acquired" => Outcome::Acquired,
            "replayed" => Outcome::Replayed,
            _ => return Ok(Decision::Refused(answer.refusal()?)),
        };
        let token = args[0].parse().map_err(|_| StoreError::Reply("not a token".into()))?;
        let lock = answer.lock(place, name, token)?;
        Ok(Decision::Done(outcome, Got { deadline: lock.expires_at, lock, sent }))
    }

    /// Makes a lease last longer.
    pub async fn renew_lock(&self, place: &LockPlace, name: &LockName, request: RenewLock) -> Decided<Lock> {
        let (store, place, name) = (self.clone(), place.clone(), name.clone());
        let renew = async move {
            match store.nodes_of(&place) {
                Some(redlock) => store.renew_majority(redlock, &name, request).await,
                None => store.renew_here(&place, &name, request).await,
            }
        };
        self.count_lock("renew", self.to_the_end(renew).await)
    }

    async fn renew_here(&self, place: &LockPlace, name: &LockName, request: RenewLock) -> Decided<Lock> {
        let args = |_: &IdMaker| Ok(vec![request.token.to_string(), request.ttl_ms.to_string()]);
        let called = self.lock_call(place, name, |scripts| &scripts.renew_lock, false, args).await?;
        Ok(match called {
            Some((_, answer)) if answer.word == "renewed" => {
                Decision::Done(Outcome::Renewed, answer.lock(place, name, request.token)?)
            }
            Some((_, answer)) => Decision::Refused(answer.refusal()?),
            None => Decision::Refused(Refusal::UnknownSale),
        })
    }

    /// Ends a lease; a repeat is the same.
    pub async fn release_lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        token: &LockToken,
    ) -> Decided<LockState> {
        let (store, place, name, token) = (self.clone(), place.clone(), name.clone(), token.clone());
        let release = async move {
            let args = |_: &IdMaker| Ok(vec![token.to_string()]);
            let called = store.lock_call(&place, &name, |scripts| &scripts.release_lock, false, args).await?;
            let Some((_, answer)) = called else { return Ok(Decision::Refused(Refusal::UnknownSale)) };
            if let Some(redlock) = store.nodes_of(&place) {
                redlock.release(&name, &token).await;
            }
            let outcome = match answer.word.as_str() {
                "released" => Outcome::Released,
                "replayed" => Outcome::Replayed,
                _ => return Ok(Decision::Refused(answer.refusal()?)),
            };
            store.locks.freed(&place, &name);
            if let Some(held) = store.locks.released(&token) {
                store.committer.metrics.lock_held(held);
            }
            Ok(Decision::Done(outcome, answer.state(&place, &name)))
        };
        self.count_lock("release", self.to_the_end(release).await)
    }

    /// Gives back what a caller got who has gone.
    async fn abandon_lock(&self, place: &LockPlace, got: &Got) {
        let lock = &got.lock;
        let abandon = async {
            let Some(home) = self.home(place, &lock.name).await? else { return Ok(()) };
            let script = &self.scripts().abandon_lock;
            let mut cmd = script.call(1);
            cmd.arg(home.lock).arg(format!("{}:{}:{}", lock.token, lock.fence, got.deadline.as_ms()));
            match self.call(script, &cmd).await?.first().map(String::as_str) {
                Some("abandoned") => {
                    if let Some(redlock) = self.nodes_of(place) {
                        redlock.release(&lock.name, &lock.token).await;
                    }
                    Ok(())
                }
                Some("kept") => Ok(()),
                _ => Err(StoreError::Reply("unknown word".into())),
            }
        };
        match abandon.await {
            Ok(()) => self.locks.freed(place, &lock.name),
            Err(error) => tracing::warn!(name = %lock.name, %error, "A lock was left to its end: {error}"),
        }
    }

    /// Shows a lock.
    pub async fn lock_state(&self, place: &LockPlace, name: &LockName) -> Decided<LockState> {
        let called =
            self.lock_call(place, name, |scripts| &scripts.read_lock, false, |_| Ok(Vec::new())).await?;
        let Some((_, answer)) = called else { return Ok(Decision::Refused(Refusal::UnknownSale)) };
        match answer.word.as_str() {
            "lock_held" | "free" => Ok(Decision::Done(Outcome::Unchanged, answer.state(place, name))),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// Takes a lock, and renews it until the guard is released or dropped.
    pub async fn lock_guard(
        &self,
        place: &LockPlace,
        name: &LockName,
        request: AcquireLock,
    ) -> Result<Decision<LockGuard>, StoreError> {
        let source = Source::random()?;
        let decided = match self.wait_for_lock(place, name, source.clone(), request).await {
            Ok(Decision::Done(outcome, got)) => {
                Ok(Decision::Done(outcome, LockGuard::new(self, place, got, request.ttl_ms)))
            }
            Ok(Decision::Refused(refusal)) => Ok(Decision::Refused(refusal)),
            // It may have been taken; nobody else knows the token.
            Err(error @ StoreError::Unknown(_)) => {
                if let Source::Token(token) = &source {
                    let _ = self.release_lock(place, name, token).await;
                }
                Err(error)
            }
            Err(error) => Err(error),
        };
        self.count_lock("acquire", decided)
    }

    fn count_lock<T>(&self, operation: &'static str, decided: Decided<T>) -> Decided<T> {
        let outcome = match &decided {
            Ok(Decision::Done(outcome, _)) => outcome.as_str(),
            Ok(Decision::Refused(refusal)) => refusal.code(),
            Err(error) => error.code(),
        };
        self.committer.metrics.lock(operation, outcome);
        decided
    }
}
