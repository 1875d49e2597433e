//! The service as its callers see it: over HTTP, in a process of its own or in this one.

mod answer;
mod document;
mod in_process;
mod listener;
mod process;
mod sale;
mod wire;

pub use crate::sandbox::own_address;
pub use answer::Answer;
pub use document::{document, operations};
pub use in_process::{InProcess, shared_api};
pub use listener::{Heard, Listener};
pub use process::{Service, ServiceOptions, failed_start, program};
pub use sale::{Level, Sale, lines, new_key};
pub use wire::{Wire, post};

use serde_json::Value;
use std::time::Duration;

/// A client of one service. Every answer is checked in its form, and against the service's own document.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Api {
    pub fn new(base: String) -> Self {
        // No proxy of the machine's environment, no redirects that hide an answer, no endless waits.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(60));
        Self { client: client.build().unwrap(), base, token: None }
    }

    /// The same client with an API key.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// As `host:port`.
    pub fn authority(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// Opens a stream of events; `last` is sent as `Last-Event-ID`.
    pub async fn listen(&self, path: &str, last: Option<&str>) -> Listener {
        let request = self.client.get(format!("{}{path}", self.base));
        let request = last.into_iter().fold(request, |request, last| request.header("Last-Event-ID", last));
        Listener::new(request.send().await.unwrap())
    }

    pub fn call(&self, method: &str, path: &str) -> Call {
        let url = format!("{}{path}", self.base);
        let method = method.parse().unwrap();
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        Call { request, path: path.to_owned() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path).json(body).send().await
    }

    /// Of `/metrics`: every series with its value.
    pub async fn metrics(&self) -> Vec<(String, f64)> {
        let text = self.get("/metrics").await.text;
        let series = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        series
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }
}

/// One request, before it is sent.
pub struct Call {
    request: reqwest::RequestBuilder,
    path: String,
}

impl Call {
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.request = self.request.header(name, value.as_ref());
        self
    }

    pub fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    /// Null stands for no body at all.
    pub fn json(mut self, body: &Value) -> Self {
        if !body.is_null() {
            self.request = self.request.json(body);
        }
        self
    }

    /// A body as it is, said to be JSON.
    pub fn raw(self, body: impl Into<Vec<u8>>) -> Self {
        let mut call = self.header("Content-Type", "application/json");
        call.request = call.request.body(body.into());
        call
    }

    /// A body of any type, or of none.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request = self.request.body(body.into());
        self
    }

    pub async fn send(self) -> Answer {
        let path = self.path.clone();
        self.try_send().await.unwrap_or_else(|failed| panic!("{path}: no answer: {failed:?}"))
    }

    /// An error is an answer that never came.
    pub async fn try_send(self) -> Result<Answer, reqwest::Error> {
        let (client, request) = self.request.build_split();
        let request = request?;
        let method = request.method().to_string();
        let answer = Answer::read(client.execute(request).await?).await?;
        answer.check(&method, &self.path);
        Ok(answer)
    }
}
