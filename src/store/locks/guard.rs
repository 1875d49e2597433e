//! The guard of a lease.

use crate::domain::Fence;

/// The lease is over before the work was done: whatever it protected may be somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease was lost")]
pub struct LeaseLost;

/// A lease that is renewed while this lives, and released when it is dropped.
#[derive(Debug)]
pub struct LockGuard {}

impl LockGuard {
    /// What the scripts of the lock's sale compare; none for a free-standing lock.
    pub fn fence(&self) -> Fence {
        todo!()
    }

    /// Comes when the lease can no longer be relied upon.
    pub async fn lost(&self) {
        todo!()
    }

    /// Does the work, and drops it where it stands when the lease is lost.
    pub async fn run<T>(&self, _work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        todo!()
    }

    /// Gives the lock back now. Dropping does it, too, a moment later.
    pub async fn release(self) {
        todo!()
    }
}
