//! Group commit: mutations of a sale that wait at the same moment go to Redis together.
//!
//! There is no timer. A round is whatever queued up while the previous one was under way, so a lone request waits for
//! nobody and a crowd shares one round trip and one fsync. Each sale has a lane with three queues (settle, take, bulk);
//! a round carries some of each, settle first, grouped by verb, one script call a verb, in one write.

mod calls;
mod lane;
mod request;
mod rounds;
mod verb;

pub use lane::{BATCH_REQUESTS_MAX, Class, QUEUE_MAX, SaleQueues, Waiting};
pub use request::{Body, Entry, Request, Take};
pub use rounds::{Lane, Target};
pub(super) use rounds::{Pending, Queues, call_for, send_all};
pub use verb::Verb;

use super::error::StoreError;
use super::pool::{Call, Lease, Pool, Slot};
use super::reply::{self, BatchReply, CallRefusal};
use super::scripts::Scripts;
use super::{Clock, SaleHandle};
use crate::domain::Timestamp;
use crate::metrics::Metrics;
use lane::Pending as SalePending;
use redis::Cmd;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// How often a request that fell short is tried again after overdue holds were expired.
const EXPIRE_ROUNDS_MAX: usize = 10;

/// What became of a request.
#[derive(Debug)]
pub enum Answered {
    /// The script's answer.
    Answer {
        /// The script's time.
        now: Timestamp,
        /// Earliest deadline, when it fell short.
        retry_at: Option<Timestamp>,
        /// The answer.
        text: String,
    },
    /// The whole call was refused.
    Refused(CallRefusal),
}

/// What a lane needs to run.
#[derive(Clone)]
pub struct Committer {
    /// Connections.
    pub pool: Pool,
    /// Scripts.
    pub scripts: Arc<Scripts>,
    /// The offset of time in tests.
    pub clock: Arc<Clock>,
    /// Where rounds are counted.
    pub metrics: Arc<Metrics>,
    /// Where lanes run: a mutation runs to its end even if its caller goes away.
    pub runtime: tokio::runtime::Handle,
}

impl Target for SaleHandle {
    type Queues = SaleQueues;

    fn lane(&self) -> &Lane<SaleQueues> {
        &self.lane
    }

    fn slot(&self) -> Slot {
        Slot::for_key(self.keys.rules())
    }

    async fn carry(&self, committer: &Committer, connection: &mut Lease, round: Vec<SalePending>) {
        committer.carry_all(self, connection, round).await;
    }
}

impl Committer {
    /// Queues a request of a sale and waits for its answer.
    pub async fn commit(&self, sale: &Arc<SaleHandle>, request: Request) -> Result<Answered, StoreError> {
        let class = Class::of(request.verb);
        self.queue(sale, |queues| queues.push(class, request)).answer().await
    }

    /// Queues many at once. Each waits for an answer of its own.
    pub fn commit_all(&self, sale: &Arc<SaleHandle>, class: Class, requests: Vec<Request>) -> Vec<Waiting> {
        self.queue(sale, |queues| requests.into_iter().map(|request| queues.push(class, request)).collect())
    }

    /// One round: a call a verb, then what these calls left undecided.
    async fn carry_all(&self, sale: &SaleHandle, connection: &mut Lease, round: Vec<SalePending>) {
        let mut batches: HashMap<Verb, Vec<SalePending>> = HashMap::new();
        for pending in round {
            batches.entry(pending.request.verb).or_default().push(pending);
        }
        let batches: Vec<(Verb, Vec<SalePending>)> =
            Verb::ORDER.iter().filter_map(|verb| batches.remove(verb).map(|batch| (*verb, batch))).collect();
        let calls: Vec<Cmd> = batches.iter().map(|(verb, batch)| self.call(*verb, sale, batch)).collect();
        let scripts: Vec<Call<'_>> =
            batches.iter().zip(&calls).map(|((verb, batch), cmd)| self.carrying(*verb, cmd, batch)).collect();
        let begun = Instant::now();
        let replies = connection.call_all(&scripts).await;
        drop(scripts);
        let mut deferred = Vec::new();
        for ((verb, batch), reply) in batches.into_iter().zip(replies) {
            self.metrics.commit(verb.script(&self.scripts).label(), batch.len(), begun.elapsed());
            match reply.and_then(reply::batch) {
                // Whatever made the call fail may concern one request alone: one try each.
                Err(StoreError::Corrupt(_) | StoreError::Reply(_)) if batch.len() > 1 => {
                    for pending in batch {
                        let alone = vec![pending];
                        let call = self.call(verb, sale, &alone);
                        let call = self.carrying(verb, &call, &alone);
                        let reply = connection.call_one(&call).await.and_then(reply::batch);
                        let undecided = self.deliver(sale, alone, reply, false);
                        deferred.extend(undecided.deferred);
                    }
                }
                reply => {
                    let undecided = self.deliver(sale, batch, reply, true);
                    deferred.extend(undecided.deferred);
                    self.expire_and_retry(sale, connection, verb, undecided.short, undecided.overdue).await;
                }
            }
        }
        // What was deferred leads the next round.
        let mut state = sale.lane.lock();
        self.metrics.queued(deferred.len());
        for pending in deferred.into_iter().rev() {
            state.queues.settle.push_front(pending);
        }
    }

    /// Correctness and availability must not wait for the sweeper: a take that fell short while holds are overdue
    /// expires them, 100 at a time, and is tried again.
    async fn expire_and_retry(
        &self,
        sale: &SaleHandle,
        connection: &mut Lease,
        verb: Verb,
        mut short: Vec<SalePending>,
        mut overdue: Vec<String>,
    ) {
        for round in 1..=EXPIRE_ROUNDS_MAX {
            if short.is_empty() {
                return;
            }
            let mut expire = self.head(Verb::Expire, sale, overdue.len());
            for id in &overdue {
                expire.arg(sale.keys.record(id));
            }
            expire.arg(self.clock.offset_ms()).arg(&sale.generation);
            // With its source: were it unknown, it would be sent again only after the retry that needs it.
            let expire = self.scripts.expire.with_source(&expire);
            let retry = self.call(verb, sale, &short);
            let calls = [self.carrying(Verb::Expire, &expire, &short), self.carrying(verb, &retry, &short)];
            let mut replies = connection.call_all(&calls).await.into_iter();
            if let Some(Ok(Ok(reply))) = replies.next().map(|reply| reply.and_then(reply::batch)) {
                reply.answers.iter().for_each(|answer| self.count_expired(sale, reply.now, answer));
            }
            let reply = replies.next().unwrap_or_else(|| Err(StoreError::Reply("no answer".into())));
            let undecided =
                self.deliver(sale, short, reply.and_then(reply::batch), round < EXPIRE_ROUNDS_MAX);
            short = undecided.short;
            overdue = undecided.overdue;
            // A retake reads few records; none of a retry's can be deferred that was not deferred before.
            debug_assert!(undecided.deferred.is_empty());
        }
    }

    /// Counts a hold that was found overdue, whichever verb found it.
    fn count_expired(&self, sale: &SaleHandle, now: Timestamp, answer: &str) {
        if let Some(expired) = reply::newly_expired(now, answer) {
            self.metrics.expired_late_by(expired.late_by);
            self.metrics.units("expired", expired.units);
            self.metrics.reservation("expire", "expired");
            self.metrics.sale_answered(Some(&sale.counts), "expired", 1);
        }
    }

    /// Sends what is decided, and gives back what is not: the deferred, and (if `may_retry`) what fell short while
    /// holds are overdue.
    fn deliver(
        &self,
        sale: &SaleHandle,
        batch: Vec<SalePending>,
        reply: Result<Result<BatchReply, CallRefusal>, StoreError>,
        may_retry: bool,
    ) -> Undecided {
        let mut undecided = Undecided::default();
        let reply = match reply {
            Ok(Ok(reply)) if reply.answers.len() == batch.len() => reply,
            Ok(Ok(_)) => {
                let error = StoreError::Reply("as many answers as requests were expected".into());
                send_all(batch, || Err(error.clone()));
                return undecided;
            }
            Ok(Err(refusal)) => {
                send_all(batch, || Ok(Answered::Refused(refusal)));
                return undecided;
            }
            Err(error) => {
                self.metrics.redis_error(error.code());
                send_all(batch, || Err(error.clone()));
                return undecided;
            }
        };
        let BatchReply { now, retry_at, overdue, answers } = reply;
        for (pending, text) in batch.into_iter().zip(answers) {
            self.count_expired(sale, now, &text);
            if text == "deferred" {
                undecided.deferred.push(pending);
            } else if may_retry && !overdue.is_empty() && reply::fell_short(&text) {
                undecided.short.push(pending);
            } else {
                let text = pending.request.complete(text);
                let _ = pending.sender.send(Ok(Answered::Answer { now, retry_at, text }));
            }
        }
        undecided.overdue = overdue;
        undecided
    }
}

/// What a call left undecided.
#[derive(Debug, Default)]
struct Undecided {
    deferred: Vec<SalePending>,
    short: Vec<SalePending>,
    overdue: Vec<String>,
}
