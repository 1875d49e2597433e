//! What is checked before the service takes its first request, and whenever somebody asks whether it is ready.

mod notifier;
mod parts;
mod server;

use super::keys::SaleKeys;
use super::pool::{Shard, Slot};
use super::sweep::{EventsKept, Purge};
use super::{ReservationFilter, Store, StoreError, ids};
use crate::domain::sale::{PutSale, SkuSpec, Skus};
use crate::domain::*;
use std::collections::BTreeMap;

/// Begin of a self-test's sale, which no caller's can have; the sweeper removes what a killed one left.
pub const SELF_TEST: &str = "_selftest-";

/// Whether a sale is nobody's: its events are not told.
pub fn is_internal(sale: &SaleId) -> bool {
    sale.as_str().starts_with('_')
}

/// A self-test takes a moment; one this old was killed.
const SELF_TEST_MS_MAX: i64 = 3_600_000;

/// Whether a sale was left by a self-test that was killed long ago.
pub fn is_abandoned(sale: &SaleId, now: Timestamp) -> bool {
    let begun =
        sale.as_str().strip_prefix(SELF_TEST).and_then(|rest| rest.split('-').next()?.parse::<i64>().ok());
    begun.is_some_and(|begun| now.as_ms() - begun > SELF_TEST_MS_MAX)
}

/// A server with one slot alone would need some 16,384 tries.
const NAMES_TRIED_MAX: usize = 100_000;

/// Why the service must not start.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Redis does not answer, or refuses.
    #[error("Redis cannot be used: {0}")]
    Store(#[from] StoreError),
    /// It would lose or tear what we write.
    #[error("{0}")]
    Unfit(String),
    /// A script did not do what it must.
    #[error("self-test: {0}")]
    SelfTest(String),
}

impl Store {
    /// Runs a real script on every server that has sales; the names of those that do not answer. Errors when none does.
    pub async fn ready(&self) -> Result<Vec<String>, StoreError> {
        let shards = self.committer.pool.shards().await?;
        let asked = shards.iter().map(async |shard| (shard, self.due(&self.sale_on(shard), 1).await));
        let answers = futures_util::future::join_all(asked).await;
        let mut failed: Vec<(String, StoreError)> = answers
            .into_iter()
            .filter_map(|(shard, answer)| Some((shard.name.clone(), answer.err()?)))
            .collect();
        match failed.pop() {
            Some((_, error)) if failed.len() + 1 == shards.len() => Err(error),
            last => Ok(failed.into_iter().chain(last).map(|(name, _)| name).collect()),
        }
    }

    /// The name of no sale, whose keys this server would have.
    fn sale_on(&self, shard: &Shard) -> SaleId {
        let names = (0..NAMES_TRIED_MAX).map(|number| SaleId::internal(&format!("_ready-{number}")));
        let is_there = |sale: &SaleId| {
            let place = self.committer.pool.place_of(Slot::for_key(SaleKeys::new(sale).rules()));
            place.is_none_or(|name| name == shard.name)
        };
        let mut names = names.filter(is_there);
        names.next().unwrap_or_else(|| SaleId::internal("_ready"))
    }

    /// Runs every script once in a sale of its own, as the configured user, and removes it.
    pub async fn self_test(&self) -> Result<(), CheckError> {
        let now = self.due(&SaleId::internal("_ready"), 1).await?.now.as_ms();
        let sale = SaleId::internal(&format!("{SELF_TEST}{now}-{}", ids::random_hex::<8>()));
        let caller = Caller::default();
        let sku: Sku = "unit".parse().map_err(|_| CheckError::SelfTest("no SKU".into()))?;
        let stock = Skus(BTreeMap::from([(sku.clone(), SkuSpec { initial: 2, buyer_limit: None })]));
        let rules = PutSale::default().rules().map_err(|_| CheckError::SelfTest("no rules".into()))?;
        let put = self.put_sale(&sale, &caller, None, &Expect::Absent, rules, stock).await?;
        expect("put", put, Outcome::Created)?;
        let adjust =
            Adjust { delta: 1, reason: reference()?, reference: None, if_granted: None, fence: None };
        expect("adjust", self.adjust(&sale, &caller, None, &sku, adjust).await?, Outcome::Adjusted)?;
        let sold =
            expect("reserve", self.reserve(&sale, &caller, None, one(&sku)?).await?, Outcome::Held)?.id;
        let extend = Extend { hold_seconds: 700 };
        expect("extend", self.extend(&sale, sold, &caller, None, extend).await?, Outcome::Extended)?;
        expect("confirm", self.confirm(&sale, sold, Confirm::default()).await?, Outcome::Confirmed)?;
        let back = self.return_reservation(&sale, sold, &caller, None, Return::default()).await?;
        expect("return", back, Outcome::Returned)?;
        let freed =
            expect("reserve", self.reserve(&sale, &caller, None, one(&sku)?).await?, Outcome::Held)?.id;
        expect("release", self.release(&sale, freed, Release::default()).await?, Outcome::Released)?;
        let short = [ids::short(freed.0)];
        self.expire(&sale, &short).await?;
        self.archive(&sale, &short).await?;
        let page = PageRequest { limit: 10, after: None };
        let ended = self.reservations(&sale, ReservationFilter::Ended, &page).await?;
        let ended = expect("list", ended, Outcome::Unchanged)?;
        let level = expect("levels", self.level(&sale, &sku).await?, Outcome::Unchanged)?;
        let page = PageRequest { limit: 10, after: Some(sku.to_string()) };
        expect("pages", self.recent_levels(sale.clone(), &page).await?, Outcome::Unchanged)?;
        if ended.items.len() != 2 || (level.available, level.granted) != (3, 3) {
            return Err(CheckError::SelfTest("the books do not balance".into()));
        }
        self.try_parts(&sale, &sku).await?;
        self.try_fence(&sale, &sku).await?;
        let audit = self.audit(Some(&sale)).await?;
        if !audit.is_clean() {
            return Err(CheckError::SelfTest(format!("the books do not balance:\n{audit}")));
        }
        if self.repair(&sale).await?.is_none_or(|repair| !repair.lines.is_empty()) {
            return Err(CheckError::SelfTest("there was something to repair".into()));
        }
        expect("switch", self.switch_sale(&sale, Switch::Close).await?, Outcome::Changed)?;
        let closed = expect("read", self.sale(&sale).await?, Outcome::Unchanged)?;
        self.try_notifier(&sale).await?;
        let kept = EventsKept { retention_ms: SELF_TEST_MS_MAX, entries_max: 1 };
        if self.trim(&sale, &closed.generation, &kept).await?.entries == 0 {
            return Err(CheckError::SelfTest("no event was trimmed".into()));
        }
        self.try_reading_live(&sale).await?;
        self.try_barriers(&sale).await?;
        self.try_orders(&sale).await?;
        self.try_locks(&sale).await?;
        expect("delete", self.delete_sale(&sale).await?, Outcome::Deleted)?;
        match self.purge(&sale, &closed.generation).await? {
            Purge::Done => Ok(()),
            Purge::Going | Purge::Waiting => Err(CheckError::SelfTest("purge left something".into())),
        }
    }
}

fn reference() -> Result<Reference, CheckError> {
    "self-test".parse().map_err(|_| CheckError::SelfTest("no reference".into()))
}

fn one(sku: &Sku) -> Result<Reserve, CheckError> {
    let lines = Quantity::new(1).and_then(|quantity| {
        Lines::new(vec![crate::domain::quantity::Line { sku: sku.clone(), quantity }]).ok()
    });
    let lines = lines.ok_or_else(|| CheckError::SelfTest("no lines".into()))?;
    Ok(Reserve {
        buyer: None,
        lines,
        hold_seconds: None,
        reference: None,
        metadata: None,
        replaces: None,
        fence: None,
    })
}

fn expect<T>(step: &str, decision: Decision<T>, outcome: Outcome) -> Result<T, CheckError> {
    match decision {
        Decision::Done(done, value) if done == outcome => Ok(value),
        Decision::Done(done, _) => Err(CheckError::SelfTest(format!("{step} answered {}", done.as_str()))),
        Decision::Refused(refusal) => {
            Err(CheckError::SelfTest(format!("{step} was refused: {}", refusal.code())))
        }
    }
}
