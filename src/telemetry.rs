//! Where the log and the spans go. In the log, text of clients is written with `Debug`, so that it cannot forge lines.

#[cfg(feature = "otlp")]
mod otlp;

use crate::config::LogForm;
use anyhow::{Result, anyhow};
use std::io::IsTerminal;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// What is logged where RUST_LOG says nothing. The web server's own account of its start is left out, and its lines
/// about requests that are no HTTP: any client could fill the log with them, as errors.
const FILTER_DEFAULT: &str = "info,actix_server=warn,actix_http=off";
/// Either says that there is a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Hands spans on.
type Export = Box<dyn Layer<Registry> + Send + Sync>;

/// Log and spans, until the program ends.
#[must_use = "spans wait in it to be sent"]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

/// Starts the log of this process, on standard output, and the export of spans, if this build can and a collector is
/// named.
pub fn init(form: LogForm) -> Result<Telemetry> {
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_else(|_| FILTER_DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&wanted).map_err(|error| anyhow!("RUST_LOG cannot be read: {error}"))?;
    // A span is told when it is over, and only to those who ask for spans.
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stdout().is_terminal())
        .with_span_events(FmtSpan::CLOSE);
    let log = match form {
        LogForm::Pretty => log.with_target(false).boxed(),
        LogForm::Json => log.json().flatten_event(true).boxed(),
    };
    let collector = collector();
    #[cfg(feature = "otlp")]
    let (telemetry, export) = {
        let (exporter, export) = collector.map(|_| otlp::start()).transpose()?.unzip();
        (Telemetry { exporter }, export)
    };
    #[cfg(not(feature = "otlp"))]
    let (telemetry, export) = (Telemetry {}, None::<Export>);
    tracing_subscriber::registry()
        .with(export)
        .with(log.with_filter(filter))
        .try_init()
        .map_err(|error| anyhow!("the log cannot be started: {error}"))?;
    if let Some(variable) = collector.filter(|_| cfg!(not(feature = "otlp"))) {
        tracing::warn!(
            "{variable} is set, but this build cannot send spans: it was made without `--features otlp`"
        );
    }
    Ok(telemetry)
}

/// The variable that names the collector, unless others say that nothing is sent.
fn collector() -> Option<&'static str> {
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let is_off =
        said("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true") || said("OTEL_TRACES_EXPORTER") == "none";
    ENDPOINTS.into_iter().find(|name| !is_off && !said(name).is_empty())
}

impl Telemetry {
    /// Sends what waits to be sent; gives up soon where that cannot be done.
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.end().await;
        }
    }
}
