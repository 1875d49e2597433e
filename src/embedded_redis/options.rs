//! For whom and how the engine is to run.

use std::path::PathBuf;
use std::time::Duration;

use super::EngineError;

/// Who uses the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `stockade serve`: at most one a folder. Stops the engine when it stops, whoever started it.
    Service,
    /// A short command such as `stockade audit`: attaches to a running engine, or starts one for its own run.
    Tool,
}

/// When the engine forces its log to disk. Only `Always` keeps what is promised for an answered write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppendFsync {
    /// Before each answer.
    #[default]
    Always,
    /// Once a second: a power cut loses up to two seconds of answered writes.
    EverySec,
    /// When the system likes to: for measuring what the disk costs, never for a sale.
    No,
}

impl AppendFsync {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySec => "everysec",
            Self::No => "no",
        }
    }
}

/// How to start the engine; [`Options::from_env`] is what the program uses.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server to run; `None` looks for one (see [`EngineError::NoServer`]).
    pub server: Option<PathBuf>,
    /// When the log is forced to disk.
    pub appendfsync: AppendFsync,
    /// How long an engine may be silent before the start gives up.
    pub answer_within: Duration,
    /// How long an engine may answer `LOADING`: reading a log of many gigabytes takes minutes, and it is
    /// progress.
    pub load_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: None,
            appendfsync: AppendFsync::Always,
            answer_within: Duration::from_secs(30),
            load_within: Duration::from_secs(600),
        }
    }
}

impl Options {
    /// Defaults, changed by `STOCKADE_REDIS_SERVER` (path of the server) and `STOCKADE_REDIS_APPENDFSYNC`
    /// (always, everysec, no).
    pub fn from_env() -> Result<Self, EngineError> {
        let appendfsync = match std::env::var("STOCKADE_REDIS_APPENDFSYNC").ok().as_deref() {
            None | Some("" | "always") => AppendFsync::Always,
            Some("everysec") => AppendFsync::EverySec,
            Some("no") => AppendFsync::No,
            Some(other) => {
                return Err(EngineError::AppendFsync { value: other.to_owned() });
            }
        };
        let server =
            std::env::var_os("STOCKADE_REDIS_SERVER").filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self { server, appendfsync, ..Self::default() })
    }
}
