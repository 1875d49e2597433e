//! The deliveries of one webhook endpoint: queued once by the event's id, claimed for a try, settled by who has claimed.

mod listed;

pub use listed::Requeued;

use super::keys::QueueKeys;
use super::reply::{self, BatchReply, Fields};
use super::scripts::Script;
use super::{Store, StoreError, ids};
use crate::domain::{DeliveryStatus, Event, Timestamp, WebhookId};
use bytes::Bytes;
use uuid::Uuid;

/// Most deliveries of an endpoint that may wait; beyond, events are skipped.
pub const PENDING_MAX: usize = 100_000;
/// Most delivered ones, and most dead ones, that are kept.
pub const ENDED_MAX: usize = 10_000;
/// How long delivered ones are kept.
pub const DELIVERED_KEEP_MS: i64 = 24 * 3_600_000;
/// How long dead ones are kept.
pub const DEAD_KEEP_MS: i64 = 30 * 24 * 3_600_000;
/// A try that is not settled by then is taken over: longer than a send may take.
pub const LEASE_MS: i64 = 30_000;
/// Most events of one call, and most bytes.
const QUEUE_EVENTS_MAX: usize = 128;
const QUEUE_BYTES_MAX: usize = 262_144;
/// Bytes of records that one claim reads, or little more.
const CLAIM_BYTES_MAX: usize = 262_144;

/// An event as it waits: what its record needs, and the message.
#[derive(Debug, Clone)]
pub struct Packed {
    id: String,
    text: String,
}

impl Packed {
    /// None where it cannot be written as JSON, which no event of ours is.
    pub fn of(event: &Event) -> Option<Self> {
        let body = serde_json::to_string(event).ok()?;
        let text = format!("{}\n{}\n{}\n{body}", event.kind, event.source, event.time.as_ms());
        Some(Self { id: ids::short(event.id), text })
    }
}

/// What became of events that were to be queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// New ones.
    pub queued: usize,
    /// They had been queued before.
    pub known: usize,
    /// The queue is full, or the place of the record holds something else.
    pub refused: usize,
}

/// One queue, as the one who works on it sees it. Ids are of 22 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    /// The script's time.
    pub now: Timestamp,
    /// The next try, or end of a lease, that is not due yet.
    pub next_at: Option<Timestamp>,
    /// How many wait.
    pub pending: u64,
    /// How many were delivered and are kept.
    pub delivered: u64,
    /// How many are dead and kept.
    pub dead: u64,
    /// Due now.
    pub due: Vec<String>,
    /// Ended ones that go.
    pub to_forget: Vec<String>,
}

/// A delivery that is ours for a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Id of the event, in its 22-character form.
    pub id: String,
    /// The same, as the receiver sees it.
    pub event: Uuid,
    /// Proves that the claim is ours.
    pub token: String,
    /// When it was claimed.
    pub at: Timestamp,
    /// Tries, this one included.
    pub attempts: u32,
    /// Since when it is tried.
    pub since: Timestamp,
    /// When the event happened.
    pub time: Timestamp,
    /// The event as JSON.
    pub body: Bytes,
}

/// What became of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Id of the event, in its 22-character form.
    pub id: String,
    /// Of the claim; none: for whoever has not claimed it.
    pub token: Option<String>,
    /// Pending: it is tried again, after `delay_ms`.
    pub status: DeliveryStatus,
    /// Until the next try.
    pub delay_ms: u64,
    /// HTTP status of the answer.
    pub answer: Option<u16>,
    /// What went wrong.
    pub error: &'static str,
}

/// What became of deliveries that were to be forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// They are gone.
    pub forgotten: usize,
    /// Of these dead ones that went before their time, because there are too many.
    pub overflown: usize,
}

fn unknown_word() -> StoreError {
    StoreError::Reply("unknown word".into())
}

impl Store {
    /// One script on some deliveries of an endpoint.
    async fn on_deliveries(
        &self,
        script: &Script,
        fixed: &[String],
        records: &[String],
        args: &[String],
    ) -> Result<BatchReply, StoreError> {
        let mut cmd = script.call(fixed.len() + records.len());
        cmd.arg(fixed).arg(records).arg(self.offset_ms()).arg(args);
        let answered = reply::batch_of(self.call(script, &cmd).await?)?.map_err(|_| unknown_word())?;
        if answered.answers.len() == records.len() {
            Ok(answered)
        } else {
            Err(StoreError::Reply("not one answer a delivery".into()))
        }
    }

    /// Queues events for an endpoint, each once. A failure may leave some queued: a repeat finds them.
    pub async fn enqueue_deliveries(
        &self,
        webhook: WebhookId,
        events: &[Packed],
    ) -> Result<Enqueued, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let mut sum = Enqueued::default();
        let mut rest = events;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(QUEUE_EVENTS_MAX).take_while(|event| {
                bytes += event.text.len();
                bytes <= QUEUE_BYTES_MAX
            });
            let (some, later) = rest.split_at(fits.count().max(1));
            rest = later;
            let records: Vec<String> = some.iter().map(|event| keys.record(&event.id)).collect();
            let args: Vec<String> = std::iter::once(PENDING_MAX.to_string())
                .chain(some.iter().map(|event| event.text.clone()))
                .collect();
            let script = &self.scripts().enqueue;
            let fixed = [keys.due().to_owned()];
            for answer in self.on_deliveries(script, &fixed, &records, &args).await?.answers {
                match answer.as_str() {
                    "queued" => sum.queued += 1,
                    "known" => sum.known += 1,
                    "full" | "corrupt" => sum.refused += 1,
                    _ => return Err(unknown_word()),
                }
            }
        }
        Ok(sum)
    }

    /// What there is to do for an endpoint; at most `limit` ids of each kind.
    pub async fn due_deliveries(&self, webhook: WebhookId, limit: usize) -> Result<QueueState, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let script = &self.scripts().due_deliveries;
        let mut cmd = script.call(keys.fixed.len());
        cmd.arg(&keys.fixed).arg(self.offset_ms()).arg(limit).arg(ENDED_MAX);
        let texts = self.call(script, &cmd).await?;
        let [now, next, pending, delivered, dead, due, done_ids, dead_ids] = &texts[..] else {
            return Err(StoreError::Reply("not what is due".into()));
        };
        Ok(QueueState {
            now: reply::time(now)?,
            next_at: reply::optional(next, reply::time)?,
            pending: reply::number(pending)?,
            delivered: reply::number(delivered)?,
            dead: reply::number(dead)?,
            due: reply::ids_of(due),
            to_forget: [reply::ids_of(done_ids), reply::ids_of(dead_ids)].concat(),
        })
    }

    /// Claims deliveries for a try: those that are due and nobody else's. Says also how many were damaged and dropped.
    pub async fn claim_deliveries(
        &self,
        webhook: WebhookId,
        due: &[String],
    ) -> Result<(Vec<Claimed>, usize), StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let records: Vec<String> = due.iter().map(|id| keys.record(id)).collect();
        let token = ids::random_hex::<8>();
        let args = [LEASE_MS.to_string(), token.clone(), CLAIM_BYTES_MAX.to_string()];
        let script = &self.scripts().claim;
        let answered = self.on_deliveries(script, &[keys.due().to_owned()], &records, &args).await?;
        let (mut claimed, mut damaged) = (Vec::new(), 0);
        for (id, answer) in due.iter().zip(&answered.answers) {
            match answer.split_once('\n') {
                Some(("claimed", record)) => claimed.push(read_claimed(id, record, answered.now, &token)?),
                None if answer == "orphaned" => damaged += 1,
                None if ["not_due", "deferred"].contains(&answer.as_str()) => {}
                _ => return Err(unknown_word()),
            }
        }
        Ok((claimed, damaged))
    }

    /// Writes down what became of tries; says of each whether it counts.
    pub async fn settle_deliveries(
        &self,
        webhook: WebhookId,
        tries: &[Try],
    ) -> Result<Vec<bool>, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let records: Vec<String> = tries.iter().map(|one| keys.record(&one.id)).collect();
        let mut args = vec![DELIVERED_KEEP_MS.to_string(), DEAD_KEEP_MS.to_string()];
        for one in tries {
            let answer = one.answer.map(|status| status.to_string()).unwrap_or_default();
            args.extend([one.token.clone().unwrap_or_default(), one.status.as_str().to_owned()]);
            args.extend([one.delay_ms.to_string(), answer, one.error.to_owned()]);
        }
        let script = &self.scripts().settle;
        let answered = self.on_deliveries(script, &keys.fixed, &records, &args).await?;
        let read = |answer: &String| match answer.as_str() {
            "settled" => Ok(true),
            "lost" | "under_way" => Ok(false),
            _ => Err(unknown_word()),
        };
        answered.answers.iter().map(read).collect()
    }

    /// Removes deliveries whose time is over, or that are too many; of an endpoint that is `deleted`, any.
    pub async fn forget_deliveries(
        &self,
        webhook: WebhookId,
        events: &[String],
        deleted: bool,
    ) -> Result<Forgotten, StoreError> {
        let keys = QueueKeys::new(ids::short(webhook.0));
        let records: Vec<String> = events.iter().map(|id| keys.record(id)).collect();
        let ended_max = if deleted { String::new() } else { ENDED_MAX.to_string() };
        let script = &self.scripts().forget;
        let mut sum = Forgotten::default();
        for answer in self.on_deliveries(script, &keys.fixed, &records, &[ended_max]).await?.answers {
            match answer.as_str() {
                "forgotten" => sum.forgotten += 1,
                "overflown" => {
                    sum.forgotten += 1;
                    sum.overflown += 1;
                }
                "kept" => {}
                _ => return Err(unknown_word()),
            }
        }
        Ok(sum)
    }
}

fn event_id(id: &str) -> Result<Uuid, StoreError> {
    ids::long(id).ok_or_else(|| StoreError::Corrupt("delivery".into()))
}

/// Reads a record that was claimed.
fn read_claimed(id: &str, record: &str, at: Timestamp, token: &str) -> Result<Claimed, StoreError> {
    let mut fields = Fields::of(record);
    let (_status, attempts, _created_at, _ended_at) =
        (fields.text()?, fields.text()?, fields.text()?, fields.text()?);
    let (since, _answer, _error, _token) = (fields.text()?, fields.text()?, fields.text()?, fields.text()?);
    let (_kind, _source, time, body) = (fields.text()?, fields.text()?, fields.text()?, fields.text()?);
    Ok(Claimed {
        id: id.to_owned(),
        event: event_id(id)?,
        token: token.to_owned(),
        at,
        attempts: reply::number(attempts)?,
        since: reply::time(since)?,
        time: reply::time(time)?,
        body: Bytes::copy_from_slice(body.as_bytes()),
    })
}
