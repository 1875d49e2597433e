//! Who waits for a change of a barrier. A process reads each watched barrier once for all who wait for it, when a hint
//! comes, at its deadline, and every few seconds: hints go by PUBLISH, and may be lost.

use crate::domain::*;
use crate::store::pool::Pool;
use crate::store::{Decided, Shared, Store, StoreError, keys};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};

/// A barrier that nobody hints at is read this often, give or take a fifth.
const REREAD_MS: u64 = 5_000;
/// Two reads of a barrier are at least so far apart: one into which thousands arrive is not read for each.
const GATHER: Duration = Duration::from_millis(20);
/// While Redis is away.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// A barrier as all who wait for it last saw it.
#[derive(Debug, Clone, Default)]
enum State {
    #[default]
    Unread,
    Is(Arc<Barrier>),
    /// Nobody could read it.
    Failed(StoreError),
    /// There is none.
    Unknown,
}

/// A watched barrier.
#[derive(Debug, Default)]
struct Seat {
    state: watch::Sender<State>,
    /// It may have changed, or nobody waits any more.
    stirred: Notify,
}

type Begun = (BarrierId, Arc<Seat>);

/// Everybody in a process who waits for a barrier.
#[derive(Debug)]
pub struct Watchers {
    seats: Mutex<HashMap<BarrierId, Arc<Seat>>>,
    /// Seats that nobody reads for yet.
    begun: mpsc::UnboundedSender<Begun>,
    to_read: Mutex<Option<mpsc::UnboundedReceiver<Begun>>>,
    /// Somebody waits: from then on the process listens to hints.
    wanted: Notify,
}

impl Default for Watchers {
    fn default() -> Self {
        let (begun, to_read) = mpsc::unbounded_channel();
        Self { seats: Mutex::default(), begun, to_read: Mutex::new(Some(to_read)), wanted: Notify::new() }
    }
}

impl Watchers {
    fn seats(&self) -> std::sync::MutexGuard<'_, HashMap<BarrierId, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, barrier: &BarrierId) -> Watching {
        let mut seats = self.seats();
        let seat = seats.entry(barrier.clone()).or_insert_with(|| {
            let seat = Arc::<Seat>::default();
            self.wanted.notify_one();
            // Fails when the process stops, which ends every wait anyway.
            let _ = self.begun.send((barrier.clone(), Arc::clone(&seat)));
            seat
        });
        let receiver = Some(seat.state.subscribe());
        Watching { barrier: barrier.clone(), watchers: Arc::clone(self), seat: Arc::clone(seat), receiver }
    }

    /// Whether this is still the seat of a barrier.
    fn has(&self, barrier: &BarrierId, seat: &Arc<Seat>) -> bool {
        self.seats().get(barrier).is_some_and(|there| Arc::ptr_eq(there, seat))
    }

    /// Whoever comes from now on gets a seat of its own.
    fn remove(&self, barrier: &BarrierId, seat: &Arc<Seat>) {
        let mut seats = self.seats();
        if seats.get(barrier).is_some_and(|there| Arc::ptr_eq(there, seat)) {
            seats.remove(barrier);
        }
    }

    fn stir(&self, names: &str) {
        let seats = self.seats();
        for name in names.split(' ').filter_map(|name| name.parse::<BarrierId>().ok()) {
            if let Some(seat) = seats.get(&name) {
                seat.stirred.notify_one();
            }
        }
    }

    fn stir_all(&self) {
        self.seats().values().for_each(|seat| seat.stirred.notify_one());
    }
}

/// One that waits. Dropped, it has left.
#[derive(Debug)]
pub struct Watching {
    barrier: BarrierId,
    watchers: Arc<Watchers>,
    seat: Arc<Seat>,
    /// None only while it is dropped.
    receiver: Option<watch::Receiver<State>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.receiver = None;
        let mut seats = self.watchers.seats();
        if self.seat.state.receiver_count() == 0
            && seats.get(&self.barrier).is_some_and(|there| Arc::ptr_eq(there, &self.seat))
        {
            seats.remove(&self.barrier);
            self.seat.stirred.notify_one();
        }
    }
}

impl Watching {
    /// The barrier as it was last read.
    pub fn now(&self) -> Option<Arc<Barrier>> {
        match &*self.receiver.as_ref()?.borrow() {
            State::Is(barrier) => Some(Arc::clone(barrier)),
            _ => None,
        }
    }

    /// Comes when it has changed since this was asked for last, and may be dropped and called again; none when it will
    /// not change any more.
    pub async fn next(&mut self) -> Option<Arc<Barrier>> {
        if self.now().is_some_and(|barrier| barrier.status != BarrierStatus::Open)
            && !self.receiver.as_ref()?.has_changed().unwrap_or(false)
        {
            return None;
        }
        self.receiver.as_mut()?.changed().await.ok()?;
        match &*self.receiver.as_mut()?.borrow_and_update() {
            State::Is(barrier) => Some(Arc::clone(barrier)),
            _ => None,
        }
    }

    /// Comes when it has ended.
    pub async fn ended(&mut self) -> Option<Arc<Barrier>> {
        loop {
            match self.now() {
                Some(barrier) if barrier.status != BarrierStatus::Open => return Some(barrier),
                _ => self.next().await?,
            };
        }
    }

    /// Waits for the first read.
    async fn begin(&mut self) -> Decided<()> {
        let Some(receiver) = self.receiver.as_mut() else {
            return Err(StoreError::Unknown("the wait was dropped".into()));
        };
        let read = receiver.wait_for(|state| !matches!(state, State::Unread)).await;
        match read.map(|state| state.clone()) {
            Ok(State::Is(_)) => Ok(Decision::Done(Outcome::Unchanged, ())),
            Ok(State::Unknown) => Ok(Decision::Refused(Refusal::Barrier(BarrierRefusal::Unknown))),
            Ok(State::Failed(error)) => Err(error),
            Ok(State::Unread) | Err(_) => Err(StoreError::Unknown("the wait was dropped".into())),
        }
    }
}

impl Store {
    /// Waits for changes of a barrier, once it is known how it is now.
    pub async fn watch_barrier(&self, barrier: &BarrierId) -> Decided<Watching> {
        let mut watching = self.watchers.join(barrier);
        watching.begin().await?.try_map(|()| Ok(watching))
    }
}

/// Reads for all who wait in a process, until it is dropped; once a process.
pub async fn run(shared: &Shared) {
    let watchers = &shared.watchers;
    let to_read = watchers.to_read.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(mut to_read), Ok(store)) = (to_read, Store::open(shared)) else {
        return std::future::pending().await;
    };
    let mut hints = std::pin::pin!(hear(shared, &store.committer.pool));
    let mut reads = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((barrier, seat)) = to_read.recv() => reads.push(read(&store, watchers, barrier, seat)),
            Some(()) = reads.next() => {}
            () = &mut hints => {} // never ends
        }
    }
}

/// Listens to hints, on one connection.
async fn hear(shared: &Shared, pool: &Pool) {
    let watchers = &shared.watchers;
    watchers.wanted.notified().await;
    let mut is_failing = false;
    loop {
        match pool.subscribe(keys::BARRIER_HINTS).await {
            Ok(mut hints) => {
                is_failing = false;
                // What was said before is not known.
                watchers.stir_all();
                while let Some(names) = hints.next().await {
                    watchers.stir(&names);
                }
            }
            Err(error) => {
                shared.metrics.redis_error(error.code());
                if !is_failing {
                    tracing::warn!(%error, "Waits at barriers are slower: {error}");
                }
                is_failing = true;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Reads one barrier for all who wait for it, until it has ended or nobody waits.
async fn read(store: &Store, watchers: &Watchers, name: BarrierId, seat: Arc<Seat>) {
    while watchers.has(&name, &seat) {
        let read_at = Instant::now();
        let pause = match store.barrier(&name).await {
            Ok(Decision::Done(_, barrier)) => {
                let pause = pause_of(&barrier);
                let has_ended = barrier.status != BarrierStatus::Open;
                if has_ended {
                    // First: who comes now begins anew, and cannot find an old state.
                    watchers.remove(&name, &seat);
                }
                seat.state.send_if_modified(|state| replace(state, barrier));
                if has_ended {
                    return;
                }
                pause
            }
            Ok(Decision::Refused(_)) => {
                watchers.remove(&name, &seat);
                seat.state.send_replace(State::Unknown);
                return;
            }
            Err(error) if matches!(*seat.state.borrow(), State::Unread) => {
                watchers.remove(&name, &seat);
                seat.state.send_replace(State::Failed(error));
                return;
            }
            Err(_) => RETRY_PAUSE,
        };
        let _ = tokio::time::timeout(pause, seat.stirred.notified()).await;
        tokio::time::sleep(GATHER.saturating_sub(read_at.elapsed())).await;
    }
}

/// Puts a newer state in; whether it tells anything but the time.
fn replace(state: &mut State, barrier: Barrier) -> bool {
    let is_same = match state {
        State::Is(before) => **before == Barrier { server_time: before.server_time, ..barrier.clone() },
        _ => false,
    };
    *state = State::Is(Arc::new(barrier));
    !is_same
}

/// Until the next read, if nobody hints: a deadline is news, too.
fn pause_of(barrier: &Barrier) -> Duration {
    let until_deadline = barrier.deadline.as_ms() - barrier.server_time.as_ms() + 1;
    let spread = REREAD_MS * 2 / 5;
    let random = u64::from(getrandom::u32().unwrap_or(0)) % spread;
    Duration::from_millis((REREAD_MS - spread / 2 + random).min(u64::try_from(until_deadline).unwrap_or(0)))
}
