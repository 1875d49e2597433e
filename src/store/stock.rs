//! The ledger of supply, and what a buyer has.

use super::group_commit::{Body, Request, Verb};
use super::keys::SaleKeys;
use super::reply::{self, Fields};
use super::{Decided, SaleHandle, Store, StoreError, ids};
use crate::domain::*;
use redis::Value;

/// Entries of the ledger that one page of a SKU looks at; a page may then be short, but has a `next`.
const LEDGER_ENTRIES_MAX: usize = 5_000;

impl Store {
    /// Changes the supply of a SKU.
    pub async fn adjust(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        sku: &Sku,
        request: Adjust,
    ) -> Decided<Adjustment> {
        let (delta, if_granted) =
            (request.delta.to_string(), request.if_granted.map(|units| units.to_string()));
        let if_granted = if_granted.unwrap_or_default();
        let reference = request.reference.as_ref().map_or("", Reference::as_str);
        let parts = [sku.as_str(), &delta, &if_granted, request.reason.as_str(), reference];
        let fingerprint = ids::fingerprint(parts.map(str::as_bytes));
        let prepare = |handle: &SaleHandle| {
            let operation = handle.ids.operation(&format!("adjust {sku}"), caller, key);
            let [sku, delta, if_granted, reason, reference] = parts.map(str::to_owned);
            let args = vec![sku, delta, if_granted, fingerprint.clone(), reason, reference];
            Request {
                verb: Verb::Adjust,
                id: ids::short(operation.0),
                fence: request.fence.clone(),
                body: Body::Settle { operation: None, args },
            }
        };
        self.commit(sale, prepare, |now, _, text| reply::adjust_decision(now, text)).await
    }

    /// A page of the ledger of a SKU, oldest first. The cursor is a stream id.
    pub async fn adjustments(
        &self,
        sale: &SaleId,
        sku: &Sku,
        page: &PageRequest,
    ) -> Decided<Page<Adjustment>> {
        match self.level(sale, sku).await? {
            Decision::Done(..) => {}
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
        }
        let keys = SaleKeys::new(sale);
        let mut items = Vec::new();
        let mut cursor = page.after.clone();
        let mut looked_at = 0;
        loop {
            let from = cursor.as_ref().map_or("-".to_owned(), |after| format!("({after}"));
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(&keys.adjustments).arg(from).arg("+").arg("COUNT").arg(500);
            let entries = stream_entries(self.query(&cmd).await?)?;
            let is_last = entries.len() < 500;
            looked_at += entries.len();
            for (id, fields) in entries {
                cursor = Some(id);
                let text = fields.get(1).map(String::as_str).unwrap_or_default();
                let adjustment = reply::adjustment(&mut Fields::of(text))?;
                if adjustment.sku == *sku {
                    items.push(adjustment);
                    if items.len() == page.limit {
                        return Ok(Decision::Done(Outcome::Unchanged, Page { items, next: cursor }));
                    }
                }
            }
            if is_last || looked_at >= LEDGER_ENTRIES_MAX {
                let next = if is_last { None } else { cursor };
                return Ok(Decision::Done(Outcome::Unchanged, Page { items, next }));
            }
        }
    }

    /// What a buyer has, and may still take.
    pub async fn buyer(&self, sale: &SaleId, buyer: &Buyer) -> Decided<BuyerStanding> {
        let keys = SaleKeys::new(sale);
        let mut rules = redis::cmd("HMGET");
        rules.arg(keys.rules()).arg(&["status", "buyer_limit", "buyer_holds_max"]);
        let rules = hash_values(self.query(&rules).await?)?;
        let [Some(status), limit, holds_max] = &rules[..] else {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        };
        if status == "deleted" {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        }
        let limit = reply::optional(limit.as_deref().unwrap_or_default(), reply::number::<u64>)?;
        let counts_holds = holds_max.as_deref().is_some_and(|max| !max.is_empty());
        let mut entry = redis::cmd("HMGET");
        entry.arg(keys.buyers(ids::bucket(buyer.as_str()))).arg(buyer.as_str());
        let entry =
            hash_values(self.query(&entry).await?)?.pop().flatten().unwrap_or_else(|| "0|0|".to_owned());
        let corrupt = || StoreError::Corrupt("buyers".into());
        let (open, rest) = entry.split_once('|').ok_or_else(corrupt)?;
        let (units, skus) = rest.split_once('|').ok_or_else(corrupt)?;
        let (open, units): (u64, u64) = (reply::number(open)?, reply::number(units)?);
        Ok(Decision::Done(
            Outcome::Unchanged,
            BuyerStanding {
                buyer: buyer.clone(),
                open: counts_holds.then_some(open),
                units: limit.map(|_| units),
                limit,
                remaining: limit.map(|limit| limit.saturating_sub(units)),
                skus: self.buyer_skus(&keys, skus).await?,
            },
        ))
    }

    async fn buyer_skus(&self, keys: &SaleKeys, skus: &str) -> Result<Vec<BuyerSku>, StoreError> {
        let counts: Vec<(&str, &str)> = skus.split(',').filter_map(|entry| entry.split_once('=')).collect();
        if counts.is_empty() {
            return Ok(Vec::new());
        }
        let mut limits = redis::cmd("HMGET");
        limits.arg(keys.stock());
        for (sku, _) in &counts {
            limits.arg(format!("{sku}:l"));
        }
        let limits = hash_values(self.query(&limits).await?)?;
        let read = |((sku, units), limit): (&(&str, &str), &Option<String>)| {
            let limit = limit.as_deref().map(reply::number::<u64>).transpose()?;
            let units = reply::number(units)?;
            let sku = sku.parse().map_err(|_| StoreError::Corrupt("buyers".into()))?;
            Ok(BuyerSku { sku, units, limit, remaining: limit.map(|limit| limit.saturating_sub(units)) })
        };
        counts.iter().zip(&limits).map(read).collect()
    }
}

/// Values of HMGET.
pub(super) fn hash_values(value: Value) -> Result<Vec<Option<String>>, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::Reply(error.to_string()))
}

/// Entries of XRANGE: ids and their fields and values in turn.
pub(super) fn stream_entries(value: Value) -> Result<Vec<(String, Vec<String>)>, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::Reply(error.to_string()))
}
