//! Whether what a request wrote is on a replica, too.
//!
//! WAIT answers how many replicas have all that was done on its connection before, replays and reads included, since
//! whatever runs there moves the place up to which it asks. It goes out in one write with the scripts
//! (`docs/adr/0029-durability.md`).

use crate::trace::spans;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::Instrument;

tokio::task_local! {
    static REQUEST: Durability;
}

/// What a request has written so far.
#[derive(Debug, Clone, Default)]
pub struct Durability(Arc<AtomicBool>);

impl Durability {
    /// Of the present request, if somebody wants to know.
    pub fn of_request() -> Option<Self> {
        REQUEST.try_with(Self::clone).ok()
    }

    /// Something is on one server alone, as far as is known.
    pub fn fell_short(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether something fell short.
    pub fn is_local(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does the work of a request.
    pub async fn watch<F: Future>(self, work: F) -> F::Output {
        REQUEST.scope(self, work).await
    }
}

/// Work of the present request that another task does.
pub(super) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let durability = Durability::of_request();
    let work = work.instrument(spans::current());
    async move {
        match durability {
            Some(durability) => durability.watch(work).await,
            None => work.await,
        }
    }
}
