//! What a process remembers of levels.

use super::cache::{Cache, Weight};
use crate::domain::{Decision, LevelPage, SaleId, Sku};
use crate::metrics::{CacheMetrics, Metrics};
use bytes::Bytes;
use std::sync::Arc;

/// Memory for levels of one SKU, for pages, and for the places of cursors.
const CACHE_BYTES_MAX: [usize; 3] = [16 * 1024 * 1024, 32 * 1024 * 1024, 2 * 1024 * 1024];

/// How long a page that all processes share is good for. Redis counts the time, so tests make it long instead of
/// stopping it.
#[derive(Debug, Clone, Copy)]
pub struct PageTimes {
    /// A younger page is as good as a new one.
    pub fresh_ms: u32,
    /// An older one is shown while somebody makes it anew, but not for longer than this; then it is gone.
    pub stale_ms: u32,
    /// So long a page is left to whom it was given to make. Then another may try: the first may be dead.
    pub guard_ms: u32,
}

impl Default for PageTimes {
    fn default() -> Self {
        Self { fresh_ms: 100, stale_ms: 1_000, guard_ms: 200 }
    }
}

/// What a process remembers of levels for a moment.
pub struct LevelCache {
    /// The level of a SKU, as it is served.
    pub levels: Cache<(SaleId, Sku), Decision<Bytes>>,
    /// Pages by their number.
    pub pages: Cache<(SaleId, usize), Decision<Arc<LevelPage>>>,
    /// The number of the page that a cursor is in.
    pub places: Cache<(SaleId, String), usize>,
    /// What requests of the pages in Redis met.
    pub shared: CacheMetrics,
}

impl LevelCache {
    /// Empty.
    pub fn new(metrics: &Metrics) -> Self {
        let [levels, pages, places] = CACHE_BYTES_MAX;
        let here = || metrics.cache("levels");
        Self {
            levels: Cache::new(levels, here()),
            pages: Cache::new(pages, here()),
            // A look-up on the way to a page is no request.
            places: Cache::new(places, CacheMetrics::default()),
            shared: metrics.cache("pages"),
        }
    }
}

impl Weight for (SaleId, Sku) {
    fn weight(&self) -> usize {
        self.0.as_str().len() + self.1.as_str().len()
    }
}

impl Weight for (SaleId, String) {
    fn weight(&self) -> usize {
        self.0.as_str().len() + self.1.len()
    }
}

impl Weight for (SaleId, usize) {
    fn weight(&self) -> usize {
        self.0.as_str().len()
    }
}

impl Weight for usize {
    fn weight(&self) -> usize {
        0
    }
}

impl Weight for Bytes {
    fn weight(&self) -> usize {
        self.len()
    }
}

impl Weight for Arc<LevelPage> {
    fn weight(&self) -> usize {
        LevelPage::weight(self)
    }
}

impl<T: Weight> Weight for Decision<T> {
    fn weight(&self) -> usize {
        match self {
            Decision::Done(_, value) => value.weight(),
            Decision::Refused(_) => size_of::<Sku>(), // at most the name that is in the key as well
        }
    }
}
