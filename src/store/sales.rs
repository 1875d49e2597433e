//! Sales: their rules, their switch, their end.

use super::keys::{self, SaleKeys};
use super::{Decided, Store, StoreError, ids, reply};
use crate::domain::sale::{SkuSpec, Skus};
use crate::domain::*;

/// Answer of PUT sale.
#[derive(Debug, Clone, PartialEq)]
pub struct PutAnswer {
    /// The sale as it is now.
    pub sale: Sale,
    /// Whether this operation made it; so says a repeat of it, too.
    pub created: bool,
}

fn text_of<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The rules as `put.lua` takes them.
fn rules_args(rules: &SaleRules) -> [String; 8] {
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
type SkuArgs = Vec<(Sku, Option<u64>, Option<u64>)>;

impl Store {
    /// Makes a sale or replaces its rules, and adds SKUs.
    pub async fn put_sale(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        expect: &Expect,
        rules: SaleRules,
        stock: Skus,
    ) -> Decided<PutAnswer> {
        let skus = stock
            .0
            .into_iter()
            .map(|(sku, SkuSpec { initial, buyer_limit })| (sku, Some(initial), buyer_limit));
        let (operation, skus) = ((caller, key), skus.collect());
        let decided = self.put(sale, operation, expect, Some(&rules), &skus).await?;
        if matches!(decided, Decision::Refused(Refusal::UnknownSale)) {
            // The incarnation that this store remembers is gone: make another one.
            self.sales.remove(sale);
            return self.put(sale, operation, expect, Some(&rules), &skus).await;
        }
        Ok(decided)
    }

    /// Adds a SKU to a sale, or sets its buyer limit.
    pub async fn put_sku(&self, sale: &SaleId, sku: &Sku, request: PutSku) -> Decided<Level> {
        let skus = vec![(sku.clone(), request.initial, request.buyer_limit)];
        let put = self.put(sale, (&Caller::default(), None), &Expect::Anything, None, &skus).await?;
        let outcome = match put {
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            Decision::Done(outcome, _) => outcome,
        };
        Ok(match self.level(sale, sku).await? {
            Decision::Done(_, level) => Decision::Done(outcome, level),
            refused => refused,
        })
    }

    async fn put(
        &self,
        sale: &SaleId,
        (caller, key): (&Caller, Option<&IdempotencyKey>),
        expect: &Expect,
        rules: Option<&SaleRules>,
        skus: &SkuArgs,
    ) -> Decided<PutAnswer> {
        let (generation, id_key) = match self.handle(sale).await? {
            // Never used again: an incarnation has one secret, and ids made with another would not be refused.
            Some(_) => (String::new(), String::new()),
            None => (ids::random_hex::<8>(), ids::random_hex::<16>()),
        };
        if !generation.is_empty() {
            // Registered first, created second: the sweeper must find every sale.
            self.register(sale, &generation).await?;
        }
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().put;
        let mut cmd = script.call(5);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus).arg(keys.events()).arg(&keys.adjustments);
        let rules_args = rules.map(rules_args).unwrap_or_default();
        let expect = match expect {
            Expect::Anything => "",
            Expect::Absent => "absent",
            Expect::Etag(etag) => etag,
        };
        cmd.arg(self.offset_ms()).arg(&generation).arg(id_key).arg(expect);
        cmd.arg(put_operation(sale, caller, key, &rules_args, skus));
        cmd.arg(if rules.is_some() { "rules" } else { "skus" }).arg(&rules_args[..]);
        for (sku, initial, limit) in skus {
            cmd.arg(sku.as_str()).arg(text_of(*initial)).arg(text_of(*limit));
        }
        let texts = self.call(script, &cmd).await?;
        let decided = read_put(sale, &texts)?;
        if let Decision::Done(_, answer) = &decided {
            // A list that ran between the two may have removed the entry of a sale that was not there yet.
            self.register(sale, &answer.sale.generation).await?;
        }
        Ok(decided)
    }

    async fn register(&self, sale: &SaleId, generation: &str) -> Result<(), StoreError> {
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

/// `<operation id>:<fingerprint>`. The id says whose repeat it is, the fingerprint whether it is the same body.
fn put_operation(
    sale: &SaleId,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
    rules: &[String; 8],
    skus: &SkuArgs,
) -> String {
    // The sale need not exist yet, so there is no secret: an operation id of PUT opens nothing.
    let maker = ids::IdMaker::new(sale.as_str().as_bytes());
    let mut parts: Vec<String> = rules.to_vec();
    parts.extend(skus.iter().map(|(sku, initial, limit)| format!("{sku} {initial:?} {limit:?}")));
    let fingerprint = ids::fingerprint(parts.iter().map(String::as_bytes));
    format!("{}:{fingerprint}", ids::short(maker.operation("put", caller, key).0))
}

fn read_sale_text(sale: &SaleId, texts: &[String]) -> Result<Sale, StoreError> {
    let [_, now, text] = texts else { return Err(StoreError::Reply("not a sale".into())) };
    reply::sale(sale, reply::time(now)?, &mut reply::Fields::of(text))
}

fn read_put(sale: &SaleId, texts: &[String]) -> Decided<PutAnswer> {
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
