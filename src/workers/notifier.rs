//! Tells webhook endpoints what happened: reads events, turns them into deliveries, and delivers them.
//!
//! Any number of processes may run one. *Intake* reads the streams as one consumer group: an entry is acknowledged when
//! its deliveries are queued, and what a dead process had read is claimed by another. *Dispatch* claims deliveries that
//! are due for a lease, sends them, and settles them; what a dead process had claimed is due again when the lease ends.
//! Whatever is repeated on the way has the same id: queueing drops it, and so does the receiver.

mod dispatch;
mod intake;
mod lanes;
mod queue;

pub use intake::Intake;

use crate::domain::Endpoint;
use crate::metrics::Metrics;
use crate::store::{Shared, Store};
use crate::webhooks::Sender;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// So often each process looks for new sales, endpoints, targets, and for what others have left.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While Redis is away.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Runs until it is told to stop, and has settled what it was sending.
pub async fn run(store: Store, shared: &Shared, sender: Sender, stop: watch::Receiver<bool>) {
    let (wake, woken) = mpsc::unbounded_channel();
    let intake = Intake::new(store.clone(), Arc::clone(&shared.metrics), wake);
    tokio::select! {
        () = lanes::run(intake, shared) => {}
        () = dispatch::run(store, Arc::clone(&shared.metrics), sender, woken, stop) => {}
    }
}

/// An endpoint that has new deliveries.
type Woken = mpsc::UnboundedReceiver<Arc<Endpoint>>;

/// Says once that something fails, until it works again.
#[derive(Debug, Default)]
struct Failing(bool);

impl Failing {
    /// Counts nothing: the store has.
    fn note<T>(&mut self, what: &'static str, result: Result<T, crate::store::StoreError>) -> Option<T> {
        match result {
            Ok(value) => {
                self.0 = false;
                Some(value)
            }
            Err(error) => {
                if !self.0 {
                    tracing::warn!(%error, "{what}: {error}");
                }
                self.0 = true;
                None
            }
        }
    }
}

/// Of the metrics of this module's parts.
type Counted = Arc<Metrics>;
