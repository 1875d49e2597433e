//! What operators watch: the sales that matter most now and their stock, and the holds of all sales.

use super::keys::SaleKeys;
use super::{Store, StoreError, checks};
use crate::domain::page::PAGE_LIMIT_MAX;
use crate::domain::{Decision, Level, PageRequest, Sale, SaleId, SaleStatus};
use redis::Value;

/// Sales that one look reads; of more only the first by name are seen.
const SALES_READ_MAX: usize = 500;

/// How many are watched at most, so that their series stay few.
#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// Sales.
    pub sales: usize,
    /// SKUs over all sales.
    pub skus: usize,
}

/// Sales and levels as they are.
#[derive(Debug, Default)]
pub struct Watched {
    /// Of all sales.
    pub holds: Holds,
    /// What sells first, then what will, then what has sold.
    pub sales: Vec<Sale>,
    /// Levels of their SKUs: as many of each sale, the first by name.
    pub levels: Vec<(SaleId, Level)>,
    /// Sales beyond the limit.
    pub sales_left_out: u64,
    /// Sales that cannot be read, because they do not add up or hold what no script wrote.
    pub sales_unreadable: u64,
    /// SKUs beyond the limit, as far as their sales were read.
    pub skus_left_out: u64,
}

/// Holds over all sales.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holds {
    /// Open ones, pinned parts of orders included.
    pub open: u64,
    /// Of these, past their deadline.
    pub overdue: u64,
    /// Ids without a good record.
    pub orphans: u64,
}

impl Store {
    /// Reads what is to be watched.
    pub async fn watched(&self, limits: WatchLimits) -> Result<Watched, StoreError> {
        let mut watched = Watched::default();
        self.read_sales(&mut watched).await?;
        watched.sales.sort_by_key(rank);
        let skus: u64 = watched.sales.iter().map(|sale| sale.skus).sum();
        watched.sales_left_out += watched.sales.len().saturating_sub(limits.sales) as u64;
        watched.sales.truncate(limits.sales);
        self.read_some_levels(&mut watched, limits.skus).await?;
        watched.skus_left_out = skus.saturating_sub(watched.levels.len() as u64);
        Ok(watched)
    }

    /// Counts holds, whether anybody sweeps or not.
    async fn count_holds(
        &self,
        sales: impl Iterator<Item = &SaleId>,
        holds: &mut Holds,
    ) -> Result<(), StoreError> {
        let now_ms = self.now().await?.as_ms();
        let counts: Vec<_> = sales.flat_map(|sale| hold_counts(sale, now_ms)).collect();
        let answers = self.committer.pool.query_all(&counts).await;
        for (place, answer) in answers.into_iter().enumerate() {
            let count = match answer {
                Ok(Value::Int(count)) => u64::try_from(count).unwrap_or(0),
                // What is no list of ids is the auditor's affair.
                Ok(_) | Err(StoreError::Reply(_) | StoreError::Corrupt(_)) => 0,
                Err(error) => return self.note(Err(error)),
            };
            *[&mut holds.open, &mut holds.overdue, &mut holds.orphans][place % 3] += count;
        }
        Ok(())
    }

    /// Goes through the registry: counts the holds of all sales, and reads as many sales as it may.
    async fn read_sales(&self, watched: &mut Watched) -> Result<(), StoreError> {
        let mut page = PageRequest { limit: PAGE_LIMIT_MAX, after: None };
        loop {
            let (mut entries, next) = self.sale_entries(&page).await?;
            entries.retain(|(sale, _)| !checks::is_internal(sale));
            self.count_holds(entries.iter().map(|(sale, _)| sale), &mut watched.holds).await?;
            for (sale, generation) in &entries {
                if watched.sales.len() == SALES_READ_MAX {
                    watched.sales_left_out += 1;
                    continue;
                }
                match self.sale_or_tombstone(sale).await {
                    Ok(Some(sale)) if sale.generation == *generation && !sale.is_deleted => {
                        watched.sales.push(sale);
                    }
                    Ok(_) => {}
                    Err(StoreError::Corrupt(_)) => watched.sales_unreadable += 1,
                    Err(error) => return Err(error),
                }
            }
            if next.is_none() {
                return Ok(());
            }
            page.after = next;
        }
    }

    /// Sales with few SKUs leave their share to the others.
    async fn read_some_levels(&self, watched: &mut Watched, skus_max: usize) -> Result<(), StoreError> {
        let Watched { sales, levels, sales_unreadable, .. } = watched;
        let mut order: Vec<&Sale> = sales.iter().collect();
        order.sort_by_key(|sale| sale.skus);
        for (place, sale) in order.iter().enumerate() {
            let mut share = (skus_max - levels.len()) / (order.len() - place);
            let mut after = None;
            while share > 0 {
                let page = PageRequest { limit: share.min(PAGE_LIMIT_MAX), after };
                let found = match self.levels(&sale.sale, &page).await {
                    Ok(Decision::Done(_, found)) => found,
                    Ok(Decision::Refused(_)) => break,
                    Err(StoreError::Corrupt(_)) => {
                        *sales_unreadable += 1;
                        break;
                    }
                    Err(error) => return Err(error),
                };
                share -= found.items.len();
                levels.extend(found.items.into_iter().map(|level| (sale.sale.clone(), level)));
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Open, overdue, orphans.
fn hold_counts(sale: &SaleId, now_ms: i64) -> [redis::Cmd; 3] {
    let keys = SaleKeys::new(sale);
    let mut counts = ["ZCARD", "ZCOUNT", "ZCARD"].map(redis::cmd);
    counts[0].arg(keys.due());
    counts[1].arg(keys.due()).arg("-inf").arg(now_ms);
    counts[2].arg(keys.orphans());
    counts
}

/// What matters most first; the same in every process.
fn rank(sale: &Sale) -> impl Ord + use<> {
    let urgency = match sale.status {
        SaleStatus::Open => 0,
        SaleStatus::Paused => 1,
        SaleStatus::Scheduled => 2,
        SaleStatus::Closed => 3,
    };
    let opens_at = sale.opens_at.filter(|_| sale.status == SaleStatus::Scheduled);
    (urgency, opens_at, sale.sale.clone())
}
