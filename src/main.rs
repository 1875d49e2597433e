//! The program: `stockade serve`, and small helpers around it.

use anyhow::{Context, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockade::api_keys::Access;
use stockade::app::{self, Application};
use stockade::config::{Command, Config, LogForm, Options};
use stockade::domain::SaleId;
use stockade::embedded_redis::{EmbeddedRedis, Role};
use stockade::metrics::Metrics;
use stockade::store::checks::CheckError;
use stockade::store::{Shared, Store, StoreError};
use stockade::{audit_command, http, keys_command, telemetry};

/// A request makes and drops some hundred small values; this allocator serves them faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A container, say, has no server and no folder to write to.
const NO_REDIS: &str = "there is no STOCKADE_REDIS_URL, and a private Redis cannot be started";

/// A Redis that isn't there yet as the service starts, or is too busy to answer in time, is asked again for so long.
const REDIS_WAIT_MAX: Duration = Duration::from_secs(10);
const REDIS_PAUSE: Duration = Duration::from_millis(100);

#[actix_web::main]
async fn main() -> ExitCode {
    run(&Config::load()).await.unwrap_or_else(|error| {
        eprintln!("stockade: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(config: &Config) -> Result<ExitCode> {
    match config.command() {
        Command::Serve => serve(&config.options).await?,
        Command::Audit { sale, repair } => {
            let audited = audit(&config.options, sale.as_ref(), repair).await;
            return Ok(audited.unwrap_or_else(|error| audit_command::not_audited(&error)));
        }
        Command::Keys(command) => keys_command::run(config.options.keys_file.as_deref(), command)?,
        Command::Openapi => println!("{}", http::docs::openapi_json()),
        Command::Healthcheck => app::healthcheck(config.options.probe_address())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Audits on the given Redis, or on the private one, which is started for this if it does not run.
async fn audit(options: &Options, sale: Option<&SaleId>, repair: bool) -> Result<ExitCode> {
    let metrics = Arc::new(Metrics::new().context("the metrics are not sound")?);
    let open =
        |url| -> Result<Store> { Ok(Store::open(&Shared::new(app::pool_config(options, url)?, metrics))?) };
    let Some(url) = &options.redis_url else {
        let engine = EmbeddedRedis::start(&options.data_dir, Role::Tool).await.context(NO_REDIS)?;
        let code = audit_command::run(&open(engine.url())?, sale, repair).await;
        engine.stop().await?;
        return Ok(code);
    };
    Ok(audit_command::run(&open(url.expose().to_owned())?, sale, repair).await)
}

/// Starts what is missing, checks what is there, serves.
async fn serve(options: &Options) -> Result<()> {
    let telemetry = telemetry::init(options.log)?;
    let served = serve_until_stopped(options).await;
    telemetry.end().await;
    served
}

async fn serve_until_stopped(options: &Options) -> Result<()> {
    let stop = app::stop_signal()?;
    let access = Access::of(options)?;
    let metrics = Metrics::with_sales_max(options.metrics_sales_max).context("the metrics are not sound")?;
    let metrics = Arc::new(metrics);
    let Some(url) = &options.redis_url else {
        let engine = EmbeddedRedis::start(&options.data_dir, Role::Service).await.context(NO_REDIS)?;
        let served = tokio::select! {
            served = serve_on(options, engine.url(), metrics, access, stop) => served,
            never = engine.supervise() => match never {},
        };
        engine.stop().await?;
        return served;
    };
    serve_on(options, url.expose().to_owned(), metrics, access, stop).await
}

async fn serve_on(
    options: &Options,
    url: String,
    metrics: Arc<Metrics>,
    access: Access,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let lock_nodes = app::lock_nodes(options, &url)?;
    let shared = Shared { lock_nodes, ..Shared::new(app::pool_config(options, url)?, metrics) };
    // What the self-test takes and gives back is no customer's: it is counted apart, and nobody sees it.
    let uncounted = Arc::new(Metrics::new().context("the metrics are not sound")?);
    let store =
        Store::open(&Shared { metrics: uncounted, ..shared.clone() }).context("the Redis URL is not one")?;
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        checked = check(&store) => checked?,
        () = &mut stop => return Ok(()),
    }
    let application = Application::build(options, shared, access.clone())?;
    greet(options, &application, &access);
    application.run_until_stopped(stop).await
}

/// Whether Redis is what the promises rest on, and does what it must.
async fn check(store: &Store) -> Result<(), CheckError> {
    for warning in patiently(async || store.check_server().await).await? {
        tracing::warn!("Weaker than promised: {warning}");
    }
    patiently(async || store.self_test().await).await
}

/// Again, for some seconds, while Redis does not answer, or cannot do it just now: both are often started at once.
async fn patiently<T>(check: impl AsyncFn() -> Result<T, CheckError>) -> Result<T, CheckError> {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        match check().await {
            Err(CheckError::Store(error @ (StoreError::Unknown(_) | StoreError::NotApplied(_))))
                if begun.elapsed() < REDIS_WAIT_MAX =>
            {
                if !is_told {
                    tracing::warn!(%error, "Redis is waited for, {REDIS_WAIT_MAX:?} at most: {error}");
                    is_told = true;
                }
                tokio::time::sleep(REDIS_PAUSE).await;
            }
            checked => return checked,
        }
    }
}

/// Says where the service is, and how to try it.
fn greet(options: &Options, application: &Application, access: &Access) {
    let address = application.address();
    tracing::info!(%address, "Stockade {} listens on http://{address}", env!("CARGO_PKG_VERSION"));
    if let Some(address) = application.ops_address() {
        tracing::info!(%address, "Probes and metrics are on http://{address}");
    }
    let authorization = match access.keys() {
        Some(keys) => {
            let count = keys.count();
            tracing::info!(file = ?keys.path(), keys = count, "API keys are asked for; there are {count}");
            " -H 'Authorization: Bearer <id>.<secret>'"
        }
        None => {
            if let Some(address) = options.open_address() {
                tracing::warn!(%address, "THERE ARE NO API KEYS: whoever reaches this address can do everything");
            }
            ""
        }
    };
    if options.log == LogForm::Pretty {
        println!(
            "
Read and try the API at http://{address}/docs/, or here:

  curl -X PUT{authorization} http://{address}/v1/sales/drop -H 'Content-Type: application/json' \\
       -d '{{\"stock\":{{\"shirt\":{{\"initial\":100}}}}}}'
  curl -X POST{authorization} http://{address}/v1/sales/drop/reservations -H 'Content-Type: application/json' \\
       -H 'Idempotency-Key: cart-1' -d '{{\"lines\":[{{\"sku\":\"shirt\",\"quantity\":2}}]}}'
  curl{authorization} http://{address}/v1/sales/drop/stock
"
        );
    }
}
