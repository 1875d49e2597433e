//! What an audit found, and how it is printed. Bounded: what does not fit is counted.

use super::buyers::WrongBuyer;
use super::ledger::LedgerSum;
use crate::domain::SaleId;
use std::collections::BTreeSet;
use std::fmt;

/// Lines of each kind that a report holds.
pub(super) const LINES_MAX: usize = 1_000;
/// Stands for the sale as a whole, where a SKU is named; no SKU is called so.
pub(super) const TOTALS: &str = "(totals)";

/// The four counters of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units that can be taken.
    pub available: u64,
    /// Units in holds.
    pub held: u64,
    /// Units confirmed and not returned.
    pub sold: u64,
    /// Net supply.
    pub granted: u64,
}

impl Counts {
    pub(super) fn balance(&self) -> bool {
        self.available.checked_add(self.held).and_then(|sum| sum.checked_add(self.sold)) == Some(self.granted)
    }

    pub(super) fn add(&mut self, other: &Counts) {
        self.available += other.available;
        self.held += other.held;
        self.sold += other.sold;
        self.granted += other.granted;
    }
}

/// A SKU whose counters are not what records and ledger say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The sale.
    pub sale: SaleId,
    /// The SKU; `(totals)` for the sale as a whole.
    pub sku: String,
    /// The counters.
    pub counters: Counts,
    /// What they should be: held and sold by the records, granted by the ledger.
    pub books: Counts,
}

/// Something else that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The sale.
    pub sale: SaleId,
    /// An id of 22 characters, a buyer, a SKU, an entry of the ledger.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
}

/// Something that moved whenever it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchecked {
    /// The sale.
    pub sale: SaleId,
    /// A SKU, or what else.
    pub what: String,
}

/// What an audit found.
#[derive(Debug, Default)]
pub struct Report {
    /// Sales that were read.
    pub sales: u64,
    /// Their SKUs.
    pub skus: u64,
    /// Their open holds.
    pub holds: u64,
    /// Their ended reservations.
    pub ended: u64,
    /// Ids whose record is missing or corrupt, as the sweeper set them aside.
    pub orphans: u64,
    /// SKUs in drift.
    pub drifts: Vec<Drift>,
    /// What else is wrong.
    pub findings: Vec<Finding>,
    /// What was not checked, because it moved.
    pub unchecked: Vec<Unchecked>,
    /// Drifts and findings that did not fit.
    pub wrong_left_out: u64,
    /// Unchecked ones that did not fit.
    pub unchecked_left_out: u64,
}

impl Report {
    /// Nothing is wrong with what was checked. Orphans alone are no drift: their units are missed where they count.
    pub fn is_clean(&self) -> bool {
        self.drifts.is_empty() && self.findings.is_empty() && self.wrong_left_out == 0
    }

    /// How many things are wrong.
    pub fn wrong(&self) -> u64 {
        (self.drifts.len() + self.findings.len()) as u64 + self.wrong_left_out
    }

    /// Everything was checked.
    pub fn is_complete(&self) -> bool {
        self.unchecked.is_empty() && self.unchecked_left_out == 0
    }

    pub(super) fn add(&mut self, sale: &SaleId, found: SaleFindings) {
        self.sales += 1;
        self.skus += found.skus;
        self.holds += found.holds;
        self.ended += found.ended;
        self.orphans += found.orphans;
        self.wrong_left_out += found.left_out;
        let totals = found.totals.map(|(counters, books)| (TOTALS.to_owned(), counters, books));
        let skus = found.drifts.into_iter().map(|drift| (drift.sku, drift.counters, drift.books));
        for (sku, counters, books) in skus.chain(totals) {
            let drift = Drift { sale: sale.clone(), sku, counters, books };
            push(&mut self.drifts, drift, &mut self.wrong_left_out);
        }
        for (subject, what) in found.notes {
            let finding = Finding { sale: sale.clone(), subject, what };
            push(&mut self.findings, finding, &mut self.wrong_left_out);
        }
        for what in found.unchecked {
            push(&mut self.unchecked, Unchecked { sale: sale.clone(), what }, &mut self.unchecked_left_out);
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T, left_out: &mut u64) {
    if list.len() < LINES_MAX {
        list.push(item);
    } else {
        *left_out += 1;
    }
}

/// A SKU in drift, and what its repair must know.
pub(super) struct SkuDrift {
    pub sku: String,
    pub counters: Counts,
    pub books: Counts,
    pub archived: u64,
    pub revision: u64,
    pub ledger: LedgerSum,
}

/// What was found in one sale.
#[derive(Default)]
pub(super) struct SaleFindings {
    pub orphans: u64,
    /// Of the whole sale, against the sums of its SKUs.
    pub totals: Option<(Counts, Counts)>,
    pub drifts: Vec<SkuDrift>,
    /// Ids in the wrong place, or without a good record.
    pub misplaced: BTreeSet<String>,
    pub wrong_buyers: Vec<WrongBuyer>,
    /// The sum of all revisions while the buyers were read.
    pub revisions: u64,
    /// No sum of it can be trusted.
    pub ledger_is_corrupt: bool,
    skus: u64,
    holds: u64,
    ended: u64,
    notes: BTreeSet<(String, String)>,
    unchecked: Vec<String>,
    left_out: u64,
}

impl SaleFindings {
    /// How much the last round saw.
    pub(super) fn seen(&mut self, skus: usize, holds: u64, ended: u64) {
        (self.skus, self.holds, self.ended) = (skus as u64, holds, ended);
    }

    pub(super) fn drift(&mut self, drift: SkuDrift) {
        push(&mut self.drifts, drift, &mut self.left_out);
    }

    pub(super) fn misplaced(&mut self, id: &str, what: &str) {
        if self.misplaced.len() < LINES_MAX {
            self.misplaced.insert(id.to_owned());
        }
        self.note(id, what);
    }

    pub(super) fn note(&mut self, subject: &str, what: &str) {
        if self.notes.len() < LINES_MAX {
            self.notes.insert((subject.to_owned(), what.to_owned()));
        } else if !self.notes.contains(&(subject.to_owned(), what.to_owned())) {
            self.left_out += 1;
        }
    }

    pub(super) fn buyer(&mut self, buyer: WrongBuyer) {
        self.note(&buyer.name, "buyer's counts are not what the records say");
        if self.wrong_buyers.len() < LINES_MAX {
            self.wrong_buyers.push(buyer);
        }
    }

    pub(super) fn not_checked(&mut self, what: &str) {
        self.unchecked.push(what.to_owned());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.drifts.is_empty() {
            let names = self.drifts.iter().map(|drift| drift.sale.as_str().len() + drift.sku.len() + 1);
            let width = names.max().unwrap_or_default().max(8);
            writeln!(
                f,
                "{:width$}  {:>24}  {:>24}  {:>24}  {:>12}",
                "SKU", "HELD", "SOLD", "GRANTED", "AVAILABLE"
            )?;
            for Drift { sale, sku, counters, books } in &self.drifts {
                let name = format!("{sale}/{sku}");
                let held = beside(counters.held, books.held);
                let sold = beside(counters.sold, books.sold);
                let granted = beside(counters.granted, books.granted);
                let available = if counters.balance() {
                    beside(counters.available, books.available)
                } else {
                    format!("{} (unbalanced)", counters.available)
                };
                writeln!(f, "{name:width$}  {held:>24}  {sold:>24}  {granted:>24}  {available:>12}")?;
            }
        }
        for Finding { sale, subject, what } in &self.findings {
            writeln!(f, "{sale}/{subject}: {what}")?;
        }
        if self.wrong_left_out > 0 {
            writeln!(f, "... and {} more", self.wrong_left_out)?;
        }
        for Unchecked { sale, what } in &self.unchecked {
            writeln!(f, "{sale}/{what}: not checked, it moved whenever it was read")?;
        }
        if self.unchecked_left_out > 0 {
            writeln!(f, "... and {} more not checked", self.unchecked_left_out)?;
        }
        let verdict = match (self.is_clean(), self.is_complete()) {
            (true, true) => "the books balance",
            (true, false) => "no drift in what was checked",
            (false, _) => "DRIFT",
        };
        let Report { sales, skus, holds, ended, orphans, .. } = self;
        write!(
            f,
            "{sales} sales, {skus} SKUs, {holds} holds, {ended} ended reservations, {orphans} orphans: {verdict}"
        )
    }
}

/// The counter, and what it should be where that is something else.
fn beside(counter: u64, books: u64) -> String {
    if counter == books { counter.to_string() } else { format!("{counter} (books: {books})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_sku_in_drift_and_a_summary() {
        let mut found = SaleFindings::default();
        found.seen(2, 3, 4);
        let counters = Counts { available: 5, held: 2, sold: 3, granted: 10 };
        let books = Counts { held: 1, ..counters };
        let ledger = LedgerSum::default();
        found.drift(SkuDrift { sku: "red".into(), counters, books, archived: 0, revision: 0, ledger });
        found.note("AAAAAAAAAAAAAAAAAAAAAA", "no record");
        let mut report = Report::default();
        report.add(&"drop".parse().unwrap(), found);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("drop/red") && lines[1].contains("2 (books: 1)"), "{text}");
        assert_eq!(lines[2], "drop/AAAAAAAAAAAAAAAAAAAAAA: no record");
        assert_eq!(lines[3], "1 sales, 2 SKUs, 3 holds, 4 ended reservations, 0 orphans: DRIFT");
        assert!(!report.is_clean() && report.is_complete());
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut found = SaleFindings::default();
        for n in 0..LINES_MAX + 5 {
            found.note(&n.to_string(), "no record");
        }
        let mut report = Report::default();
        report.add(&"drop".parse().unwrap(), found);
        assert_eq!((report.findings.len(), report.wrong_left_out), (LINES_MAX, 5));
    }
}
