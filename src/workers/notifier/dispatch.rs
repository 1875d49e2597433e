//! Which endpoints have something to do: each has a task of its own while that is so, and none waits for another.

use super::queue::{self, Work};
use super::{Counted, Failing, LOOK_EVERY, Woken};
use crate::domain::{Endpoint, WebhookId};
use crate::store::intake::Target;
use crate::store::{Store, StoreError};
use crate::webhooks::Sender;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// A queue that had nothing to do is looked at again after this, in case that another process has left something there.
const IDLE_LOOK: Duration = Duration::from_secs(5);
/// The same of a target of `notify`, of which there may be many; a new use of one is seen at once.
const IDLE_TARGET_LOOK: Duration = Duration::from_secs(60);
/// Deliveries of a deleted endpoint that one step removes, and steps of one look.
const GONE_STEP: usize = 100;
const GONE_STEPS_MAX: usize = 50;

/// What one look at the store has found.
struct Seen {
    endpoints: Vec<Arc<Endpoint>>,
    targets: Vec<Target>,
}

/// One endpoint, as this process knows it.
struct Known {
    endpoint: watch::Sender<Arc<Endpoint>>,
    /// Another value with each reason to look.
    calls: watch::Sender<u64>,
    is_running: bool,
    look_at: Instant,
    /// Of a target: its mark when it was last looked at.
    mark: Option<u64>,
}

struct Dispatch {
    work: Work,
    known: HashMap<WebhookId, Known>,
    tasks: JoinSet<(WebhookId, u64)>,
}

/// Delivers until it is told to stop; then finishes what is under way.
pub(super) async fn run(
    store: Store,
    metrics: Counted,
    sender: Sender,
    mut woken: Woken,
    mut stop: watch::Receiver<bool>,
) {
    let work = Work { store: store.clone(), metrics, sender, stop: stop.clone() };
    let mut dispatch = Dispatch { work, known: HashMap::new(), tasks: JoinSet::new() };
    let (sight, mut seen) = mpsc::channel(1);
    let mut looking = JoinSet::new();
    looking.spawn(look(store, sight));
    while !*stop.borrow_and_update() {
        tokio::select! {
            Some(endpoint) = woken.recv() => dispatch.wake(endpoint),
            Some(ended) = dispatch.tasks.join_next() => dispatch.ended(ended.ok()),
            Some(seen) = seen.recv() => dispatch.see(seen),
            _ = stop.changed() => {}
        }
    }
    looking.abort_all();
    while dispatch.tasks.join_next().await.is_some() {}
}

impl Dispatch {
    /// There is something new for this endpoint.
    fn wake(&mut self, endpoint: Arc<Endpoint>) {
        let id = endpoint.id;
        let known = self.know(&endpoint);
        known.calls.send_modify(|calls| *calls += 1);
        self.start(id);
    }

    /// Compares what the store has with what is known.
    fn see(&mut self, Seen { endpoints, targets }: Seen) {
        let present: HashSet<WebhookId> =
            endpoints.iter().map(|one| one.id).chain(targets.iter().map(|one| one.endpoint.id)).collect();
        // Its task ends with its channel.
        self.known.retain(|id, _| present.contains(id));
        let mut to_start = Vec::new();
        for endpoint in endpoints {
            let known = self.know(&endpoint);
            known.endpoint.send_if_modified(|present| {
                let is_other = *present != endpoint;
                *present = Arc::clone(&endpoint);
                is_other
            });
            if known.look_at <= Instant::now() {
                to_start.push(endpoint.id);
            }
        }
        for Target { endpoint, mark } in targets {
            let id = endpoint.id;
            let known = self.know(&Arc::new(endpoint));
            if known.mark.replace(mark) != Some(mark) || known.look_at <= Instant::now() {
                to_start.push(id);
            }
        }
        to_start.into_iter().for_each(|id| self.start(id));
    }

    fn know(&mut self, endpoint: &Arc<Endpoint>) -> &mut Known {
        self.known.entry(endpoint.id).or_insert_with(|| Known {
            endpoint: watch::Sender::new(Arc::clone(endpoint)),
            calls: watch::Sender::new(0),
            is_running: false,
            look_at: Instant::now(),
            mark: None,
        })
    }

    fn start(&mut self, id: WebhookId) {
        let Some(known) = self.known.get_mut(&id).filter(|known| !known.is_running) else { return };
        known.is_running = true;
        let (work, mark) = (self.work.clone(), known.mark);
        let (endpoint, calls) = (known.endpoint.subscribe(), known.calls.subscribe());
        self.tasks.spawn(async move {
            let heard = queue::work(&work, endpoint, calls, mark).await;
            (id, heard)
        });
    }

    /// A task has found nothing more to do, after it had heard so many calls.
    fn ended(&mut self, ended: Option<(WebhookId, u64)>) {
        let Some((id, heard)) = ended else {
            // It panicked, and its id is not told: each is started again that should run.
            self.known.values_mut().for_each(|known| known.is_running = false);
            return;
        };
        if let Some(known) = self.known.get_mut(&id) {
            known.is_running = false;
            let rest = if known.mark.is_some() { IDLE_TARGET_LOOK } else { IDLE_LOOK };
            known.look_at = Instant::now() + rest;
            if *known.calls.borrow() != heard {
                self.start(id);
            }
        }
    }
}

/// Tells again and again what the store has.
async fn look(store: Store, sight: mpsc::Sender<Seen>) {
    let mut failing = Failing::default();
    loop {
        let looked = async {
            let endpoints: Vec<_> = store.webhooks().await?.into_iter().map(Arc::new).collect();
            empty_gone(&store, &endpoints).await?;
            Ok(Seen { endpoints, targets: store.targets().await? })
        };
        let looked = looked.await;
        if let Some(seen) = failing.note("The notifier cannot see what to deliver", looked)
            && sight.send(seen).await.is_err()
        {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Removes what deleted endpoints left. For a while more than once: a process that had not heard of the deletion may
/// still have queued something.
async fn empty_gone(store: &Store, endpoints: &[Arc<Endpoint>]) -> Result<(), StoreError> {
    for (id, until) in store.gone_webhooks().await? {
        let is_registered = endpoints.iter().any(|endpoint| endpoint.id == id);
        let mut is_empty = is_registered;
        for _ in 0..GONE_STEPS_MAX {
            if is_empty {
                break;
            }
            is_empty = store.empty_queue(id, GONE_STEP).await?;
        }
        if is_empty && store.due_deliveries(id, 0).await?.now >= until {
            store.drop_gone(id).await?;
        }
    }
    Ok(())
}
