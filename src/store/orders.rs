//! Complex orders: parts in several sales, all of them or none (`docs/adr/0023-orders.md`).
//!
//! Each step is a script that compares the order's `attempt`, and is entered in `due` of its bucket before the first act
//! of that step: whatever a process leaves undone, another one finishes (`recover`), and a process that was frozen
//! meanwhile finds another attempt, or its fences stale.

mod check;
mod hold;
mod recover;
mod settle;

pub use recover::OrdersDue;

use super::keys::{OrderKeys, order_bucket};
use super::locks::LockGuard;
use super::reply::{self, Fields, OrderRecord};
use super::scripts::{Script, Scripts};
use super::{Decided, Store, StoreError, ids};
use crate::domain::*;
use std::time::{Duration, Instant};

/// So long a process has a step of an order for itself; far more than a step takes, and more than the locks it waits for.
const LEASE_MS: u64 = 15_000;
/// Lease of the lock of orders in a sale; renewed while parts are being held.
const LOCK_TTL_MS: u64 = 10_000;
/// So long a call waits for the locks of all its sales, and for an earlier call about the same order.
const WAIT: Duration = Duration::from_secs(5);
/// Between two looks at an order that somebody else works on.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// No caller's lock can have this name.
fn order_lock() -> LockName {
    LockName::internal("_order")
}

/// What a script of orders answers.
struct Answer {
    word: String,
    /// Its status before the call.
    previous: String,
    record: Option<OrderRecord>,
}

impl Answer {
    fn read(texts: Vec<String>) -> Result<Self, StoreError> {
        let mut texts = texts.into_iter();
        let mut next = || texts.next().unwrap_or_default();
        let (word, now, previous, text) = (next(), next(), next(), next());
        let now = reply::time(&now)?;
        let record = match text.is_empty() {
            true => None,
            false => Some(reply::order_record(now, &mut Fields::of(&text))?),
        };
        Ok(Self { word, previous, record })
    }

    fn record(self) -> Result<OrderRecord, StoreError> {
        self.record.ok_or_else(|| StoreError::Reply("no order".into()))
    }
}

/// Somebody else works on the order, or did.
fn lost() -> StoreError {
    StoreError::NotApplied("order_in_progress")
}

fn busy() -> StoreError {
    StoreError::NotApplied("order_busy")
}

/// `sale=sku=asked_sku=quantity=part,...`, as records have it.
fn lines_text(lines: &[OrderLine]) -> String {
    let text = |line: &OrderLine| {
        let OrderLine { sale, sku, asked_sku, quantity, reservation } = line;
        format!("{sale}={sku}={asked_sku}={quantity}={}", ids::short(reservation.0))
    };
    lines.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Sale and id of each part, by name of the sale: the order in which locks are taken.
fn parts_of(lines: &[OrderLine]) -> Vec<(SaleId, ReservationId)> {
    let mut parts: Vec<_> = lines.iter().map(|line| (line.sale.clone(), line.reservation)).collect();
    parts.sort();
    parts.dedup();
    parts
}

/// How an order answers a call that asks for what it is, or was.
fn ended(order: Order) -> Decision<Order> {
    let refusal = match order.status {
        OrderStatus::Held | OrderStatus::Confirmed => return Decision::Done(Outcome::Replayed, order),
        OrderStatus::Released => OrderRefusal::AlreadyReleased(Box::new(order)),
        OrderStatus::Expired => OrderRefusal::Expired(Box::new(order)),
        // It was refused, and its record is gone.
        _ => OrderRefusal::Unknown,
    };
    Decision::Refused(Refusal::Order(refusal))
}

impl Store {
    /// Calls a script about one order.
    async fn order_call(
        &self,
        script: fn(&Scripts) -> &Script,
        id: OrderId,
        args: &[&str],
    ) -> Result<Answer, StoreError> {
        let keys = OrderKeys::new(order_bucket(&ids::short(id.0)));
        self.order_call_in(&keys, script(self.scripts()), id, args).await
    }

    async fn order_call_in(
        &self,
        keys: &OrderKeys,
        script: &Script,
        id: OrderId,
        args: &[&str],
    ) -> Result<Answer, StoreError> {
        let id = ids::short(id.0);
        let mut cmd = script.call(5);
        cmd.arg(&keys.fixed).arg(keys.record(&id)).arg(self.offset_ms()).arg(args);
        Answer::read(self.call(script, &cmd).await?)
    }

    /// The next step of an order by whoever works on it.
    async fn order_step(
        &self,
        record: &OrderRecord,
        to: &str,
        more: [&str; 2],
    ) -> Result<OrderRecord, StoreError> {
        let [lines, goal] = more;
        let lease = LEASE_MS.to_string();
        let args = [&*record.attempt, &lease, to, lines, goal];
        let answer = self.order_call(|scripts| &scripts.step_order, record.order.id, &args).await?;
        match answer.word.as_str() {
            "pinning" | "confirming" | "confirmed" | "aborting" | "released" | "expired" | "removed" => {
                answer.record()
            }
            "lost" => Err(lost()),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// Counts what a call about an order came to.
    fn count_order(&self, decided: Decided<Order>) -> Decided<Order> {
        self.committer.metrics.order(match &decided {
            Ok(Decision::Done(outcome, _)) => outcome.as_str(),
            Ok(Decision::Refused(refusal)) => refusal.code(),
            Err(error) => error.code(),
        });
        decided
    }

    /// Reads an order.
    pub async fn order(&self, id: OrderId, caller: &Caller) -> Decided<Order> {
        Ok(match self.find_order(id).await? {
            Some(record) if sees(caller, &record.order) => Decision::Done(Outcome::Unchanged, record.order),
            _ => Decision::Refused(Refusal::Order(OrderRefusal::Unknown)),
        })
    }

    async fn find_order(&self, id: OrderId) -> Result<Option<OrderRecord>, StoreError> {
        let answer = self.order_call(|scripts| &scripts.read_order, id, &[]).await?;
        match answer.word.as_str() {
            "found" => answer.record().map(Some),
            "unknown_order" => Ok(None),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// Takes the locks of orders in these sales, in the order of their names.
    async fn lock_sales<'a>(
        &self,
        sales: impl Iterator<Item = &'a SaleId>,
    ) -> Result<Result<Vec<LockGuard>, (SaleId, Refusal)>, StoreError> {
        let begun = Instant::now();
        let mut guards = Vec::new();
        for sale in sales {
            let wait_ms = WAIT.saturating_sub(begun.elapsed()).as_millis() as u64;
            let request = AcquireLock { ttl_ms: LOCK_TTL_MS, wait_ms };
            match self.lock_guard(&LockPlace::Sale(sale.clone()), &order_lock(), request).await? {
                Decision::Done(_, guard) => guards.push(guard),
                Decision::Refused(Refusal::Lock(_)) => return Err(busy()),
                Decision::Refused(refusal) => return Ok(Err((sale.clone(), refusal))),
            }
        }
        Ok(Ok(guards))
    }
}

/// Whether an order exists for this caller: all of its sales do.
fn sees(caller: &Caller, order: &Order) -> bool {
    order.lines.iter().all(|line| caller.may_see(&line.sale))
}

/// Gives the locks back, one after the other; a guard that is dropped gives its own back, too.
async fn unlock(guards: Vec<LockGuard>) {
    for guard in guards {
        guard.release().await;
    }
}
