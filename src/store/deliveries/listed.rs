//! The deliveries of an endpoint, as an operator sees them: listed, and begun anew.

use super::{PENDING_MAX, event_id, unknown_word};
use crate::domain::{Delivery, DeliveryStatus, Page, PageRequest, Timestamp, WebhookId};
use crate::store::keys::QueueKeys;
use crate::store::reply::{self, Fields};
use crate::store::stock::hash_values;
use crate::store::{Store, StoreError, ids};
use uuid::Uuid;

/// Deliveries that one step lets begin anew, and steps of one call.
const REDELIVER_STEP: usize = 100;
const REDELIVER_STEPS_MAX: usize = 10;

/// What became of deliveries that were to begin anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requeued {
    /// They wait again.
    pub requeued: usize,
    /// They are being sent at this moment.
    pub under_way: usize,
    /// There are no such ones.
    pub unknown: usize,
    /// The queue is full.
    pub full: usize,
}

impl Store {
    /// Lets deliveries begin anew.
    pub async fn redeliver(&self, webhook: WebhookId, events: &[String]) -> Result<Requeued, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let records: Vec<String> = events.iter().map(|id| keys.record(id)).collect();
        let script = &self.scripts().redeliver;
        let args = [PENDING_MAX.to_string()];
        let mut sum = Requeued::default();
        for answer in self.on_deliveries(script, &keys.fixed, &records, &args).await?.answers {
            match answer.as_str() {
                "requeued" => sum.requeued += 1,
                "under_way" => sum.under_way += 1,
                "unknown_delivery" => sum.unknown += 1,
                "full" => sum.full += 1,
                _ => return Err(unknown_word()),
            }
        }
        Ok(sum)
    }

    /// Lets the delivery of one event begin anew.
    pub async fn redeliver_event(&self, webhook: WebhookId, event: Uuid) -> Result<Requeued, StoreError> {
        self.redeliver(webhook, &[ids::short(event)]).await
    }

    /// Lets dead letters begin anew, those that go first in front: how many, and whether there are more.
    pub async fn redeliver_dead(&self, webhook: WebhookId) -> Result<(usize, bool), StoreError> {
        let mut sum = 0;
        for _ in 0..REDELIVER_STEPS_MAX {
            let dead = self.first_deliveries(webhook, DeliveryStatus::Dead, REDELIVER_STEP).await?;
            if dead.is_empty() {
                return Ok((sum, false));
            }
            let step = self.redeliver(webhook, &dead).await?;
            sum += step.requeued;
            if step.requeued == 0 {
                break; // the queue is full, or they are damaged
            }
        }
        Ok((sum, self.due_deliveries(webhook, 0).await?.dead > 0))
    }

    /// Whether an endpoint is registered, or is a target of `notify` that has deliveries.
    pub async fn has_queue(&self, webhook: WebhookId) -> Result<bool, StoreError> {
        if self.webhooks().await?.iter().any(|endpoint| endpoint.id == webhook) {
            return Ok(true);
        }
        Ok(self.targets().await?.iter().any(|target| target.endpoint.id == webhook))
    }

    /// Ids of deliveries of one status, the earliest first, with their scores.
    async fn listed(
        &self,
        keys: &QueueKeys,
        status: DeliveryStatus,
        page: &PageRequest,
    ) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let [due, done, dead] = &keys.fixed;
        let key = match status {
            DeliveryStatus::Pending => due,
            DeliveryStatus::Delivered => done,
            DeliveryStatus::Dead => dead,
        };
        let (score, id) = page.after.as_deref().and_then(|after| after.split_once('-')).unwrap_or_default();
        let script = &self.scripts().list;
        let mut cmd = script.call(1);
        cmd.arg(key).arg(score).arg(id).arg(page.limit);
        let listed = self.call(script, &cmd).await?;
        listed.chunks(2).map(|pair| Ok((pair[0].clone(), reply::time(&pair[1])?))).collect()
    }

    /// Ids of deliveries of one status, those that come first; at most `limit`.
    pub async fn first_deliveries(
        &self,
        webhook: WebhookId,
        status: DeliveryStatus,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let listed = self.listed(&keys, status, &PageRequest { limit, after: None }).await?;
        Ok(listed.into_iter().map(|(id, _)| id).collect())
    }

    /// A page of the deliveries of an endpoint: waiting ones by the time of their next try, ended ones by the time until
    /// which they are kept. The cursor is `<score>-<id>`.
    pub async fn deliveries(
        &self,
        webhook: WebhookId,
        status: DeliveryStatus,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let listed = self.listed(&keys, status, page).await?;
        let last = listed.last().filter(|_| listed.len() == page.limit);
        let next = last.map(|(id, score)| format!("{}-{id}", score.as_ms()));
        let mut items = Vec::new();
        if !listed.is_empty() {
            let mut cmd = redis::cmd("MGET");
            listed.iter().for_each(|(id, _)| {
                cmd.arg(keys.record(id));
            });
            for ((id, score), record) in listed.iter().zip(hash_values(self.query(&cmd).await?)?) {
                // One that has moved on between the two reads, or is damaged, is left out.
                let read = record.and_then(|record| read_delivery(id, *score, &record).ok());
                items.extend(read.filter(|delivery| delivery.status == status));
            }
        }
        Ok(Page { items, next })
    }
}

/// Reads a record as callers see it; `score` is its place in the list of its status.
fn read_delivery(id: &str, score: Timestamp, record: &str) -> Result<Delivery, StoreError> {
    let mut fields = Fields::of(record);
    let status: DeliveryStatus = fields.text()?.parse().map_err(|()| unknown_word())?;
    let (attempts, created_at) = (reply::number(fields.text()?)?, reply::time(fields.text()?)?);
    let ended_at = reply::optional(fields.text()?, reply::time)?;
    let (_since, answer, error, _token) = (fields.text()?, fields.text()?, fields.text()?, fields.text()?);
    let (kind, source) = (fields.text()?.to_owned(), fields.text()?.to_owned());
    Ok(Delivery {
        id: event_id(id)?,
        kind,
        source,
        status,
        attempts,
        created_at,
        next_attempt_at: (status == DeliveryStatus::Pending).then_some(score),
        delivered_at: ended_at.filter(|_| status == DeliveryStatus::Delivered),
        last_status: reply::optional(answer, reply::number)?,
        last_error: (!error.is_empty()).then(|| error.to_owned()),
    })
}
