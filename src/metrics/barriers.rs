//! What is counted of barriers.

use super::{Metrics, catalogue};
use std::time::Duration;

impl Metrics {
    /// A barrier was made, or ended so.
    pub fn barrier(&self, outcome: &'static str) {
        if let Some(counter) = self.barriers.get(outcome) {
            counter.increment(1);
        }
    }

    /// An arrival was answered so.
    pub fn barrier_arrival(&self, outcome: &'static str) {
        if let Some(counter) = self.arrivals.get(outcome).or_else(|| self.arrivals.get(catalogue::OTHER)) {
            counter.increment(1);
        }
    }

    /// A barrier has ended so long after its creation.
    pub fn barrier_open(&self, duration: Duration) {
        self.barrier_open.record(duration);
    }
}
