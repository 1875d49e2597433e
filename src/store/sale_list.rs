//! The registry of sales, and the list that is made from it.

use super::checks::SELF_TEST;
use super::keys::SaleKeys;
use super::{Store, StoreError, keys, reply};
use crate::domain::page::PAGE_LIMIT_MAX;
use crate::domain::{Caller, Page, PageRequest, Sale, SaleId};
use redis::Value;

/// Sales with their incarnations, and the cursor of the next page.
type Entries = (Vec<(SaleId, String)>, Option<String>);

impl Store {
    /// A page of the sales that the caller may see, by name.
    pub async fn sales(&self, caller: &Caller, page: &PageRequest) -> Result<Page<Sale>, StoreError> {
        let (entries, next) = match caller.may_see_all() {
            true => self.sale_entries(page).await?,
            false => self.visible_entries(caller, page).await?,
        };
        let mut items = Vec::new();
        for (sale, generation) in entries {
            match self.sale_or_tombstone(&sale).await? {
                Some(found) if found.generation == generation => {
                    if !found.is_deleted && !sale.as_str().starts_with(SELF_TEST) {
                        items.push(found);
                    }
                }
                _ => self.unregister_absent(&sale, &generation).await?,
            }
        }
        Ok(Page { items, next })
    }

    /// Looks on until the page is full: a cursor must not tell the name of a sale that the caller may not see.
    async fn visible_entries(&self, caller: &Caller, page: &PageRequest) -> Result<Entries, StoreError> {
        let mut found: Vec<(SaleId, String)> = Vec::new();
        let mut looked_at = PageRequest { limit: PAGE_LIMIT_MAX, after: page.after.clone() };
        loop {
            let (entries, next) = self.sale_entries(&looked_at).await?;
            for entry in entries.into_iter().filter(|(sale, _)| caller.may_see(sale)) {
                match found.last() {
                    Some((sale, generation)) if found.len() == page.limit => {
                        let next = keys::sales_entry(sale, generation);
                        return Ok((found, Some(next)));
                    }
                    _ => found.push(entry),
                }
            }
            if next.is_none() {
                return Ok((found, None));
            }
            looked_at.after = next;
        }
    }

    /// A page of the registry.
    pub async fn sale_entries(&self, page: &PageRequest) -> Result<Entries, StoreError> {
        let from = page.after.as_ref().map_or("-".to_owned(), |after| format!("({after}"));
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(keys::SALES).arg(from).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(page.limit);
        let entries = reply::texts(self.query(&cmd).await?)?;
        let next = if entries.len() == page.limit { entries.last().cloned() } else { None };
        let split = |entry: &String| {
            let (sale, generation) = entry.split_once(':')?;
            let is_left = sale.starts_with(SELF_TEST);
            let sale = if is_left { SaleId::internal(sale) } else { sale.parse().ok()? };
            Some((sale, generation.to_owned()))
        };
        Ok((entries.iter().filter_map(split).collect(), next))
    }

    /// Removes an entry that stood for no incarnation when somebody looked.
    ///
    /// A sale is registered, created, and registered once more. Both of the latter may have come between that look and
    /// the removal here, and a sale without an entry would never be swept: so it is looked at again.
    pub async fn unregister_absent(&self, sale: &SaleId, generation: &str) -> Result<(), StoreError> {
        self.unregister(sale, generation).await?;
        let mut cmd = redis::cmd("HGET");
        cmd.arg(SaleKeys::new(sale).rules()).arg("generation");
        match self.query(&cmd).await? {
            Value::BulkString(present) if present == generation.as_bytes() => {
                self.register(sale, generation).await
            }
            _ => Ok(()),
        }
    }

    /// Removes the entry of an incarnation that is gone for good.
    pub(super) async fn unregister(&self, sale: &SaleId, generation: &str) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(keys::SALES).arg(keys::sales_entry(sale, generation));
        self.query(&cmd).await.map(drop)
    }
}
