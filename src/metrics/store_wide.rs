//! What a worker last saw of the store. Unlike a counter of this process it may lose its labels again, with a sale that is
//! deleted, and all of it goes when the store cannot be seen: no number is better than an old one.

use super::Metrics;
use super::catalogue::{self, Kind, METRICS, Metric, Scope};
use super::page::{Sample, write_family};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Families by name.
#[derive(Debug, Default)]
pub(super) struct StoreWide(Mutex<HashMap<&'static str, Vec<Sample>>>);

impl StoreWide {
    fn families(&self) -> MutexGuard<'_, HashMap<&'static str, Vec<Sample>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all families of the catalogue, those of which nothing is known without a number.
    pub(super) fn write(&self, page: &mut String) {
        let families = self.families();
        for metric in METRICS.iter().filter(|metric| is_store_wide(metric)) {
            let samples = families.get(metric.name).map(Vec::as_slice).unwrap_or_default();
            write_family(page, metric, samples);
        }
    }
}

fn is_store_wide(metric: &Metric) -> bool {
    debug_assert!(metric.scope == Scope::Process || !matches!(metric.kind, Kind::Histogram(_)));
    metric.scope == Scope::Store
}

impl Metrics {
    /// The store was seen so: each family that is named is replaced as a whole.
    pub fn see(&self, families: impl IntoIterator<Item = (&'static str, Vec<Sample>)>) {
        self.store_wide.families().extend(families);
    }

    /// The store cannot be seen.
    pub fn see_nothing(&self) {
        self.store_wide.families().clear();
    }

    fn see_one(&self, name: &'static str, value: f64) {
        self.see([(name, vec![Sample::new(value)])]);
    }

    /// What the last background audit has found, over all sales, and when it ended.
    pub fn audited(&self, violations: u64, finished_at_ms: u64) {
        self.see_one(catalogue::CONSERVATION_VIOLATIONS, violations as f64);
        self.see_one(catalogue::LAST_AUDIT, finished_at_ms as f64 / 1_000.0);
    }

    /// Deliveries that wait.
    pub fn webhook_backlog(&self, count: u64) {
        self.see_one(catalogue::WEBHOOK_BACKLOG, count as f64);
    }
}
