//! Group commit: mutations of a sale that wait at the same moment go to Redis together.
//!
//! There is no timer. A round is whatever queued up while the previous one was under way, so a lone request waits for
//! nobody and a crowd shares one round trip and one fsync. Each sale has a lane with three queues (settle, take, bulk);
//! a round carries some of each, settle first, grouped by verb, one script call a verb, in one write.

mod lane;
mod rounds;

pub use lane::{BATCH_REQUESTS_MAX, Class, QUEUE_MAX, SaleQueues, Waiting};
pub use rounds::{Lane, Target};
pub(super) use rounds::{Pending, Queues, send_all};

use super::error::StoreError;
use super::pool::{Connection, Pool};
use super::reply::{self, BatchReply, CallRefusal};
use super::scripts::{Script, Scripts};
use super::{Clock, SaleHandle};
use crate::domain::{Lines, Timestamp};
use crate::metrics::Metrics;
use lane::Pending as SalePending;
use redis::Cmd;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// How often a request that fell short is tried again after overdue holds were expired.
const EXPIRE_ROUNDS_MAX: usize = 10;

/// What is done; one script each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take units.
    Reserve,
    /// Take the deadline off those of an order.
    Pin,
    /// Sell them.
    Confirm,
    /// Give them back.
    Release,
    /// Move the deadline.
    Extend,
    /// Give sold ones back.
    Return,
    /// Give overdue ones back.
    Expire,
    /// Change the supply.
    Adjust,
    /// Forget old records.
    Archive,
}

impl Verb {
    /// Settling comes first, and is never shed in favour of taking. Order of the calls in a round.
    const ORDER: [Verb; 9] = [
        Verb::Pin,
        Verb::Confirm,
        Verb::Return,
        Verb::Extend,
        Verb::Release,
        Verb::Expire,
        Verb::Adjust,
        Verb::Archive,
        Verb::Reserve,
    ];

    fn script(self, scripts: &Scripts) -> &Script {
        match self {
            Verb::Reserve => &scripts.reserve,
            Verb::Pin => &scripts.pin,
            Verb::Confirm => &scripts.confirm,
            Verb::Release => &scripts.release,
            Verb::Extend => &scripts.extend,
            Verb::Return => &scripts.return_reservation,
            Verb::Expire => &scripts.expire,
            Verb::Adjust => &scripts.adjust,
            Verb::Archive => &scripts.archive,
        }
    }
}

/// One request, prepared as far as it doesn't depend on the store's state.
#[derive(Debug)]
pub struct Request {
    /// What is done.
    pub verb: Verb,
    /// The reservation, or for adjust the operation: 22 characters.
    pub id: String,
    /// The rest, by verb.
    pub body: Body,
}

/// What a request says beside its id.
#[derive(Debug)]
pub enum Body {
    /// Reserve.
    Take {
        /// Bucket and name.
        buyer: Option<(u8, String)>,
        /// The sale's default where none.
        hold_ms: Option<u64>,
        /// The hold to replace: 22 characters.
        replaces: Option<String>,
        /// The record from its fingerprint on.
        tail: String,
        /// What is wanted.
        lines: Lines,
    },
    /// Any other verb: its arguments as the script's header lists them.
    Settle {
        /// Operation whose record the script keeps (return): 22 characters.
        operation: Option<String>,
        /// Arguments.
        args: Vec<String>,
    },
}

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

    async fn carry(&self, committer: &Committer, connection: &mut Connection, round: Vec<SalePending>) {
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
    async fn carry_all(&self, sale: &SaleHandle, connection: &mut Connection, round: Vec<SalePending>) {
        let mut batches: HashMap<Verb, Vec<SalePending>> = HashMap::new();
        for pending in round {
            batches.entry(pending.request.verb).or_default().push(pending);
        }
        let batches: Vec<(Verb, Vec<SalePending>)> =
            Verb::ORDER.iter().filter_map(|verb| batches.remove(verb).map(|batch| (*verb, batch))).collect();
        let calls: Vec<Cmd> = batches.iter().map(|(verb, batch)| self.call(*verb, sale, batch)).collect();
        let scripts: Vec<(&Script, &Cmd)> =
            batches.iter().zip(&calls).map(|((verb, _), call)| (verb.script(&self.scripts), call)).collect();
        let begun = Instant::now();
        let replies = connection.call_all(&scripts).await;
        let mut deferred = Vec::new();
        for ((verb, batch), reply) in batches.into_iter().zip(replies) {
            self.metrics.commit(verb.script(&self.scripts).label(), batch.len(), begun.elapsed());
            match reply.and_then(reply::batch) {
                // Whatever made the call fail may concern one request alone: one try each.
                Err(StoreError::Corrupt(_) | StoreError::Reply(_)) if batch.len() > 1 => {
                    for pending in batch {
                        let alone = vec![pending];
                        let call = self.call(verb, sale, &alone);
                        let reply =
                            connection.call(verb.script(&self.scripts), &call).await.and_then(reply::batch);
                        let undecided = self.deliver(alone, reply, false);
                        deferred.extend(undecided.deferred);
                    }
                }
                reply => {
                    let undecided = self.deliver(batch, reply, true);
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
        connection: &mut Connection,
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
            let calls = [(&self.scripts.expire, &expire), (verb.script(&self.scripts), &retry)];
            let mut replies = connection.call_all(&calls).await.into_iter();
            if let Some(Ok(Ok(reply))) = replies.next().map(|reply| reply.and_then(reply::batch)) {
                reply.answers.iter().for_each(|answer| self.count_expired(reply.now, answer));
            }
            let reply = replies.next().unwrap_or_else(|| Err(StoreError::Reply("no answer".into())));
            let undecided = self.deliver(short, reply.and_then(reply::batch), round < EXPIRE_ROUNDS_MAX);
            short = undecided.short;
            overdue = undecided.overdue;
            // A retake reads few records; none of a retry's can be deferred that was not deferred before.
            debug_assert!(undecided.deferred.is_empty());
        }
    }

    /// Counts a hold that was found overdue, whichever verb found it.
    fn count_expired(&self, now: Timestamp, answer: &str) {
        if let Some(expired) = reply::newly_expired(now, answer) {
            self.metrics.expired_late_by(expired.late_by);
            self.metrics.units("expired", expired.units);
            self.metrics.reservation("expire", "expired");
        }
    }

    /// Sends what is decided, and gives back what is not: the deferred, and (if `may_retry`) what fell short while
    /// holds are overdue.
    fn deliver(
        &self,
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
            self.count_expired(now, &text);
            if text == "deferred" {
                undecided.deferred.push(pending);
            } else if may_retry && !overdue.is_empty() && reply::fell_short(&text) {
                undecided.short.push(pending);
            } else {
                let _ = pending.sender.send(Ok(Answered::Answer { now, retry_at, text }));
            }
        }
        undecided.overdue = overdue;
        undecided
    }

    /// EVALSHA with the fixed keys of a verb, `more` keys to follow.
    fn head(&self, verb: Verb, sale: &SaleHandle, more: usize) -> Cmd {
        let script = verb.script(&self.scripts);
        if verb == Verb::Adjust {
            let mut cmd = script.call(4 + more);
            cmd.arg(sale.keys.rules())
                .arg(sale.keys.stock())
                .arg(sale.keys.events())
                .arg(&sale.keys.adjustments);
            return cmd;
        }
        let mut cmd = script.call(sale.keys.fixed.len() + more);
        for key in &sale.keys.fixed {
            cmd.arg(key);
        }
        cmd
    }

    /// The call that carries a batch.
    fn call(&self, verb: Verb, sale: &SaleHandle, batch: &[SalePending]) -> Cmd {
        match verb {
            Verb::Reserve => self.reserve_call(sale, batch),
            _ => self.settle_call(verb, sale, batch),
        }
    }

    fn settle_call(&self, verb: Verb, sale: &SaleHandle, batch: &[SalePending]) -> Cmd {
        let key_count = if verb == Verb::Return { 2 * batch.len() + 1 } else { batch.len() };
        let mut cmd = self.head(verb, sale, key_count);
        for SalePending { request, .. } in batch {
            if verb == Verb::Adjust {
                cmd.arg(sale.keys.operation(&request.id));
            } else {
                cmd.arg(sale.keys.record(&request.id));
            }
            if let Body::Settle { operation: Some(operation), .. } = &request.body {
                cmd.arg(sale.keys.operation(operation));
            }
        }
        if verb == Verb::Return {
            cmd.arg(&sale.keys.adjustments);
        }
        cmd.arg(self.clock.offset_ms()).arg(&sale.generation);
        for SalePending { request, .. } in batch {
            if let Body::Settle { args, .. } = &request.body {
                for arg in args {
                    cmd.arg(arg);
                }
            }
        }
        cmd
    }

    /// Distinct SKUs and buyers go first, so that the script walks flat arrays.
    fn reserve_call(&self, sale: &SaleHandle, batch: &[SalePending]) -> Cmd {
        let takes = || {
            batch.iter().filter_map(|pending| match &pending.request.body {
                Body::Take { buyer, hold_ms, replaces, tail, lines } => {
                    Some((&pending.request.id, buyer, hold_ms, replaces, tail, lines))
                }
                Body::Settle { .. } => None,
            })
        };
        let key_count = takes().map(|(_, _, _, replaces, ..)| 1 + usize::from(replaces.is_some())).sum();
        let mut cmd = self.head(Verb::Reserve, sale, key_count);
        let (mut skus, mut buyers) = (Index::default(), Index::default());
        for (id, buyer, _, replaces, _, lines) in takes() {
            cmd.arg(sale.keys.record(id));
            if let Some(replaced) = replaces {
                cmd.arg(sale.keys.record(replaced));
            }
            if let Some((bucket, buyer)) = buyer {
                buyers.add(buyer, *bucket);
            }
            for (sku, _) in lines.iter() {
                skus.add(sku.as_str(), 0);
            }
        }
        cmd.arg(self.clock.offset_ms()).arg(&sale.generation).arg(skus.list.len()).arg(buyers.list.len());
        for (sku, _) in &skus.list {
            cmd.arg(sku);
        }
        for (buyer, bucket) in &buyers.list {
            cmd.arg(bucket).arg(buyer);
        }
        for (_, buyer, hold_ms, replaces, tail, lines) in takes() {
            match hold_ms {
                Some(hold_ms) => cmd.arg(hold_ms),
                None => cmd.arg(""),
            };
            cmd.arg(buyer.as_ref().map_or("", |(_, buyer)| buyer));
            cmd.arg(replaces.as_deref().unwrap_or_default()).arg(tail).arg(lines.count());
            for (sku, units) in lines.iter() {
                cmd.arg(skus.place(sku.as_str())).arg(units);
            }
        }
        cmd
    }
}

/// What a call left undecided.
#[derive(Debug, Default)]
struct Undecided {
    deferred: Vec<SalePending>,
    short: Vec<SalePending>,
    overdue: Vec<String>,
}

/// Distinct names in the order of their first use, counted from 1 as Lua does.
#[derive(Debug, Default)]
struct Index<'a> {
    places: HashMap<&'a str, usize>,
    list: Vec<(&'a str, u8)>,
}

impl<'a> Index<'a> {
    fn add(&mut self, name: &'a str, bucket: u8) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.places.entry(name) {
            self.list.push((name, bucket));
            entry.insert(self.list.len());
        }
    }

    fn place(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or_default()
    }
}
