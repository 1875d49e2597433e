//! The part of the self-test that is about webhooks.

use super::CheckError;
use crate::domain::{DeliveryStatus, PageRequest, SaleId, WebhookId};
use crate::store::deliveries::{Packed, Try};
use crate::store::intake::{Content, GROUP, Source};
use crate::store::keys::SaleKeys;
use crate::store::{Store, StoreError};

const CONSUMER: &str = "self-test";
const LIMIT: usize = 10;

fn failed(what: &str) -> CheckError {
    CheckError::SelfTest(what.to_owned())
}

impl Store {
    /// Reads the events of a sale as the notifier does, and takes one through the queue of an endpoint that is nobody's.
    pub(super) async fn try_notifier(&self, sale: &SaleId) -> Result<(), CheckError> {
        let source = Source::Sale(sale.clone());
        self.webhooks().await?;
        if !self.try_registering().await? {
            return Err(failed("a webhook that is not there was changed"));
        }
        self.targets().await?;
        self.drop_target(0).await?;
        self.gone_webhooks().await?;
        self.ensure_group(&source, 0).await?;
        self.try_reading_as_group(sale).await?;
        let taken = self.claim_abandoned(&source, CONSUMER, 0).await?;
        self.acknowledge(&taken).await?;
        if !self.is_all_acknowledged(&source).await? {
            return Err(failed("the notifier has not read all events"));
        }
        self.dismiss_consumers(&source, 0).await?;
        self.drop_group(&source).await?;
        let event = taken.entries.iter().find_map(|entry| match &entry.content {
            Content::Events(events) => events.first(),
            _ => None,
        });
        let packed = event.and_then(Packed::of).ok_or_else(|| failed("there are no events"))?;
        self.try_delivery(WebhookId(uuid::Uuid::new_v4()), packed).await
    }

    /// Whether the notifier's command is allowed.
    async fn try_reading_as_group(&self, sale: &SaleId) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("XREADGROUP");
        cmd.arg("GROUP").arg(GROUP).arg(CONSUMER).arg("COUNT").arg(LIMIT * LIMIT);
        cmd.arg("STREAMS").arg(SaleKeys::new(sale).events()).arg(">");
        self.query(&cmd).await.map(drop)
    }

    async fn try_delivery(&self, webhook: WebhookId, packed: Packed) -> Result<(), CheckError> {
        self.enqueue_deliveries(webhook, &[packed]).await?;
        let due = self.due_deliveries(webhook, LIMIT).await?.due;
        let (claimed, _) = self.claim_deliveries(webhook, &due).await?;
        let [claimed] = &claimed[..] else { return Err(failed("a delivery could not be claimed")) };
        let given_up = Try {
            id: claimed.id.clone(),
            token: Some(claimed.token.clone()),
            status: DeliveryStatus::Dead,
            delay_ms: 0,
            answer: None,
            error: CONSUMER,
        };
        if self.settle_deliveries(webhook, &[given_up]).await? != [true] {
            return Err(failed("a delivery could not be settled"));
        }
        let page = PageRequest { limit: LIMIT, after: None };
        let dead = self.deliveries(webhook, DeliveryStatus::Dead, &page).await?.items;
        if dead.len() != 1 || self.redeliver(webhook, &due).await?.requeued != 1 {
            return Err(failed("a delivery could not begin anew"));
        }
        self.forget_deliveries(webhook, &due, true).await?;
        Ok(())
    }
}
