//! What can keep the engine from running.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no engine. Each text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A file of the data folder, or the server program, could not be used.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `service.lock` is held.
    #[error(
        "another stockade service is running on {dir}: stop it, or choose another STOCKADE_DATA_DIR",
        dir = .0.display()
    )]
    ServiceRunning(PathBuf),
    /// Nothing to run: not in `PATH`, nor in `.tools/bin` of this folder or of the program's.
    #[error(
        "no redis-server or valkey-server found: install Redis 7.0 or newer (apt install redis-server, or \
         scripts/setup.sh run), name one in STOCKADE_REDIS_SERVER, or give a STOCKADE_REDIS_URL"
    )]
    NoServer,
    /// The server does not know what the scripts need.
    #[error("{path} is version {version}: Redis or Valkey 7.0 or newer is needed", path = path.display())]
    TooOld {
        /// The server.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// `--version` did not answer like Redis or Valkey.
    #[error("{path} is not a Redis or Valkey server", path = .0.display())]
    NotAServer(PathBuf),
    /// The engine ended while it started.
    #[error("the engine stopped while starting ({status}): {last_line} (see {log})", log = log.display())]
    Exited {
        /// How it ended.
        status: String,
        /// The last line it wrote.
        last_line: String,
        /// Where it writes.
        log: PathBuf,
    },
    /// `engine.lock` is held, but nobody answers.
    #[error(
        "an engine is there (it holds {lock}) but has not answered for {waited:?}: it may be frozen; no \
         second one was started (see {log})",
        lock = lock.display(), log = log.display()
    )]
    Silent {
        /// The lock it holds.
        lock: PathBuf,
        /// Where it writes.
        log: PathBuf,
        /// How long it was silent, or loading.
        waited: Duration,
    },
    /// It was asked to stop and still holds `engine.lock`.
    #[error("the engine did not stop within {waited:?} and was left running: the next start attaches to it")]
    StillRunning {
        /// How long it was waited for.
        waited: Duration,
    },
    /// An unknown `STOCKADE_REDIS_APPENDFSYNC`.
    #[error("STOCKADE_REDIS_APPENDFSYNC is {value:?}: always, everysec or no is needed")]
    AppendFsync {
        /// What was given.
        value: String,
    },
}

/// Adds the path, without which what the system says helps nobody.
pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> EngineError + use<> {
    let path = path.to_owned();
    move |source| EngineError::Io { path, source }
}
