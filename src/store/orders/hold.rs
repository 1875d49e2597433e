//! Holding all parts of an order, under the locks of its sales.

use super::*;
use crate::domain::order::choose;
use crate::domain::quantity::Line;
use std::collections::BTreeMap;

/// How often the parts of one sale are tried, when alternatives go while they are chosen.
const TRIES_MAX: usize = 10;

/// So long after its begin nobody else can have taken an order over; more than the wait for the locks.
const OURS_FOR: Duration = Duration::from_secs(10);
const _: () = assert!(OURS_FOR.as_millis() as u64 + 2_000 < LEASE_MS && OURS_FOR.as_secs() > WAIT.as_secs());

/// Why not all parts are held.
enum Failure {
    /// A sale refuses a line.
    Line(OrderRefusal),
    /// It was not entered that all are held.
    Store(StoreError),
    /// It may have been entered.
    Unknown(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl OrderRequest {
    /// The first lines of an order: each takes what it asks for. One random part a sale.
    fn first_lines(&self) -> Vec<OrderLine> {
        let mut parts: BTreeMap<&SaleId, ReservationId> = BTreeMap::new();
        let line = |line: &OrderLineRequest| (line.sale.clone(), line.sku.clone(), line.quantity.units());
        self.lines
            .iter()
            .map(|asked| {
                let part = parts.entry(&asked.sale).or_insert_with(|| ReservationId(uuid::Uuid::new_v4()));
                let (sale, sku, quantity) = line(asked);
                OrderLine { sale, asked_sku: sku.clone(), sku, quantity, reservation: *part }
            })
            .collect()
    }

    fn fingerprint(&self) -> String {
        let mut said = vec![self.hold_seconds.unwrap_or_default().to_string()];
        said.extend(self.buyer.as_ref().map(|buyer| format!("b{buyer}")));
        said.extend(self.reference.as_ref().map(|reference| format!("r{reference}")));
        said.extend(self.metadata.as_ref().map(|metadata| format!("m{}", json(metadata))));
        for line in &self.lines {
            let skus: Vec<&str> = (0..line.sku_count()).map(|n| line.sku_at(n).as_str()).collect();
            said.push(format!("l{}={}={}", line.sale, line.quantity.units(), skus.join("=")));
        }
        ids::fingerprint(said.iter().map(String::as_bytes))
    }

    /// The place of the first line of a sale that `is_it`.
    fn line_of(&self, sale: &SaleId, is_it: impl Fn(usize) -> bool) -> usize {
        let of = |n: &usize| self.lines[*n].sale == *sale;
        let mut places = (0..self.lines.len()).filter(of);
        places.clone().find(|n| is_it(*n)).or_else(|| places.next()).unwrap_or_default()
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl Store {
    /// Holds all lines of an order, or none. The same key has one order, however often it is tried; one that was refused
    /// leaves nothing.
    pub async fn place_order(
        &self,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: OrderRequest,
    ) -> Decided<Order> {
        let id = self.ids().await?.order(caller, key);
        let store = self.clone();
        let decided = self.to_the_end(async move { store.begin_order(id, request).await }).await;
        self.count_order(decided)
    }

    async fn begin_order(&self, id: OrderId, request: OrderRequest) -> Decided<Order> {
        let (lines, fingerprint) = (request.first_lines(), request.fingerprint());
        let (attempt, lines_text) = (new_attempt(), lines_text(&lines));
        let hold_ms = request.hold_seconds.map(|seconds| (seconds * 1000).to_string()).unwrap_or_default();
        let lease = LEASE_MS.to_string();
        let metadata = request.metadata.as_ref().map(json).unwrap_or_default();
        let args = [
            &*attempt,
            &lease,
            &lines_text,
            &fingerprint,
            &hold_ms,
            request.buyer.as_ref().map_or("", Buyer::as_str),
            request.reference.as_ref().map_or("", Reference::as_str),
            &metadata,
        ];
        let begun = Instant::now();
        loop {
            let sent = Instant::now();
            let answer = self.order_call(|scripts| &scripts.begin_order, id, &args).await?;
            match answer.word.as_str() {
                "begun" => return self.hold_order(&request, answer.record()?, sent).await,
                "idempotency_key_reused" => return Ok(Decision::Refused(Refusal::IdempotencyKeyReused)),
                "exists" => {}
                _ => return Err(StoreError::Reply("unknown word".into())),
            }
            let there = answer.record()?.order;
            if !there.status.is_under_way() {
                return Ok(ended(there));
            }
            if begun.elapsed() >= WAIT {
                return Err(lost());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// `begun`: when the call was sent that began it.
    async fn hold_order(
        &self,
        request: &OrderRequest,
        mut record: OrderRecord,
        begun: Instant,
    ) -> Decided<Order> {
        let parts = parts_of(&record.order.lines);
        let guards = match self.lock_sales(parts.iter().map(|(sale, _)| sale)).await {
            Ok(Ok(guards)) => guards,
            Ok(Err((sale, refusal))) => {
                self.abort(&record, "refused").await?;
                return Ok(refused(request.line_of(&sale, |_| true), sale, refusal));
            }
            Err(error) => {
                self.abort(&record, "refused").await?;
                return Err(error);
            }
        };
        // From here on the fences say whether the order is still ours: whoever takes it over takes the locks.
        let held = match begun.elapsed() < OURS_FOR {
            true => self.hold_parts(request, &mut record, &parts, &guards).await,
            false => Err(Failure::Store(lost())),
        };
        let held = match held {
            Ok(expires_at) => self.enter_hold(&record, expires_at).await,
            Err(failure) => Err(failure),
        };
        match held {
            Ok(order) => {
                unlock(guards).await;
                Ok(Decision::Done(Outcome::Held, order))
            }
            // Under the locks: the next order should find the units that come back.
            Err(Failure::Line(refusal)) => {
                let undone = match self.abort(&record, "refused").await {
                    // Somebody else has undone it, perhaps before the locks were ours.
                    Err(error) if error == lost() => self.release_parts(&record).await,
                    undone => undone.map(drop),
                };
                unlock(guards).await;
                undone.map(|()| Decision::Refused(Refusal::Order(refusal)))
            }
            Err(Failure::Store(error)) => {
                self.abort_unknown(&record, "refused", guards).await;
                Err(error)
            }
            // If it is held, a repeat finds it; if not, it is recovered.
            Err(Failure::Unknown(error)) => {
                unlock(guards).await;
                Err(error)
            }
        }
    }

    async fn enter_hold(&self, record: &OrderRecord, expires_at: Timestamp) -> Result<Order, Failure> {
        let lines = lines_text(&record.order.lines);
        let expires_ms = expires_at.as_ms().to_string();
        let args = [&*record.attempt, &lines, &expires_ms];
        let called = self.order_call(|scripts| &scripts.hold_order, record.order.id, &args).await;
        let answer = called.map_err(|error| match error {
            StoreError::NotApplied(_) => Failure::Store(error),
            error => Failure::Unknown(error),
        })?;
        match answer.word.as_str() {
            "held" => Ok(answer.record()?.order),
            "lost" => Err(lost().into()),
            _ => Err(Failure::Unknown(StoreError::Reply("unknown word".into()))),
        }
    }

    /// Holds part after part, enters what each took into the record's lines, and answers the earliest deadline.
    async fn hold_parts(
        &self,
        request: &OrderRequest,
        record: &mut OrderRecord,
        parts: &[(SaleId, ReservationId)],
        guards: &[LockGuard],
    ) -> Result<Timestamp, Failure> {
        let mut expires_at = None;
        for ((sale, part), guard) in parts.iter().zip(guards) {
            let places: Vec<usize> =
                (0..request.lines.len()).filter(|n| request.lines[*n].sale == *sale).collect();
            let asked: Vec<&OrderLineRequest> = places.iter().map(|n| &request.lines[*n]).collect();
            let mut chosen = vec![0; asked.len()];
            let mut tries = 1;
            let held = loop {
                let skus = || asked.iter().zip(&chosen).map(|(line, n)| line.sku_at(*n).clone());
                for (place, sku) in places.iter().zip(skus()) {
                    record.order.lines[*place].sku = sku;
                }
                let cart = asked.iter().zip(skus()).map(|(line, sku)| Line { sku, quantity: line.quantity });
                let reserve = Reserve {
                    buyer: request.buyer.clone(),
                    lines: Lines::new(cart.collect())
                        .map_err(|why| Failure::Store(StoreError::Reply(why.into())))?,
                    hold_seconds: request.hold_seconds,
                    reference: request.reference.clone(),
                    metadata: None,
                    replaces: None,
                    fence: Some(guard.fence()),
                };
                let refusal = match self.reserve_part(sale, *part, record.order.id, reserve).await? {
                    Decision::Done(_, held) => break held,
                    Decision::Refused(Refusal::StaleFence) => return Err(busy().into()),
                    Decision::Refused(refusal) => refusal,
                };
                let another = match &refusal {
                    Refusal::SoldOut { .. } if tries < TRIES_MAX => self.another_choice(sale, &asked).await?,
                    _ => Decision::Done(Outcome::Unchanged, None),
                };
                let refusal = match another {
                    Decision::Done(_, Some(another)) if another != chosen => {
                        (chosen, tries) = (another, tries + 1);
                        continue;
                    }
                    Decision::Done(..) => refusal,
                    Decision::Refused(refusal) => refusal,
                };
                let is_it = |n: usize| names(&refusal, &request.lines[n], &record.order.lines[n].sku);
                let line = request.line_of(sale, is_it);
                let (sale, refusal) = (sale.clone(), Box::new(refusal));
                return Err(Failure::Line(OrderRefusal::Line { line, sale, refusal }));
            };
            expires_at = expires_at.into_iter().chain(held.expires_at).min();
        }
        expires_at.ok_or_else(|| Failure::Store(StoreError::Reply("a part has no deadline".into())))
    }

    /// What the lines could take of what is there now; none: nothing, or there are no alternatives.
    async fn another_choice(
        &self,
        sale: &SaleId,
        asked: &[&OrderLineRequest],
    ) -> Decided<Option<Vec<usize>>> {
        if asked.iter().all(|line| line.alternatives.is_empty()) {
            return Ok(Decision::Done(Outcome::Unchanged, None));
        }
        let mut available = BTreeMap::new();
        for sku in asked.iter().flat_map(|line| (0..line.sku_count()).map(|n| line.sku_at(n))) {
            if available.contains_key(sku) {
                continue;
            }
            match self.level(sale, sku).await? {
                Decision::Done(_, level) => available.insert(sku.clone(), level.available),
                Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            };
        }
        Ok(Decision::Done(Outcome::Unchanged, choose(asked, &available)))
    }
}

/// Whether a refusal is about this line, which wanted to take `sku` last.
fn names(refusal: &Refusal, line: &OrderLineRequest, sku: &Sku) -> bool {
    match refusal {
        Refusal::UnknownSku(unknown) => (0..line.sku_count()).any(|n| line.sku_at(n) == unknown),
        Refusal::BuyerLimit { sku: Some(limited), .. } => limited == sku,
        Refusal::SoldOut { shortfalls, .. } => shortfalls.iter().any(|short| short.sku == *sku),
        _ => false,
    }
}

pub(super) fn refused(line: usize, sale: SaleId, refusal: Refusal) -> Decision<Order> {
    Decision::Refused(Refusal::Order(OrderRefusal::Line { line, sale, refusal: Box::new(refusal) }))
}

/// A new attempt: 22 random characters.
pub(super) fn new_attempt() -> String {
    ids::short(uuid::Uuid::new_v4())
}
