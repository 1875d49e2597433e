//! Connections: a bb8 pool with a manager of our own, because bb8-redis 0.26 cannot see a broken connection, cannot
//! set timeouts, and leaves TCP_NODELAY off. A connection that timed out or was cut is never used again.

mod address;
mod call;

use address::Address;
pub use call::Call;

use super::error::StoreError;
use crate::metrics::Metrics;
use crate::trace::spans;
use bb8_redis::bb8;
use futures_util::{Stream, StreamExt};
use redis::aio::{ConnectionLike, MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where Redis is, and how long we wait for it.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// `redis://`, `rediss://`, `unix://` or `redis+sentinel://`.
    pub url: String,
    /// Most connections of one pool (a process has one pool a worker thread).
    pub size: u32,
    /// An answer later than this is an unknown outcome.
    pub response_timeout: Duration,
    /// A call that gets no connection within this is not applied.
    pub wait_timeout: Duration,
}

/// Makes connections and knows when one is broken.
pub struct Manager {
    address: Address,
    config: AsyncConnectionConfig,
    metrics: Arc<Metrics>,
}

/// A connection that remembers whether it can still be trusted.
pub struct Connection {
    pub(super) inner: MultiplexedConnection,
    broken: bool,
    /// It watches a key, or is between MULTI and EXEC: its next user would inherit that.
    pub(super) is_half_open: bool,
    /// Set by the driver when the other end has gone, also while the connection lies idle.
    gone: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.metrics.pool_connections("idle", -1);
    }
}

/// A connection that is in use; it goes back to its pool when this is dropped.
pub struct Lease<'a>(bb8::PooledConnection<'a, Manager>);

impl Deref for Lease<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.0.metrics.pool_connections("in_use", -1);
        self.0.metrics.pool_connections("idle", 1);
    }
}

/// Says why a connection could not be made: the caller is told only that it got none.
#[derive(Debug, Clone, Default)]
struct Complaints(Arc<Mutex<Option<Instant>>>);

impl bb8::ErrorSink<RedisError> for Complaints {
    fn sink(&self, error: RedisError) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|at| at.elapsed() >= COMPLAINT_EVERY) {
            *last = Some(Instant::now());
            tracing::warn!(?error, "Cannot connect to Redis: {error}");
        }
    }

    fn boxed_clone(&self) -> Box<dyn bb8::ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}

/// While Redis is away every attempt fails: one line tells it.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// A bounded set of connections.
pub type Pool = bb8::Pool<Manager>;

impl bb8::ManageConnection for Manager {
    type Connection = Connection;
    type Error = RedisError;

    async fn connect(&self) -> Result<Connection, RedisError> {
        let gone = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&gone);
        let config = self.config.clone().set_push_sender(move |push: PushInfo| {
            watched.fetch_or(push.kind == PushKind::Disconnection, Ordering::Relaxed);
            Ok::<(), SendError>(())
        });
        let inner = self.address.connect(&config).await?;
        self.metrics.pool_connections("idle", 1);
        Ok(Connection { inner, broken: false, is_half_open: false, gone, metrics: Arc::clone(&self.metrics) })
    }

    /// Without a round trip. A restart of Redis leaves a pool full of dead connections: each would cost its next
    /// request an unknown outcome.
    async fn is_valid(&self, connection: &mut Connection) -> Result<(), RedisError> {
        if connection.gone.load(Ordering::Relaxed) {
            return Err((ErrorKind::Io, "closed by the server while it was idle").into());
        }
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.broken || connection.is_half_open || connection.gone.load(Ordering::Relaxed)
    }
}

/// A connection outside any pool, for calls that may block the connection for up to `blocking`.
pub async fn alone(config: &PoolConfig, blocking: Duration) -> Result<MultiplexedConnection, RedisError> {
    let timeouts = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.wait_timeout))
        .set_response_timeout(Some(blocking + config.response_timeout));
    Address::of(&config.url)?.connect(&timeouts).await
}

/// Messages of a channel, on a connection outside any pool, until that ends.
pub async fn subscribe(
    config: &PoolConfig,
    channel: &str,
) -> Result<impl Stream<Item = String> + Unpin + use<>, StoreError> {
    let subscribing = async {
        let mut subscriber = Address::of(&config.url)?.client().await?.get_async_pubsub().await?;
        subscriber.subscribe(channel).await?;
        Ok::<_, RedisError>(subscriber)
    };
    let subscriber = tokio::time::timeout(config.wait_timeout, subscribing).await;
    let subscriber =
        subscriber.map_err(|_| StoreError::unreachable())?.map_err(|_| StoreError::unreachable())?;
    let text = |message: redis::Msg| message.get_payload::<String>().unwrap_or_default();
    Ok(subscriber.into_on_message().map(text))
}

/// A pool that connects when it is first used. Errors when the URL is not one.
pub fn open(config: &PoolConfig, metrics: &Arc<Metrics>) -> Result<Pool, RedisError> {
    let manager = Manager {
        address: Address::of(&config.url)?,
        config: AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.wait_timeout))
            .set_response_timeout(Some(config.response_timeout)),
        metrics: Arc::clone(metrics),
    };
    Ok(bb8::Pool::builder()
        .max_size(config.size)
        .min_idle(Some(0))
        .test_on_check_out(true)
        .connection_timeout(config.wait_timeout)
        .retry_connection(true)
        .error_sink(Box::new(Complaints::default()))
        .build_unchecked(manager))
}

/// A connection from the pool; not applied when none can be had in time.
pub async fn get(pool: &Pool) -> Result<Lease<'_>, StoreError> {
    let connection = pool.get().await.map_err(|_| StoreError::unreachable())?;
    connection.metrics.pool_connections("idle", -1);
    connection.metrics.pool_connections("in_use", 1);
    Ok(Lease(connection))
}

impl Connection {
    pub(super) fn note(&mut self, error: &RedisError) {
        let restarting = matches!(error.code(), Some("READONLY" | "LOADING" | "NOAUTH"));
        self.broken |=
            error.is_unrecoverable_error() || error.is_timeout() || error.is_io_error() || restarting;
    }

    /// One command.
    pub async fn query(&mut self, cmd: &Cmd) -> Result<Value, StoreError> {
        let span = spans::command(|| call::name_of(cmd));
        let answer = self.inner.req_packed_command(cmd).await.and_then(Value::extract_error);
        answer.map_err(|error| {
            self.note(&error);
            let error = StoreError::from(error);
            spans::failed(&span, error.code());
            error
        })
    }

    /// Several commands in one write; each has its own answer.
    pub async fn query_all(&mut self, cmds: &[Cmd]) -> Vec<Result<Value, StoreError>> {
        let answers = self.send_all(cmds.iter()).await;
        answers
            .into_iter()
            .map(|answer| {
                answer.map_err(|error| {
                    self.note(&error);
                    error.into()
                })
            })
            .collect()
    }

    async fn send_all(&mut self, cmds: impl Iterator<Item = &Cmd>) -> Vec<RedisResult<Value>> {
        let sent = cmds.map(|cmd| {
            let mut connection = self.inner.clone();
            async move { connection.req_packed_command(cmd).await.and_then(Value::extract_error) }
        });
        futures_util::future::join_all(sent).await
    }
}
