//! One try to deliver one message.

use crate::domain::{Endpoint, Timestamp};
use bytes::Bytes;
use std::time::Duration;

/// What is sent.
#[derive(Debug, Clone)]
pub struct Message {
    /// Id of the event: the receiver drops repeats by it.
    pub id: String,
    /// When it is sent.
    pub at: Timestamp,
    /// The event, as JSON.
    pub body: Bytes,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The receiver has it: 2xx.
    Delivered(u16),
    /// The receiver wants nothing any more: 410.
    Gone,
    /// It may be tried again, not before what the receiver asks for.
    Failed {
        /// Of the receiver's answer, if there was one.
        status: Option<u16>,
        /// In a few words of ours; never text of the receiver.
        error: &'static str,
        /// From `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The target is not allowed.
    Forbidden(&'static str),
}

/// Sends messages. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Sender(reqwest::Client);

impl Sender {
    /// Delivers one message, in 15 seconds at most.
    pub async fn send(&self, endpoint: &Endpoint, message: &Message) -> Answer {
        let request = self.0.post(endpoint.url.as_str()).timeout(Duration::from_secs(15));
        let at = (message.at.as_ms() / 1000).to_string();
        let request = request.header("webhook-id", &message.id).header("webhook-timestamp", at);
        let failed = |status, error, retry_after| Answer::Failed { status, error, retry_after };
        match request.header("content-type", "application/json").body(message.body.clone()).send().await {
            Ok(answer) => match answer.status().as_u16() {
                status @ 200..=299 => Answer::Delivered(status),
                410 => Answer::Gone,
                status => {
                    let after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
                    let after = after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
                    failed(Some(status), "refused", after)
                }
            },
            Err(_) => failed(None, "no answer", None),
        }
    }
}
