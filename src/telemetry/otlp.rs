//! Sends spans to a collector: OTLP over HTTP, in batches, from a thread of its own.

use super::Export as ExportLayer;
use crate::trace::{Sampling, otel, spans};
use anyhow::{Context, Result, bail};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Export};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

/// For what still waits when the program ends.
const END_DEADLINE: Duration = Duration::from_secs(3);
/// While the collector is away every batch fails: one line tells it.
const COMPLAINT_EVERY: Duration = Duration::from_secs(60);
/// Where neither `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` nor `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);
const SERVICE_NAME: &str = "service.name";

/// The export of spans.
pub(super) struct Exporter(SdkTracerProvider);

/// Starts it as the `OTEL_*` variables say, and gives the layer that hands spans to it.
pub(super) fn start() -> Result<(Exporter, ExportLayer)> {
    for variable in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        if let Some(other) = said(variable).filter(|protocol| protocol != "http/protobuf") {
            bail!("{variable} is {other:?}, but spans are sent by http/protobuf only");
        }
    }
    let client = reqwest::Client::builder().timeout(deadline()?).build()?;
    let client = Client { client, runtime: Handle::current() };
    let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
    let exporter = exporter.context("spans cannot be sent as the OTEL_EXPORTER_OTLP_ variables say")?;
    let provider = SdkTracerProvider::builder()
        .with_resource(resource())
        .with_sampler(otel::Sampler(Sampling::from_env()?))
        .with_batch_exporter(Complaining { exporter, last: Mutex::default() })
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("stockade"))
        .with_context_activation(false)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(spans::TARGET, tracing::Level::DEBUG));
    Ok((Exporter(provider), layer.boxed()))
}

impl Exporter {
    /// Sends what waits.
    pub(super) async fn end(self) {
        // The runtime must go on meanwhile: it is what sends.
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(END_DEADLINE)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "The last spans were not sent: {error}");
        }
    }
}

/// What a variable says, if anything.
fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|said| !said.is_empty())
}

fn deadline() -> Result<Duration> {
    let said = |variable| said(variable).map(|ms| (variable, ms));
    let ms = said("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| said("OTEL_EXPORTER_OTLP_TIMEOUT"));
    let Some((variable, ms)) = ms else { return Ok(EXPORT_DEADLINE) };
    let ms = ms.parse().with_context(|| format!("{variable} is a number of milliseconds, not {ms:?}"))?;
    Ok(Duration::from_millis(ms))
}

/// Who sends: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come before what we call ourselves.
fn resource() -> Resource {
    let attributes = said("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named =
        attributes.split(',').any(|one| one.split('=').next().map(str::trim) == Some(SERVICE_NAME));
    let name =
        (said("OTEL_SERVICE_NAME").is_none() && !is_named).then(|| KeyValue::new(SERVICE_NAME, "stockade"));
    let version = (!attributes.contains("service.version"))
        .then(|| KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    Resource::builder().with_attributes(name.into_iter().chain(version)).build()
}

/// Sends on the service's runtime: the thread that makes batches has none.
#[derive(Debug)]
struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

// The signature is what `async_trait` makes of an `async fn`.
impl HttpClient for Client {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> BoxFuture<'async_trait, Result<Response<Bytes>, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move {
            let answer = client.execute(request.try_into()?).await?;
            let status = answer.status();
            Ok::<_, reqwest::Error>((status, answer.bytes().await?))
        });
        async move {
            let (status, body) = sending.await??;
            Ok(Response::builder().status(status).body(body)?)
        }
        .boxed()
    }
}

/// Says now and then that spans are lost, as the SDK would for each batch.
#[derive(Debug)]
struct Complaining {
    exporter: SpanExporter,
    last: Mutex<Option<Instant>>,
}

impl Export for Complaining {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        if let Err(error) = self.exporter.export(batch).await
            && let Ok(mut last) = self.last.lock()
            && last.is_none_or(|last| last.elapsed() >= COMPLAINT_EVERY)
        {
            *last = Some(Instant::now());
            tracing::warn!(%error, count, "Spans cannot be sent: {error}");
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
