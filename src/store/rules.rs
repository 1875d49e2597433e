//! Changes of a sale's rules: PUT, which replaces them, and PATCH, which merges (`docs/adr/0014-rules-by-watch.md`).
//!
//! The rules are watched, read, compared with what the caller expects, and merged, here. `put.lua` writes them, and
//! only if they still are what was read: EXEC sees to that, and the script compares once more. A change that lost a
//! race begins anew, so whoever expects an ETag finds out there that it is another one by now.

use super::keys::SaleKeys;
use super::sales::{Put, SkuArgs, read_put, rules_args};
use super::stock::hash_values;
use super::transaction::{Executed, Transaction};
use super::{Decided, PutAnswer, Store, StoreError, ids, reply};
use crate::domain::sale::{SkuSpec, Skus};
use crate::domain::*;

/// How often a change is tried that others forestall. In each round of a race one of them wins.
const TRIES_MAX: usize = 100;

/// What becomes of the rules.
enum Wanted {
    Replace(SaleRules),
    Merge(PatchSale),
}

/// One change, as its caller wants it.
struct Change {
    sale: SaleId,
    /// `<id>:<fingerprint>`.
    operation: String,
    expect: Expect,
    wanted: Wanted,
    skus: SkuArgs,
}

/// The rules as they were when they were watched.
struct Watched {
    etag: String,
    is_deleted: bool,
    /// Id of the last operation.
    last_id: String,
    rules: SaleRules,
}

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
        let skus: SkuArgs = skus.collect();
        let mut parts = rules_args(&rules).to_vec();
        parts.extend(sku_parts(&skus));
        let operation = operation(sale, "put", caller, key, &parts);
        let (sale, expect, wanted) = (sale.clone(), expect.clone(), Wanted::Replace(rules));
        self.change_rules(Change { sale, operation, expect, wanted, skus }).await
    }

    /// Changes some rules of a sale.
    pub async fn patch_sale(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        expect: &Expect,
        patch: PatchSale,
    ) -> Decided<PutAnswer> {
        let operation = operation(sale, "patch", caller, key, &[format!("{patch:?}")]);
        let (sale, expect, wanted) = (sale.clone(), expect.clone(), Wanted::Merge(patch));
        self.change_rules(Change { sale, operation, expect, wanted, skus: SkuArgs::new() }).await
    }

    /// Runs to its end even if its caller goes away.
    async fn change_rules(&self, change: Change) -> Decided<PutAnswer> {
        let store = self.clone();
        self.to_the_end(async move { store.try_change(&change).await }).await
    }

    async fn try_change(&self, change: &Change) -> Decided<PutAnswer> {
        let sale = &change.sale;
        let mut fresh: Option<(String, String)> = None;
        let mut with_source = false;
        for _ in 0..TRIES_MAX {
            let (transaction, watched) = self.watch_rules(sale).await?;
            let rules = match change.rules_after(watched.as_ref()) {
                Ok(rules) => rules,
                Err(refusal) => {
                    transaction.unwatch().await;
                    return Ok(Decision::Refused(refusal));
                }
            };
            if watched.is_none() && fresh.is_none() {
                transaction.unwatch().await;
                // Registered first, created second: the sweeper must find every sale.
                let (generation, id_key) = (ids::random_hex::<8>(), ids::random_hex::<16>());
                self.register(sale, &generation).await?;
                fresh = Some((generation, id_key));
                continue;
            }
            let fresh = fresh.as_ref().filter(|_| watched.is_none());
            let put = Put {
                operation: &change.operation,
                expect: watched.as_ref().map_or("absent", |watched| &watched.etag),
                fresh: fresh.map(|(generation, id_key)| (generation.as_str(), id_key.as_str())),
                rules: Some(&rules),
                skus: &change.skus,
            };
            let (script, call) = (&self.scripts().put, self.put_call(sale, &put));
            match self.note(transaction.exec(script, &call, with_source).await)? {
                Executed::Lost => {}
                Executed::NoScript => with_source = true,
                Executed::Done(answer) => {
                    let decided = read_put(sale, &reply::texts(answer)?)?;
                    if let Decision::Done(_, answer) = &decided {
                        // A list or a sweeper that looked between the two may have removed the entry of a sale that was not
                        // there yet.
                        self.register(sale, &answer.sale.generation).await?;
                    }
                    return Ok(decided);
                }
            }
        }
        Err(StoreError::NotApplied("store_busy"))
    }

    async fn watch_rules(&self, sale: &SaleId) -> Result<(Transaction, Option<Watched>), StoreError> {
        let keys = SaleKeys::new(sale);
        let mut read = redis::cmd("HMGET");
        read.arg(keys.rules()).arg(&["generation", "version", "status", "last_op"]).arg(&RULES);
        let watched = Transaction::watch(&self.committer.pool, keys.rules(), read).await;
        let (transaction, values) = self.note(watched)?;
        let values = hash_values(values)?;
        Ok((transaction, Watched::read(&values)?))
    }
}

impl Change {
    /// The rules that there are to be, or why there are none.
    fn rules_after(&self, watched: Option<&Watched>) -> Result<SaleRules, Refusal> {
        if watched.is_none() && matches!(self.wanted, Wanted::Merge(_)) {
            return Err(Refusal::UnknownSale);
        }
        // A repeat has met its own condition, and has undone it. The script tells it, and a tombstone.
        let id = self.operation.split(':').next();
        let is_told = watched.is_some_and(|w| w.is_deleted || Some(w.last_id.as_str()) == id);
        if !is_told && !self.expect.is_met(watched.map(|watched| watched.etag.as_str())) {
            return Err(Refusal::PreconditionFailed);
        }
        match (&self.wanted, watched) {
            (Wanted::Merge(patch), Some(watched)) => {
                patch.merge(&watched.rules).map_err(Refusal::InvalidRules)
            }
            (Wanted::Replace(rules), _) => Ok(rules.clone()),
            (Wanted::Merge(_), None) => Err(Refusal::UnknownSale),
        }
    }
}

const RULES: [&str; 8] = [
    "opens_at_ms",
    "closes_at_ms",
    "hold_ms",
    "hold_ms_max",
    "buyer_limit",
    "buyer_holds_max",
    "confirmed_retention_ms",
    "ended_retention_ms",
];

impl Watched {
    fn read(values: &[Option<String>]) -> Result<Option<Self>, StoreError> {
        let [Some(generation), Some(version), Some(status), last_op, rules @ ..] = values else {
            return match values.first() {
                Some(None) => Ok(None),
                _ => Err(StoreError::Corrupt("rules".into())),
            };
        };
        let mut texts = rules.iter().map(|text| text.as_deref().unwrap_or_default());
        let rules = reply::rules(|| Ok(texts.next().unwrap_or_default()));
        let last_op = last_op.as_deref().unwrap_or_default();
        Ok(Some(Self {
            etag: format!("{generation}-{version}"),
            is_deleted: status == "deleted",
            last_id: last_op.split(':').next().unwrap_or_default().to_owned(),
            rules: rules.map_err(|_| StoreError::Corrupt("rules".into()))?,
        }))
    }
}

fn sku_parts(skus: &SkuArgs) -> impl Iterator<Item = String> {
    skus.iter().map(|(sku, initial, limit)| format!("{sku} {initial:?} {limit:?}"))
}

/// `<id>:<fingerprint>`. The id says whose repeat it is, the fingerprint whether it is the same body.
fn operation(
    sale: &SaleId,
    verb: &str,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
    parts: &[String],
) -> String {
    // The sale need not exist yet, so there is no secret: an id of a change opens nothing.
    let maker = ids::IdMaker::new(sale.as_str().as_bytes());
    let fingerprint = ids::fingerprint(parts.iter().map(String::as_bytes));
    format!("{}:{fingerprint}", ids::short(maker.operation(verb, caller, key).0))
}

/// The operation of a call that only puts SKUs.
pub(super) fn put_operation(sale: &SaleId, skus: &SkuArgs) -> String {
    operation(sale, "put", &Caller::default(), None, &sku_parts(skus).collect::<Vec<_>>())
}
