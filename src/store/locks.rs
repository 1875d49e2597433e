//! Locks: acquire, renew, release, read; and the guard that holds one while work is done.

mod guard;

pub use guard::{LeaseLost, LockGuard};

use super::{Decided, Store, StoreError};
use crate::domain::*;

impl Store {
    /// Takes a lock, or waits for it. The same key has one lease, however often it is tried.
    pub async fn acquire_lock(
        &self,
        _place: &LockPlace,
        _name: &LockName,
        _caller: &Caller,
        _key: Option<&IdempotencyKey>,
        _request: AcquireLock,
    ) -> Decided<Lock> {
        todo!()
    }

    /// Makes a lease last longer.
    pub async fn renew_lock(
        &self,
        _place: &LockPlace,
        _name: &LockName,
        _request: RenewLock,
    ) -> Decided<Lock> {
        todo!()
    }

    /// Ends a lease; a repeat is the same.
    pub async fn release_lock(
        &self,
        _place: &LockPlace,
        _name: &LockName,
        _token: &LockToken,
    ) -> Decided<LockState> {
        todo!()
    }

    /// Shows a lock.
    pub async fn lock_state(&self, _place: &LockPlace, _name: &LockName) -> Decided<LockState> {
        todo!()
    }

    /// Takes a lock, and renews it until the guard is released or dropped.
    pub async fn lock_guard(
        &self,
        _place: &LockPlace,
        _name: &LockName,
        _request: AcquireLock,
    ) -> Result<Decision<LockGuard>, StoreError> {
        todo!()
    }
}
