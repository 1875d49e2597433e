//! What sales were answered: the busiest have series of their own, all others share one.
//!
//! A series costs Prometheus memory for as long as it remembers it, so their number is bounded, and a sale keeps its
//! own while no other is clearly busier. One that gets series, or gets them back, begins at 0, as a counter does whose
//! process was started anew; what is counted of it meanwhile is in `other`.

use super::Metrics;
use super::catalogue::{self, METRICS, OTHER};
use super::page::{Sample, write_family};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sales with series of their own, unless the options say otherwise.
pub(super) const SALES_MAX: usize = 50;
/// A sale without series must be so much busier than one that has them.
const CLEARLY: f64 = 1.25;
/// Words that every sale with series has at 0: a rate sees nothing of a counter that begins at 1, and the first second
/// of a sale is what matters most.
const AT_ZERO: [&str; 5] = ["held", "sold_out", "confirmed", "released", "expired"];
/// What is left of a sale's past at each look.
const DECAY: f64 = 0.5;
/// So much at least a sale counts that somebody watches.
const EXPECTED: f64 = 0.1;
/// Below this a sale that no store remembers is forgotten: a minute or two after its last answer.
const FORGOTTEN: f64 = 0.001;

/// Answers of one sale, by the place of their word. Every store of the process counts in the same ones.
#[derive(Debug, Default)]
pub struct SaleCounts(Box<[AtomicU64]>);

impl SaleCounts {
    fn new(words: usize) -> Self {
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn read(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    fn add(&self, more: &[u64]) {
        for (count, more) in self.0.iter().zip(more) {
            count.fetch_add(*more, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Tracked {
    counts: Arc<SaleCounts>,
    /// Since when it is shown, or was folded into `other`.
    since: Vec<u64>,
    is_shown: bool,
    /// As the last look saw it.
    total: u64,
    /// Answers of late.
    recent: f64,
}

impl Tracked {
    fn new(counts: Arc<SaleCounts>, is_shown: bool) -> Self {
        let since = vec![0; counts.0.len()];
        Self { counts, since, is_shown, total: 0, recent: 1.0 }
    }

    /// What has come since then.
    fn new_counts(&self) -> Vec<u64> {
        let now = self.counts.read();
        now.iter().zip(&self.since).map(|(now, since)| now.saturating_sub(*since)).collect()
    }

    /// The same; from now on it begins anew.
    fn take(&mut self) -> Vec<u64> {
        let new = self.new_counts();
        self.since.iter_mut().zip(&new).for_each(|(since, new)| *since += new);
        new
    }

    fn rank(&self) -> f64 {
        if self.is_shown { self.recent * CLEARLY } else { self.recent }
    }
}

/// Which sales have series of their own.
#[derive(Debug)]
pub(super) struct BusiestSales {
    /// Words of answers, the last one for all that are no words.
    words: Vec<&'static str>,
    places: HashMap<&'static str, usize>,
    sales_max: usize,
    /// Of all sales without series.
    other: SaleCounts,
    tracked: Mutex<HashMap<String, Tracked>>,
}

impl BusiestSales {
    pub(super) fn new(sales_max: usize) -> Self {
        let mut words: Vec<_> = catalogue::reservation_labels().map(|(_, outcome)| outcome).collect();
        words.sort_unstable();
        words.dedup();
        words.retain(|word| *word != OTHER);
        words.push(OTHER);
        let places = words.iter().enumerate().map(|(place, word)| (*word, place)).collect();
        let other = SaleCounts::new(words.len());
        Self { words, places, sales_max, other, tracked: Mutex::default() }
    }

    fn tracked(&self) -> MutexGuard<'_, HashMap<String, Tracked>> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts_of(&self, sale: &str) -> Arc<SaleCounts> {
        let mut tracked = self.tracked();
        if let Some(known) = tracked.get(sale) {
            return Arc::clone(&known.counts);
        }
        let has_room = tracked.values().filter(|known| known.is_shown).count() < self.sales_max;
        let counts = Arc::new(SaleCounts::new(self.words.len()));
        tracked.insert(sale.to_owned(), Tracked::new(Arc::clone(&counts), has_room));
        counts
    }

    /// Makes entries for sales that are about to be asked, and keeps them.
    fn expect<'a>(&self, sales: impl Iterator<Item = &'a str>) {
        for sale in sales {
            self.counts_of(sale);
            if let Some(known) = self.tracked().get_mut(sale) {
                known.recent = known.recent.max(EXPECTED);
            }
        }
    }

    /// Sees which sales are the busiest.
    pub(super) fn choose(&self) {
        let mut tracked = self.tracked();
        for sale in tracked.values_mut() {
            let total = sale.counts.read().iter().sum();
            sale.recent = sale.recent * DECAY + (total - sale.total) as f64;
            sale.total = total;
            if !sale.is_shown {
                self.other.add(&sale.take());
            }
        }
        tracked.retain(|_, sale| Arc::strong_count(&sale.counts) > 1 || sale.recent >= FORGOTTEN);
        let mut ranks: Vec<(f64, &mut Tracked)> =
            tracked.values_mut().map(|sale| (sale.rank(), sale)).collect();
        ranks.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (place, (_, sale)) in ranks.into_iter().enumerate() {
            let is_shown = place < self.sales_max;
            if sale.is_shown && !is_shown {
                sale.take(); // its own series has told that
            }
            sale.is_shown = is_shown;
        }
    }

    pub(super) fn write(&self, page: &mut String) {
        let mut samples = Vec::new();
        let mut add = |sale: &str, counts: &[u64]| {
            let is_shown = |(word, count): &(&&str, &u64)| **count > 0 || AT_ZERO.contains(word);
            for (word, count) in self.words.iter().zip(counts).filter(is_shown) {
                samples.push(Sample::new(*count as f64).with("sale", sale).with("outcome", *word));
            }
        };
        let mut tracked = self.tracked();
        let mut shown: Vec<_> = Vec::new();
        for (name, sale) in tracked.iter_mut() {
            match sale.is_shown {
                true => shown.push((name, &*sale)),
                false => self.other.add(&sale.take()),
            }
        }
        shown.sort_by_key(|(name, _)| *name);
        for (name, sale) in shown {
            add(name, &sale.new_counts());
        }
        drop(tracked);
        add(OTHER, &self.other.read());
        if let Some(metric) = METRICS.iter().find(|metric| metric.name == catalogue::SALE_RESERVATIONS) {
            write_family(page, metric, &samples);
        }
    }
}

impl Metrics {
    /// Where answers of a sale are counted. For sales that are there: any name gets an entry.
    pub fn sale(&self, sale: &str) -> Arc<SaleCounts> {
        self.sales.counts_of(sale)
    }

    /// These sales are there, and the doors may open any moment.
    pub fn expect_sales<'a>(&self, sales: impl IntoIterator<Item = &'a str>) {
        self.sales.expect(sales.into_iter());
    }

    /// Reservations of a sale were answered so, whatever the verb; without counts it is none that anybody knows.
    pub fn sale_answered(&self, counts: Option<&SaleCounts>, outcome: &str, count: u64) {
        let place = self.sales.places.get(outcome).copied().unwrap_or(self.sales.words.len() - 1);
        counts.unwrap_or(&self.sales.other).0[place].fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: &str = "stockade_sale_reservations_total{sale=\"";

    fn page(sales: &BusiestSales) -> Vec<String> {
        let mut page = String::new();
        sales.write(&mut page);
        page.lines()
            .filter(|line| line.starts_with(SERIES) && !line.ends_with(" 0"))
            .map(|line| line[SERIES.len()..].to_owned())
            .collect()
    }

    fn count(sales: &BusiestSales, counts: &SaleCounts, word: &str, count: u64) {
        counts.0[sales.places[word]].fetch_add(count, Ordering::Relaxed);
    }

    #[test]
    fn the_busiest_have_series_and_the_rest_share_one() {
        let sales = BusiestSales::new(2);
        let [a, b, c] = ["a", "b", "c"].map(|name| sales.counts_of(name));
        count(&sales, &a, "held", 5);
        count(&sales, &b, "sold_out", 9);
        count(&sales, &c, "held", 6);
        let all = ["a\",outcome=\"held\"} 5", "b\",outcome=\"sold_out\"} 9", "other\",outcome=\"held\"} 6"];
        assert_eq!(page(&sales), all);
        // 6 is not clearly more than 5.
        sales.choose();
        assert_eq!(page(&sales), all);
        count(&sales, &c, "held", 60);
        sales.choose();
        let other = ["b\",outcome=\"sold_out\"} 9", "other\",outcome=\"held\"} 66"];
        assert_eq!(page(&sales), other, "what came before it was shown is told of the others");
        count(&sales, &c, "held", 1);
        count(&sales, &a, "confirmed", 2);
        let more = [
            "b\",outcome=\"sold_out\"} 9",
            "c\",outcome=\"held\"} 1",
            "other\",outcome=\"confirmed\"} 2",
            "other\",outcome=\"held\"} 66",
        ];
        assert_eq!(page(&sales), more);
    }

    #[test]
    fn a_sale_that_no_store_remembers_is_forgotten() {
        let sales = BusiestSales::new(2);
        let (kept, gone) = (sales.counts_of("kept"), sales.counts_of("gone"));
        count(&sales, &gone, "held", 1_000);
        count(&sales, &kept, "held", 1);
        drop(gone);
        (0..10).for_each(|_| sales.choose());
        assert!(page(&sales).contains(&"gone\",outcome=\"held\"} 1000".to_owned()));
        (0..30).for_each(|_| sales.choose());
        assert_eq!(page(&sales), ["kept\",outcome=\"held\"} 1"]);
    }

    #[test]
    fn any_number_of_sales_and_words_makes_a_bounded_number_of_series() {
        let metrics = Metrics::with_sales_max(3).expect("buckets are legal");
        let known: Vec<_> = (0..10_000).map(|n| metrics.sale(&format!("sale-{n}"))).collect();
        for (n, counts) in known.iter().enumerate() {
            metrics.sale_answered(Some(counts), if n % 2 == 0 { "held" } else { "a word of tomorrow" }, 1);
            if n % 1_000 == 0 {
                metrics.upkeep();
            }
        }
        assert!(page(&metrics.sales).len() <= 3 * 2 + 2, "{:?}", page(&metrics.sales));
        let samples = metrics.render().lines().filter(|line| line.starts_with(SERIES)).count();
        assert!(samples <= 4 * (AT_ZERO.len() + 2), "{samples}");
    }

    #[test]
    fn a_sale_that_is_watched_has_counters_at_0_before_anybody_asks() {
        let metrics = Metrics::with_sales_max(3).expect("buckets are legal");
        metrics.expect_sales(["drop"]);
        for word in AT_ZERO {
            let line = format!("{SERIES}drop\",outcome=\"{word}\"}} 0");
            assert!(metrics.render().contains(&line), "{line}");
        }
        // For as long as somebody watches.
        for _ in 0..50 {
            metrics.expect_sales(["drop"]);
            metrics.upkeep();
        }
        assert!(metrics.render().contains("\"drop\""));
        (0..50).for_each(|_| metrics.upkeep());
        assert!(!metrics.render().contains("\"drop\""));
    }
}
