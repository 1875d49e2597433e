//! The program: `stockade serve`, and small helpers around it.

use anyhow::{Context, Result};
use std::process::ExitCode;
use std::sync::Arc;
use stockade::app::{self, Application};
use stockade::config::{Command, Config, LogForm, Options};
use stockade::domain::SaleId;
use stockade::embedded_redis::{EmbeddedRedis, Role};
use stockade::metrics::Metrics;
use stockade::store::{Shared, Store};
use stockade::{audit_command, http, telemetry};

/// A request makes and drops some hundred small values; this allocator serves them faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        Command::Audit { sale, repair } => return audit(&config.options, sale.as_ref(), repair).await,
        Command::Openapi => println!("{}", http::docs::openapi_json()),
        Command::Healthcheck => app::healthcheck(config.options.listen)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Audits on the given Redis, or on the private one, which is started for this if it does not run.
async fn audit(options: &Options, sale: Option<&SaleId>, repair: bool) -> Result<ExitCode> {
    let metrics = Arc::new(Metrics::new().context("the metrics are not sound")?);
    let open = |url| Store::open(&Shared::new(app::pool_config(options, url), metrics));
    let Some(url) = &options.redis_url else {
        let engine = EmbeddedRedis::start(&options.data_dir, Role::Tool).await?;
        let code = audit_command::run(&open(engine.url())?, sale, repair).await;
        engine.stop().await?;
        return Ok(code);
    };
    Ok(audit_command::run(&open(url.expose().to_owned())?, sale, repair).await)
}

/// Starts what is missing, checks what is there, serves.
async fn serve(options: &Options) -> Result<()> {
    telemetry::init(options.log)?;
    let stop = app::stop_signal()?;
    options.check_listen()?;
    let metrics = Arc::new(Metrics::new().context("the metrics are not sound")?);
    let Some(url) = &options.redis_url else {
        let engine = EmbeddedRedis::start(&options.data_dir, Role::Service).await?;
        let served = tokio::select! {
            served = serve_on(options, engine.url(), metrics, stop) => served,
            never = engine.supervise() => match never {},
        };
        engine.stop().await?;
        return served;
    };
    serve_on(options, url.expose().to_owned(), metrics, stop).await
}

async fn serve_on(
    options: &Options,
    url: String,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let shared = Shared::new(app::pool_config(options, url), metrics);
    let store = Store::open(&shared).context("the Redis URL is not one")?;
    for warning in store.check_server().await? {
        tracing::warn!("Weaker than promised: {warning}");
    }
    store.self_test().await?;
    let application = Application::build(options, shared)?;
    greet(options, &application);
    application.run_until_stopped(stop).await
}

/// Says where the service is, and how to try it.
fn greet(options: &Options, application: &Application) {
    let address = application.address();
    tracing::info!(%address, "Stockade {} listens on http://{address}", env!("CARGO_PKG_VERSION"));
    if options.is_open_to_others() {
        tracing::warn!(%address, "THERE ARE NO API KEYS: whoever reaches this address can do everything");
    }
    if options.log == LogForm::Pretty {
        println!(
            "
Read and try the API at http://{address}/docs/, or here:

  curl -X PUT http://{address}/v1/sales/drop -H 'Content-Type: application/json' \\
       -d '{{\"stock\":{{\"shirt\":{{\"initial\":100}}}}}}'
  curl -X POST http://{address}/v1/sales/drop/reservations -H 'Content-Type: application/json' \\
       -H 'Idempotency-Key: cart-1' -d '{{\"lines\":[{{\"sku\":\"shirt\",\"quantity\":2}}]}}'
  curl http://{address}/v1/sales/drop/stock
"
        );
    }
}
