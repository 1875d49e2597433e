//! One try to deliver one message.

use super::egress::{Egress, Forbidden, Judge, Lookup, NoAddress, system_lookup};
use super::signature;
use crate::domain::{Endpoint, Timestamp, WebhookUrl};
use crate::trace::{Sampling, TraceParent, spans};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// From the first byte sent to the last one received.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// Of these, until there is a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Nobody reads the answer, but a connection can be used again only when it is read.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// A receiver is not obeyed beyond this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// Connections to a receiver are kept so long after their last message.
const IDLE: Duration = Duration::from_secs(30);
/// An event in one JSON document (CloudEvents 1.0, structured mode).
const CLOUD_EVENT: &str = "application/cloudevents+json; charset=utf-8";

/// What is sent.
#[derive(Debug, Clone)]
pub struct Message {
    /// Id of the event: the receiver drops repeats by it.
    pub id: String,
    /// When it is sent.
    pub at: Timestamp,
    /// The event, as JSON.
    pub body: Bytes,
    /// The span of whoever waits for it; without one it begins a trace.
    pub parent: Option<TraceParent>,
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
        /// `status` `redirect` `timeout` `dns` `tls` `connect` `cut`; never text of the receiver.
        error: &'static str,
        /// From `Retry-After`, of 429 and 503.
        retry_after: Option<Duration>,
    },
    /// The target is not allowed.
    Forbidden(&'static str),
}

impl Answer {
    /// The status of the receiver's answer, and what was wrong.
    pub fn said(&self) -> (Option<u16>, Option<&'static str>) {
        match self {
            Self::Delivered(status) => (Some(*status), None),
            Self::Gone => (Some(410), Some("gone")),
            Self::Failed { status, error, .. } => (*status, Some(error)),
            Self::Forbidden(_) => (None, Some("forbidden")),
        }
    }
}

/// Sends messages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sender {
    client: Client,
    egress: Egress,
    sampling: Sampling,
}

impl Sender {
    /// For the targets that `egress` allows. Errors when the client cannot be made.
    pub fn new(egress: Egress) -> Result<Self, reqwest::Error> {
        Self::with_lookup(egress, system_lookup())
    }

    /// The same, with another way to find addresses.
    pub fn with_lookup(egress: Egress, lookup: Lookup) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .user_agent(concat!("stockade/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(Judge { egress, lookup }))
            // A redirect would lead where nobody has judged; a proxy would judge for itself.
            .redirect(Policy::none())
            .no_proxy()
            .timeout(DEADLINE)
            .connect_timeout(CONNECT_DEADLINE)
            .pool_idle_timeout(IDLE)
            .build()?;
        Ok(Self { client, egress, sampling: Sampling::default() })
    }

    /// The same, asking receivers to record the traces that `sampling` chooses.
    pub fn with_sampling(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// Whether what the URL itself says is allowed; a name is judged when it is called.
    pub fn check(&self, url: &WebhookUrl) -> Result<(), Forbidden> {
        self.egress.judge_url(url)
    }

    /// Delivers one message, in 15 seconds at most.
    pub async fn send(&self, endpoint: &Endpoint, message: &Message) -> Answer {
        if let Err(Forbidden(why)) = self.check(&endpoint.url) {
            return Answer::Forbidden(why);
        }
        let Message { id, at, body, parent } = message;
        let span = spans::delivery(endpoint.url.as_str(), id);
        let begin = || match parent {
            Some(parent) => parent.child(self.sampling),
            None => TraceParent::begin(self.sampling),
        };
        let trace_parent = spans::exported(&span).unwrap_or_else(begin);
        let sent = self
            .client
            .post(endpoint.url.as_str())
            .header(CONTENT_TYPE, CLOUD_EVENT)
            .header("traceparent", trace_parent.to_string())
            .header("webhook-id", id)
            .header("webhook-timestamp", signature::seconds(*at))
            .header("webhook-signature", signature::signatures(&endpoint.secrets, id, *at, body))
            .body(body.clone())
            .send()
            .await;
        let answer = match sent {
            Ok(response) => read(response).await,
            Err(error) => failed(&error),
        };
        let (status, error) = answer.said();
        spans::delivered(&span, status, error);
        answer
    }
}

async fn read(mut response: Response) -> Answer {
    let status = response.status().as_u16();
    let retry_after = retry_after(&response);
    let mut read = 0;
    while read < ANSWER_BYTES_MAX
        && let Ok(Some(chunk)) = response.chunk().await
    {
        read += chunk.len();
    }
    match status {
        200..=299 => Answer::Delivered(status),
        410 => Answer::Gone,
        300..=399 => Answer::Failed { status: Some(status), error: "redirect", retry_after: None },
        429 | 503 => Answer::Failed { status: Some(status), error: "status", retry_after },
        _ => Answer::Failed { status: Some(status), error: "status", retry_after: None },
    }
}

/// Seconds, or a date of HTTP.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // Of the process's own clock: it is only a pause.
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

fn failed(error: &reqwest::Error) -> Answer {
    let because = |retry: &'static str| Answer::Failed { status: None, error: retry, retry_after: None };
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Forbidden(why)) = error.downcast_ref() {
            return Answer::Forbidden(why);
        }
        if error.is::<NoAddress>() {
            return because("dns");
        }
        if error.is::<rustls::Error>() {
            return because("tls");
        }
        // An error of I/O tells the cause of what it holds, and not what it holds.
        let held = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        cause = held.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
    }
    if error.is_timeout() {
        because("timeout")
    } else if error.is_connect() {
        because("connect")
    } else {
        because("cut")
    }
}
