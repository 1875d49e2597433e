//! Barriers: made, filled, ended; and what a list shows of them. Arrivals go by group commit (`arrivals`), who waits for
//! a change is told by `watch`.

mod arrivals;
mod check;
mod list;
mod sweep;
pub mod watch;

pub use arrivals::Bucket;
pub use list::BarrierFilter;
pub use sweep::BucketDue;
pub use watch::{Watchers, Watching};

use super::group_commit::Committer;
use super::keys::{self, BucketKeys, barrier_bucket};
use super::reply::{self, Fields};
use super::scripts::{Script, Scripts};
use super::{Decided, Store, StoreError, ids};
use crate::domain::*;
use std::sync::Arc;
use std::time::Duration;

/// A call about one barrier.
struct Call {
    script: fn(&Scripts) -> &Script,
    /// Whether it needs the index of the bucket, too.
    with_index: bool,
    args: Vec<String>,
}

/// What most calls about one barrier answer.
struct Answer {
    word: String,
    /// Whatever stands behind the word.
    texts: Vec<String>,
}

impl Answer {
    fn text(&self, at: usize) -> Result<&str, StoreError> {
        self.texts.get(at).map(String::as_str).ok_or_else(|| StoreError::Reply("answer too short".into()))
    }

    /// The barrier after the call.
    fn barrier(&self) -> Result<Barrier, StoreError> {
        reply::barrier(reply::time(self.text(0)?)?, &mut Fields::of(self.text(2)?))
    }

    /// The number that a refusal names.
    fn number(&self) -> Result<u64, StoreError> {
        reply::number(self.text(1)?)
    }

    /// What every call may be refused for.
    fn refusal(&self) -> Result<Refusal, StoreError> {
        Ok(Refusal::Barrier(match self.word.as_str() {
            "precondition_failed" => return Ok(Refusal::PreconditionFailed),
            "unknown_barrier" => BarrierRefusal::Unknown,
            "barrier_ended" => BarrierRefusal::Ended(Box::new(self.barrier()?)),
            "barrier_exists" => BarrierRefusal::Exists(Box::new(self.barrier()?)),
            "names_not_kept" => BarrierRefusal::NamesNotKept { field: "/participants" },
            "unknown_participant" => {
                let participant =
                    self.text(0)?.parse().map_err(|_| StoreError::Reply("not a name".into()))?;
                BarrierRefusal::UnknownParticipant { participant, field: "/participants" }
            }
            "too_many_participants" => BarrierRefusal::TooManyParticipants,
            "nothing_declared" => BarrierRefusal::NothingDeclared,
            "too_many_arrivals" => BarrierRefusal::TooManyArrivals { declared: self.number()? },
            "already_sealed" => BarrierRefusal::AlreadySealed { expected: self.number()? },
            _ => return Err(StoreError::Reply("unknown word".into())),
        }))
    }
}

fn text_of(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// A note as the store keeps it: JSON, which holds no line break.
fn note_text(note: Option<&Note>) -> String {
    note.and_then(|note| serde_json::to_string(note).ok()).unwrap_or_default()
}

impl BarrierSpec {
    /// As `put.lua` takes it, without the clock. The order of names does not matter.
    fn args(&self, expect: &str) -> Vec<String> {
        let mut names: Vec<&str> = self.participants.iter().map(Participant::as_str).collect();
        names.sort_unstable();
        let urls: Vec<&str> = self.notify.iter().map(WebhookUrl::as_str).collect();
        let mut said = vec![
            self.mode.as_str().to_owned(),
            text_of(self.expected),
            text_of(self.tolerated_failures),
            (self.deadline_seconds * 1000).to_string(),
            (self.retention_seconds * 1000).to_string(),
            urls.join(" "),
        ];
        said.extend(names.into_iter().map(str::to_owned));
        let spec = ids::fingerprint(said.iter().map(String::as_bytes));
        [expect.to_owned(), spec].into_iter().chain(said).collect()
    }
}

impl Store {
    fn bucket(&self, barrier: &BarrierId) -> &Arc<Bucket> {
        &self.buckets[barrier_bucket(barrier)]
    }

    /// Makes a barrier, unless there is one of this name. Its answer alone shows the secrets of `notify`.
    pub async fn put_barrier(
        &self,
        barrier: &BarrierId,
        spec: BarrierSpec,
        must_be_new: MustBeNew,
    ) -> Decided<Barrier> {
        let secrets = match spec.notify.is_empty() {
            true => Vec::new(),
            false => {
                let ids = self.ids().await?;
                spec.notify.iter().map(|url| ids.notify_secret(url)).collect()
            }
        };
        let args = spec.args(if must_be_new == MustBeNew::Yes { "absent" } else { "" });
        let call = Call { script: |scripts| &scripts.put_barrier, with_index: true, args };
        let answer = self.change(barrier, call).await?;
        let outcome = match answer.word.as_str() {
            "created" => Outcome::Created,
            "replayed" => Outcome::Replayed,
            _ => return Ok(Decision::Refused(answer.refusal()?)),
        };
        if outcome == Outcome::Created {
            self.committer.metrics.barrier("created");
        }
        let mut barrier = answer.barrier()?;
        for (target, secret) in barrier.notify.iter_mut().zip(secrets) {
            target.secret = Some(secret);
        }
        Ok(Decision::Done(outcome, barrier))
    }

    /// Names participants that are still to come.
    pub async fn declare(&self, barrier: &BarrierId, request: Declare) -> Decided<Barrier> {
        let args = request.participants.as_slice().iter().map(ToString::to_string).collect();
        let call = Call { script: |scripts| &scripts.declare, with_index: false, args };
        let answer = self.change(barrier, call).await?;
        self.done(&answer, &[("declared", Outcome::Declared), ("replayed", Outcome::Replayed)])
    }

    /// Settles how many a barrier waits for.
    pub async fn seal(&self, barrier: &BarrierId, request: Seal) -> Decided<BarrierProgress> {
        let args = vec![text_of(request.expected)];
        let call = Call { script: |scripts| &scripts.seal, with_index: false, args };
        let answer = self.change(barrier, call).await?;
        let sealed = self.done(&answer, &[("sealed", Outcome::Sealed), ("replayed", Outcome::Replayed)])?;
        sealed.try_map(|barrier| Ok(BarrierProgress::of(&barrier, answer.text(3)? == "1")))
    }

    /// Moves the deadline of an open barrier away; never nearer.
    pub async fn extend_barrier(&self, barrier: &BarrierId, request: ExtendDeadline) -> Decided<Barrier> {
        let args = vec![(request.deadline_seconds * 1000).to_string()];
        let call = Call { script: |scripts| &scripts.extend_barrier, with_index: false, args };
        let answer = self.change(barrier, call).await?;
        self.done(&answer, &[("extended", Outcome::Extended), ("unchanged", Outcome::Unchanged)])
    }

    /// Ends an open barrier before its time.
    pub async fn cancel_barrier(&self, barrier: &BarrierId) -> Decided<Barrier> {
        let call = Call { script: |scripts| &scripts.cancel, with_index: false, args: Vec::new() };
        let answer = self.change(barrier, call).await?;
        self.done(&answer, &[("cancelled", Outcome::Cancelled), ("replayed", Outcome::Replayed)])
    }

    fn done(&self, answer: &Answer, words: &[(&str, Outcome)]) -> Decided<Barrier> {
        match words.iter().find(|(word, _)| *word == answer.word) {
            Some((_, outcome)) => Ok(Decision::Done(*outcome, answer.barrier()?)),
            None => Ok(Decision::Refused(answer.refusal()?)),
        }
    }

    /// Changes one barrier; runs to its end even if its caller goes away.
    async fn change(&self, barrier: &BarrierId, call: Call) -> Result<Answer, StoreError> {
        let (store, barrier) = (self.clone(), barrier.clone());
        self.to_the_end(async move { store.try_to_change(&barrier, &call).await }).await
    }

    async fn try_to_change(&self, barrier: &BarrierId, call: &Call) -> Result<Answer, StoreError> {
        let script = (call.script)(self.scripts());
        let bucket = &self.bucket(barrier).keys;
        let fixed = [&bucket.due, &bucket.events, &bucket.index];
        let fixed = if call.with_index { &fixed[..] } else { &fixed[..2] };
        let own = bucket.barrier(barrier);
        let mut cmd = script.call(fixed.len() + own.len());
        cmd.arg(fixed).arg(&own).arg(self.offset_ms()).arg(&call.args);
        let mut texts = self.call(script, &cmd).await?;
        if texts.is_empty() {
            return Err(StoreError::Reply("no word".into()));
        }
        let answer = Answer { word: texts.remove(0), texts };
        if let [_, previous, _, ..] = &answer.texts[..] {
            let after = answer.barrier()?;
            let has_ended = has_ended(previous, &after);
            if has_ended {
                self.committer.count_end(&after);
            }
            if has_ended || !["replayed", "unchanged"].contains(&answer.word.as_str()) {
                self.hint(&[barrier.as_str()]).await;
            }
        }
        Ok(answer)
    }

    /// Tells whoever waits that these have changed. A hint: what is lost is read a moment later.
    async fn hint(&self, names: &[&str]) {
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(keys::BARRIER_HINTS).arg(names.join(" "));
        let _ = self.query(&cmd).await;
    }

    /// Reads a barrier.
    pub async fn barrier(&self, barrier: &BarrierId) -> Decided<Barrier> {
        let mut found = self.read_barriers(&self.bucket(barrier).keys, std::slice::from_ref(barrier)).await?;
        match found.pop() {
            Some(found) => found.map(|found| match found {
                Some(found) => Decision::Done(Outcome::Unchanged, found),
                None => Decision::Refused(Refusal::Barrier(BarrierRefusal::Unknown)),
            }),
            None => Err(StoreError::Reply("no answer".into())),
        }
    }

    /// Reads some of a bucket, each for itself: one may be corrupt.
    async fn read_barriers(
        &self,
        bucket: &BucketKeys,
        names: &[BarrierId],
    ) -> Result<Vec<Result<Option<Barrier>, StoreError>>, StoreError> {
        let script = &self.scripts().read_barriers;
        let mut cmd = script.call(4 * names.len());
        for name in names {
            cmd.arg(&bucket.barrier(name));
        }
        cmd.arg(self.offset_ms());
        let Ok(found) = reply::batch_of(self.call(script, &cmd).await?)? else {
            return Err(StoreError::Reply("unknown word for a call".into()));
        };
        let read = |answer: &String| match answer.split_once('\n').unwrap_or((answer, "")) {
            ("found", text) => reply::barrier(found.now, &mut Fields::of(text)).map(Some),
            ("unknown_barrier", _) => Ok(None),
            ("corrupt", _) => Err(StoreError::Corrupt("barrier".into())),
            _ => Err(StoreError::Reply("unknown word".into())),
        };
        Ok(found.answers.iter().map(read).collect())
    }
}

/// Whether the call behind an answer has ended the barrier.
fn has_ended(previous: &str, after: &Barrier) -> bool {
    previous == BarrierStatus::Open.as_str() && after.status != BarrierStatus::Open
}

impl Committer {
    /// Counts a barrier that has just ended.
    fn count_end(&self, ended: &Barrier) {
        let ended_at = ended.ended_at.unwrap_or(ended.deadline);
        let open_ms = (ended_at.as_ms() - ended.created_at.as_ms()).max(0);
        self.metrics.barrier(ended.status.as_str());
        self.metrics.barrier_open(Duration::from_millis(open_ms.unsigned_abs()));
    }
}

/// Whether a barrier of the same name is in the way, whatever it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MustBeNew {
    /// `If-None-Match: *`.
    Yes,
    /// One that waits for the same is as good.
    No,
}
