//! Which streams are read, and who reads them: a lane is one connection that waits for some of them.

use super::intake::Intake;
use super::{Failing, LOOK_EVERY, RETRY_PAUSE};
use crate::domain::page::PAGE_LIMIT_MAX;
use crate::domain::{Endpoint, PageRequest};
use crate::store::intake::{Reader, Source, consumer_name};
use crate::store::{Shared, StoreError, checks};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Entries that were read so long ago and never acknowledged belong to a process that is gone.
const ABANDONED_MS: u64 = 30_000;
/// So often each process looks for them.
const CLAIM_EVERY: Duration = Duration::from_secs(10);
/// Processes that have not asked for so long and left nothing are forgotten.
const DISMISS_MS: u64 = 3_600_000;
/// So often each process does that.
const DISMISS_EVERY: Duration = Duration::from_secs(600);
/// The gauge is refreshed so often.
const BACKLOG_EVERY: Duration = Duration::from_secs(5);

/// What each lane needs.
#[derive(Clone)]
struct Crew {
    intake: Intake,
    shared: Shared,
    consumer: String,
    /// A stream of a lane, or its group, is not there any more.
    lost: Arc<Notify>,
}

/// What is read, and by which lane.
struct Lanes {
    crew: Crew,
    /// Streams whose group is there.
    ready: BTreeSet<Source>,
    /// Streams that nobody wants, and that have no group of ours.
    unwanted: BTreeSet<Source>,
    lanes: Vec<watch::Sender<Vec<Source>>>,
    tasks: JoinSet<()>,
}

/// Reads until it is dropped.
pub(super) async fn run(intake: Intake, shared: &Shared) {
    let crew = Crew { intake, shared: shared.clone(), consumer: consumer_name(), lost: Arc::default() };
    let lost = Arc::clone(&crew.lost);
    let tasks = JoinSet::new();
    let mut lanes =
        Lanes { crew, ready: BTreeSet::new(), unwanted: BTreeSet::new(), lanes: Vec::new(), tasks };
    let mut failing = Failing::default();
    let mut backlog_at = None;
    loop {
        let looked = lanes.look().await;
        if failing.note("The notifier cannot see what to read", looked).is_some()
            && backlog_at.is_none_or(|at: Instant| at.elapsed() >= BACKLOG_EVERY)
        {
            backlog_at = Some(Instant::now());
            let counted = lanes.count_backlog().await;
            failing.note("The backlog of webhooks cannot be counted", counted);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = lost.notified() => {
                lanes.ready.clear();
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

impl Lanes {
    /// Sees which streams are wanted, makes their groups, and has them read.
    ///
    /// A group begins at the moment from which the earliest endpoint that wants its stream wants it, so an event that is
    /// written before anybody has noticed a new sale is read. A group that nobody wants is removed. Another process may
    /// just have seen somebody who wants it: that endpoint then began to want it after we had looked, and the group
    /// that is made again begins there. What is read twice is queued once.
    async fn look(&mut self) -> Result<(), StoreError> {
        let store = self.crew.intake.store.clone();
        let room = store.streams_a_connection().await?;
        let endpoints = store.webhooks().await?;
        let mut wanted: BTreeMap<Source, u64> = Source::barriers().map(|bucket| (bucket, 0)).collect();
        let mut unwanted = BTreeSet::new();
        match since(&endpoints, Endpoint::wants_orders) {
            Some(since) => wanted.extend(Source::orders().map(|bucket| (bucket, since))),
            None => unwanted.extend(Source::orders()),
        }
        let mut page = PageRequest { limit: PAGE_LIMIT_MAX, after: None };
        loop {
            let (entries, next) = store.sale_entries(&page).await?;
            for (sale, _) in entries {
                if checks::is_internal(&sale) {
                    continue;
                }
                match since(&endpoints, |endpoint| endpoint.wants_sale(&sale)) {
                    Some(since) => drop(wanted.insert(Source::Sale(sale), since)),
                    None => drop(unwanted.insert(Source::Sale(sale))),
                }
            }
            if next.is_none() {
                break;
            }
            page.after = next;
        }
        self.ready.retain(|source| wanted.contains_key(source));
        // A server that is away must not keep the streams of others from being read.
        let mut failed = HashMap::new();
        for (source, since) in &wanted {
            let place = store.place_of(source);
            if self.ready.contains(source) || failed.contains_key(&place) {
                continue;
            }
            match store.ensure_group(source, *since).await {
                Ok(true) => drop(self.ready.insert(source.clone())),
                Ok(false) => {}
                Err(error) => drop(failed.insert(place, error)),
            }
        }
        self.assign(room);
        if let Some((_, error)) = failed.into_iter().next() {
            return Err(error);
        }
        for source in &unwanted {
            if !self.unwanted.contains(source) {
                store.drop_group(source).await?;
            }
        }
        self.unwanted = unwanted;
        Ok(())
    }

    /// Gives each stream a lane, and takes away what is not wanted.
    fn assign(&mut self, room: usize) {
        let mut given = BTreeSet::new();
        for lane in &self.lanes {
            lane.send_if_modified(|sources| {
                let before = sources.len();
                sources.retain(|source| self.ready.contains(source));
                given.extend(sources.iter().cloned());
                sources.len() != before
            });
        }
        let mut new: Vec<_> = self.ready.difference(&given).cloned().collect();
        for lane in &self.lanes {
            let free = room.saturating_sub(lane.borrow().len()).min(new.len());
            if free > 0 {
                lane.send_modify(|sources| sources.extend(new.drain(..free)));
            }
        }
        self.lanes.retain(|lane| !lane.borrow().is_empty());
        for some in new.chunks(room.max(1)) {
            let (lane, sources) = watch::channel(some.to_vec());
            self.tasks.spawn(read(self.crew.clone(), sources));
            self.lanes.push(lane);
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// Shows what waits, in the queues and before them.
    async fn count_backlog(&self) -> Result<(), StoreError> {
        let store = &self.crew.intake.store;
        let mut waiting = 0;
        for source in &self.ready {
            if let Some(progress) = store.progress(source).await? {
                waiting += progress.pending + progress.unread;
            }
        }
        let targets = store.targets().await?.into_iter().map(|target| target.endpoint.id);
        for webhook in store.webhooks().await?.into_iter().map(|endpoint| endpoint.id).chain(targets) {
            waiting += store.due_deliveries(webhook, 0).await?.pending;
        }
        self.crew.shared.metrics.webhook_backlog(waiting);
        Ok(())
    }
}

/// From when on somebody wants a stream; none: nobody does.
fn since(endpoints: &[Endpoint], wants: impl Fn(&Endpoint) -> bool) -> Option<u64> {
    endpoints.iter().filter(|endpoint| wants(endpoint)).map(|endpoint| endpoint.since_ms).min()
}

/// Reads the streams of a lane until it has none.
async fn read(crew: Crew, mut sources: watch::Receiver<Vec<Source>>) {
    let Crew { intake, consumer, lost, .. } = crew;
    let mut reader = Reader::new(intake.store.clone(), consumer.clone());
    let (mut failing, mut claimed_at, mut dismissed_at) = (Failing::default(), None, Instant::now());
    loop {
        let present = sources.borrow_and_update().clone();
        if present.is_empty() {
            if sources.changed().await.is_err() {
                return;
            }
            continue;
        }
        let step = async {
            if claimed_at.is_none_or(|at: Instant| at.elapsed() >= CLAIM_EVERY) {
                for source in &present {
                    let taken = intake.store.claim_abandoned(source, &consumer, ABANDONED_MS).await?;
                    intake.take_in(&[taken]).await?;
                }
                claimed_at = Some(Instant::now());
            }
            if dismissed_at.elapsed() >= DISMISS_EVERY {
                for source in &present {
                    intake.store.dismiss_consumers(source, DISMISS_MS).await?;
                }
                dismissed_at = Instant::now();
            }
            intake.take_in(&reader.next(&present).await?).await
        };
        let step = tokio::select! {
            step = step => step,
            changed = sources.changed() => match changed {
                Ok(()) => {
                    // What it was queueing is still its own: it begins with that.
                    reader.begin_anew();
                    continue;
                }
                Err(_) => return,
            },
        };
        let step = match step {
            // No failure: a sale that is deleted takes its stream along, and a group goes with the last who wants it.
            Err(StoreError::Reply(text)) if is_lost(&text) => {
                tracing::debug!(?text, "A stream that was read has gone");
                lost.notify_one();
                None
            }
            step => failing.note("The notifier cannot read events", step),
        };
        if step.is_none() {
            reader.begin_anew();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Whether Redis says that a stream or its group has gone.
fn is_lost(text: &str) -> bool {
    ["NOGROUP", "UNBLOCKED"].iter().any(|code| text.starts_with(code))
}
