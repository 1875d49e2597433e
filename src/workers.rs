//! What runs beside the requests.

pub mod auditor;
pub mod key_watch;
pub mod notifier;
mod pace;
pub mod recovery;
pub mod redis_watch;
pub mod sweeper;
