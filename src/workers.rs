//! What runs beside the requests.

pub mod key_watch;
pub mod sweeper;
