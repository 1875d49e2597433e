//! Who waits for which lock in this process: a line a lock, first come, first served, over all worker threads.

use crate::domain::{LockName, LockPlace, LockToken};
use quick_cache::sync::Cache;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard as Locked, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{MutexGuard, Notify};

/// Leases that a process remembers, to say how long they were held.
const LEASES_REMEMBERED_MAX: usize = 10_000;

type Lines = HashMap<(LockPlace, LockName), Arc<Line>>;

/// The lines of a process.
#[derive(Debug)]
pub struct LockQueues {
    lines: Mutex<Lines>,
    acquired: Cache<LockToken, Instant>,
}

impl Default for LockQueues {
    fn default() -> Self {
        Self { lines: Mutex::default(), acquired: Cache::new(LEASES_REMEMBERED_MAX) }
    }
}

#[derive(Debug, Default)]
struct Line {
    /// Whose turn it is. Tokio's mutex is fair.
    first: tokio::sync::Mutex<()>,
    freed: Notify,
}

/// A place in a line, from the call to its answer.
pub(super) struct Turn<'a> {
    queues: &'a LockQueues,
    key: (LockPlace, LockName),
    line: Arc<Line>,
}

/// The first of a line.
pub(super) struct First<'a> {
    line: &'a Line,
    _turn: MutexGuard<'a, ()>,
}

impl LockQueues {
    fn lines(&self) -> Locked<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn turn(&self, place: &LockPlace, name: &LockName) -> Turn<'_> {
        let key = (place.clone(), name.clone());
        let line = Arc::clone(self.lines().entry(key.clone()).or_default());
        Turn { queues: self, key, line }
    }

    /// A lock was given back here: the first who waits for it need not sleep on.
    pub(super) fn freed(&self, place: &LockPlace, name: &LockName) {
        if let Some(line) = self.lines().get(&(place.clone(), name.clone())) {
            line.freed.notify_one();
        }
    }

    pub(super) fn acquired(&self, token: &LockToken) {
        self.acquired.insert(token.clone(), Instant::now());
    }

    /// How long it was held, if it was acquired here.
    pub(super) fn released(&self, token: &LockToken) -> Option<Duration> {
        self.acquired.remove(token).map(|(_, since)| since.elapsed())
    }
}

impl Turn<'_> {
    /// Comes when everybody who came before has gone.
    pub(super) async fn first(&self) -> First<'_> {
        First { line: &self.line, _turn: self.line.first.lock().await }
    }
}

impl First<'_> {
    /// Comes when the lock is given back in this process.
    pub(super) async fn freed(&self) {
        self.line.freed.notified().await;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lines = self.queues.lines();
        // The map's, and ours: nobody else stands in it.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.key);
        }
    }
}
