//! Confirming an order in two phases, and giving it back.

use super::hold::new_attempt;
use super::*;

/// What is done with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Confirm,
    /// Confirm, also what has expired.
    Retake,
    Release,
}

impl Want {
    fn word(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Retake => "retake",
            Self::Release => "release",
        }
    }
}

impl Store {
    /// Sells all parts of an order, or none: they are pinned, then it is decided, then they are confirmed.
    pub async fn confirm_order(&self, id: OrderId, caller: &Caller, request: ConfirmOrder) -> Decided<Order> {
        let want = match request.if_expired {
            IfExpired::Refuse => Want::Confirm,
            IfExpired::Retake => Want::Retake,
        };
        let decided = self.settle_order(id, caller, want).await;
        self.count_order(decided)
    }

    /// Gives all parts of an order back.
    pub async fn release_order(&self, id: OrderId, caller: &Caller) -> Decided<Order> {
        let decided = self.settle_order(id, caller, Want::Release).await;
        self.count_order(decided)
    }

    async fn settle_order(&self, id: OrderId, caller: &Caller, want: Want) -> Decided<Order> {
        if !caller.may_see_all()
            && let Decision::Refused(refusal) = self.order(id, caller).await?
        {
            return Ok(Decision::Refused(refusal));
        }
        let store = self.clone();
        self.to_the_end(async move { store.claim_and_settle(id, want).await }).await
    }

    async fn claim_and_settle(&self, id: OrderId, want: Want) -> Decided<Order> {
        let (attempt, lease, begun) = (new_attempt(), LEASE_MS.to_string(), Instant::now());
        loop {
            let args = [&*attempt, &lease, want.word()];
            let answer = self.order_call(|scripts| &scripts.claim_order, id, &args).await?;
            let previous = answer.previous.clone();
            match answer.word.as_str() {
                "pinning" => return self.pin(answer.record()?, want).await,
                "confirming" => {
                    let confirmed = self.confirm_parts(answer.record()?).await?;
                    return Ok(settled(want, confirmed));
                }
                "aborting" => {
                    let undone = self.undo_claimed(&answer.record()?, &previous).await?;
                    return Ok(settled(want, undone.order));
                }
                "ended" => return Ok(already(want, answer.record()?.order)),
                "in_progress" if begun.elapsed() < WAIT => tokio::time::sleep(LOOK_EVERY).await,
                "in_progress" => return Err(lost()),
                "unknown_order" => return Ok(Decision::Refused(Refusal::Order(OrderRefusal::Unknown))),
                "corrupt" => return Err(StoreError::Corrupt("order".into())),
                _ => return Err(StoreError::Reply("unknown word".into())),
            }
        }
    }

    /// The first phase. From here on parts have no deadline; should this process die, the order is undone.
    async fn pin(&self, mut record: OrderRecord, want: Want) -> Decided<Order> {
        let mut gone = Vec::new();
        for (sale, part) in parts_of(&record.order.lines) {
            match self.pin_part(&sale, part, record.order.id).await? {
                Decision::Done(..) => {}
                // Expired, or given back when another part was; or somebody else has undone the order meanwhile: then the
                // next step finds another attempt.
                Decision::Refused(_) if want == Want::Retake => gone.push((sale, part)),
                Decision::Refused(_) => {
                    let undone = self.abort(&record, "expired").await?;
                    return Ok(settled(want, undone.order));
                }
            }
        }
        if !gone.is_empty() {
            match self.take_again(&mut record, gone).await? {
                Decision::Done(..) => {}
                Decision::Refused(refusal) => {
                    self.abort(&record, "expired").await?;
                    return Ok(Decision::Refused(refusal));
                }
            }
        }
        let record = self.order_step(&record, "confirming", ["", ""]).await?;
        Ok(Decision::Done(Outcome::Confirmed, self.confirm_parts(record).await?))
    }

    /// The second phase: it is decided. Should this process die, the next one goes on here.
    pub(super) async fn confirm_parts(&self, record: OrderRecord) -> Result<Order, StoreError> {
        for (sale, part) in parts_of(&record.order.lines) {
            match self.confirm_part(&sale, part, record.order.id).await? {
                Decision::Done(..) => {}
                // Part of it may have been given back to the shop already.
                Decision::Refused(Refusal::AlreadyReturned(_)) => {}
                Decision::Refused(refusal) => return Err(inconsistent(&record, &refusal)),
            }
        }
        Ok(self.order_step(&record, "confirmed", ["", ""]).await?.order)
    }

    /// Replaces parts that are gone by fresh ones, entered in the record first, under the locks of their sales as at first.
    async fn take_again(&self, record: &mut OrderRecord, gone: Vec<(SaleId, ReservationId)>) -> Decided<()> {
        let guards = match self.lock_sales(gone.iter().map(|(sale, _)| sale)).await? {
            Ok(guards) => guards,
            Err((sale, refusal)) => return Ok(line_refused(record, sale, refusal)),
        };
        let mut fresh = Vec::new();
        for (sale, old) in gone {
            let part = ReservationId(uuid::Uuid::new_v4());
            let lines = record.order.lines.iter_mut();
            lines.filter(|line| line.reservation == old).for_each(|line| line.reservation = part);
            fresh.push((sale, part));
        }
        let lines = lines_text(&record.order.lines);
        *record = self.order_step(record, "pinning", [&lines, ""]).await?;
        match self.retake_parts(record, fresh, &guards).await {
            Err(error) => {
                self.abort_unknown(record, "expired", guards).await;
                Err(error)
            }
            taken => {
                unlock(guards).await;
                taken
            }
        }
    }

    async fn retake_parts(
        &self,
        record: &OrderRecord,
        fresh: Vec<(SaleId, ReservationId)>,
        guards: &[LockGuard],
    ) -> Decided<()> {
        for ((sale, part), guard) in fresh.into_iter().zip(guards) {
            let again = self.take_part_again(record, &sale, part, guard).await?;
            if let Decision::Refused(refusal) = again {
                return Ok(line_refused(record, sale, refusal));
            }
        }
        Ok(Decision::Done(Outcome::Retaken, ()))
    }

    async fn take_part_again(
        &self,
        record: &OrderRecord,
        sale: &SaleId,
        part: ReservationId,
        guard: &LockGuard,
    ) -> Decided<()> {
        let of_it = record.order.lines.iter().filter(|line| line.reservation == part);
        let line = |line: &OrderLine| {
            let quantity = Quantity::new(line.quantity)?;
            Some(crate::domain::quantity::Line { sku: line.sku.clone(), quantity })
        };
        let lines =
            Lines::new(of_it.filter_map(line).collect()).map_err(|why| StoreError::Reply(why.into()))?;
        let request = Reserve {
            buyer: record.order.buyer.clone(),
            lines,
            hold_seconds: None, // it is pinned at once
            reference: record.order.reference.clone(),
            metadata: None,
            replaces: None,
            fence: Some(guard.fence()),
        };
        match self.retake_part(sale, part, record.order.id, request).await? {
            Decision::Done(..) => {}
            Decision::Refused(Refusal::StaleFence) => return Err(busy()),
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
        }
        self.pin_part(sale, part, record.order.id).await?.try_map(|_| Ok(()))
    }

    /// Undoes an order: it is said first, then all parts are given back.
    pub(super) async fn abort(&self, record: &OrderRecord, goal: &str) -> Result<OrderRecord, StoreError> {
        let record = self.order_step(record, "aborting", ["", goal]).await?;
        self.undo(&record).await
    }

    /// Undoes an order of which it is not known whether a part is being held at this moment: a call that had no answer may
    /// still be on its way. What fails here is done by recovery.
    pub(super) async fn abort_unknown(&self, record: &OrderRecord, goal: &str, guards: Vec<LockGuard>) {
        unlock(guards).await;
        let undone = match self.order_step(record, "aborting", ["", goal]).await {
            Ok(aborting) => self.undo_claimed(&aborting, record.order.status.as_str()).await.map(drop),
            // Somebody else has undone it, perhaps before the locks were ours.
            Err(error) if error == lost() => self.release_parts(record).await,
            Err(error) => Err(error),
        };
        if let Err(error) = undone {
            tracing::warn!(order = %record.order.id, %error, "An order is left to recovery: {error}");
        }
    }

    /// Gives back all parts of an order that is being undone.
    pub(super) async fn undo(&self, record: &OrderRecord) -> Result<OrderRecord, StoreError> {
        self.release_parts(record).await?;
        self.order_step(record, "undone", ["", ""]).await
    }

    pub(super) async fn release_parts(&self, record: &OrderRecord) -> Result<(), StoreError> {
        for (sale, part) in parts_of(&record.order.lines) {
            match self.release_part(&sale, part, record.order.id).await? {
                Decision::Done(..) => {}
                // It was not held yet, or its sale is gone, and then nothing of it was.
                Decision::Refused(Refusal::UnknownReservation | Refusal::UnknownSale) => {}
                Decision::Refused(refusal) => return Err(inconsistent(record, &refusal)),
            }
        }
        Ok(())
    }
}

/// What a call is answered that has carried an order to this end.
fn settled(want: Want, order: Order) -> Decision<Order> {
    match (want, order.status) {
        (Want::Release, OrderStatus::Released) => Decision::Done(Outcome::Released, order),
        (Want::Release, OrderStatus::Expired) => Decision::Done(Outcome::Expired, order),
        (Want::Confirm | Want::Retake, OrderStatus::Confirmed) => Decision::Done(Outcome::Confirmed, order),
        _ => already(want, order),
    }
}

/// What a call is answered whose order has ended before.
fn already(want: Want, order: Order) -> Decision<Order> {
    match (want, order.status) {
        (Want::Release, OrderStatus::Confirmed) => {
            Decision::Refused(Refusal::Order(OrderRefusal::AlreadyConfirmed(Box::new(order))))
        }
        (Want::Release, OrderStatus::Released) => Decision::Done(Outcome::Replayed, order),
        (Want::Release, OrderStatus::Expired) => Decision::Done(Outcome::Expired, order),
        _ => ended(order),
    }
}

/// A refusal of a part, with the first line of its sale.
fn line_refused<T>(record: &OrderRecord, sale: SaleId, refusal: Refusal) -> Decision<T> {
    let line = record.order.lines.iter().position(|line| line.sale == sale).unwrap_or_default();
    Decision::Refused(Refusal::Order(OrderRefusal::Line { line, sale, refusal: Box::new(refusal) }))
}

fn inconsistent(record: &OrderRecord, refusal: &Refusal) -> StoreError {
    StoreError::Corrupt(format!("a part of order {} is {}", record.order.id, refusal.code()))
}
