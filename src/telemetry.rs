//! The log. Text of clients is written with `Debug`, so that it cannot forge lines.

use crate::config::LogForm;
use anyhow::{Result, anyhow};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// What is logged where RUST_LOG says nothing. The web server's own account of its start is left out, and its lines
/// about requests that are no HTTP: any client could fill the log with them, as errors.
const FILTER_DEFAULT: &str = "info,actix_server=warn,actix_http=off";

/// Starts the log of this process, on standard output.
pub fn init(form: LogForm) -> Result<()> {
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_else(|_| FILTER_DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&wanted).map_err(|error| anyhow!("RUST_LOG cannot be read: {error}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stdout().is_terminal());
    match form {
        LogForm::Pretty => log.with_target(false).try_init(),
        LogForm::Json => log.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow!("the log cannot be started: {error}"))
}
