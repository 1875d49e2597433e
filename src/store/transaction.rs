//! Optimistic transactions: WATCH a key, read it, decide, MULTI, one script, EXEC.
//!
//! A transaction has a connection for itself. The connection goes back to its pool only once the server has said that
//! the transaction is over; whatever happens else, also when the future is dropped in the middle, it is closed, and
//! the server forgets what was watched and queued.

use super::durability::Durability;
use super::error::StoreError;
use super::pool::{Lease, Pool, Slot};
use super::scripts::Script;
use crate::trace::spans;
use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

/// A key is watched.
pub struct Transaction(Lease);

/// What became of a transaction.
#[derive(Debug, PartialEq)]
pub enum Executed {
    /// The script ran; its answer.
    Done(Value),
    /// The watched key has changed since it was read: nothing ran.
    Lost,
    /// The server does not know the script: nothing ran.
    NoScript,
}

impl Transaction {
    /// Watches `key`, and answers what `read` reads after that. A failure changes nothing: only reads were sent.
    pub async fn watch(pool: &Pool, key: &str, read: Cmd) -> Result<(Self, Value), StoreError> {
        let mut lease = pool.get(Slot::for_key(key)).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("WATCH").arg(key).add_command(read);
        let mut may_turn = true;
        loop {
            lease.is_half_open = true;
            let sent = send(&mut lease, &pipeline).await;
            let [watched, value] = sent.map_err(|_| StoreError::unreachable())?;
            match watched.extract_error() {
                Ok(_) => return Ok((Self(lease), value.extract_error()?)),
                // A slot that is on its way is not waited for.
                Err(error) if may_turn && lease.turn(&error, 0).await == Some(false) => may_turn = false,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives up: nothing was to be changed.
    pub async fn unwatch(mut self) {
        let mut pipeline = redis::pipe();
        pipeline.cmd("UNWATCH");
        if let Ok([Value::Okay]) = send(&mut self.0, &pipeline).await {
            self.0.is_half_open = false;
        }
    }

    /// Runs the script if the key is still as it was read; `with_source` once the server has said that it does not
    /// know it. All of it is one write, so that no other thing can stop it in the middle but the end of the connection.
    pub async fn exec(
        mut self,
        script: &Script,
        call: &Cmd,
        with_source: bool,
    ) -> Result<Executed, StoreError> {
        let _span = spans::script(script.name);
        let call = if with_source { script.with_source(call) } else { call.clone() };
        let mut pipeline = redis::pipe();
        pipeline.cmd("MULTI").add_command(call).cmd("EXEC");
        let [begun, queued, executed] = send(&mut self.0, &pipeline).await?;
        // Whatever EXEC was answered, the transaction is over, and nothing is watched any more.
        self.0.is_half_open = false;
        if !self.0.is_replicated().await
            && let Some(durability) = Durability::of_request()
        {
            durability.fell_short();
        }
        let said = || -> RedisResult<Value> {
            begun.extract_error()?;
            queued.extract_error()?;
            match executed.extract_error()? {
                Value::Array(mut answers) => answers.pop().unwrap_or(Value::Nil).extract_error(),
                other => Ok(other),
            }
        };
        match said() {
            Ok(Value::Nil) => Ok(Executed::Lost),
            Ok(answer) => Ok(Executed::Done(answer)),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                Ok(Executed::NoScript)
            }
            Err(error) => {
                self.0.note(&error);
                Err(error.into())
            }
        }
    }
}

/// Commands in one write, and an answer of each; error replies are answers.
async fn send<const N: usize>(
    lease: &mut Lease,
    pipeline: &redis::Pipeline,
) -> Result<[Value; N], StoreError> {
    let answers = lease.inner.req_packed_commands(pipeline, 0, N).await.map_err(|error| {
        lease.note(&error);
        StoreError::from(error)
    })?;
    answers.try_into().map_err(|_| StoreError::Unknown("another number of answers".into()))
}
