//! Audits all sales in the background, slowly, and keeps the gauges of what it found.
//!
//! Any number of processes may have one: they take turns, and each shows what the last audit has found.

use crate::metrics::Metrics;
use crate::store::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, warn};

/// The gauges are refreshed so often.
const REFRESH: Duration = Duration::from_secs(5);

/// Audits until it is dropped, every `interval` or so over all processes.
pub async fn run(store: Store, metrics: Arc<Metrics>, interval: Duration) {
    let store = store.auditing_slowly();
    loop {
        if let Err(failed) = round(&store, &metrics, interval).await {
            warn!(error = %failed, "The background audit could not finish: {failed}");
        }
        tokio::time::sleep(REFRESH.min(interval)).await;
    }
}

/// Audits if it is this process's turn, and shows what was found last. Says whether it was.
pub async fn round(store: &Store, metrics: &Metrics, interval: Duration) -> Result<bool, StoreError> {
    let is_ours = store.take_audit_turn(interval).await?;
    if is_ours {
        let report = tokio::select! {
            report = store.audit(None) => report?,
            never = keep_turn(store, interval) => match never {},
        };
        if !report.is_clean() {
            // Not which: the names of buyers are among them.
            let violations = report.wrong();
            error!(violations, "The books do not balance: {violations} faults, see `stockade audit`");
        }
        store.tell_audit(report.wrong()).await?;
    }
    let last = store.last_audit().await?;
    metrics.audited(last.violations, last.finished_at_ms);
    Ok(is_ours)
}

/// An audit may take longer than the interval.
async fn keep_turn(store: &Store, interval: Duration) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(interval / 3).await;
        if let Err(failed) = store.keep_audit_turn(interval).await {
            warn!(error = %failed, "The turn to audit could not be kept: {failed}");
        }
    }
}
