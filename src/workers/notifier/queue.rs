//! Works on the deliveries of one endpoint.

use super::{Counted, Failing, RETRY_PAUSE};
use crate::domain::delivery::retry_in;
use crate::domain::{DeliveryStatus, Endpoint};
use crate::store::deliveries::{Claimed, QueueState, Try};
use crate::store::{Store, StoreError};
use crate::webhooks::{Answer, Message, Sender};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::{error, warn};

/// Messages that a process sends to one endpoint at the same time.
const SENDS_MAX: usize = 16;
/// Ids of one look.
const STEP_IDS_MAX: usize = 100;
/// The longest pause between two looks while something waits.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The shortest.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// What work on a queue needs.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) store: Store,
    pub(super) metrics: Counted,
    pub(super) sender: Sender,
    /// Nothing new is begun any more.
    pub(super) stop: watch::Receiver<bool>,
}

/// A message that was sent.
struct Sent {
    claimed: Claimed,
    answer: Answer,
    begun: Instant,
}

/// Of a try, as it is counted once it is written down: its label, and after how long it was delivered.
struct Outcome {
    label: &'static str,
    delay: Option<Duration>,
}

/// Messages under way, and what became of those that are not written down yet.
struct Sends {
    under_way: FuturesUnordered<BoxFuture<'static, Sent>>,
    tries: Vec<(Try, Outcome)>,
    /// The receiver wants nothing any more; the registry may not know it yet.
    is_gone: bool,
}

/// Delivers until nothing waits, the endpoint is deleted, or the process stops; what is under way is finished first.
/// `mark` is that of a target of `notify`. Says how many calls it has heard.
pub(super) async fn work(
    work: &Work,
    mut endpoint: watch::Receiver<Arc<Endpoint>>,
    mut calls: watch::Receiver<u64>,
    mark: Option<u64>,
) -> u64 {
    let mut stop = work.stop.clone();
    let mut sends = Sends { under_way: FuturesUnordered::new(), tries: Vec::new(), is_gone: false };
    let mut failing = Failing::default();
    loop {
        let heard = *calls.borrow_and_update();
        let present = Arc::clone(&endpoint.borrow_and_update());
        let may_begin = !*stop.borrow_and_update() && endpoint.has_changed().is_ok();
        let step = work.step(&present, &mut sends, may_begin, mark).await;
        let pause = match failing.note("Deliveries wait", step) {
            Some(Some(pause)) => pause,
            Some(None) if sends.under_way.is_empty() => return heard,
            Some(None) => PAUSE_MAX,
            None => RETRY_PAUSE,
        };
        tokio::select! {
            Some(sent) = sends.under_way.next() => {
                sends.take(&present, sent);
                while let Some(Some(sent)) = sends.under_way.next().now_or_never() {
                    sends.take(&present, sent);
                }
            }
            _ = calls.changed(), if may_begin => {}
            _ = endpoint.changed(), if may_begin => {}
            _ = stop.changed(), if may_begin => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Work {
    /// Writes down what was sent and begins what is due. None: nothing waits; else when to look again.
    async fn step(
        &self,
        endpoint: &Arc<Endpoint>,
        sends: &mut Sends,
        may_begin: bool,
        mark: Option<u64>,
    ) -> Result<Option<Duration>, StoreError> {
        if !sends.tries.is_empty() {
            // The registry first: if we die in between, the message comes once more, and the answer with it.
            if sends.is_gone {
                self.store.disable_webhook(endpoint.id).await?;
            }
            let tries: Vec<Try> = sends.tries.iter().map(|(one, _)| one.clone()).collect();
            let settled = self.store.settle_deliveries(endpoint.id, &tries).await?;
            for ((_, Outcome { label, delay }), settled) in sends.tries.drain(..).zip(settled) {
                let metrics = self.metrics.webhooks();
                if settled {
                    metrics.tried(label);
                    delay.into_iter().for_each(|delay| metrics.delivered_after(delay));
                }
            }
        }
        if !may_begin {
            return Ok(None);
        }
        let state = self.store.due_deliveries(endpoint.id, STEP_IDS_MAX).await?;
        self.forget(endpoint, &state, mark).await?;
        if !state.to_forget.is_empty() {
            return Ok(Some(PAUSE_MIN)); // there may be more
        }
        if sends.is_gone || endpoint.disabled_at.is_some() {
            self.bury(endpoint).await?;
            // From now on the registry says it.
            sends.is_gone &= endpoint.disabled_at.is_none();
        } else if !state.due.is_empty() && sends.under_way.len() < SENDS_MAX {
            let free = (SENDS_MAX - sends.under_way.len()).min(state.due.len());
            let (claimed, damaged) = self.store.claim_deliveries(endpoint.id, &state.due[..free]).await?;
            if damaged > 0 {
                self.metrics.webhooks().skipped(damaged as u64);
                error!(damaged, endpoint.id = %endpoint.id, "{damaged} deliveries are damaged and dropped");
            }
            for claimed in claimed {
                sends.under_way.push(self.send(endpoint, claimed));
            }
            // More may be due than was claimed, or somebody else was quicker.
            if sends.under_way.len() < SENDS_MAX {
                return Ok(Some(PAUSE_MIN));
            }
        }
        let wait = state.next_at.and_then(|at| u64::try_from(at.as_ms() - state.now.as_ms()).ok());
        let pause = wait.map_or(PAUSE_MAX, Duration::from_millis).clamp(PAUSE_MIN, PAUSE_MAX);
        Ok((state.pending > 0).then_some(pause))
    }

    fn send(&self, endpoint: &Arc<Endpoint>, claimed: Claimed) -> BoxFuture<'static, Sent> {
        let (sender, endpoint) = (self.sender.clone(), Arc::clone(endpoint));
        let begun = Instant::now();
        async move {
            let (id, body) = (claimed.event.to_string(), claimed.body.clone());
            let answer = sender.send(&endpoint, &Message { id, at: claimed.at, body, parent: None }).await;
            Sent { claimed, answer, begun }
        }
        .boxed()
    }

    /// Removes what is kept no longer; of a target of `notify` that has nothing left, itself.
    async fn forget(
        &self,
        endpoint: &Endpoint,
        state: &QueueState,
        mark: Option<u64>,
    ) -> Result<(), StoreError> {
        if !state.to_forget.is_empty() {
            let forgotten = self.store.forget_deliveries(endpoint.id, &state.to_forget, false).await?;
            if forgotten.overflown > 0 {
                self.metrics.webhooks().skipped(forgotten.overflown as u64);
                warn!(forgotten.overflown, endpoint.id = %endpoint.id, "Dead letters went before their time");
            }
        }
        match mark {
            Some(mark) if state.pending + state.delivered + state.dead == 0 => {
                self.store.drop_target(mark).await
            }
            _ => Ok(()),
        }
    }

    /// Gives up what waits for an endpoint that is disabled.
    async fn bury(&self, endpoint: &Endpoint) -> Result<(), StoreError> {
        let waiting = DeliveryStatus::Pending;
        let ids = self.store.first_deliveries(endpoint.id, waiting, STEP_IDS_MAX).await?;
        let bury = |id: String| Try {
            id,
            token: None,
            status: DeliveryStatus::Dead,
            delay_ms: 0,
            answer: None,
            error: "the endpoint is disabled",
        };
        let tries: Vec<Try> = ids.into_iter().map(bury).collect();
        if !tries.is_empty() {
            let buried = self.store.settle_deliveries(endpoint.id, &tries).await?;
            buried.iter().filter(|buried| **buried).for_each(|_| self.metrics.webhooks().tried("dead"));
        }
        Ok(())
    }
}

impl Sends {
    /// What a try came to, to be written down.
    fn take(&mut self, endpoint: &Endpoint, sent: Sent) {
        let Sent { claimed, answer, begun } = sent;
        let mut delivered_after = None;
        let since = |ms: i64| Duration::from_millis(u64::try_from(claimed.at.as_ms() - ms).unwrap_or(0));
        let (status, delay, code, error, label) = match answer {
            Answer::Delivered(code) => {
                delivered_after = Some(since(claimed.time.as_ms()) + begun.elapsed());
                (DeliveryStatus::Delivered, Duration::ZERO, Some(code), "", "delivered")
            }
            Answer::Gone => {
                self.is_gone = true;
                warn!(endpoint.id = %endpoint.id, "A webhook endpoint says that it is gone");
                (DeliveryStatus::Dead, Duration::ZERO, Some(410), "gone", "gone")
            }
            Answer::Failed { .. } | Answer::Forbidden(_) => {
                let (code, error, retry_after) = match answer {
                    Answer::Failed { status, error, retry_after } => (status, error, retry_after),
                    Answer::Forbidden(error) => (None, error, None),
                    _ => (None, "", None),
                };
                let age = since(claimed.since.as_ms()) + begun.elapsed();
                match retry_in(claimed.attempts, age, chance(), retry_after) {
                    Some(pause) => (DeliveryStatus::Pending, pause, code, error, "retried"),
                    None => (DeliveryStatus::Dead, Duration::ZERO, code, error, "dead"),
                }
            }
        };
        let one = Try {
            id: claimed.id,
            token: Some(claimed.token),
            status,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            answer: code,
            error,
        };
        self.tries.push((one, Outcome { label, delay: delivered_after }));
    }
}

/// From 0 to 1, at random.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}
