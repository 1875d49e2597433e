//! The guard of a lease: it renews while the work goes on, and says when that must stop.

use super::Got;
use crate::domain::{Decision, Fence, LockName, LockPlace, LockToken, RenewLock};
use crate::store::{Store, StoreError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The lease is over before the work was done: whatever it protected may be somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease was lost")]
pub struct LeaseLost;

/// A lease is renewed when this part of it has passed.
const RENEWED_AFTER: u32 = 3;
/// Of a lease, this part at its end is not relied upon: clocks differ in their rate, and messages take their time.
const MARGIN: u32 = 20;

/// A lease that is renewed while this lives, and released when it is dropped.
pub struct LockGuard {
    lease: Lease,
    fence: u64,
    lost: watch::Receiver<bool>,
    renewing: AbortHandle,
    is_released: bool,
}

#[derive(Clone)]
struct Lease {
    store: Store,
    place: LockPlace,
    name: LockName,
    token: LockToken,
    ttl: Duration,
}

impl LockGuard {
    pub(super) fn new(store: &Store, place: &LockPlace, got: Got, ttl_ms: u64) -> Self {
        let ttl = Duration::from_millis(ttl_ms);
        let (name, token) = (got.lock.name, got.lock.token);
        let lease = Lease { store: store.clone(), place: place.clone(), name, token, ttl };
        let (tell, lost) = watch::channel(false);
        let renewing =
            store.committer.runtime.spawn(lease.clone().renew(got.sent.into(), tell)).abort_handle();
        Self { lease, fence: got.lock.fence, lost, renewing, is_released: false }
    }

    /// What the scripts of the lock's sale compare.
    pub fn fence(&self) -> Fence {
        Fence { lock: self.lease.name.clone(), token: self.lease.token.clone(), fence: self.fence }
    }

    /// Comes when the lease can no longer be relied upon.
    pub async fn lost(&self) {
        // The renewal that would tell ends only when it has told, or with this.
        let _ = self.lost.clone().wait_for(|lost| *lost).await;
    }

    /// Does the work, and drops it where it stands when the lease is lost.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        tokio::select! {
            biased;
            () = self.lost() => Err(LeaseLost),
            done = work => Ok(done),
        }
    }

    /// Gives the lock back now. Dropping does it, too, a moment later.
    pub async fn release(mut self) {
        self.is_released = true;
        self.renewing.abort();
        self.lease.release().await;
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.renewing.abort();
        if !self.is_released {
            let lease = self.lease.clone();
            let runtime = lease.store.committer.runtime.clone();
            runtime.spawn(async move { lease.release().await });
        }
    }
}

impl Lease {
    async fn release(&self) {
        match self.store.release_lock(&self.place, &self.name, &self.token).await {
            Ok(Decision::Done(..)) => {}
            Ok(Decision::Refused(refusal)) => {
                tracing::warn!(name = %self.name, "A lease was over before its work was: {}", refusal.code());
            }
            Err(error) => tracing::warn!(name = %self.name, %error, "A lock was left to its end: {error}"),
        }
    }

    /// Renews until the lease is lost. What counts is when a call was sent: the lease began no earlier.
    async fn renew(self, sent: Instant, tell: watch::Sender<bool>) {
        let trusted = self.ttl - self.ttl / MARGIN;
        let mut until = sent + trusted;
        let mut pause = self.ttl / RENEWED_AFTER;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                () = tokio::time::sleep(pause) => {}
            }
            let sent = Instant::now();
            let request = RenewLock { token: self.token.clone(), ttl_ms: self.ttl.as_millis() as u64 };
            let renewed = tokio::select! {
                renewed = self.store.renew_lock(&self.place, &self.name, request) => renewed,
                () = tokio::time::sleep_until(until) => break,
            };
            pause = match renewed {
                Ok(Decision::Done(..)) => {
                    until = sent + trusted;
                    self.ttl / RENEWED_AFTER
                }
                Ok(Decision::Refused(_)) => break,
                Err(StoreError::Corrupt(_) | StoreError::Reply(_)) => break,
                // Soon again: there is time until the end.
                Err(_) => self.ttl / MARGIN,
            };
        }
        tell.send_replace(true);
    }
}
