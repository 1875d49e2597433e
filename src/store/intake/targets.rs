//! Endpoints that are not in the registry: targets of `notify` that have deliveries, and deleted ones that still have
//! some.

use super::groups::read;
use crate::domain::{Endpoint, SigningSecret, Timestamp, WebhookId, WebhookUrl};
use crate::store::{Store, StoreError, ids, keys, reply};

/// Most of them that are looked at in one go.
const TARGETS_MAX: usize = 10_000;
/// A process that has not heard of a deletion by then queues nothing more.
const GONE_KEEP_MS: i64 = 3_600_000;
/// Bits of a double that are exact.
const MARK_BITS: u32 = 52;

/// A target, with the mark of its last use.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Where its messages go, and how they are signed.
    pub endpoint: Endpoint,
    /// Another one with each use.
    pub mark: u64,
}

impl Store {
    /// The endpoint that a URL of `notify` stands for.
    pub async fn target(&self, url: &WebhookUrl) -> Result<Endpoint, StoreError> {
        let ids = self.ids().await?;
        let secret = SigningSecret { secret: ids.notify_secret(url), until: None };
        Ok(Endpoint {
            id: ids.notify_target(url),
            url: url.clone(),
            types: None,
            sales: None,
            secrets: vec![secret],
            disabled_at: None,
            created_at: Timestamp::default(),
            since_ms: 0,
            version: 0,
        })
    }

    /// Lets every process find the queues of these targets. To be called after their events were queued and before
    /// anything says that this is done.
    pub async fn keep_targets(&self, urls: &[WebhookUrl]) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(keys::NOTIFY);
        for url in urls {
            let bytes = ids::random_hex::<8>();
            let mark = u64::from_str_radix(&bytes, 16).unwrap_or_default() >> (u64::BITS - MARK_BITS);
            cmd.arg(mark).arg(url.as_str());
        }
        if urls.is_empty() { Ok(()) } else { self.query(&cmd).await.map(drop) }
    }

    /// Targets that have deliveries, or had some a moment ago.
    pub async fn targets(&self) -> Result<Vec<Target>, StoreError> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(keys::NOTIFY).arg(0).arg(TARGETS_MAX - 1).arg("WITHSCORES");
        let found: Vec<(String, f64)> = read(self.query(&cmd).await?)?;
        let mut targets = Vec::with_capacity(found.len());
        for (url, mark) in found {
            let url = url.parse().map_err(|_| StoreError::Corrupt("target of notify".into()))?;
            targets.push(Target { endpoint: self.target(&url).await?, mark: mark as u64 });
        }
        Ok(targets)
    }

    /// Forgets a target whose queue was empty after it had this mark. If it was used since, it has another one, and stays.
    pub async fn drop_target(&self, mark: u64) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("ZREMRANGEBYSCORE");
        cmd.arg(keys::NOTIFY).arg(mark).arg(mark);
        self.query(&cmd).await.map(drop)
    }

    /// Has the deliveries of an endpoint removed, which is deleted or will be right after this. One that is in the
    /// registry all the same keeps them.
    pub async fn forget_webhook(&self, webhook: WebhookId) -> Result<(), StoreError> {
        let until = self.due_deliveries(webhook, 0).await?.now.as_ms() + GONE_KEEP_MS;
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(keys::WEBHOOKS_GONE).arg(until).arg(webhook.to_string());
        self.query(&cmd).await.map(drop)
    }

    /// Whether an endpoint was deleted a short while ago.
    pub async fn is_gone(&self, webhook: WebhookId) -> Result<bool, StoreError> {
        let mut cmd = redis::cmd("ZSCORE");
        cmd.arg(keys::WEBHOOKS_GONE).arg(webhook.to_string());
        Ok(self.query(&cmd).await? != redis::Value::Nil)
    }

    /// Deleted endpoints whose deliveries are to be removed, and until when.
    pub async fn gone_webhooks(&self) -> Result<Vec<(WebhookId, Timestamp)>, StoreError> {
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(keys::WEBHOOKS_GONE).arg(0).arg(TARGETS_MAX - 1).arg("WITHSCORES");
        let found: Vec<(String, f64)> = read(self.query(&cmd).await?)?;
        let read = |(id, until): (String, f64)| {
            let id = id.parse().map_err(|_| StoreError::Corrupt("deleted webhook".into()))?;
            Ok((WebhookId(id), reply::time(&format!("{until:.0}"))?))
        };
        found.into_iter().map(read).collect()
    }

    /// Removes some of what a deleted endpoint left; true: nothing is left.
    pub async fn empty_queue(&self, webhook: WebhookId, limit: usize) -> Result<bool, StoreError> {
        let queue = keys::QueueKeys::new(ids::short(webhook.0));
        for key in &queue.fixed {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(key).arg(0).arg(limit.saturating_sub(1));
            let events = reply::texts(self.query(&cmd).await?)?;
            if !events.is_empty() {
                self.forget_deliveries(webhook, &events, true).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// No longer looks after a deleted endpoint.
    pub async fn drop_gone(&self, webhook: WebhookId) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(keys::WEBHOOKS_GONE).arg(webhook.to_string());
        self.query(&cmd).await.map(drop)
    }
}
