//! A connection in use, and where it turns when a server says that the slot is elsewhere.

use super::connection::Held;
use super::{Connection, Pool, Servers, Slot, call};
use crate::store::error::StoreError;
use crate::trace::spans;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Before each of the replays. A slot that moves key by key refuses for longer than this: that is told then.
const REPLAY_PAUSES_MS: [u64; 7] = [0, 5, 10, 20, 40, 80, 160];

/// A connection to whoever has a slot; it goes back to its pool when this is dropped.
pub struct Lease {
    pool: Pool,
    slot: Slot,
    held: Held,
    /// How often it was sent elsewhere.
    pub(super) turns: usize,
}

impl Deref for Lease {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.held
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.held
    }
}

/// Whether a server that refuses so has run nothing and another one, or the same a moment later, may do it.
fn is_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::*;
    let ErrorKind::Server(kind) = error.kind() else { return false };
    matches!(kind, Moved | Ask | TryAgain | ClusterDown | ReadOnly | BusyLoading)
}

/// Whether WAIT found one.
pub(super) fn has_replica(waited: Option<RedisResult<Value>>) -> bool {
    matches!(waited, Some(Ok(Value::Int(replicas))) if replicas > 0)
}

impl Lease {
    pub(super) fn new(pool: Pool, slot: Slot, held: Held) -> Self {
        Self { pool, slot, held, turns: 0 }
    }

    /// One command.
    pub async fn query(&mut self, cmd: &Cmd) -> Result<Value, StoreError> {
        let span = spans::command(|| call::name_of(cmd));
        self.send(cmd).await.map_err(|error| {
            self.held.note(&error);
            let error = StoreError::from(error);
            spans::failed(&span, error.code());
            error
        })
    }

    /// Several commands in one write; each has its own answer. In a cluster all must be about slots of this server.
    pub async fn query_all(&mut self, cmds: &[&Cmd]) -> Vec<Result<Value, StoreError>> {
        let mut answers = Vec::with_capacity(cmds.len());
        for (answer, cmd) in self.held.send_all(cmds, false).await.into_iter().zip(cmds) {
            answers.push(match answer {
                Ok(answer) => Ok(answer),
                Err(error) => {
                    self.held.note(&error);
                    // Each turns by itself: they may be about several slots.
                    if is_elsewhere(&error) {
                        self.pool.query_again(cmd, &error).await
                    } else {
                        Err(error.into())
                    }
                }
            });
        }
        answers
    }

    pub(super) async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        // There are as many answers as commands.
        self.send_all(&[cmd]).await.pop().unwrap_or(Ok(Value::Nil))
    }

    /// Sends, and sends again what was refused by a server that is not the one to ask. Nothing else is ever sent twice.
    pub(super) async fn send_all(&mut self, cmds: &[&Cmd]) -> Vec<RedisResult<Value>> {
        let mut answers = self.held.send_all(cmds, false).await;
        for pause in REPLAY_PAUSES_MS {
            let is_refused = |answer: &RedisResult<Value>| answer.as_ref().is_err_and(is_elsewhere);
            let refused: Vec<usize> = (0..answers.len()).filter(|at| is_refused(&answers[*at])).collect();
            let Some(Err(error)) = refused.first().map(|at| &answers[*at]) else { break };
            // Boxed: it is rare, and would make every call's future as large as its own.
            let Some(asking) = Box::pin(self.turn(error, pause)).await else { break };
            let again: Vec<&Cmd> = refused.iter().map(|at| cmds[*at]).collect();
            for (at, answer) in refused.into_iter().zip(self.held.send_all(&again, asking).await) {
                answers[at] = answer;
            }
        }
        answers
    }

    /// WAIT, where what is written is to be on a replica, too.
    pub(super) fn wait(&self) -> Option<Cmd> {
        let timeout = self.pool.replica_timeout?;
        let mut wait = redis::cmd("WAIT");
        wait.arg(1).arg(timeout.as_millis() as u64);
        Some(wait)
    }

    /// Whether a replica has all that was done on this connection; true where nobody asks.
    pub(in crate::store) async fn is_replicated(&mut self) -> bool {
        match self.wait() {
            Some(wait) => has_replica(self.held.send_all(&[&wait], false).await.pop()),
            None => true,
        }
    }

    /// Turns to where the error sends us; whether that must be told that we were sent. None: there is nowhere to go.
    pub(in crate::store) async fn turn(&mut self, error: &RedisError, pause_ms: u64) -> Option<bool> {
        self.turns += 1;
        let is_to_wait = match &*self.pool.servers {
            // It says so until it is through with its data.
            Servers::One(node, _) if !node.may_change() => return None,
            Servers::One(..) => {
                // Other than the one that we have: that is a replica by now.
                self.held.note(error);
                true
            }
            Servers::Cluster(cluster) => {
                if let Some(node) = cluster.sent_to(error) {
                    self.held = node.connection().await.ok()?;
                    return Some(true);
                }
                !cluster.heed(error)
            }
        };
        if is_to_wait && pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        self.held = self.pool.servers.connection(self.slot).await.ok()?;
        Some(false)
    }
}
