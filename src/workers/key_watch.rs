//! Looks whether the keys file has changed.

use crate::api_keys::ApiKeys;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// A revoked key works no longer than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While the file is broken, it is said again so often.
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Looks for ever; where there are no keys there is nothing to look at.
pub async fn run(keys: Option<&Arc<ApiKeys>>) -> Infallible {
    let Some(keys) = keys else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said: Option<(String, Instant)> = None;
    loop {
        ticks.tick().await;
        let file = Arc::clone(keys);
        // Elsewhere: a disk that hangs must not hold up the sweeper.
        let looked = tokio::task::spawn_blocking(move || file.read_again()).await;
        match looked.map_err(Into::into).flatten() {
            Ok(None) if said.is_none() => {}
            Ok(changed) => {
                said = None;
                let count = changed.unwrap_or_else(|| keys.count());
                tracing::info!(file = ?keys.path(), keys = count, "The keys file was read: {count} keys are in force");
            }
            Err(error) => {
                let why = format!("{error:#}");
                let is_said =
                    |(before, at): &(String, Instant)| *before == why && at.elapsed() < SAY_AGAIN_AFTER;
                if !said.as_ref().is_some_and(is_said) {
                    let count = keys.count();
                    tracing::error!(
                        file = ?keys.path(), keys = count, why,
                        "THE KEYS FILE IS BROKEN: its changes are not in force, the {count} keys from before are"
                    );
                    said = Some((why, Instant::now()));
                }
            }
        }
    }
}
