//! The audit: counters against records and ledger, read in pages while the sale goes on.
//!
//! A SKU is judged only if its revision stood still between the first and the last read; what moved is tried again,
//! and in the end named as not checked. Records are found through `due` and `done`: one that is in neither can't be
//! seen itself, but its units are missing from the sums of its SKUs. `repair` sets right what can be set right exactly.

mod buyers;
mod ledger;
mod records;
mod repair;
mod report;
mod turn;

pub use repair::{Repair, Repaired};
pub use report::{Counts, Drift, Finding, Report, Unchecked};
pub use turn::LastAudit;

use super::keys::SaleKeys;
use super::stock::hash_values;
use super::{Store, StoreError, reply};
use crate::domain::{PageRequest, SaleId};
use ledger::LedgerSum;
use records::Place;
use report::{SaleFindings, SkuDrift};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Entries of any page that is read.
const PAGE_MAX: usize = 500;
/// SKUs whose levels are read at a time.
const PAGE_SKUS: usize = 80;
/// How often SKUs that moved are tried again.
const ROUNDS_MAX: usize = 5;

/// The counters of a SKU, as they stand in the stock hash.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    counts: Counts,
    archived: u64,
    revision: u64,
}

/// The counters of a sale: `None` where they aren't numbers.
type Levels = BTreeMap<String, Option<Level>>;

/// What records and ledger say of a SKU.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    held: u64,
    sold: u64,
    ledger: LedgerSum,
}

/// What a round has added up.
#[derive(Default)]
struct Round {
    sums: HashMap<String, Sums>,
    holds: u64,
    ended: u64,
    counts_for_buyers: bool,
}

impl Store {
    /// Checks the books of a sale, or of all.
    pub async fn audit(&self, sale: Option<&SaleId>) -> Result<Report, StoreError> {
        let mut report = Report::default();
        if let Some(sale) = sale {
            self.audit_sale(sale, &mut report).await?;
            return Ok(report);
        }
        let mut page = PageRequest { limit: PAGE_MAX, after: None };
        loop {
            let (entries, next) = self.sale_entries(&page).await?;
            for (sale, _) in entries {
                self.audit_sale(&sale, &mut report).await?;
            }
            match next {
                Some(_) => page.after = next,
                None => return Ok(report),
            }
        }
    }

    async fn audit_sale(&self, sale: &SaleId, report: &mut Report) -> Result<(), StoreError> {
        if let Some((found, _)) = self.findings(sale).await? {
            report.add(sale, found);
        }
        Ok(())
    }

    /// What is found in a sale, and its generation; none when there is no such sale.
    async fn findings(&self, sale: &SaleId) -> Result<Option<(SaleFindings, String)>, StoreError> {
        let keys = SaleKeys::new(sale);
        let Some(generation) = self.live_generation(&keys).await? else { return Ok(None) };
        let mut found = SaleFindings::default();
        match self.audit_books(&keys, &mut found).await {
            Err(StoreError::Corrupt(what)) => found.note(&what, "holds what no script wrote"),
            Err(StoreError::Reply(what)) => found.note("(keys)", &what),
            audited => audited?,
        }
        // Of a sale that was deleted meanwhile, nothing that was found means anything.
        let is_there = self.live_generation(&keys).await?.as_ref() == Some(&generation);
        Ok(is_there.then_some((found, generation)))
    }

    async fn live_generation(&self, keys: &SaleKeys) -> Result<Option<String>, StoreError> {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys.rules()).arg(&["generation", "status"]);
        Ok(match &hash_values(self.query(&cmd).await?)?[..] {
            [Some(generation), Some(status)] if status != "deleted" => Some(generation.clone()),
            _ => None,
        })
    }

    async fn audit_books(&self, keys: &SaleKeys, found: &mut SaleFindings) -> Result<(), StoreError> {
        let mut checked = BTreeSet::new();
        let mut totals_are_checked = false;
        let mut counts_for_buyers = false;
        for _ in 0..ROUNDS_MAX {
            let before = self.audit_levels(keys).await?;
            let totals = self.audit_totals(keys).await?;
            let round = self.audit_round(keys, found).await?;
            let after = self.audit_levels(keys).await?;
            found.seen(after.len(), round.holds, round.ended);
            counts_for_buyers |= round.counts_for_buyers;
            for (sku, level) in &before {
                if after.get(sku) == Some(level) && checked.insert(sku.clone()) {
                    judge(sku, level.as_ref(), round.sums.get(sku).copied().unwrap_or_default(), found);
                }
            }
            for sku in round.sums.keys().filter(|sku| !after.contains_key(*sku)) {
                found.note(sku, "named by records or ledger, but not on sale");
            }
            if before == after && totals == self.audit_totals(keys).await? {
                judge_totals(&after, totals, found);
                totals_are_checked = true;
            }
            if totals_are_checked && before.keys().all(|sku| checked.contains(sku)) {
                break;
            }
        }
        found.orphans = self.orphan_count(keys).await?;
        for sku in self.audit_levels(keys).await?.into_keys().filter(|sku| !checked.contains(sku)) {
            found.not_checked(&sku);
        }
        if !totals_are_checked {
            found.not_checked("totals of the sale");
        }
        self.audit_buyers(keys, counts_for_buyers, found).await
    }

    /// Adds up records and ledger once, and notes ids that are not in their place.
    async fn audit_round(&self, keys: &SaleKeys, found: &mut SaleFindings) -> Result<Round, StoreError> {
        let mut round = Round::default();
        for place in [Place::Due, Place::Done, Place::Pinned] {
            self.walk(keys, place, |seen| {
                if let Some(what) = seen.misplaced() {
                    found.misplaced(&seen.id, what);
                }
                if !seen.counts_in(place) {
                    return;
                }
                match place {
                    Place::Due => round.holds += 1,
                    Place::Done => round.ended += 1,
                    Place::Pinned => {}
                }
                let Some(record) = &seen.record else { return };
                round.counts_for_buyers |= record.counts_for_buyer();
                for line in &record.lines {
                    let sums = round.sums.entry(line.sku.clone()).or_default();
                    sums.held += line.held;
                    sums.sold += line.sold;
                }
            })
            .await?;
        }
        self.add_up_ledger(keys, &mut round, found).await?;
        Ok(round)
    }

    async fn audit_levels(&self, keys: &SaleKeys) -> Result<Levels, StoreError> {
        let mut levels = Levels::new();
        let mut from = "-".to_owned();
        loop {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(&keys.skus).arg(&from).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(PAGE_SKUS);
            let skus = reply::texts(self.query(&cmd).await?)?;
            let Some(last) = skus.last() else { return Ok(levels) };
            from = format!("({last}");
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(keys.stock());
            for sku in &skus {
                for field in ["a", "h", "s", "g", "x", "r"] {
                    cmd.arg(format!("{sku}:{field}"));
                }
            }
            let values = hash_values(self.query(&cmd).await?)?;
            levels.extend(skus.into_iter().zip(values.chunks_exact(6).map(read_level)));
        }
    }

    async fn audit_totals(&self, keys: &SaleKeys) -> Result<Option<Counts>, StoreError> {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys.stock()).arg(&[":a", ":h", ":s", ":g"]);
        Ok(read_counts(&hash_values(self.query(&cmd).await?)?))
    }

    async fn orphan_count(&self, keys: &SaleKeys) -> Result<u64, StoreError> {
        let mut cmd = redis::cmd("ZCARD");
        cmd.arg(keys.orphans());
        redis::from_redis_value(self.query(&cmd).await?).map_err(|error| StoreError::Reply(error.to_string()))
    }
}

fn read_counts(values: &[Option<String>]) -> Option<Counts> {
    let number = |at: usize| values.get(at)?.as_deref()?.parse().ok();
    Some(Counts { available: number(0)?, held: number(1)?, sold: number(2)?, granted: number(3)? })
}

fn read_level(values: &[Option<String>]) -> Option<Level> {
    let archived = values[4].as_deref().unwrap_or("0").parse().ok()?;
    let revision = values[5].as_deref()?.parse().ok()?;
    Some(Level { counts: read_counts(values)?, archived, revision })
}

fn judge(sku: &str, level: Option<&Level>, sums: Sums, found: &mut SaleFindings) {
    let Some(Level { counts, archived, revision }) = level else {
        return found.note(sku, "its counters are not numbers");
    };
    let books = Counts {
        available: counts.available,
        held: sums.held,
        sold: sums.sold + archived,
        granted: u64::try_from(sums.ledger.granted).unwrap_or_default(),
    };
    if books != *counts || !counts.balance() {
        let (sku, counters, ledger) = (sku.to_owned(), *counts, sums.ledger);
        let (archived, revision) = (*archived, *revision);
        found.drift(SkuDrift { sku, counters, books, archived, revision, ledger });
    }
}

fn judge_totals(levels: &Levels, totals: Option<Counts>, found: &mut SaleFindings) {
    let mut sum = Counts::default();
    for Level { counts, .. } in levels.values().flatten() {
        sum.add(counts);
    }
    // A sale without SKUs has no totals yet.
    match totals {
        Some(totals) if totals != sum => found.totals = Some((totals, sum)),
        None if !levels.is_empty() => found.note(report::TOTALS, "its counters are not numbers"),
        _ => {}
    }
}
