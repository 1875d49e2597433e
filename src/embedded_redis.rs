//! The embedded engine: a private `redis-server` (or `valkey-server`) that Stockade starts when no Redis URL
//! is given.
//!
//! It is the real server, in a process of its own. It may outlive the service that started it (`kill -9`), so
//! who owns the data folder is decided by two file locks, which the kernel releases when their holders die,
//! and never by a pid file:
//!
//! * `service.lock` is held by the one [`Role::Service`] that uses the folder. It is close-on-exec: no child
//!   keeps it.
//! * `engine.lock` is held by the engine. It receives the locked file as its standard input, so the lock
//!   lives exactly as long as the engine and the children it forks to rewrite its log. Busy means that an
//!   engine is there, perhaps loading or frozen: attach and wait. Free means that there is none: start one. A
//!   second engine on the same files is impossible.

mod error;
mod launch;
mod locks;
mod options;

use std::fs::{DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tracing::{error, info, warn};

pub use error::EngineError;
use error::io_error;
pub use launch::find_server;
use locks::{try_lock_engine, try_lock_service};
pub use options::{AppendFsync, Options, Role};

const LOG_FILE: &str = "stockade-redis.log";
const SOCKET_FILE: &str = "stockade.sock";

/// Longest path of a Unix socket: `sun_path` has 108 bytes, the last one is zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longer than the engine's own `shutdown-timeout` of 10 s.
const STOP_WAIT: Duration = Duration::from_secs(15);
const REAP_WAIT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const SUPERVISE_INTERVAL: Duration = Duration::from_millis(100);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A running engine, and the right to use it.
///
/// Dropped without [`EmbeddedRedis::stop`] it leaves the engine running, as a crash would: the next start
/// attaches to it.
#[derive(Debug)]
pub struct EmbeddedRedis {
    data_dir: PathBuf,
    role: Role,
    options: Options,
    /// The engine, if it is our child: kept to collect its exit. A tool that has none attached to an engine
    /// of somebody else.
    child: Mutex<Option<Child>>,
    /// Open for as long as [`EmbeddedRedis::socket_path`] may lead through it.
    dir: File,
    /// Held, not read: `service.lock` is free again when this is closed.
    _service_lock: Option<File>,
}

enum Answer {
    Ready,
    Loading,
    Silent,
}

impl EmbeddedRedis {
    /// Makes sure that an engine runs in `data_dir` and answers, with [`Options::from_env`].
    pub async fn start(data_dir: &Path, role: Role) -> Result<Self, EngineError> {
        Self::start_with(data_dir, role, Options::from_env()?).await
    }

    /// As [`EmbeddedRedis::start`], with given options.
    pub async fn start_with(data_dir: &Path, role: Role, options: Options) -> Result<Self, EngineError> {
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(io_error(data_dir))?;
        let data_dir = data_dir.canonicalize().map_err(io_error(data_dir))?;
        let dir = File::open(&data_dir).map_err(io_error(&data_dir))?;
        let service_lock = match role {
            Role::Service => Some(locks::lock_service(&data_dir).await?),
            Role::Tool => None,
        };
        let engine =
            Self { data_dir, role, options, child: Mutex::new(None), dir, _service_lock: service_lock };
        engine.ensure_running().await?;
        Ok(engine)
    }

    /// Redis URL of the engine. Valid in this process only (see [`EmbeddedRedis::socket_path`]).
    pub fn url(&self) -> String {
        let path = self.socket_path();
        let mut url = String::from("unix://");
        for &byte in path.as_os_str().as_bytes() {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'~' => url.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
                _ => url.push_str(&format!("%{byte:02X}")),
            }
        }
        url
    }

    /// The engine's socket. Where its real path is too long for the system, it leads through our open handle
    /// on the folder.
    pub fn socket_path(&self) -> PathBuf {
        let path = self.data_dir.join(SOCKET_FILE);
        if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return path;
        }
        PathBuf::from(format!("/proc/self/fd/{}/{SOCKET_FILE}", self.dir.as_raw_fd()))
    }

    /// Watches the engine and restarts it when it has died; never returns. For services, beside the server:
    /// `tokio::select! { ended = server => ended, never = engine.supervise() => match never {} }`. May be
    /// dropped at any point.
    pub async fn supervise(&self) -> std::convert::Infallible {
        let mut pause = SUPERVISE_INTERVAL;
        let mut reported = false;
        loop {
            tokio::time::sleep(pause).await;
            match try_lock_engine(&self.data_dir) {
                Ok(None) => continue,
                // Dead. The lock is let go here and taken again below: in between nobody but a tool could
                // start an engine, and that one would do.
                Ok(Some(free)) => drop(free),
                Err(failed) => {
                    pause = (pause * 2).min(RESTART_PAUSE_MAX);
                    warn!("Cannot see whether the engine is alive: {failed}");
                    continue;
                }
            }
            if !reported {
                let ended = self.reap().await.map_or_else(|| "not our child".to_owned(), |it| it.to_string());
                warn!("The engine has died ({ended}): restarting it");
            }
            let since = Instant::now();
            reported = match self.ensure_running().await {
                Ok(()) => {
                    pause = SUPERVISE_INTERVAL;
                    info!("The engine is back after {} ms", since.elapsed().as_millis());
                    false
                }
                Err(failed) => {
                    pause = (pause * 2).min(RESTART_PAUSE_MAX);
                    error!("The engine does not come back, next try in {pause:?}: {failed}");
                    true
                }
            }
        }
    }

    /// Stops the engine and waits until its lock is free.
    ///
    /// A tool stops only an engine that it started, and leaves even that one to a service that has come to
    /// use it meanwhile.
    pub async fn stop(self) -> Result<(), EngineError> {
        let ours = self.child().is_some();
        let _keeps_services_out = match self.role {
            Role::Service => None,
            Role::Tool if !ours => return Ok(()),
            Role::Tool => match try_lock_service(&self.data_dir)? {
                None => return Ok(()),
                lock => lock,
            },
        };
        let since = Instant::now();
        while since.elapsed() < STOP_WAIT {
            // The log is written and synced all the same: NOSAVE is about snapshots, and there are none.
            let _closes_without_an_answer = self.command("SHUTDOWN NOSAVE").await;
            let patience = Instant::now();
            while patience.elapsed() < Duration::from_secs(1) {
                if try_lock_engine(&self.data_dir)?.is_some() {
                    self.reap().await;
                    return Ok(());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Err(EngineError::StillRunning { waited: STOP_WAIT })
    }

    /// Attach or start, then wait until it answers. The engine's lock decides, again and again: the engine
    /// found at first may be one that is just leaving.
    async fn ensure_running(&self) -> Result<(), EngineError> {
        let since = Instant::now();
        let mut silent_since = since;
        let mut started = false;
        loop {
            if let Some(lock) = try_lock_engine(&self.data_dir)? {
                if started {
                    return Err(self.exited().await);
                }
                *self.child() = Some(launch::spawn(&self.data_dir, &self.options, lock)?);
                started = true;
            }
            match self.ping().await {
                Answer::Ready if started => return Ok(()),
                Answer::Ready => return self.adopt().await,
                Answer::Loading if since.elapsed() < self.options.load_within => {
                    silent_since = Instant::now()
                }
                Answer::Loading | Answer::Silent => {}
            }
            let waited = silent_since.elapsed();
            if waited >= self.options.answer_within {
                return Err(EngineError::Silent {
                    lock: self.data_dir.join(locks::ENGINE_LOCK_FILE),
                    log: self.data_dir.join(LOG_FILE),
                    waited,
                });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Takes over an engine that was started by another process, perhaps with weaker settings than ours.
    async fn adopt(&self) -> Result<(), EngineError> {
        info!("Attached to the engine that runs in {}", self.data_dir.display());
        if self.role == Role::Service {
            let appendfsync = self.options.appendfsync.as_str();
            let maxmemory = launch::maxmemory_bytes();
            let settings = format!("CONFIG SET appendfsync {appendfsync} maxmemory {maxmemory}");
            if let Err(refused) = self.command(&settings).await {
                warn!("The engine keeps the settings it was started with: {refused}");
            }
        }
        Ok(())
    }

    async fn ping(&self) -> Answer {
        match self.command("PING").await {
            Ok(_) => Answer::Ready,
            Err(refusal) if refusal.kind() == ErrorKind::Server(ServerErrorKind::BusyLoading) => {
                Answer::Loading
            }
            // Any other reply (BUSY, MISCONF) comes from a server that is up; what it refuses is for its
            // users to say.
            Err(refusal) if matches!(refusal.kind(), ErrorKind::Server(_)) => Answer::Ready,
            Err(_) => Answer::Silent,
        }
    }

    /// Runs one command, given as words, on a connection of its own with the driver's short timeouts.
    async fn command(&self, words: &str) -> Result<redis::Value, RedisError> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut command = redis::Cmd::new();
        command.arg(words.split(' ').collect::<Vec<_>>());
        command.query_async(&mut connection).await
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collects our child, whose lock is free and which is therefore at its very end, so that no zombie stays.
    async fn reap(&self) -> Option<ExitStatus> {
        let mut child = self.child().take()?;
        let since = Instant::now();
        while since.elapsed() < REAP_WAIT {
            if let Some(status) = child.try_wait().ok()? {
                return Some(status);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        None
    }

    async fn exited(&self) -> EngineError {
        let log = self.data_dir.join(LOG_FILE);
        let status = self.reap().await.map_or_else(|| "unknown".to_owned(), |it| it.to_string());
        let last_line = launch::last_line(&log).unwrap_or_else(|| "no log".to_owned());
        EngineError::Exited { status, last_line, log }
    }
}
