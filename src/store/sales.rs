//! Sales: their rules, their switch, their end.

use super::keys::{self, SaleKeys};
use super::rules::put_operation;
use super::{Decided, Store, StoreError, reply};
use crate::domain::*;
use redis::Cmd;

/// Answer of PUT and PATCH sale.
#[derive(Debug, Clone, PartialEq)]
pub struct PutAnswer {
    /// The sale as it is now.
    pub sale: Sale,
    /// Whether this operation made it; so says a repeat of it, too.
    pub created: bool,
}

pub(super) fn text_of<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The rules as `put.lua` takes them.
pub(super) fn rules_args(rules: &SaleRules) -> [String; 8] {
    [
        text_of(rules.opens_at.map(Timestamp::as_ms)),
        text_of(rules.closes_at.map(Timestamp::as_ms)),
        (rules.hold_seconds * 1000).to_string(),
        (rules.hold_seconds_max * 1000).to_string(),
        text_of(rules.buyer_limit),
        text_of(rules.buyer_holds_max),
        (rules.confirmed_retention_seconds * 1000).to_string(),
        (rules.ended_retention_seconds * 1000).to_string(),
    ]
}

/// What PUT says of SKUs: name, initial, limit.
pub(super) type SkuArgs = Vec<(Sku, Option<u64>, Option<u64>)>;

/// What a call of `put.lua` says.
pub(super) struct Put<'a> {
    /// `<id>:<fingerprint>`.
    pub operation: &'a str,
    /// '' anything, `absent`, or an ETag.
    pub expect: &'a str,
    /// Generation and secret of the sale, if there is none yet.
    pub fresh: Option<(&'a str, &'a str)>,
    /// All rules; none: only SKUs.
    pub rules: Option<&'a SaleRules>,
    pub skus: &'a SkuArgs,
}

impl Store {
    /// Adds a SKU to a sale, or sets its buyer limit.
    pub async fn put_sku(&self, sale: &SaleId, sku: &Sku, request: PutSku) -> Decided<Level> {
        let skus = vec![(sku.clone(), request.initial, request.buyer_limit)];
        let operation = put_operation(sale, &skus);
        let put = Put { operation: &operation, expect: "", fresh: None, rules: None, skus: &skus };
        let cmd = self.put_call(sale, &put);
        let outcome = match read_put(sale, &self.call(&self.scripts().put, &cmd).await?)? {
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            Decision::Done(outcome, _) => outcome,
        };
        Ok(match self.level(sale, sku).await? {
            Decision::Done(_, level) => Decision::Done(outcome, level),
            refused => refused,
        })
    }

    /// A call of `put.lua`.
    pub(super) fn put_call(&self, sale: &SaleId, put: &Put<'_>) -> Cmd {
        let keys = SaleKeys::new(sale);
        let mut cmd = self.scripts().put.call(5);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(keys.events()).arg(&keys.adjustments);
        let (generation, id_key) = put.fresh.unwrap_or_default();
        cmd.arg(self.offset_ms()).arg(generation).arg(id_key).arg(put.expect).arg(put.operation);
        cmd.arg(if put.rules.is_some() { "rules" } else { "skus" });
        cmd.arg(&put.rules.map(rules_args).unwrap_or_default()[..]);
        for (sku, initial, limit) in put.skus {
            cmd.arg(sku.as_str()).arg(text_of(*initial)).arg(text_of(*limit));
        }
        cmd
    }

    pub(super) async fn register(&self, sale: &SaleId, generation: &str) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(keys::SALES).arg(0).arg(keys::sales_entry(sale, generation));
        self.query(&cmd).await.map(drop)
    }

    /// Reads a sale.
    pub async fn sale(&self, sale: &SaleId) -> Decided<Sale> {
        Ok(match self.sale_or_tombstone(sale).await? {
            Some(found) if !found.is_deleted => Decision::Done(Outcome::Unchanged, found),
            _ => Decision::Refused(Refusal::UnknownSale),
        })
    }

    pub(super) async fn sale_or_tombstone(&self, sale: &SaleId) -> Result<Option<Sale>, StoreError> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().read_sale;
        let mut cmd = script.call(3);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(self.offset_ms());
        let texts = self.call(script, &cmd).await?;
        match &texts[..] {
            [word, now, text] if word == "found" => {
                reply::sale(sale, reply::time(now)?, &mut reply::Fields::of(text)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Pauses, resumes or closes a sale.
    pub async fn switch_sale(&self, sale: &SaleId, switch: Switch) -> Decided<Sale> {
        let status = match switch {
            Switch::Pause => "paused",
            Switch::Resume => "active",
            Switch::Close => "closed",
        };
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().switch;
        let mut cmd = script.call(4);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(keys.events());
        cmd.arg(self.offset_ms()).arg(status);
        let texts = self.call(script, &cmd).await?;
        let outcome = match texts.first().map(String::as_str) {
            Some("changed") => Outcome::Changed,
            Some("unchanged") => Outcome::Unchanged,
            _ => return Ok(Decision::Refused(Refusal::UnknownSale)),
        };
        Ok(Decision::Done(outcome, read_sale_text(sale, &texts)?))
    }

    /// Deletes a sale that holds nothing and is closed or has sold nothing. The sweeper removes what it leaves.
    pub async fn delete_sale(&self, sale: &SaleId) -> Decided<()> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().delete;
        let mut cmd = script.call(4);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(keys.events()).arg(self.offset_ms());
        let texts = self.call(script, &cmd).await?;
        self.sales.remove(sale);
        Ok(match &texts[..] {
            [word, ..] if word == "deleted" => Decision::Done(Outcome::Deleted, ()),
            [word, ..] if word == "replayed" => Decision::Done(Outcome::Replayed, ()),
            [word, ..] if word == "unknown_sale" => Decision::Refused(Refusal::UnknownSale),
            [word, held, sold] if word == "sale_not_empty" => Decision::Refused(Refusal::SaleNotEmpty {
                held: reply::number(held)?,
                sold: reply::number(sold)?,
            }),
            _ => return Err(StoreError::Reply("unknown word".into())),
        })
    }
}

fn read_sale_text(sale: &SaleId, texts: &[String]) -> Result<Sale, StoreError> {
    let [_, now, text] = texts else { return Err(StoreError::Reply("not a sale".into())) };
    reply::sale(sale, reply::time(now)?, &mut reply::Fields::of(text))
}

pub(super) fn read_put(sale: &SaleId, texts: &[String]) -> Decided<PutAnswer> {
    let (outcome, created) = match texts.first().map(String::as_str).unwrap_or_default() {
        "created" => (Outcome::Created, true),
        "changed" => (Outcome::Changed, false),
        "unchanged" => (Outcome::Unchanged, false),
        "replayed_created" => (Outcome::Replayed, true),
        "replayed_changed" => (Outcome::Replayed, false),
        "unknown_sale" => return Ok(Decision::Refused(Refusal::UnknownSale)),
        "sale_deleting" => return Ok(Decision::Refused(Refusal::SaleDeleting)),
        "precondition_failed" => return Ok(Decision::Refused(Refusal::PreconditionFailed)),
        "idempotency_key_reused" => return Ok(Decision::Refused(Refusal::IdempotencyKeyReused)),
        "initial_required" => return Ok(Decision::Refused(Refusal::InitialRequired)),
        "too_many_skus" => return Ok(Decision::Refused(Refusal::TooManySkus)),
        "too_many_units" => return Ok(Decision::Refused(Refusal::TooManyUnits)),
        "stock_exists" => match texts {
            [_, sku, initial] => {
                let sku = sku.parse().map_err(|_| StoreError::Reply("not a SKU".into()))?;
                return Ok(Decision::Refused(Refusal::StockExists { sku, initial: reply::number(initial)? }));
            }
            _ => return Err(StoreError::Reply("not a SKU".into())),
        },
        _ => return Err(StoreError::Reply("unknown word".into())),
    };
    Ok(Decision::Done(outcome, PutAnswer { sale: read_sale_text(sale, texts)?, created }))
}
