//! Every event reaches every endpoint that wants it, exactly once when repeats are dropped: whatever is killed, down,
//! slow, full or trimmed.

mod barriers;
mod delivers;
mod groups;
mod operators;
mod orders;
mod outages;
mod retries;

use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::InProcess;
use crate::shop::redis_cmd;
use serde_json::{Value, json};
use std::sync::Arc;
use stockade::domain::{Delivery, DeliveryStatus, PageRequest, WebhookId};
use stockade::store::{Shared, Store, keys};
use stockade::webhooks::{Egress, Sender};
use stockade::workers::notifier;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

const LOCAL: Egress = Egress { loopback: true, private: false };

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Puts an endpoint into the registry. `filters` are its `types` and `sales`.
async fn register(server: &RedisServer, url: &str, filters: Value) -> WebhookId {
    let id = Uuid::new_v4();
    let mut connection = server.connection().await;
    let (seconds, micros): (u64, u64) = redis_cmd(&mut connection, &["TIME"]).await;
    let endpoint = json!({
        "id": id, "url": url, "types": filters["types"], "sales": filters["sales"], "disabled_at": null,
        "secrets": [{"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "until": null}], "version": 1,
        "fingerprint": "", "rotated_by": [],
        "created_at": "2026-11-30T18:00:00.000Z", "since_ms": seconds * 1000 + micros / 1000,
    });
    let () =
        redis_cmd(&mut connection, &["HSET", keys::WEBHOOKS, &id.to_string(), &endpoint.to_string()]).await;
    WebhookId(id)
}

/// Takes one out again.
async fn unregister(server: &RedisServer, webhook: WebhookId) {
    let mut connection = server.connection().await;
    let () = redis_cmd(&mut connection, &["HDEL", keys::WEBHOOKS, &webhook.to_string()]).await;
}

/// Another process with a notifier.
struct Process {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Process {
    fn start(shared: &Shared) -> Self {
        let (stop, stopped) = watch::channel(false);
        let shared = shared.clone();
        let task = tokio::spawn(async move {
            let store = Store::open(&shared).unwrap();
            notifier::run(store, &shared, Sender::new(LOCAL).unwrap(), stopped).await;
        });
        Self { stop, task }
    }

    /// As SIGKILL ends it: nothing of it goes on.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// As SIGTERM ends it.
    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }
}

/// Deliveries of an endpoint.
async fn deliveries(store: &Store, webhook: WebhookId, status: DeliveryStatus) -> Vec<Delivery> {
    let page = PageRequest { limit: 500, after: None };
    store.deliveries(webhook, status, &page).await.unwrap().items
}

fn store_of(service: &InProcess) -> Store {
    Store::open(&service.shared).unwrap()
}

/// A value of the page of metrics.
fn metric(shared: &Shared, name: &str) -> u64 {
    let page = Arc::clone(&shared.metrics).render();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}")).parse::<f64>().unwrap() as u64
}

fn outcome(shared: &Shared, outcome: &str) -> u64 {
    metric(shared, &format!("stockade_webhook_deliveries_total{{outcome=\"{outcome}\"}}"))
}

/// A try is counted right after the store has been told how it ended.
async fn is_counted(shared: &Shared, word: &str, count: u64) {
    eventually(&format!("{count} {word}"), async || outcome(shared, word) == count).await;
}

const SKIPPED: &str = "stockade_webhook_events_skipped_total";
