//! One server, and its connections. A connection that timed out or was cut is never used again.

use super::PoolConfig;
use super::address::Address;
use crate::metrics::Metrics;
use crate::store::error::StoreError;
use bb8_redis::bb8;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub, SendError};
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server.
pub struct Node {
    /// Host and port, as the cluster knows it.
    pub name: String,
    address: Arc<Address>,
    config: PoolConfig,
    pool: bb8::Pool<Manager>,
    /// When it last gave no connection.
    failed_at: Mutex<Option<Instant>>,
}

/// So long a replica that gave no connection is left alone.
const FAILED_FOR: Duration = Duration::from_secs(1);

impl Node {
    /// Connects when it is first used.
    pub fn open(name: String, address: Address, config: &PoolConfig, metrics: &Arc<Metrics>) -> Arc<Self> {
        let address = Arc::new(address);
        let manager = Manager {
            address: Arc::clone(&address),
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(config.wait_timeout))
                .set_response_timeout(Some(config.response_timeout)),
            metrics: Arc::clone(metrics),
        };
        let pool = bb8::Pool::builder()
            .max_size(config.size)
            .min_idle(Some(0))
            .test_on_check_out(true)
            .connection_timeout(config.wait_timeout)
            .retry_connection(true)
            .error_sink(Box::new(Complaints::default()))
            .build_unchecked(manager);
        Arc::new(Self { name, address, config: config.clone(), pool, failed_at: Mutex::default() })
    }

    /// Whether another server may stand there a moment later.
    pub fn may_change(&self) -> bool {
        self.address.may_change()
    }

    /// From the pool; not applied when none can be had in time.
    pub async fn connection(&self) -> Result<Held, StoreError> {
        let Ok(connection) = self.pool.get_owned().await else {
            *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            return Err(StoreError::unreachable());
        };
        connection.metrics.pool_connections("idle", -1);
        connection.metrics.pool_connections("in_use", 1);
        Ok(Held(connection))
    }

    /// Whether it has not failed a moment ago.
    pub fn is_promising(&self) -> bool {
        let failed_at = *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_none_or(|at| at.elapsed() >= FAILED_FOR)
    }

    /// Outside the pool, for calls that may block the connection for up to `blocking`.
    pub async fn alone(&self, blocking: Duration) -> RedisResult<MultiplexedConnection> {
        let timeouts = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.config.wait_timeout))
            .set_response_timeout(Some(blocking + self.config.response_timeout));
        Ok(self.address.connect(&timeouts).await?.0)
    }

    /// Outside the pool, for the messages of a channel.
    pub async fn subscribe(&self, channel: &str) -> RedisResult<PubSub> {
        let subscribing = async {
            let mut subscriber = self.address.client().await?.get_async_pubsub().await?;
            subscriber.subscribe(channel).await?;
            Ok(subscriber)
        };
        let late = |_| RedisError::from((ErrorKind::Io, "no answer"));
        tokio::time::timeout(self.config.wait_timeout, subscribing).await.map_err(late)?
    }
}

/// Makes connections and knows when one is broken.
pub struct Manager {
    address: Arc<Address>,
    config: AsyncConnectionConfig,
    metrics: Arc<Metrics>,
}

/// A connection that remembers whether it can still be trusted.
pub struct Connection {
    pub(in crate::store) inner: MultiplexedConnection,
    /// Where it leads.
    server: String,
    broken: bool,
    /// It watches a key, or is between MULTI and EXEC: its next user would inherit that.
    pub(in crate::store) is_half_open: bool,
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
pub struct Held(bb8::PooledConnection<'static, Manager>);

impl Deref for Held {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl Drop for Held {
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
        let (inner, server) = Box::pin(self.address.connect(&config)).await?;
        self.metrics.pool_connections("idle", 1);
        let metrics = Arc::clone(&self.metrics);
        Ok(Connection { inner, server, broken: false, is_half_open: false, gone, metrics })
    }

    /// Without a round trip, but for a look after the master where Sentinels name it. A restart of Redis leaves a pool
    /// full of dead connections: each would cost its next request an unknown outcome.
    async fn is_valid(&self, connection: &mut Connection) -> Result<(), RedisError> {
        if connection.gone.load(Ordering::Relaxed) {
            return Err((ErrorKind::Io, "closed by the server while it was idle").into());
        }
        if !self.address.is_still(&connection.server).await {
            return Err((ErrorKind::Io, "another server is the master now").into());
        }
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.broken || connection.is_half_open || connection.gone.load(Ordering::Relaxed)
    }
}

impl Connection {
    /// Looks at an error: whether the connection can be used again.
    pub(in crate::store) fn note(&mut self, error: &RedisError) {
        let restarting = matches!(error.code(), Some("READONLY" | "LOADING" | "NOAUTH"));
        self.broken |=
            error.is_unrecoverable_error() || error.is_timeout() || error.is_io_error() || restarting;
    }

    /// Commands in one write; each has its own answer. With `asking` each may be about a slot that is on its way here.
    pub(super) async fn send_all(&mut self, cmds: &[&Cmd], asking: bool) -> Vec<RedisResult<Value>> {
        let sent = cmds.iter().map(|cmd| {
            let mut connection = self.inner.clone();
            async move {
                if !asking {
                    return connection.req_packed_command(cmd).await.and_then(Value::extract_error);
                }
                let mut pipeline = redis::pipe();
                pipeline.cmd("ASKING").add_command((*cmd).clone());
                let mut answers = connection.req_packed_commands(&pipeline, 0, 2).await?;
                answers.pop().unwrap_or(Value::Nil).extract_error()
            }
        });
        futures_util::future::join_all(sent).await
    }
}
