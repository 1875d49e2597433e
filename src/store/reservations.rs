//! Reservations: the verbs, and reading.

mod prepared;

use super::group_commit::{Body, Class, Request, Verb};
use super::{Decided, SaleHandle, Store, StoreError, ids, reply};
use crate::domain::*;
use prepared::{NO_ORDER, lines_text};

/// Which reservations a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationFilter {
    /// Held ones, by deadline.
    Held,
    /// Ended ones, by the time until which they are kept.
    Ended,
}

/// An answer is about the reservation that was asked for, or something is badly wrong.
pub(super) fn check_id(decision: Decision<Reservation>, asked: ReservationId) -> Decided<Reservation> {
    match &decision {
        Decision::Done(_, reservation) if reservation.id != asked => {
            Err(StoreError::Reply("the answer is about another reservation".into()))
        }
        _ => Ok(decision),
    }
}

impl Store {
    /// Takes units until a deadline. The same key has one reservation, however often it is tried.
    pub async fn reserve(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: Reserve,
    ) -> Decided<Reservation> {
        let prepare = |handle: &SaleHandle| request.prepared(handle.ids.reservation(caller, key), None);
        let decided = self.commit(sale, prepare, |now, at, text| reply::decision(sale, now, at, text)).await;
        self.count(sale, "reserve", decided)
    }

    pub(super) async fn settle(
        &self,
        verb: Verb,
        sale: &SaleId,
        id: ReservationId,
        fence: Option<&Fence>,
        operation: impl Fn(&SaleHandle) -> Option<String>,
        args: impl Fn(&SaleHandle) -> Vec<String>,
    ) -> Decided<Reservation> {
        let prepare = |handle: &SaleHandle| Request {
            verb,
            id: ids::short(id.0),
            fence: fence.cloned(),
            body: Body::Settle { operation: operation(handle), args: args(handle) },
        };
        let decided =
            self.commit(sale, prepare, |now, at, text| reply::decision(sale, now, at, text)).await?;
        check_id(decided, id)
    }

    /// Sells held units.
    pub async fn confirm(&self, sale: &SaleId, id: ReservationId, request: Confirm) -> Decided<Reservation> {
        let if_expired = match request.if_expired {
            IfExpired::Refuse => "refuse",
            IfExpired::Retake => "retake",
        };
        let args = |_: &SaleHandle| {
            let reference = request.reference.as_ref().map_or("", Reference::as_str);
            vec![
                if_expired.into(),
                reference.into(),
                request.lines.as_ref().map(lines_text).unwrap_or_default(),
                NO_ORDER.into(),
            ]
        };
        let decided = self.settle(Verb::Confirm, sale, id, request.fence.as_ref(), |_| None, args).await;
        self.count(sale, "confirm", decided)
    }

    /// Gives held units back.
    pub async fn release(&self, sale: &SaleId, id: ReservationId, request: Release) -> Decided<Reservation> {
        let args = |_: &SaleHandle| vec![NO_ORDER.into()];
        let decided = self.settle(Verb::Release, sale, id, request.fence.as_ref(), |_| None, args).await;
        self.count(sale, "release", decided)
    }

    /// Moves the deadline of a hold.
    pub async fn extend(
        &self,
        sale: &SaleId,
        id: ReservationId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: Extend,
    ) -> Decided<Reservation> {
        let args = |handle: &SaleHandle| {
            let operation = ids::short(handle.ids.operation(&format!("extend {id}"), caller, key).0);
            let fingerprint = ids::fingerprint([&request.hold_seconds.to_le_bytes()[..]]);
            vec![(request.hold_seconds * 1000).to_string(), operation + &fingerprint]
        };
        let decided = self.settle(Verb::Extend, sale, id, None, |_| None, args).await;
        self.count(sale, "extend", decided)
    }

    /// Gives sold units back. With lines it is a delta, and needs a key.
    pub async fn return_reservation(
        &self,
        sale: &SaleId,
        id: ReservationId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: Return,
    ) -> Decided<Reservation> {
        if request.lines.is_some() && key.is_none() {
            return Ok(Decision::Refused(Refusal::IdempotencyKeyRequired));
        }
        let lines = request.lines.as_ref().map(lines_text).unwrap_or_default();
        let restock = if request.restock { "1" } else { "0" };
        let fingerprint = ids::fingerprint([lines.as_bytes(), restock.as_bytes()]);
        let operation = |handle: &SaleHandle| {
            Some(ids::short(handle.ids.operation(&format!("return {id}"), caller, key).0))
        };
        let args = |_: &SaleHandle| vec![lines.clone(), restock.into(), fingerprint.clone()];
        let decided = self.settle(Verb::Return, sale, id, None, operation, args).await;
        self.count(sale, "return", decided)
    }

    /// Gives the units of overdue holds back, and says how many holds it was.
    pub async fn expire(&self, sale: &SaleId, overdue: &[String]) -> Result<usize, StoreError> {
        self.settle_ids(Verb::Expire, sale, overdue).await
    }

    /// Forgets records whose retention is over, and says how many.
    pub async fn archive(&self, sale: &SaleId, ended: &[String]) -> Result<usize, StoreError> {
        self.settle_ids(Verb::Archive, sale, ended).await
    }

    async fn settle_ids(&self, verb: Verb, sale: &SaleId, ids: &[String]) -> Result<usize, StoreError> {
        let prepare = |_: &SaleHandle, n: usize| Request {
            verb,
            id: ids[n].clone(),
            fence: None,
            body: Body::Settle { operation: None, args: Vec::new() },
        };
        let read = |_, _, text: &str| {
            let outcome = if reply::swept(text)? { Outcome::Expired } else { Outcome::Unchanged };
            Ok(Decision::Done(outcome, ()))
        };
        let mut count = 0;
        for decided in self.commit_all(sale, Class::Settle, ids.len(), prepare, read).await {
            count += usize::from(matches!(decided?, Decision::Done(Outcome::Expired, ())));
        }
        Ok(count)
    }

    pub(super) fn count(
        &self,
        sale: &SaleId,
        verb: &'static str,
        decided: Decided<Reservation>,
    ) -> Decided<Reservation> {
        let metrics = &self.committer.metrics;
        let word = match &decided {
            Ok(Decision::Done(outcome, reservation)) => {
                let units = |count: fn(&ReservationLine) -> u64| reservation.lines.iter().map(count).sum();
                match outcome {
                    Outcome::Held | Outcome::Released => {
                        metrics.units(outcome.as_str(), units(|line| line.quantity));
                    }
                    Outcome::Confirmed | Outcome::Retaken => {
                        metrics.units(outcome.as_str(), units(|line| line.confirmed));
                    }
                    _ => {}
                }
                outcome.as_str()
            }
            Ok(Decision::Refused(refusal)) => refusal.code(),
            Err(error) => error.code(),
        };
        metrics.reservation(verb, word);
        metrics.sale_answered(self.sales.get(sale).as_ref().map(|handle| &*handle.counts), word, 1);
        decided
    }

    /// Reads one reservation.
    pub async fn reservation(&self, sale: &SaleId, id: ReservationId) -> Decided<Reservation> {
        let mut found = match self.read(sale, &[ids::short(id.0)]).await? {
            Decision::Done(_, found) => found,
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
        };
        match found.pop() {
            Some(decision) => check_id(decision, id),
            None => Err(StoreError::Reply("no answer".into())),
        }
    }

    /// Reads the reservation that a key has made.
    pub async fn reservation_by_key(
        &self,
        sale: &SaleId,
        caller: &Caller,
        key: &IdempotencyKey,
    ) -> Decided<Reservation> {
        match self.handle(sale).await? {
            Some(handle) => self.reservation(sale, handle.ids.reservation(caller, Some(key))).await,
            None => Ok(Decision::Refused(Refusal::UnknownSale)),
        }
    }

    /// Reads records by their 22-character ids.
    async fn read(&self, sale: &SaleId, ids: &[String]) -> Decided<Vec<Decision<Reservation>>> {
        for _ in 0..2 {
            let Some(handle) = self.handle(sale).await? else { break };
            let script = &self.scripts().read;
            let mut cmd = script.call(handle.keys.fixed.len() + ids.len());
            for key in &handle.keys.fixed {
                cmd.arg(key);
            }
            for id in ids {
                cmd.arg(handle.keys.record(id));
            }
            cmd.arg(self.offset_ms()).arg(&handle.generation);
            match reply::batch_of(self.call(script, &cmd).await?)? {
                Ok(found) => {
                    let read = |text: &String| reply::decision(sale, found.now, None, text);
                    let found: Result<Vec<_>, _> = found.answers.iter().map(read).collect();
                    return Ok(Decision::Done(Outcome::Unchanged, found?));
                }
                Err(_) => self.sales.remove(sale),
            };
        }
        Ok(Decision::Refused(Refusal::UnknownSale))
    }

    /// A page of held reservations by deadline, or of ended ones by the end of their retention. The cursor is
    /// `<score>-<id>`.
    pub async fn reservations(
        &self,
        sale: &SaleId,
        filter: ReservationFilter,
        page: &PageRequest,
    ) -> Decided<Page<Reservation>> {
        let Some(handle) = self.handle(sale).await? else {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        };
        let key = match filter {
            ReservationFilter::Held => handle.keys.due(),
            ReservationFilter::Ended => handle.keys.done(),
        };
        let (score, id) = page.after.as_deref().and_then(|after| after.split_once('-')).unwrap_or_default();
        let script = &self.scripts().list;
        let mut cmd = script.call(1);
        cmd.arg(key).arg(score).arg(id).arg(page.limit);
        let listed = self.call(script, &cmd).await?;
        let ids: Vec<String> = listed.iter().step_by(2).cloned().collect();
        let next = (ids.len() == page.limit).then(|| match &listed[..] {
            [.., id, score] => format!("{score}-{id}"),
            _ => String::new(),
        });
        if ids.is_empty() {
            return Ok(Decision::Done(Outcome::Unchanged, Page { items: Vec::new(), next: None }));
        }
        self.read(sale, &ids).await?.try_map(|found| {
            // One that was archived between the two reads is left out.
            let items = found
                .into_iter()
                .filter_map(|decision| match decision {
                    Decision::Done(_, reservation) => Some(reservation),
                    Decision::Refused(_) => None,
                })
                .collect();
            Ok(Page { items, next })
        })
    }
}
