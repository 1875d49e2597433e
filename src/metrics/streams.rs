//! Streams and waits: how many are open, and for how long.

use super::Metrics;
use std::time::Duration;

impl Metrics {
    /// A stream of this route has begun.
    pub fn stream_opened(&self, route: &'static str) {
        if let Some(gauge) = self.streams_open.get(route) {
            gauge.increment(1.0);
        }
    }

    /// A stream of this route has ended after so long.
    pub fn stream_ended(&self, route: &'static str, duration: Duration) {
        if let (Some(gauge), Some(histogram)) = (self.streams_open.get(route), self.stream_seconds.get(route))
        {
            gauge.decrement(1.0);
            histogram.record(duration);
        }
    }
}
