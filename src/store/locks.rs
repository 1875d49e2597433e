//! Locks: acquire, renew, release, read; who waits for one (`queue`); and the guard that holds one while work is done
//! (`docs/adr/0021-locks.md`).

mod guard;
mod queue;

pub use guard::{LeaseLost, LockGuard};
pub use queue::LockQueues;

use super::ids::{self, IdMaker};
use super::keys;
use super::scripts::{Script, Scripts};
use super::{Decided, Store, StoreError, reply};
use crate::domain::*;
use queue::Turn;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Between two tries of the first who waits, unless somebody in this process gives the lock back: at first, at most.
const TRY_EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// What a caller's token follows from.
#[derive(Debug, Clone)]
enum Source {
    /// The same key has the same token: a repeat meets its own lease.
    Key(Caller, IdempotencyKey),
    /// Random.
    Token(LockToken),
}

impl Source {
    fn random() -> Result<Self, StoreError> {
        token(uuid::Uuid::new_v4()).map(Self::Token)
    }

    fn token(&self, ids: &IdMaker, name: &LockName) -> Result<LockToken, StoreError> {
        match self {
            Self::Key(caller, key) => token(ids.operation(&format!("lock {name}"), caller, Some(key)).0),
            Self::Token(token) => Ok(token.clone()),
        }
    }
}

fn token(id: uuid::Uuid) -> Result<LockToken, StoreError> {
    ids::short(id).parse().map_err(|_| StoreError::Reply("not a token".into()))
}

/// A lease that somebody got, and when the try was sent that got it.
#[derive(Debug)]
struct Got {
    lock: Lock,
    sent: Instant,
}

/// Where a lock is, in one incarnation of its sale.
struct Home {
    lock: String,
    fence: String,
    /// Key of the rules, and the incarnation.
    sale: Option<(String, String)>,
    ids: IdMaker,
}

/// What a script of locks answers.
struct Answer {
    word: String,
    now: Timestamp,
    fence: Option<u64>,
    deadline: Option<Timestamp>,
}

impl Answer {
    fn read(texts: &[String]) -> Result<Self, StoreError> {
        let text = |at: usize| texts.get(at).map(String::as_str).unwrap_or_default();
        Ok(Self {
            word: text(0).to_owned(),
            now: reply::time(text(1))?,
            fence: reply::optional(text(2), reply::number)?,
            deadline: reply::optional(text(3), reply::time)?,
        })
    }

    fn deadline(&self) -> Result<Timestamp, StoreError> {
        self.deadline.ok_or_else(|| StoreError::Reply("no deadline".into()))
    }

    fn lock(&self, place: &LockPlace, name: &LockName, token: LockToken) -> Result<Lock, StoreError> {
        Ok(Lock {
            name: name.clone(),
            sale: place.sale().cloned(),
            token,
            fence: self.fence.ok_or_else(|| StoreError::Reply("no fence".into()))?,
            expires_at: self.deadline()?,
            server_time: self.now,
        })
    }

    /// As everybody sees it.
    fn state(&self, place: &LockPlace, name: &LockName) -> LockState {
        LockState {
            name: name.clone(),
            sale: place.sale().cloned(),
            held: self.deadline.is_some(),
            fence: self.fence,
            expires_at: self.deadline,
            server_time: self.now,
        }
    }

    fn refusal(&self) -> Result<Refusal, StoreError> {
        Ok(Refusal::Lock(match self.word.as_str() {
            "lock_held" => LockRefusal::Held { expires_at: self.deadline()? },
            "not_owner" => LockRefusal::NotOwner,
            "lock_expired" => LockRefusal::Expired,
            _ => return Err(StoreError::Reply("unknown word".into())),
        }))
    }
}

impl Store {
    async fn home(&self, place: &LockPlace, name: &LockName) -> Result<Option<Home>, StoreError> {
        Ok(match place {
            LockPlace::Free => {
                let [lock, fence] = keys::free_lock(name);
                Some(Home { lock, fence, sale: None, ids: self.ids().await?.clone() })
            }
            LockPlace::Sale(sale) => self.handle(sale).await?.map(|handle| Home {
                lock: handle.keys.lock(name),
                fence: handle.keys.fence.clone(),
                sale: Some((handle.keys.rules().to_owned(), handle.generation.clone())),
                ids: handle.ids.clone(),
            }),
        })
    }

    /// Calls a script about a lock; once more when its sale turns out to be another incarnation. None: no such sale.
    async fn lock_call(
        &self,
        place: &LockPlace,
        name: &LockName,
        script: fn(&Scripts) -> &Script,
        with_fence: bool,
        args: impl Fn(&IdMaker) -> Result<Vec<String>, StoreError>,
    ) -> Result<Option<(Vec<String>, Answer)>, StoreError> {
        let script = script(self.scripts());
        for _ in 0..2 {
            let Some(home) = self.home(place, name).await? else { break };
            let args = args(&home.ids)?;
            let mut keys = vec![&home.lock];
            keys.extend(with_fence.then_some(&home.fence));
            keys.extend(home.sale.as_ref().map(|(rules, _)| rules));
            let generation = home.sale.as_ref().map_or("", |(_, generation)| generation);
            let mut cmd = script.call(keys.len());
            cmd.arg(&keys).arg(self.offset_ms()).arg(generation).arg(&args);
            let texts = self.call(script, &cmd).await?;
            match (texts.first().map(String::as_str), place) {
                (Some("unknown_sale" | "stale_generation"), LockPlace::Sale(sale)) => {
                    self.sales.remove_if(sale, |known| known.generation == generation);
                }
                _ => return Ok(Some((args, Answer::read(&texts)?))),
            }
        }
        Ok(None)
    }

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

    /// Waits in a task of its own, so that no try is dropped between its call and its answer.
    async fn wait_for_lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        source: Source,
        request: AcquireLock,
    ) -> Decided<Got> {
        let (mut sender, receiver) = oneshot::channel();
        let (store, place, name) = (self.clone(), place.clone(), name.clone());
        self.committer.runtime.spawn(async move {
            let begun = Instant::now();
            let turn = store.locks.turn(&place, &name);
            let Some(decided) =
                store.stand_in_line(&turn, &place, &name, &source, request, &mut sender).await
            else {
                return; // he is gone, and had got nothing
            };
            if let Ok(Decision::Done(Outcome::Acquired, got)) = &decided {
                store.committer.metrics.lock_waited(begun.elapsed());
                store.locks.acquired(&got.lock.token);
            }
            if let Err(Ok(Decision::Done(Outcome::Acquired, got))) = sender.send(decided) {
                store.abandon_lock(&place, &got.lock).await;
            }
        });
        receiver.await.unwrap_or_else(|_| Err(StoreError::Unknown("the wait was dropped".into())))
    }

    /// First come, first served: only the first in the line asks Redis. None: the caller has gone.
    async fn stand_in_line(
        &self,
        turn: &Turn<'_>,
        place: &LockPlace,
        name: &LockName,
        source: &Source,
        request: AcquireLock,
        caller: &mut oneshot::Sender<Decided<Got>>,
    ) -> Option<Decided<Got>> {
        if request.wait_ms == 0 {
            return Some(self.try_lock(place, name, source, request.ttl_ms).await);
        }
        let until = tokio::time::Instant::now() + Duration::from_millis(request.wait_ms);
        let first = tokio::select! {
            first = turn.first() => first,
            () = caller.closed() => return None,
            () = tokio::time::sleep_until(until) => return Some(self.held(place, name).await),
        };
        let mut pause = TRY_EVERY.0;
        loop {
            let tried = self.try_lock(place, name, source, request.ttl_ms).await;
            let is_held = matches!(tried, Ok(Decision::Refused(Refusal::Lock(LockRefusal::Held { .. }))));
            if !is_held || tokio::time::Instant::now() >= until {
                return Some(tried);
            }
            tokio::select! {
                () = first.freed() => {}
                () = caller.closed() => return None,
                () = tokio::time::sleep_until(until) => {}
                () = tokio::time::sleep(jittered(pause)) => {}
            }
            pause = (pause * 2).min(TRY_EVERY.1);
        }
    }

    async fn try_lock(
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
        Ok(Decision::Done(outcome, Got { lock: answer.lock(place, name, token)?, sent }))
    }

    /// What is said to whoever has waited for his turn in vain.
    async fn held(&self, place: &LockPlace, name: &LockName) -> Decided<Got> {
        Ok(Decision::Refused(match self.lock_state(place, name).await? {
            Decision::Done(_, state) => {
                let expires_at = state.expires_at.unwrap_or(state.server_time);
                Refusal::Lock(LockRefusal::Held { expires_at })
            }
            Decision::Refused(refusal) => refusal,
        }))
    }

    /// Makes a lease last longer.
    pub async fn renew_lock(&self, place: &LockPlace, name: &LockName, request: RenewLock) -> Decided<Lock> {
        let (store, place, name) = (self.clone(), place.clone(), name.clone());
        let renew = async move {
            let args = |_: &IdMaker| Ok(vec![request.token.to_string(), request.ttl_ms.to_string()]);
            let called = store.lock_call(&place, &name, |scripts| &scripts.renew_lock, false, args).await?;
            Ok(match called {
                Some((_, answer)) if answer.word == "renewed" => {
                    Decision::Done(Outcome::Renewed, answer.lock(&place, &name, request.token)?)
                }
                Some((_, answer)) => Decision::Refused(answer.refusal()?),
                None => Decision::Refused(Refusal::UnknownSale),
            })
        };
        self.count_lock("renew", self.to_the_end(renew).await)
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
    async fn abandon_lock(&self, place: &LockPlace, lock: &Lock) {
        let abandon = async {
            let Some(home) = self.home(place, &lock.name).await? else { return Ok(()) };
            let script = &self.scripts().abandon_lock;
            let mut cmd = script.call(1);
            cmd.arg(home.lock).arg(format!("{}:{}:{}", lock.token, lock.fence, lock.expires_at.as_ms()));
            match self.call(script, &cmd).await?.first().map(String::as_str) {
                Some("abandoned" | "kept") => Ok(()),
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

/// Between half of it and all of it: processes that wait for the same lock must not try in step.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8];
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}
