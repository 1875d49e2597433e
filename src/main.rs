//! The program: `stockade serve`, and small helpers around it.

use actix_web::web::Data;
use anyhow::{Context, Result};
use stockade::app::{self, Application};
use stockade::config::{Command, Config, LogForm, Options};
use stockade::metrics::Metrics;
use stockade::store::Store;
use stockade::{http, telemetry};

#[actix_web::main]
async fn main() -> Result<()> {
    let config = Config::load();
    match config.command() {
        Command::Serve => serve(&config.options).await,
        Command::Openapi => {
            println!("{}", http::docs::openapi_json());
            Ok(())
        }
        Command::Healthcheck => app::healthcheck(config.options.listen),
    }
}

async fn serve(options: &Options) -> Result<()> {
    telemetry::init(options.log)?;
    let stop = app::stop_signal()?;
    let metrics = Data::new(Metrics::new().context("the metrics are not sound")?);
    let application = Application::build(options, metrics, || Store {})?;
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
