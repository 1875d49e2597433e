//! The registry of webhook endpoints.

use super::{Store, StoreError, keys, reply};
use crate::domain::{Endpoint, WebhookId};

impl Store {
    /// All endpoints.
    pub async fn webhooks(&self) -> Result<Vec<Endpoint>, StoreError> {
        let texts = reply::texts(self.query(redis::cmd("HVALS").arg(keys::WEBHOOKS)).await?)?;
        let read = |text: &String| {
            serde_json::from_str(text).map_err(|_| StoreError::Corrupt("registration of a webhook".into()))
        };
        texts.iter().map(read).collect()
    }

    /// Nothing is sent to it any more, for it says that it is gone.
    pub async fn disable_webhook(&self, webhook: WebhookId) -> Result<(), StoreError> {
        let endpoints = self.webhooks().await?;
        let Some(mut endpoint) = endpoints.into_iter().find(|endpoint| endpoint.id == webhook) else {
            return Ok(());
        };
        endpoint.disabled_at = Some(endpoint.created_at);
        let text = serde_json::to_string(&endpoint).unwrap_or_default();
        let mut cmd = redis::cmd("HSET");
        cmd.arg(keys::WEBHOOKS).arg(webhook.to_string()).arg(text);
        self.query(&cmd).await.map(drop)
    }
}
