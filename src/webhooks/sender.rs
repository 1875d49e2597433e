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
#[derive(Debug, Clone)]
pub struct Sender(());

impl Sender {
    /// Delivers one message, in 15 seconds at most.
    pub async fn send(&self, _endpoint: &Endpoint, _message: &Message) -> Answer {
        Answer::Failed { status: None, error: "not built", retry_after: None }
    }
}
