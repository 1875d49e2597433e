//! Turns events into deliveries.

use super::Counted;
use crate::domain::{Endpoint, Event, EventKind, Order, WebhookId, WebhookUrl};
use crate::store::deliveries::Packed;
use crate::store::intake::{Content, Source, Taken};
use crate::store::{Store, StoreError, checks};
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::{error, warn};

/// Queues what was read for whoever wants it.
#[derive(Clone)]
pub struct Intake {
    pub(super) store: Store,
    metrics: Counted,
    wake: mpsc::UnboundedSender<Arc<Endpoint>>,
}

/// Deliveries to be queued for one endpoint.
struct Batch {
    endpoint: Arc<Endpoint>,
    events: Vec<Packed>,
}

/// By endpoint.
type Batches = BTreeMap<WebhookId, Batch>;

impl Intake {
    /// `wake` hears of each endpoint that gets new deliveries.
    pub fn new(store: Store, metrics: Counted, wake: mpsc::UnboundedSender<Arc<Endpoint>>) -> Self {
        Self { store, metrics, wake }
    }

    /// Queues the events of these entries, each once an endpoint, and acknowledges them. After a failure nothing is
    /// acknowledged, and the same may be done again.
    pub async fn take_in(&self, taken: &[Taken]) -> Result<(), StoreError> {
        if taken.iter().all(|taken| taken.entries.is_empty()) {
            return Ok(());
        }
        // Read after the entries were, so whoever was registered before one of them was written is in it.
        let endpoints: Vec<_> = self.store.webhooks().await?.into_iter().map(Arc::new).collect();
        let mut targets = BTreeMap::new();
        for url in urls(taken) {
            targets.insert(url.clone(), Arc::new(self.store.target(url).await?));
        }
        let mut batches = Batches::new();
        let mut skipped = 0;
        for Taken { source, entries } in taken {
            for entry in entries {
                match &entry.content {
                    Content::Events(events) => {
                        for event in events {
                            let wanting = wanting(&endpoints, source, entry.ms, event);
                            let notified = event.notify.iter().filter_map(|url| targets.get(url));
                            batches.add(event, wanting.chain(notified));
                        }
                    }
                    Content::Trimmed => skipped += 1,
                    Content::Corrupt => {
                        skipped += 1;
                        error!(?source, entry.ms, "An entry of events is damaged: nobody hears of it");
                    }
                }
            }
        }
        self.queue(&batches, &mut skipped).await?;
        self.store.keep_targets(&targets.keys().cloned().collect::<Vec<_>>()).await?;
        for batch in batches.into_values() {
            // Fails when the process stops; another one will find it.
            let _ = self.wake.send(batch.endpoint);
        }
        if skipped > 0 {
            self.metrics.webhooks().skipped(skipped);
            warn!(skipped, "{skipped} events or entries will not reach an endpoint");
        }
        try_join_all(taken.iter().map(|taken| self.store.acknowledge(taken))).await.map(drop)
    }

    async fn queue(&self, batches: &Batches, skipped: &mut u64) -> Result<(), StoreError> {
        let queued = batches
            .values()
            .map(|Batch { endpoint, events }| self.store.enqueue_deliveries(endpoint.id, events));
        for enqueued in try_join_all(queued).await? {
            *skipped += enqueued.refused as u64;
        }
        Ok(())
    }
}

/// Targets of `notify` that these entries name.
fn urls(taken: &[Taken]) -> BTreeSet<&WebhookUrl> {
    let events = taken.iter().flat_map(|taken| &taken.entries).flat_map(|entry| match &entry.content {
        Content::Events(events) => &events[..],
        _ => &[],
    });
    events.flat_map(|event| &event.notify).collect()
}

/// Endpoints of the registry that want an event that was written at `ms`.
fn wanting<'a>(
    endpoints: &'a [Arc<Endpoint>],
    source: &'a Source,
    ms: u64,
    event: &'a Event,
) -> impl Iterator<Item = &'a Arc<Endpoint>> {
    endpoints.iter().filter(move |endpoint| {
        let wants_source = match (source, &event.data) {
            (Source::Sale(sale), _) => endpoint.wants_sale(sale),
            (_, EventKind::Order { order, .. }) => !is_internal(order) && endpoint.wants_order(order),
            _ => endpoint.wants_others(),
        };
        wants_source && ms >= endpoint.since_ms && endpoint.wants_type(event)
    })
}

/// Whether an order is the self-test's.
fn is_internal(order: &Order) -> bool {
    order.lines.iter().any(|line| checks::is_internal(&line.sale))
}

trait Add {
    fn add<'a>(&mut self, event: &Event, to: impl Iterator<Item = &'a Arc<Endpoint>>);
}

impl Add for Batches {
    fn add<'a>(&mut self, event: &Event, to: impl Iterator<Item = &'a Arc<Endpoint>>) {
        let mut packed = None;
        for endpoint in to {
            let Some(packed) = packed.get_or_insert_with(|| Packed::of(event)) else { return };
            let batch = self
                .entry(endpoint.id)
                .or_insert_with(|| Batch { endpoint: Arc::clone(endpoint), events: Vec::new() });
            batch.events.push(packed.clone());
        }
    }
}
