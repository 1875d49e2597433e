//! What the sides that Stockade is measured against have in common.

mod answer;

pub use answer::Answer;
use std::env;
use std::str::FromStr;

/// A setting from the environment, or its default. A value that does not parse stops the program.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not what it should be")),
        Err(_) => default,
    }
}

/// One worker a core.
pub fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    setting("WORKERS", cores)
}

/// Each power of two is cut into this many buckets, so a value is known to better than 1 %.
const STEPS: usize = 128;
const STEPS_LOG2: u32 = STEPS.trailing_zeros();

/// Latencies in microseconds, counted in buckets whose width grows with the value.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        // The last value of a u64 falls into the last bucket.
        let buckets = bucket_of(u64::MAX) + 1;
        Self { counts: vec![0; buckets], total: 0, max_us: 0 }
    }
}

/// Values below `STEPS` have a bucket each; above, the highest `STEPS_LOG2` + 1 bits choose it.
fn bucket_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEPS_LOG2 + 1);
    shift as usize * STEPS + (value >> shift) as usize
}

/// The highest value that falls into a bucket.
fn highest_of(bucket: usize) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1);
    let top = (bucket - shift * STEPS) as u64;
    (top << shift) | ((1 << shift) - 1)
}

impl Histogram {
    /// Count one value.
    pub fn record(&mut self, value_us: u64) {
        self.counts[bucket_of(value_us)] += 1;
        self.total += 1;
        self.max_us = self.max_us.max(value_us);
    }

    /// How many values were counted.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The largest value, exactly.
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// The value that `quantile` (0..=1) of the values do not exceed, rounded up by less than 1 %.
    pub fn quantile_us(&self, quantile: f64) -> u64 {
        let rank = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest_of(bucket).min(self.max_us);
            }
        }
        self.max_us
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket_of, highest_of};

    #[test]
    fn buckets_are_in_order_and_hold_their_highest_value() {
        for bucket in 0..bucket_of(1 << 40) {
            assert_eq!(bucket_of(highest_of(bucket)), bucket);
            assert_eq!(bucket_of(highest_of(bucket) + 1), bucket + 1);
        }
    }

    #[test]
    fn quantiles_are_right_to_one_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.99), 0);
        (1..=100_000).for_each(|value| histogram.record(value));
        for (quantile, want) in [(0.5, 50_000), (0.99, 99_000), (0.999, 99_900), (1.0, 100_000)] {
            let got = histogram.quantile_us(quantile);
            assert!(got >= want && got <= want + want / 100, "{quantile}: {got}");
        }
        assert_eq!((histogram.len(), histogram.max_us()), (100_000, 100_000));
    }
}
