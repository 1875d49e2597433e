//! What operators watch: the sales that matter most now, and their stock.

use super::{Store, StoreError, checks};
use crate::domain::page::PAGE_LIMIT_MAX;
use crate::domain::{Decision, Level, PageRequest, Sale, SaleId, SaleStatus};

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
    /// What sells first, then what will, then what has sold.
    pub sales: Vec<Sale>,
    /// Levels of their SKUs: as many of each sale, the first by name.
    pub levels: Vec<(SaleId, Level)>,
    /// Sales beyond the limit.
    pub sales_left_out: u64,
    /// SKUs beyond the limit, as far as their sales were read.
    pub skus_left_out: u64,
}

impl Store {
    /// Reads what is to be watched. A sale that cannot be read is left out.
    pub async fn watched(&self, limits: WatchLimits) -> Result<Watched, StoreError> {
        let (mut sales, mut left_out) = self.all_sales().await?;
        sales.sort_by_key(rank);
        let skus: u64 = sales.iter().map(|sale| sale.skus).sum();
        left_out += sales.len().saturating_sub(limits.sales) as u64;
        sales.truncate(limits.sales);
        let levels = self.some_levels(&sales, limits.skus).await?;
        let skus_left_out = skus.saturating_sub(levels.len() as u64);
        Ok(Watched { sales, levels, sales_left_out: left_out, skus_left_out })
    }

    /// All sales, and how many there are besides.
    async fn all_sales(&self) -> Result<(Vec<Sale>, u64), StoreError> {
        let (mut sales, mut left_out) = (Vec::new(), 0);
        let mut page = PageRequest { limit: PAGE_LIMIT_MAX, after: None };
        loop {
            let (entries, next) = self.sale_entries(&page).await?;
            for (sale, generation) in entries.iter().filter(|(sale, _)| !checks::is_internal(sale)) {
                if sales.len() == SALES_READ_MAX {
                    left_out += 1;
                    continue;
                }
                match self.sale_or_tombstone(sale).await {
                    Ok(Some(sale)) if sale.generation == *generation && !sale.is_deleted => sales.push(sale),
                    Ok(_) => {}
                    Err(StoreError::Corrupt(_)) => left_out += 1,
                    Err(error) => return Err(error),
                }
            }
            if next.is_none() {
                return Ok((sales, left_out));
            }
            page.after = next;
        }
    }

    /// Those with few SKUs leave their share to the others.
    async fn some_levels(&self, sales: &[Sale], skus_max: usize) -> Result<Vec<(SaleId, Level)>, StoreError> {
        let mut order: Vec<&Sale> = sales.iter().collect();
        order.sort_by_key(|sale| sale.skus);
        let mut levels = Vec::new();
        for (place, sale) in order.iter().enumerate() {
            let mut share = (skus_max - levels.len()) / (order.len() - place);
            let mut after = None;
            while share > 0 {
                let page = PageRequest { limit: share.min(PAGE_LIMIT_MAX), after };
                let found = match self.levels(&sale.sale, &page).await {
                    Ok(Decision::Done(_, found)) => found,
                    Ok(Decision::Refused(_)) | Err(StoreError::Corrupt(_)) => break,
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
        Ok(levels)
    }
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
