//! How workers pause that look for what is due, round after round.

use std::time::{Duration, Instant};

/// The longest pause: what another process made a moment ago may be due by then.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The shortest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// A round takes at most a twentieth of the time.
const PAUSE_ROUNDS: u32 = 20;
/// Unless that would make what is due wait longer than this.
const REST_MAX: Duration = Duration::from_secs(5);

/// Until something is due, as far as anything is known to be.
pub(super) fn until_due(next_in_ms: Option<u64>) -> Duration {
    next_in_ms.map_or(PAUSE_MAX, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// Pauses after a round that began then; longer after a long one.
pub(super) async fn rest(begun: Instant, pause: Duration) {
    tokio::time::sleep(pause.max((begun.elapsed() * PAUSE_ROUNDS).min(REST_MAX))).await;
}
