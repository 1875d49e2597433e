//! Arrivals that wait at the same moment go to Redis together, those of many barriers of a bucket in one call.

use crate::domain::*;
use crate::store::group_commit::{Committer, Lane, Pending, QUEUE_MAX, Queues, Target, call_for, send_all};
use crate::store::keys::{self, BucketKeys};
use crate::store::pool::{Lease, Slot};
use crate::store::reply::{self, Fields};
use crate::store::{Decided, Store, StoreError};
use redis::Cmd;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One of the buckets of barriers.
#[derive(Debug)]
pub struct Bucket {
    pub(super) keys: BucketKeys,
    lane: Lane<Arrivals>,
    /// Barriers that have changed, and nobody was told yet.
    untold: Mutex<BTreeSet<BarrierId>>,
}

impl Bucket {
    /// Each of them.
    pub fn all() -> Vec<std::sync::Arc<Self>> {
        let bucket = |keys| Self { keys, lane: Lane::default(), untold: Mutex::default() };
        BucketKeys::all().map(|keys| bucket(keys).into()).collect()
    }
}

/// One arrival.
#[derive(Debug)]
pub struct Arrival {
    barrier: BarrierId,
    request: Arrive,
}

type Waits = Pending<Arrival, Decision<BarrierProgress>>;

/// Most arrivals of one script call: as many names it may have to list.
const CALL_ARRIVALS_MAX: usize = 128;

/// What waits for a bucket.
#[derive(Debug, Default)]
pub struct Arrivals(VecDeque<Waits>);

impl Queues for Arrivals {
    type Request = Arrival;
    type Answer = Decision<BarrierProgress>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn next_round(&mut self) -> Vec<Waits> {
        self.0.drain(..self.0.len().min(CALL_ARRIVALS_MAX)).collect()
    }
}

impl Store {
    /// Lets a participant arrive.
    pub async fn arrive(&self, barrier: &BarrierId, request: Arrive) -> Decided<BarrierProgress> {
        let (pending, waiting) = Pending::new(Arrival { barrier: barrier.clone(), request });
        self.committer.queue(self.bucket(barrier), |arrivals| {
            if arrivals.0.len() < QUEUE_MAX {
                arrivals.0.push_back(pending);
            } else {
                let _ = pending.sender.send(Err(StoreError::NotApplied("queue_full")));
            }
        });
        let decided = waiting.answer().await;
        self.committer.metrics.barrier_arrival(match &decided {
            Ok(Decision::Done(outcome, _)) => outcome.as_str(),
            Ok(Decision::Refused(refusal)) => refusal.code(),
            Err(error) => error.code(),
        });
        decided
    }
}

impl Target for Bucket {
    type Queues = Arrivals;

    fn lane(&self) -> &Lane<Arrivals> {
        &self.lane
    }

    fn slot(&self) -> Slot {
        Slot::for_key(&self.keys.index)
    }

    async fn carry(&self, committer: &Committer, connection: &mut Lease, round: Vec<Waits>) {
        let script = &committer.scripts.arrive;
        let begun = Instant::now();
        // The hint of the round before goes along: nobody waits for it.
        let call = self.call(committer, &round);
        let reply = connection.call_with(&call_for(script, &call, &round), self.hint()).await;
        let reply = reply.and_then(reply::batch);
        committer.metrics.commit(script.label(), round.len(), begun.elapsed());
        let mut changed = BTreeSet::new();
        match reply {
            // Whatever made the call fail may concern one of them alone: one try each.
            Err(StoreError::Corrupt(_) | StoreError::Reply(_)) if round.len() > 1 => {
                for pending in round {
                    let alone = vec![pending];
                    let call = self.call(committer, &alone);
                    let reply = connection.call_one(&call_for(script, &call, &alone)).await;
                    let reply = reply.and_then(reply::batch);
                    deliver(committer, alone, reply, &mut changed);
                }
            }
            reply => deliver(committer, round, reply, &mut changed),
        }
        self.untold().append(&mut changed);
        if self.lane.is_empty()
            && let Some(hint) = self.hint()
        {
            // What is lost is read a moment later.
            let _ = connection.query(&hint).await;
        }
    }
}

impl Bucket {
    fn untold(&self) -> MutexGuard<'_, BTreeSet<BarrierId>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever waits which barriers have changed.
    fn hint(&self) -> Option<Cmd> {
        let names = std::mem::take(&mut *self.untold());
        let names: Vec<&str> = names.iter().map(BarrierId::as_str).collect();
        (!names.is_empty()).then(|| {
            let mut hint = redis::cmd("PUBLISH");
            hint.arg(keys::BARRIER_HINTS).arg(names.join(" "));
            hint
        })
    }

    fn call(&self, committer: &Committer, round: &[Waits]) -> Cmd {
        let mut places: HashMap<&BarrierId, usize> = HashMap::new();
        let mut barriers = Vec::new();
        for Arrival { barrier, .. } in round.iter().map(|pending| &pending.request) {
            places.entry(barrier).or_insert_with(|| {
                barriers.push(barrier);
                barriers.len()
            });
        }
        let mut cmd = committer.scripts.arrive.call(2 + 4 * barriers.len());
        cmd.arg(&self.keys.due).arg(&self.keys.events);
        for barrier in barriers {
            cmd.arg(&self.keys.barrier(barrier));
        }
        cmd.arg(committer.clock.offset_ms());
        for Arrival { barrier, request } in round.iter().map(|pending| &pending.request) {
            cmd.arg(places[barrier]).arg(request.participant.as_str()).arg(request.outcome.as_str());
            cmd.arg(super::note_text(request.note.as_ref()));
        }
        cmd
    }
}

/// Gives each its answer, and adds the barriers that have changed.
fn deliver(
    committer: &Committer,
    round: Vec<Waits>,
    reply: Result<Result<reply::BatchReply, reply::CallRefusal>, StoreError>,
    changed: &mut BTreeSet<BarrierId>,
) {
    let reply = match reply {
        Ok(Ok(reply)) if reply.answers.len() == round.len() => reply,
        Ok(_) => {
            return send_all(round, || {
                Err(StoreError::Reply("as many answers as arrivals were expected".into()))
            });
        }
        Err(error) => {
            committer.metrics.redis_error(error.code());
            return send_all(round, || Err(error.clone()));
        }
    };
    for (pending, text) in round.into_iter().zip(reply.answers) {
        let read = read(reply.now, &pending.request, &text);
        if let Ok(Read { is_changed: true, .. }) = &read {
            changed.insert(pending.request.barrier.clone());
        }
        if let Ok(Read { ended: Some(barrier), .. }) = &read {
            committer.count_end(barrier);
        }
        let _ = pending.sender.send(read.map(|read| read.decision));
    }
}

/// An answer, and what else it tells.
struct Read {
    decision: Decision<BarrierProgress>,
    is_changed: bool,
    /// The barrier, if this very answer tells of its end.
    ended: Option<Barrier>,
}

fn read(now: Timestamp, asked: &Arrival, text: &str) -> Result<Read, StoreError> {
    let mut fields = Fields::of(text);
    let word = fields.text()?;
    let refusal = match word {
        "unknown_barrier" => BarrierRefusal::Unknown,
        "unknown_participant" => {
            let participant = asked.request.participant.clone();
            BarrierRefusal::UnknownParticipant { participant, field: "/participant" }
        }
        "too_many_participants" => BarrierRefusal::TooManyParticipants,
        "corrupt" => return Err(StoreError::Corrupt("barrier".into())),
        "arrived" | "replayed" | "barrier_ended" => {
            let (previous, fired) = (fields.text()?, fields.text()? == "1");
            let barrier = reply::barrier(now, &mut fields)?;
            if barrier.barrier != asked.barrier {
                return Err(StoreError::Reply("the answer is about another barrier".into()));
            }
            let progress = BarrierProgress::of(&barrier, fired);
            let ended = super::has_ended(previous, &barrier).then(|| barrier.clone());
            let decision = match (word, asked.request.outcome) {
                ("arrived", ArrivalOutcome::Completed) => Decision::Done(Outcome::Completed, progress),
                ("arrived", ArrivalOutcome::Failed) => Decision::Done(Outcome::Failed, progress),
                ("replayed", _) => Decision::Done(Outcome::Replayed, progress),
                _ => Decision::Refused(Refusal::Barrier(BarrierRefusal::Ended(Box::new(barrier)))),
            };
            return Ok(Read { decision, is_changed: word == "arrived" || ended.is_some(), ended });
        }
        _ => return Err(StoreError::Reply("unknown word".into())),
    };
    Ok(Read { decision: Decision::Refused(Refusal::Barrier(refusal)), is_changed: false, ended: None })
}
