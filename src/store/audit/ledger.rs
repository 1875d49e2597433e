//! Adding up the ledger of a sale.

use super::Round;
use super::report::SaleFindings;
use crate::store::keys::SaleKeys;
use crate::store::reply::Fields;
use crate::store::stock::stream_entries;
use crate::store::{Store, StoreError};

/// What the ledger says of a SKU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LedgerSum {
    /// The sum of its deltas.
    pub granted: i64,
    /// The first entry is the initial one.
    pub begins: bool,
    /// Some entry does not say what the deltas up to it add up to: one is missing, or was changed.
    pub is_torn: bool,
}

impl LedgerSum {
    fn add(&mut self, entry: &Entry, is_first: bool) {
        if is_first {
            self.begins = entry.is_initial;
        }
        self.granted = self.granted.saturating_add(entry.delta);
        self.is_torn |= self.granted != entry.granted;
    }
}

struct Entry {
    sku: String,
    granted: i64,
    delta: i64,
    is_initial: bool,
}

impl Entry {
    /// `operation, SKU, a, h, s, g, limit, delta, reason, ...`, one a line.
    fn read(fields: &[String]) -> Option<Self> {
        let fields = fields.get(1)?;
        let mut lines = Fields::of(fields);
        let mut next = || lines.text().ok();
        let (_operation, sku) = (next()?, next()?.to_owned());
        let [_a, _h, _s, granted, _limit, delta] = [next()?, next()?, next()?, next()?, next()?, next()?];
        let is_initial = next()? == "initial";
        Some(Self { sku, granted: granted.parse().ok()?, delta: delta.parse().ok()?, is_initial })
    }
}

impl Store {
    pub(super) async fn add_up_ledger(
        &self,
        keys: &SaleKeys,
        round: &mut Round,
        found: &mut SaleFindings,
    ) -> Result<(), StoreError> {
        let mut from = "-".to_owned();
        let mut known = std::collections::HashSet::new();
        let page = self.audit_page();
        loop {
            let begun = std::time::Instant::now();
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(&keys.adjustments).arg(&from).arg("+").arg("COUNT").arg(page);
            let entries = stream_entries(self.query(&cmd).await?)?;
            for (id, fields) in &entries {
                match Entry::read(fields) {
                    Some(entry) => {
                        let is_first = known.insert(entry.sku.clone());
                        round.sums.entry(entry.sku.clone()).or_default().ledger.add(&entry, is_first);
                    }
                    None => {
                        found.ledger_is_corrupt = true;
                        found.note(id, "entry of the ledger is corrupt");
                    }
                }
            }
            self.audit_rest(begun).await;
            match entries.last() {
                Some((id, _)) if entries.len() == page => from = format!("({id}"),
                _ => return Ok(()),
            }
        }
    }
}
