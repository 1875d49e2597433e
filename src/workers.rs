//! What runs beside the requests.

pub mod auditor;
pub mod sweeper;
