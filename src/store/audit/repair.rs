//! Sets right what an audit has found wrong, where that can be done exactly (`docs/adr/0015-repair.md`).
//!
//! Every write is a script that compares what it meets with what the audit has read: what has moved since is read again.
//! Ids come first (which records there are), then levels (what they add up to) and totals, then buyers.

use super::PAGE_MAX;
use super::buyers::WrongBuyer;
use super::report::{LINES_MAX, SaleFindings, SkuDrift, TOTALS};
use crate::domain::{PageRequest, SaleId};
use crate::store::keys::SaleKeys;
use crate::store::reply::{self, Fields};
use crate::store::{Store, StoreError, ids};
use std::collections::BTreeSet;
use std::fmt;

/// How often what has moved is read again.
const ROUNDS_MAX: usize = 5;
/// Ids, SKUs or buyers of one script call.
const CALL_MAX: usize = 100;

/// One thing that was set right, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// An id of 22 characters, a buyer, a SKU, `(totals)`.
    pub subject: String,
    /// What was done, or why nothing was.
    pub what: String,
}

/// What was done in a sale.
#[derive(Debug)]
pub struct Repair {
    /// The sale.
    pub sale: SaleId,
    /// Line by line.
    pub lines: Vec<Repaired>,
    /// Lines that did not fit.
    pub left_out: u64,
}

impl Repair {
    fn say(&mut self, subject: &str, what: impl Into<String>) {
        let line = Repaired { subject: subject.to_owned(), what: what.into() };
        if self.lines.contains(&line) {
            // A refusal is said once, however often it is met.
        } else if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        } else {
            self.left_out += 1;
        }
    }

    fn refuse(&mut self, subject: &str, why: &str) {
        self.say(subject, format!("not repaired: {why}"));
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Repaired { subject, what } in &self.lines {
            writeln!(f, "{}/{subject}: {what}", self.sale)?;
        }
        match self.left_out {
            0 => Ok(()),
            more => writeln!(f, "... and {more} more"),
        }
    }
}

/// A sale whose repair is under way.
struct Site<'a> {
    sale: &'a SaleId,
    keys: SaleKeys,
    generation: String,
}

impl Store {
    /// Sets right what is wrong in a sale, or in all.
    pub async fn repair_all(&self, sale: Option<&SaleId>) -> Result<Vec<Repair>, StoreError> {
        if let Some(sale) = sale {
            return Ok(self.repair(sale).await?.into_iter().collect());
        }
        let (mut page, mut repairs) = (PageRequest { limit: PAGE_MAX, after: None }, Vec::new());
        loop {
            let (entries, next) = self.sale_entries(&page).await?;
            for (sale, _) in entries {
                repairs.extend(self.repair(&sale).await?.filter(|repair| !repair.lines.is_empty()));
            }
            match next {
                Some(_) => page.after = next,
                None => return Ok(repairs),
            }
        }
    }

    /// Sets right what is wrong in a sale; none when there is no such sale.
    pub async fn repair(&self, sale: &SaleId) -> Result<Option<Repair>, StoreError> {
        let mut repair = Repair { sale: sale.clone(), lines: Vec::new(), left_out: 0 };
        let Some((mut found, generation)) = self.findings(sale).await? else { return Ok(None) };
        let site = Site { sale, keys: SaleKeys::new(sale), generation };
        for round in 1..=ROUNDS_MAX {
            let placed = self.repair_places(&site, &found.misplaced, &mut repair).await?;
            if placed && !found.misplaced.is_empty() {
                let Some((again, _)) = self.findings(sale).await? else { return Ok(None) };
                found = again;
            }
            let moved = self.repair_levels(&site, &found, round, &mut repair).await?;
            // A level that was set right has a new revision: what was read of buyers before is read again.
            let moved = self.repair_buyers(&site, &found, round, &mut repair).await? || moved;
            if placed && !moved {
                break;
            }
            let Some((again, _)) = self.findings(sale).await? else { return Ok(None) };
            found = again;
        }
        Ok(Some(repair))
    }

    /// The record decides where its id belongs; one without a good record is an orphan. Whether it could be asked: a
    /// level that is out of balance stands in the way, and is set right first.
    async fn repair_places(
        &self,
        site: &Site<'_>,
        misplaced: &BTreeSet<String>,
        repair: &mut Repair,
    ) -> Result<bool, StoreError> {
        let all: Vec<String> = misplaced.iter().cloned().collect();
        for some in all.chunks(CALL_MAX) {
            match self.expire(site.sale, some).await {
                Err(StoreError::Corrupt(_)) => return Ok(false),
                expired => expired?,
            };
            for id in some {
                repair.say(id, "repaired: it stands where its record says, or among the orphans");
            }
        }
        Ok(true)
    }

    /// Whether something had moved.
    async fn repair_levels(
        &self,
        site: &Site<'_>,
        found: &SaleFindings,
        round: usize,
        repair: &mut Repair,
    ) -> Result<bool, StoreError> {
        let mut sound: Vec<&SkuDrift> = Vec::new();
        for drift in &found.drifts {
            if found.ledger_is_corrupt {
                repair.refuse(&drift.sku, "an entry of the ledger is corrupt");
            } else if !drift.ledger.begins {
                repair.refuse(&drift.sku, "its ledger does not begin with its initial stock");
            } else {
                sound.push(drift);
            }
        }
        let mut moved = false;
        // At least once: the totals are added up anew by every call.
        let mut chunks: Vec<&[&SkuDrift]> = sound.chunks(CALL_MAX).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        for some in chunks {
            let texts = match self.call_repair(site, some).await {
                Err(StoreError::Corrupt(what)) => {
                    repair.refuse(&what, "holds what no script wrote");
                    return Ok(false);
                }
                texts => texts?,
            };
            let [ok, _, _, _, answers @ .., totals] = &texts[..] else { return Ok(false) };
            if ok != "ok" || answers.len() != some.len() {
                return Err(StoreError::Reply("as many answers as SKUs were expected".into()));
            }
            for (drift, answer) in some.iter().zip(answers) {
                moved |= say_level(drift, answer, round, repair)?;
            }
            match totals.as_str() {
                "totals_repaired" => repair.say(TOTALS, "repaired: they are the sums of the SKUs"),
                "totals_right" | "totals_unknown" => {}
                _ => return Err(StoreError::Reply("unknown word".into())),
            }
        }
        Ok(moved)
    }

    async fn call_repair(&self, site: &Site<'_>, some: &[&SkuDrift]) -> Result<Vec<String>, StoreError> {
        let (script, keys) = (&self.scripts().repair, &site.keys);
        let mut cmd = script.call(7);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(keys.due()).arg(keys.pinned());
        cmd.arg(keys.events()).arg(&keys.adjustments).arg(self.offset_ms()).arg(&site.generation);
        for drift in some {
            let seen = drift.counters;
            let (a, h, s, g) = (seen.available, seen.held, seen.sold, seen.granted);
            cmd.arg(&drift.sku).arg(ids::short(uuid::Uuid::new_v4())).arg(drift.revision);
            cmd.arg(format!("{a},{h},{s},{g},{}", drift.archived));
            cmd.arg(drift.books.held).arg(drift.books.sold).arg(drift.ledger.granted);
            cmd.arg(if drift.ledger.is_torn { "0" } else { "1" });
        }
        self.call(script, &cmd).await
    }

    /// Whether something had moved.
    async fn repair_buyers(
        &self,
        site: &Site<'_>,
        found: &SaleFindings,
        round: usize,
        repair: &mut Repair,
    ) -> Result<bool, StoreError> {
        let mut known: Vec<(&WrongBuyer, &str)> = Vec::new();
        for buyer in &found.wrong_buyers {
            match &buyer.right {
                Some(right) => known.push((buyer, right)),
                None => repair.refuse(&buyer.name, "records that may have counted for him were archived"),
            }
        }
        let (script, keys, mut moved) = (&self.scripts().repair_buyers, &site.keys, false);
        for some in known.chunks(CALL_MAX) {
            let mut cmd = script.call(3 + crate::store::keys::BUYER_BUCKETS);
            cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus);
            for bucket in 0..crate::store::keys::BUYER_BUCKETS as u8 {
                cmd.arg(keys.buyers(bucket));
            }
            cmd.arg(&site.generation).arg(found.revisions);
            for (buyer, right) in some {
                cmd.arg(buyer.bucket).arg(&buyer.name).arg(&buyer.seen).arg(right);
            }
            let texts = self.call(script, &cmd).await?;
            for ((buyer, right), answer) in some.iter().zip(texts.iter().skip(4)) {
                match answer.as_str() {
                    "repaired" => {
                        let shown =
                            |text: &str| if text.is_empty() { "nothing".into() } else { text.to_owned() };
                        repair.say(
                            &buyer.name,
                            format!("repaired: counted {}, was {}", shown(right), shown(&buyer.seen)),
                        );
                    }
                    "moved" if round < ROUNDS_MAX => moved = true,
                    "moved" => repair.refuse(&buyer.name, MOVED),
                    _ => return Err(StoreError::Reply("unknown word".into())),
                }
            }
        }
        Ok(moved)
    }
}

const MOVED: &str = "it moved whenever it was read";

/// Says what became of a level; whether it had moved, and is to be read again.
fn say_level(drift: &SkuDrift, answer: &str, round: usize, repair: &mut Repair) -> Result<bool, StoreError> {
    let mut fields = Fields::of(answer);
    let word = fields.text()?;
    match word {
        "moved" if round < ROUNDS_MAX => return Ok(true),
        "moved" => repair.refuse(&drift.sku, MOVED),
        "oversold" => {
            let more = fields.text()?;
            let why = format!("{more} units more are held and sold than the ledger has granted");
            repair.refuse(&drift.sku, &why);
        }
        "repaired" | "written_off" => {
            let level = reply::level(crate::domain::Timestamp::default(), &mut fields)?;
            let delta: i64 = reply::number(fields.text()?)?;
            let was = drift.counters;
            let written_off = match delta {
                0 => String::new(),
                delta => format!("; {} units written off, see its ledger", -delta),
            };
            repair.say(
                &drift.sku,
                format!(
                    "repaired: available {}, held {}, sold {}, granted {}; was {}, {}, {}, {}{written_off}",
                    level.available,
                    level.held,
                    level.sold,
                    level.granted,
                    was.available,
                    was.held,
                    was.sold,
                    was.granted
                ),
            );
        }
        _ => return Err(StoreError::Reply("unknown word".into())),
    }
    Ok(false)
}
