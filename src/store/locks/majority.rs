//! Free-standing locks on several servers: a majority of these decides, the store gives the fence and keeps the record, so
//! that a repeat has the same lease, and everybody can read it.

use super::*;

/// The end of a lease, as the store has written it, was counted from a moment during that call: it may be later than
/// what the majority has granted by as much as the call took.
fn without(expires_at: Timestamp, took: Duration) -> Timestamp {
    let took = i64::try_from(took.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
    Timestamp::from_ms(expires_at.as_ms().saturating_sub(took)).unwrap_or(expires_at)
}

impl Store {
    /// First the majority, then the fence, then whether there is time left.
    pub(super) async fn try_majority(
        &self,
        redlock: &Redlock,
        name: &LockName,
        source: &Source,
        ttl_ms: u64,
    ) -> Decided<Got> {
        let token = source.token(self.ids().await?, name)?;
        let granted = match redlock.acquire(name, &token, Duration::from_millis(ttl_ms)).await {
            Ok(granted) => granted,
            Err(NoMajority::Refused) => return self.held(&LockPlace::Free, name).await,
            Err(NoMajority::Away) => return Err(StoreError::unreachable()),
        };
        let asked = Instant::now();
        let decided = match granted.validity() {
            Some(left) => self.try_here(&LockPlace::Free, name, source, left.as_millis() as u64).await,
            None => Err(StoreError::unreachable()),
        };
        match decided {
            Ok(Decision::Done(outcome, mut got)) => {
                if granted.validity().is_none() {
                    if outcome == Outcome::Acquired {
                        self.abandon_lock(&LockPlace::Free, &got).await;
                    }
                    return Err(StoreError::unreachable());
                }
                got.lock.expires_at = without(got.lock.expires_at, asked.elapsed());
                Ok(Decision::Done(outcome, Got { sent: granted.since, ..got }))
            }
            // The store knows better than servers that have forgotten.
            Ok(Decision::Refused(refusal)) => {
                redlock.release(name, &token).await;
                Ok(Decision::Refused(refusal))
            }
            Err(error) => {
                redlock.undo(name, &token, granted.is_repeat).await;
                Err(error)
            }
        }
    }

    pub(super) async fn renew_majority(
        &self,
        redlock: &Redlock,
        name: &LockName,
        request: RenewLock,
    ) -> Decided<Lock> {
        let ttl = Duration::from_millis(request.ttl_ms);
        let granted = redlock.renew(name, &request.token, ttl).await;
        let left = match granted.map(|granted| granted.validity()) {
            Ok(Some(left)) => left,
            // The store is asked why, and leaves the lease as long as it is.
            Err(NoMajority::Refused) => Duration::ZERO,
            Ok(None) | Err(NoMajority::Away) => return Err(StoreError::unreachable()),
        };
        let asked = Instant::now();
        let request = RenewLock { ttl_ms: left.as_millis() as u64, ..request };
        match self.renew_here(&LockPlace::Free, name, request.clone()).await? {
            Decision::Done(outcome, mut lock) => match granted {
                Ok(granted) if granted.validity().is_some() => {
                    lock.expires_at = without(lock.expires_at, asked.elapsed());
                    Ok(Decision::Done(outcome, lock))
                }
                Err(_) => Ok(Decision::Refused(Refusal::Lock(LockRefusal::Expired))),
                Ok(_) => Err(StoreError::unreachable()),
            },
            Decision::Refused(refusal) => {
                redlock.release(name, &request.token).await;
                Ok(Decision::Refused(refusal))
            }
        }
    }
}
