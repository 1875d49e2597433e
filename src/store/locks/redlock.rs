//! Redlock: a lock on several independent Redis servers, of which a majority is enough
//! (`docs/adr/0024-redlock.md`). It knows nothing of fences; `majority` adds them.

use crate::domain::lock::LOCK_NODES_MIN;
use crate::domain::{LockName, LockToken};
use crate::store::keys;
use crate::store::scripts::{Script, Scripts};
use futures_util::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// What a server that does not answer costs a call at most; a short lease waits for a quarter of it.
const NODE_TIMEOUT: Duration = Duration::from_millis(200);
/// Clocks of servers may differ in their rate by this part of a lease, and by a bit more.
const DRIFT: (u32, Duration) = (100, Duration::from_millis(2));

/// The servers.
#[derive(Debug)]
pub struct Redlock {
    nodes: Vec<Node>,
    scripts: Scripts,
}

/// One of them.
#[derive(Debug)]
struct Node {
    client: Client,
    /// One connection, also after an answer that did not come in time: what gives a lock back must not overtake what
    /// took it.
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// Why there is no majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMajority {
    /// Others have it, or it is over.
    #[error("a majority of the servers says no")]
    Refused,
    /// Too few servers answer, or too late.
    #[error("no majority of the servers answers")]
    Away,
}

/// What a majority has granted. It counts from the moment when the first server was asked.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    /// When that was.
    pub since: Instant,
    ttl: Duration,
    /// Some server had it already: another call of the same token relies on that.
    pub(super) is_repeat: bool,
}

impl Granted {
    /// What is left of it; None: nothing that could be relied upon.
    pub fn validity(&self) -> Option<Duration> {
        validity(self.ttl, self.since.elapsed())
    }
}

fn validity(ttl: Duration, elapsed: Duration) -> Option<Duration> {
    let drift = ttl / DRIFT.0 + DRIFT.1;
    ttl.checked_sub(elapsed)?.checked_sub(drift).filter(|left| left.as_millis() > 0)
}

impl Redlock {
    /// Connects when it is first used. Errors when a URL is not one, or there are too few.
    pub fn open<T: AsRef<str>>(urls: &[T]) -> Result<Self, RedisError> {
        if urls.len() < LOCK_NODES_MIN {
            return Err((ErrorKind::InvalidClientConfig, "Redlock needs at least 3 servers").into());
        }
        let node = |url: &T| Ok(Node { client: Client::open(url.as_ref())?, connection: Mutex::default() });
        Ok(Self { nodes: urls.iter().map(node).collect::<RedisResult<_>>()?, scripts: Scripts::new() })
    }

    fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Asks all servers at the same time; None: no answer in time.
    async fn ask(
        &self,
        script: &Script,
        name: &LockName,
        args: &[String],
        within: Duration,
    ) -> Vec<Option<String>> {
        let [key, _] = keys::free_lock(name);
        let mut cmd = script.call(1);
        cmd.arg(key).arg(args);
        join_all(self.nodes.iter().map(|node| node.ask(script, &cmd, within))).await
    }

    async fn ask_for(
        &self,
        script: &Script,
        name: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> (Instant, Vec<Option<String>>) {
        let since = Instant::now();
        let args = [token.to_string(), ttl.as_millis().to_string()];
        (since, self.ask(script, name, &args, NODE_TIMEOUT.min(ttl / 4)).await)
    }

    fn count(&self, answers: &[Option<String>], yes: &[&str]) -> Result<(), NoMajority> {
        let answered = answers.iter().flatten();
        match answered.clone().filter(|word| yes.contains(&word.as_str())).count() {
            granted if granted >= self.quorum() => Ok(()),
            _ if answered.count() >= self.quorum() => Err(NoMajority::Refused),
            _ => Err(NoMajority::Away),
        }
    }

    /// Takes the lock on a majority, or leaves it on none. The same token again counts.
    pub async fn acquire(
        &self,
        name: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Granted, NoMajority> {
        let (since, answers) = self.ask_for(&self.scripts.take_node, name, token, ttl).await;
        let is_repeat = answers.iter().flatten().any(|word| word == "own");
        let granted = Granted { since, ttl, is_repeat };
        let counted = self.count(&answers, &["taken", "own"]);
        let counted = counted.and_then(|()| granted.validity().map(drop).ok_or(NoMajority::Away));
        match counted {
            Ok(()) => Ok(granted),
            Err(no) => {
                self.undo(name, token, is_repeat).await;
                Err(no)
            }
        }
    }

    /// Gives back what a call has taken that has failed after all, unless it was there before.
    pub(super) async fn undo(&self, name: &LockName, token: &LockToken, is_repeat: bool) {
        if !is_repeat {
            self.release(name, token).await;
        }
    }

    /// Makes it last longer on a majority, never shorter.
    pub async fn renew(
        &self,
        name: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Granted, NoMajority> {
        let (since, answers) = self.ask_for(&self.scripts.extend_node, name, token, ttl).await;
        self.count(&answers, &["extended"])?;
        let granted = Granted { since, ttl, is_repeat: true };
        granted.validity().map(|_| granted).ok_or(NoMajority::Away)
    }

    /// Gives it back on all servers, whatever they have answered before.
    pub async fn release(&self, name: &LockName, token: &LockToken) {
        let answers = self.ask(&self.scripts.drop_node, name, &[token.to_string()], NODE_TIMEOUT).await;
        let known = |word: &String| ["dropped", "gone"].contains(&word.as_str());
        let away = answers.iter().filter(|answer| !answer.as_ref().is_some_and(known)).count();
        if away > 0 {
            tracing::warn!(%name, away, "A lock was left to its end on some servers");
        }
    }
}

impl Node {
    async fn ask(&self, script: &Script, cmd: &Cmd, within: Duration) -> Option<String> {
        let answer = tokio::time::timeout(within, async {
            match self.call(script, cmd).await {
                // A server that was restarted is there again. Each call may be repeated.
                Err(error) if error.is_unrecoverable_error() => self.call(script, cmd).await,
                answer => answer,
            }
        });
        match answer.await {
            Ok(Ok(words)) => words.into_iter().next(),
            Ok(Err(error)) => {
                tracing::warn!(?error, "A server of the locks does not answer: {error}");
                None
            }
            Err(_) => None,
        }
    }

    async fn call(&self, script: &Script, cmd: &Cmd) -> RedisResult<Vec<String>> {
        let mut connection = self.connect().await?;
        let mut answer = connection.req_packed_command(cmd).await.and_then(Value::extract_error);
        let unknown = ErrorKind::Server(ServerErrorKind::NoScript);
        if answer.as_ref().is_err_and(|error| error.kind() == unknown) {
            let call = script.with_source(cmd);
            answer = connection.req_packed_command(&call).await.and_then(Value::extract_error);
        }
        if answer.as_ref().is_err_and(RedisError::is_unrecoverable_error) {
            *self.connection.lock().await = None;
        }
        Ok(redis::from_redis_value(answer?)?)
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(NODE_TIMEOUT))
            .set_response_timeout(Some(NODE_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(held.insert(connection).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_lease_without_the_time_that_passed_and_without_the_drift() {
        let ms = Duration::from_millis;
        assert_eq!(validity(ms(10_000), ms(0)), Some(ms(9_898)));
        assert_eq!(validity(ms(10_000), ms(50)), Some(ms(9_848)));
        assert_eq!(validity(ms(10_000), ms(9_897)), Some(ms(1)));
        for late in [9_898, 9_999, 10_000, 10_001, 60_000] {
            assert_eq!(validity(ms(10_000), ms(late)), None, "{late}");
        }
    }

    #[test]
    fn two_servers_are_too_few() {
        let urls = ["redis://a", "redis://b", "redis://c"];
        assert!(Redlock::open(&urls[..2]).is_err() && Redlock::open(&urls).is_ok());
        assert!(Redlock::open(&["redis://a", "redis://b", "c:d:e"]).is_err());
    }
}
