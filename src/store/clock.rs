//! The one clock.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

/// Time is the Redis server's, plus an offset that is 0 outside tests. Only what this process keeps for itself goes by
/// the process's own time, plus the same offset.
#[derive(Debug)]
pub struct Clock {
    offset_ms: AtomicI64,
    begun: Instant,
    stopped: AtomicBool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { offset_ms: AtomicI64::new(0), begun: Instant::now(), stopped: AtomicBool::new(false) }
    }
}

impl Clock {
    /// Milliseconds that every script adds to the server's time.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }

    /// Milliseconds of the process's own time; only differences mean something.
    pub fn elapsed_ms(&self) -> i64 {
        let stopped = self.stopped.load(Ordering::Relaxed);
        let own = if stopped { 0 } else { self.begun.elapsed().as_millis() as i64 };
        own + self.offset_ms()
    }

    /// Moves time, in tests.
    pub fn advance_ms(&self, ms: i64) {
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// From now on the process's own time moves by `advance_ms` only, in tests; to be called before anything is kept.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
