//! Finishing what a dead process has left, and forgetting what is old.

use super::hold::new_attempt;
use super::*;

/// What is to be done in a bucket of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrdersDue {
    /// The script's time.
    pub now: Timestamp,
    /// When something will be due; none when there is no order.
    pub next_at: Option<Timestamp>,
    /// Orders whose step nobody has finished, or whose time is over: 22-character ids.
    pub unfinished: Vec<String>,
    /// Orders that were kept long enough.
    pub ended: Vec<String>,
}

impl Store {
    /// Asks what is due in a bucket of orders; at most `limit` ids of each kind.
    pub async fn orders_due(&self, keys: &OrderKeys, limit: usize) -> Result<OrdersDue, StoreError> {
        let script = &self.scripts().orders_due;
        let mut cmd = script.call(2);
        let [_, due, done, _] = &keys.fixed;
        cmd.arg(due).arg(done).arg(self.offset_ms()).arg(limit);
        match &self.call(script, &cmd).await?[..] {
            [now, next, unfinished, ended] => Ok(OrdersDue {
                now: reply::time(now)?,
                next_at: reply::optional(next, reply::time)?,
                unfinished: reply::ids_of(unfinished),
                ended: reply::ids_of(ended),
            }),
            _ => Err(StoreError::Reply("not what is due".into())),
        }
    }

    /// Deletes the records of orders that were kept long enough, and says how many.
    pub async fn forget_orders(&self, keys: &OrderKeys, ids: &[String]) -> Result<usize, StoreError> {
        let script = &self.scripts().forget_orders;
        let mut cmd = script.call(2 + ids.len());
        let [index, _, done, _] = &keys.fixed;
        cmd.arg(index).arg(done);
        for id in ids {
            cmd.arg(keys.record(id));
        }
        cmd.arg(self.offset_ms());
        let texts = self.call(script, &cmd).await?;
        texts.first().map_or(Ok(0), |count| reply::number(count))
    }

    /// Finishes or undoes an order that nobody works on, and says whether it did.
    pub async fn recover_order(&self, id: OrderId) -> Result<bool, StoreError> {
        let (attempt, lease) = (new_attempt(), LEASE_MS.to_string());
        let answer =
            self.order_call(|scripts| &scripts.claim_order, id, &[&attempt, &lease, "recover"]).await?;
        let previous = answer.previous.clone();
        match answer.word.as_str() {
            "confirming" => self.confirm_parts(answer.record()?).await.map(drop)?,
            "aborting" => self.undo_claimed(&answer.record()?, &previous).await.map(drop)?,
            "ended" | "in_progress" | "not_due" | "unknown_order" => return Ok(false),
            "corrupt" => return Err(StoreError::Corrupt("order".into())),
            _ => return Err(StoreError::Reply("unknown word".into())),
        }
        self.committer.metrics.order("recovered");
        Ok(true)
    }

    /// Undoes what was just claimed. Whoever held its parts may still be there, frozen: once the locks have been
    /// somebody else's, his fences are stale, and nothing of the order can be held any more.
    pub(super) async fn undo_claimed(
        &self,
        record: &OrderRecord,
        previous: &str,
    ) -> Result<OrderRecord, StoreError> {
        if previous == OrderStatus::Held.as_str() {
            return self.undo(record).await;
        }
        let parts = parts_of(&record.order.lines);
        let mut guards = Vec::new();
        for (sale, _) in &parts {
            match self.lock_sales([sale].into_iter()).await? {
                Ok(more) => guards.extend(more),
                // Its sale is gone, and nothing in it is held.
                Err((_, Refusal::UnknownSale)) => {}
                Err((_, refusal)) => return Err(StoreError::Reply(refusal.code().into())),
            }
        }
        let undone = self.undo(record).await;
        unlock(guards).await;
        undone
    }

    /// Decides about a part that was pinned, and whose order should have decided by now: if there is no such order the
    /// part is given back. If there is one it is looked after where it stands (`workers::recovery`).
    pub async fn resolve_part(&self, sale: &SaleId, part: &str) -> Result<(), StoreError> {
        let Some(part) = ids::long(part).map(ReservationId) else { return Ok(()) };
        let Decision::Done(_, reservation) = self.reservation(sale, part).await? else { return Ok(()) };
        let Some(order) = reservation.order else { return Ok(()) };
        let there = self.find_order(order).await?;
        if there.is_some_and(|record| record.order.lines.iter().any(|line| line.reservation == part)) {
            return Ok(());
        }
        self.release_part(sale, part, order).await.map(drop)
    }
}
