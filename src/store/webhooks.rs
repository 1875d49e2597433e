//! The registry of webhook endpoints. A change is read, made and kept if nobody was faster: `webhook/register` compares.

use super::{Decided, Store, StoreError, ids, keys, reply};
use crate::domain::webhook::{PatchWebhook, RegisterWebhook, WEBHOOKS_MAX};
use crate::domain::*;
use redis::Value;
use serde::{Deserialize, Serialize};

/// Tries of one change before it is given up: each lost one is somebody else's change.
const TRIES_MAX: usize = 10;
/// Secrets that sign at the same time, and rotations whose repeats are known: more than anybody needs in a day.
const ROTATIONS_MAX: usize = 8;
/// So long the secret before a rotation signs as well.
const ROTATION_MS: i64 = 86_400_000;

/// An endpoint, as the registry has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Registration {
    #[serde(flatten)]
    endpoint: Endpoint,
    /// Of the request that registered it: tells another body under the same key.
    fingerprint: String,
    /// The operations that rotated the secret last, the newest first.
    rotated_by: Vec<String>,
}

/// Now: by all clocks, and by the server's own alone.
struct Now {
    at: Timestamp,
    server_ms: u64,
}

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Yes,
    /// Somebody was faster.
    Lost,
    TooMany,
}

/// What is to be kept, and how the change is called; or why there is none.
type Changed = Result<(Outcome, Option<Registration>), Refusal>;

fn read(text: &str) -> Result<Registration, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt("registration of a webhook".into()))
}

impl Store {
    /// All endpoints, by id.
    pub async fn webhooks(&self) -> Result<Vec<Endpoint>, StoreError> {
        let texts = reply::texts(self.query(redis::cmd("HVALS").arg(keys::WEBHOOKS)).await?)?;
        // One that cannot be read must not silence the others.
        let readable = |text: &String| {
            read(text).inspect_err(|error| tracing::error!(%error, "A webhook cannot be told anything")).ok()
        };
        let mut all: Vec<Endpoint> = texts.iter().filter_map(readable).map(|found| found.endpoint).collect();
        all.sort_by_key(|endpoint| endpoint.id);
        Ok(all)
    }

    /// One of them.
    pub async fn webhook(&self, webhook: WebhookId) -> Decided<Endpoint> {
        Ok(match self.registered(webhook).await? {
            Some((_, found)) => Decision::Done(Outcome::Unchanged, found.endpoint),
            None => Decision::Refused(Refusal::UnknownWebhook),
        })
    }

    /// Registers an endpoint. The same key has one, however often it is tried.
    pub async fn register_webhook(
        &self,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        request: RegisterWebhook,
        secret: String,
    ) -> Decided<Endpoint> {
        let id = self.ids().await?.webhook(caller, key);
        let fingerprint = ids::fingerprint([format!("{request:?}").as_bytes()]);
        let first = SigningSecret { secret, until: None };
        self.change_webhook(id, move |found, now| match found {
            Some(found) if found.fingerprint == fingerprint => Ok((Outcome::Replayed, Some(found))),
            Some(_) => Err(Refusal::IdempotencyKeyReused),
            None => {
                let RegisterWebhook { url, types, sales } = request.clone();
                let (disabled_at, secrets) = (None, vec![first.clone()]);
                let (created_at, since_ms, version) = (now.at, now.server_ms, 1);
                let endpoint =
                    Endpoint { id, url, types, sales, secrets, disabled_at, created_at, since_ms, version };
                let fingerprint = fingerprint.clone();
                Ok((Outcome::Created, Some(Registration { endpoint, fingerprint, rotated_by: Vec::new() })))
            }
        })
        .await
    }

    /// Changes where messages go, which events are wanted, and whether anything is sent.
    pub async fn patch_webhook(&self, webhook: WebhookId, patch: PatchWebhook) -> Decided<Endpoint> {
        self.change_webhook(webhook, move |found, now| {
            let mut found = found.ok_or(Refusal::UnknownWebhook)?;
            let before = found.endpoint.clone();
            patch.apply(&mut found.endpoint, now.at, now.server_ms);
            let outcome = if found.endpoint == before { Outcome::Unchanged } else { Outcome::Changed };
            Ok((outcome, Some(found)))
        })
        .await
    }

    /// Makes a new secret the first one; the one before signs for another day. The same key rotates once.
    pub async fn rotate_secret(
        &self,
        webhook: WebhookId,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        secret: String,
    ) -> Decided<Endpoint> {
        let operation = ids::short(self.ids().await?.operation(&format!("rotate {webhook}"), caller, key).0);
        self.change_webhook(webhook, move |found, now| {
            let mut found = found.ok_or(Refusal::UnknownWebhook)?;
            if found.rotated_by.contains(&operation) {
                return Ok((Outcome::Replayed, Some(found)));
            }
            let until = Timestamp::from_ms(now.at.as_ms() + ROTATION_MS);
            let secrets = &mut found.endpoint.secrets;
            secrets.retain(|old| old.until.is_none_or(|until| now.at < until));
            for old in secrets.iter_mut().filter(|old| old.until.is_none()) {
                old.until = until;
            }
            secrets.insert(0, SigningSecret { secret: secret.clone(), until: None });
            secrets.truncate(ROTATIONS_MAX);
            found.rotated_by.insert(0, operation.clone());
            found.rotated_by.truncate(ROTATIONS_MAX);
            Ok((Outcome::Changed, Some(found)))
        })
        .await
    }

    /// Nothing is sent to it any more, for it says that it is gone.
    pub async fn disable_webhook(&self, webhook: WebhookId) -> Result<(), StoreError> {
        let patch = PatchWebhook { disabled: Some(true), ..PatchWebhook::default() };
        self.patch_webhook(webhook, patch).await.map(drop)
    }

    /// Removes an endpoint; the notifier removes its deliveries. A repeat is one for as long as that may take.
    pub async fn delete_webhook(&self, webhook: WebhookId) -> Result<Decision<()>, StoreError> {
        if self.registered(webhook).await?.is_none() {
            let is_repeat = self.is_gone(webhook).await?;
            let unknown = Decision::Refused(Refusal::UnknownWebhook);
            return Ok(if is_repeat { Decision::Done(Outcome::Replayed, ()) } else { unknown });
        }
        // First: if this process ends in between, what is still registered keeps its deliveries.
        self.forget_webhook(webhook).await?;
        let change = |found: Option<Registration>, _: &Now| match found {
            Some(_) => Ok((Outcome::Deleted, None)),
            None => Err(Refusal::UnknownWebhook),
        };
        self.change_webhook(webhook, change).await?.try_map(|_| Ok(()))
    }

    /// Runs to its end even if its caller goes away. The value is the endpoint after the change; of one that is removed,
    /// as it was.
    async fn change_webhook(
        &self,
        webhook: WebhookId,
        change: impl Fn(Option<Registration>, &Now) -> Changed + Send + Sync + 'static,
    ) -> Decided<Endpoint> {
        let store = self.clone();
        self.to_the_end(async move { store.try_webhook(webhook, &change).await }).await
    }

    async fn try_webhook(
        &self,
        webhook: WebhookId,
        change: &(impl Fn(Option<Registration>, &Now) -> Changed + Send + Sync),
    ) -> Decided<Endpoint> {
        for _ in 0..TRIES_MAX {
            let (text, found) = self.registered(webhook).await?.unzip();
            let before = found.as_ref().map(|found: &Registration| found.endpoint.clone());
            let (outcome, mut after) = match change(found, &self.clocks().await?) {
                Ok(changed) => changed,
                Err(refusal) => return Ok(Decision::Refused(refusal)),
            };
            let value = after.as_ref().map(|after| after.endpoint.clone()).or(before);
            let mut value = value.ok_or_else(|| StoreError::Reply("a change of nothing".into()))?;
            if matches!(outcome, Outcome::Unchanged | Outcome::Replayed) {
                return Ok(Decision::Done(outcome, value));
            }
            if let (Some(after), Outcome::Changed) = (&mut after, outcome) {
                after.endpoint.version += 1;
                value.version += 1;
            }
            let after = after.map(|after| serde_json::to_string(&after)).transpose();
            let after = after.map_err(|error| StoreError::Reply(error.to_string()))?;
            match self.keep(webhook, &text.unwrap_or_default(), &after.unwrap_or_default()).await? {
                Kept::Yes => return Ok(Decision::Done(outcome, value)),
                Kept::TooMany => return Ok(Decision::Refused(Refusal::TooManyWebhooks)),
                Kept::Lost => {}
            }
        }
        Err(StoreError::NotApplied("store_busy"))
    }

    /// Keeps `after` where `before` still is; an empty text stands for none.
    async fn keep(&self, webhook: WebhookId, before: &str, after: &str) -> Result<Kept, StoreError> {
        let script = &self.scripts().register;
        let mut cmd = script.call(1);
        cmd.arg(keys::WEBHOOKS).arg(webhook.to_string()).arg(before).arg(after).arg(WEBHOOKS_MAX);
        match self.call(script, &cmd).await?.first().map(String::as_str) {
            Some("kept") => Ok(Kept::Yes),
            Some("lost") => Ok(Kept::Lost),
            Some("too_many_webhooks") => Ok(Kept::TooMany),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }

    /// Whether a change could be kept: one of what is not there is not.
    pub(super) async fn try_registering(&self) -> Result<bool, StoreError> {
        let nobody = WebhookId(uuid::Uuid::new_v4());
        Ok(self.keep(nobody, "none", "").await? == Kept::Lost)
    }

    /// As it is stored, and as it reads.
    async fn registered(&self, webhook: WebhookId) -> Result<Option<(String, Registration)>, StoreError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys::WEBHOOKS).arg(webhook.to_string());
        match self.query(&cmd).await? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| StoreError::Reply("not UTF-8".into()))?;
                let found = read(&text)?;
                Ok(Some((text, found)))
            }
            _ => Err(StoreError::Reply("not a text".into())),
        }
    }

    /// The time that scripts would go by.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clocks().await?.at)
    }

    async fn clocks(&self) -> Result<Now, StoreError> {
        let (seconds, micros): (u64, u64) = redis::from_redis_value(self.query(&redis::cmd("TIME")).await?)
            .map_err(|error| StoreError::Reply(error.to_string()))?;
        let server_ms = seconds * 1000 + micros / 1000;
        let at = i64::try_from(server_ms).ok().and_then(|ms| Timestamp::from_ms(ms + self.offset_ms()));
        Ok(Now { at: at.ok_or_else(|| StoreError::Reply("not a time".into()))?, server_ms })
    }
}
