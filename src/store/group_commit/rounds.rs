//! Rounds: what waits at the same moment is carried together, and one round is under way at a time.

use super::Committer;
use crate::store::pool::{Call, Lease, Slot};
use crate::store::scripts::Script;
use crate::store::{Durability, StoreError};
use crate::trace::spans;
use redis::Cmd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Span;

/// A request that waits for its round.
#[derive(Debug)]
pub struct Pending<R, A> {
    pub(in crate::store) request: R,
    pub(in crate::store) sender: oneshot::Sender<Result<A, StoreError>>,
    /// Of the request of HTTP that it is a part of.
    span: Span,
    /// Of the same.
    durability: Option<Durability>,
}

impl<R, A> Pending<R, A> {
    /// A request, and what its caller waits with.
    pub fn new(request: R) -> (Self, Waiting<A>) {
        let (sender, receiver) = oneshot::channel();
        let durability = Durability::of_request();
        (Self { request, sender, span: spans::current(), durability }, Waiting(receiver))
    }
}

/// A call that carries them.
pub(in crate::store) fn call_for<'a, R, A>(
    script: &'a Script,
    cmd: &'a Cmd,
    carried: &[Pending<R, A>],
) -> Call<'a> {
    let durabilities = carried.iter().filter_map(|pending| pending.durability.clone()).collect();
    Call::carrying(script, cmd, carried.len(), carried.iter().map(|pending| &pending.span), durabilities)
}

/// What a caller waits with.
#[derive(Debug)]
pub struct Waiting<A>(oneshot::Receiver<Result<A, StoreError>>);

impl<A> Waiting<A> {
    /// The answer, when it is there.
    pub async fn answer(self) -> Result<A, StoreError> {
        self.0.await.unwrap_or_else(|_| Err(StoreError::Unknown("the round was dropped".into())))
    }
}

/// What waits.
pub trait Queues: Default + Send {
    /// A request.
    type Request: Send;
    /// Its answer.
    type Answer: Send;

    /// How many wait.
    fn len(&self) -> usize;

    /// Takes out what the next round carries; nothing only if nothing waits.
    fn next_round(&mut self) -> Vec<PendingOf<Self>>;
}

/// A request of some queues.
pub type PendingOf<Q> = Pending<<Q as Queues>::Request, <Q as Queues>::Answer>;

/// What rounds are carried to: a sale, a bucket of barriers.
pub trait Target: Send + Sync + Sized + 'static {
    /// What waits for it.
    type Queues: Queues;

    /// Where that waits.
    fn lane(&self) -> &Lane<Self::Queues>;

    /// Where its keys are.
    fn slot(&self) -> Slot;

    /// Carries one round, and answers each request of it or puts it back.
    fn carry(
        &self,
        committer: &Committer,
        connection: &mut Lease,
        round: Vec<PendingOf<Self::Queues>>,
    ) -> impl Future<Output = ()> + Send;
}

/// The queues of one target.
#[derive(Debug, Default)]
pub struct Lane<Q>(Mutex<State<Q>>);

#[derive(Debug, Default)]
pub(super) struct State<Q> {
    pub(super) queues: Q,
    is_running: bool,
}

impl<Q> Lane<Q> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: Queues> Lane<Q> {
    /// Whether nothing waits.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.lock().queues.len() == 0
    }
}

impl Committer {
    /// Queues what `push` does, and sees to it that rounds are under way.
    pub(in crate::store) fn queue<T: Target, W>(
        &self,
        target: &Arc<T>,
        push: impl FnOnce(&mut T::Queues) -> W,
    ) -> W {
        let mut state = target.lane().lock();
        let before = state.queues.len();
        let waiting = push(&mut state.queues);
        self.metrics.queued(state.queues.len() - before);
        if !state.is_running {
            state.is_running = true;
            self.runtime.spawn(self.clone().run(Arc::clone(target)));
        }
        waiting
    }

    /// Carries round after round until nothing waits.
    async fn run<T: Target>(self, target: Arc<T>) {
        loop {
            let waited = Instant::now();
            let connection = self.pool.get(target.slot()).await;
            self.metrics.pool_wait(waited.elapsed());
            let round = {
                let mut state = target.lane().lock();
                let round = state.queues.next_round();
                if round.is_empty() {
                    state.is_running = false;
                    return;
                }
                self.metrics.dequeued(round.len());
                round
            };
            match connection {
                Ok(mut connection) => target.carry(&self, &mut connection, round).await,
                Err(error) => {
                    self.metrics.redis_error(error.code());
                    send_all(round, || Err(error.clone()));
                }
            }
        }
    }
}

/// Gives all of them the same answer.
pub(in crate::store) fn send_all<R, A>(
    round: Vec<Pending<R, A>>,
    answer: impl Fn() -> Result<A, StoreError>,
) {
    for pending in round {
        let _ = pending.sender.send(answer());
    }
}
