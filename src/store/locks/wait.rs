//! Waiting for a lock: in a task of its own, in a line, with pauses.

use super::*;
use crate::store::durability::carried;
use queue::Turn;
use tokio::sync::oneshot;

/// Between two tries of the first who waits, unless somebody in this process gives the lock back: at first, at most.
const TRY_EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

impl Store {
    /// Waits in a task of its own, so that no try is dropped between its call and its answer.
    pub(super) async fn wait_for_lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        source: Source,
        request: AcquireLock,
    ) -> Decided<Got> {
        let (mut sender, receiver) = oneshot::channel();
        let (store, place, name) = (self.clone(), place.clone(), name.clone());
        self.committer.runtime.spawn(carried(async move {
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
                store.abandon_lock(&place, &got).await;
            }
        }));
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

    /// What is said to whoever has waited for his turn in vain.
    pub(super) async fn held(&self, place: &LockPlace, name: &LockName) -> Decided<Got> {
        Ok(Decision::Refused(match self.lock_state(place, name).await? {
            Decision::Done(_, state) => {
                let expires_at = state.expires_at.unwrap_or(state.server_time);
                Refusal::Lock(LockRefusal::Held { expires_at })
            }
            Decision::Refused(refusal) => refusal,
        }))
    }
}

/// Between half of it and all of it: processes that wait for the same lock must not try in step.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8];
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}
