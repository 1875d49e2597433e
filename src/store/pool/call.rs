//! Calls of scripts, each with its span.

use super::Lease;
use super::lease::has_replica;
use crate::store::durability::Durability;
use crate::store::error::StoreError;
use crate::store::scripts::Script;
use crate::trace::spans;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, ServerErrorKind, Value};
use tracing::Span;

/// One call of a script. Its span ends when this is dropped.
#[derive(Debug)]
pub struct Call<'a> {
    script: &'a Script,
    cmd: &'a Cmd,
    span: Span,
    /// Of the requests that it carries.
    durabilities: Vec<Durability>,
}

impl<'a> Call<'a> {
    /// For the present request.
    pub fn new(script: &'a Script, cmd: &'a Cmd) -> Self {
        let durabilities = Durability::of_request().into_iter().collect();
        Self { script, cmd, span: spans::script(script.name), durabilities }
    }

    /// For the requests that the call carries, `count` of them.
    pub fn carrying<'b>(
        script: &'a Script,
        cmd: &'a Cmd,
        count: usize,
        requests: impl Iterator<Item = &'b Span>,
        durabilities: Vec<Durability>,
    ) -> Self {
        Self { script, cmd, span: spans::round(script.name, count, requests), durabilities }
    }
}

/// The word that a command begins with.
pub(super) fn name_of(cmd: &Cmd) -> &str {
    match cmd.args_iter().next() {
        Some(Arg::Simple(name)) => std::str::from_utf8(name).unwrap_or_default(),
        _ => "",
    }
}

impl Lease {
    /// One script, for the present request.
    pub async fn call(&mut self, script: &Script, cmd: &Cmd) -> Result<Value, StoreError> {
        self.call_one(&Call::new(script, cmd)).await
    }

    /// One script.
    pub async fn call_one(&mut self, call: &Call<'_>) -> Result<Value, StoreError> {
        let mut answers = self.call_all(std::slice::from_ref(call)).await;
        answers.pop().unwrap_or_else(|| Err(StoreError::Reply("no answer".into())))
    }

    /// One script, and in the same write a command whose answer nobody needs.
    pub async fn call_with(&mut self, call: &Call<'_>, other: Option<Cmd>) -> Result<Value, StoreError> {
        let mut connection = self.inner.clone();
        let unheard = async {
            if let Some(other) = other {
                let _ = connection.req_packed_command(&other).await;
            }
        };
        futures_util::future::join(self.call_one(call), unheard).await.0
    }

    /// Several scripts in one write; each has its own answer. NOSCRIPT proves that nothing ran, so the source is sent
    /// then, once, on the same connection.
    pub async fn call_all(&mut self, calls: &[Call<'_>]) -> Vec<Result<Value, StoreError>> {
        let wait = self.wait().filter(|_| calls.iter().any(|call| call.script.writes()));
        let cmds: Vec<&Cmd> = calls.iter().map(|call| call.cmd).chain(&wait).collect();
        let turns = self.turns;
        let mut answers = self.send_all(&cmds).await;
        let waited = wait.is_some().then(|| answers.pop()).flatten();
        let mut results = Vec::with_capacity(calls.len());
        let mut is_covered = turns == self.turns;
        for (answer, Call { script, cmd, span, .. }) in answers.into_iter().zip(calls) {
            let answer = match answer {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    is_covered = false;
                    let call = script.with_source(cmd);
                    self.send(&call).await
                }
                answer => answer,
            };
            results.push(answer.map_err(|error| {
                self.note(&error);
                let error = StoreError::from(error);
                spans::failed(span, error.code());
                error
            }));
        }
        if wait.is_some() {
            // What was done elsewhere, or only now, is not what that answer was about.
            let is_replicated = if is_covered { has_replica(waited) } else { self.is_replicated().await };
            if !is_replicated {
                calls.iter().flat_map(|call| &call.durabilities).for_each(Durability::fell_short);
            }
        }
        results
    }
}
