//! What runs beside the requests.

pub mod sweeper;
