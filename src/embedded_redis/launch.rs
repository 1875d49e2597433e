//! Finds a server and starts it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tracing::info;

use super::error::io_error;
use super::{EngineError, LOG_FILE, Options};

const CONF_TEMPLATE: &str = include_str!("../embedded_redis.conf");
const CONF_FILE: &str = "stockade-redis.conf";

/// Oldest server whose scripts know `#!lua` and flags.
const SERVER_MAJOR_MIN: u32 = 7;
/// Memory is unknown (no `/proc`): small enough for any machine that runs a shop.
const MEMORY_BYTES_FALLBACK: u64 = 2 << 30;

/// Starts an engine in `data_dir` with `lock` as its standard input.
pub(super) fn spawn(data_dir: &Path, options: &Options, lock: File) -> Result<Child, EngineError> {
    let server = find_server(options.server.as_deref())?;
    let conf_path = data_dir.join(CONF_FILE);
    let conf = CONF_TEMPLATE
        .replace("@APPENDFSYNC@", options.appendfsync.as_str())
        .replace("@MAXMEMORY@", &maxmemory_bytes().to_string());
    fs::write(&conf_path, conf).map_err(io_error(&conf_path))?;
    // What it says before it has read `logfile`, or while it crashes.
    let log_path = data_dir.join(LOG_FILE);
    let log = OpenOptions::new().create(true).append(true).open(&log_path).map_err(io_error(&log_path))?;
    let log_too = log.try_clone().map_err(io_error(&log_path))?;
    let child = Command::new(&server)
        .arg(CONF_FILE)
        .current_dir(data_dir)
        .stdin(Stdio::from(lock))
        .stdout(log)
        .stderr(log_too)
        // Ctrl-C goes to a whole group: the service still needs its engine to drain.
        .process_group(0)
        .spawn()
        .map_err(io_error(&server))?;
    info!("Started {} (pid {}) in {}", server.display(), child.id(), data_dir.display());
    Ok(child)
}

/// The last line that says something. Reads no more than the end: a log may have grown for years.
pub(super) fn last_line(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

/// The named server, or the first fit one in `PATH` and then in `.tools/bin` of the working folder and of the
/// program's folders.
///
/// # Errors
/// The named one is no server or too old; or none was found, or none that is new enough.
pub fn find_server(named: Option<&Path>) -> Result<PathBuf, EngineError> {
    if let Some(path) = named {
        check_version(path)?;
        // It will be started from another folder; a bare name is still looked up in `PATH`. Links stay as
        // they are: Debian's `redis-server` is one, and acts by the name it is called by.
        let bare = path.components().count() == 1;
        return if bare { Ok(path.to_owned()) } else { std::path::absolute(path).map_err(io_error(path)) };
    }
    let path_var = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    let roots = std::env::current_dir().into_iter().chain(program.ancestors().skip(1).map(Path::to_owned));
    let folders = std::env::split_paths(&path_var).chain(roots.map(|root| root.join(".tools/bin")));
    let candidates = folders
        .flat_map(|folder| ["redis-server", "valkey-server"].map(|name| folder.join(name)))
        .filter(|path| path.is_file());
    // One that is too old or broken only counts when there is no better one.
    let mut refused = None;
    for path in candidates {
        match check_version(&path) {
            Ok(()) => return Ok(path),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    Err(refused.unwrap_or(EngineError::NoServer))
}

/// Reads `Redis server v=7.0.15 sha=...` or `Valkey server v=9.1.2 sha=...`.
fn check_version(path: &Path) -> Result<(), EngineError> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().map_err(io_error(path))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let major =
        version.and_then(|version| version.split('.').next()).and_then(|major| major.parse::<u32>().ok());
    match (version, major) {
        (Some(_), Some(SERVER_MAJOR_MIN..)) => Ok(()),
        (Some(version), Some(_)) => {
            Err(EngineError::TooOld { path: path.to_owned(), version: version.to_owned() })
        }
        _ => Err(EngineError::NotAServer(path.to_owned())),
    }
}

/// Half of the machine's memory, or of the container's if that is less.
pub(super) fn maxmemory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    });
    let container =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min().unwrap_or(MEMORY_BYTES_FALLBACK) / 2
}
