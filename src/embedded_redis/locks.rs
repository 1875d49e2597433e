//! The two locks of a data folder; what they mean is said in the parent module.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::io_error;
use super::{EngineError, POLL_INTERVAL};

pub(super) const ENGINE_LOCK_FILE: &str = "engine.lock";
const SERVICE_LOCK_FILE: &str = "service.lock";

/// A service that has just died, or a tool that is just leaving, may hold `service.lock` for a moment.
const SERVICE_LOCK_WAIT: Duration = Duration::from_secs(1);

/// The engine's lock, if there is no engine.
pub(super) fn try_lock_engine(data_dir: &Path) -> Result<Option<File>, EngineError> {
    try_lock(&data_dir.join(ENGINE_LOCK_FILE))
}

/// The service's lock, if there is no service.
pub(super) fn try_lock_service(data_dir: &Path) -> Result<Option<File>, EngineError> {
    try_lock(&data_dir.join(SERVICE_LOCK_FILE))
}

/// The service's lock, or the news that another service has it.
pub(super) async fn lock_service(data_dir: &Path) -> Result<File, EngineError> {
    let since = Instant::now();
    loop {
        if let Some(lock) = try_lock_service(data_dir)? {
            return Ok(lock);
        }
        if since.elapsed() >= SERVICE_LOCK_WAIT {
            return Err(EngineError::ServiceRunning(data_dir.to_owned()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The lock, if it is free. Each call opens the file anew: a lock belongs to one opening, and the engine must
/// own its alone.
fn try_lock(path: &Path) -> Result<Option<File>, EngineError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(io_error(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(io_error(path)(source)),
    }
}
