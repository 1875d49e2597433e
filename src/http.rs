//! HTTP: a handler extracts, makes one call of the store, and maps its answer. Nothing here decides about stock.
//!
//! `routes` is the whole table, and `auth` keeps to what it says that each route needs; `rate_limit` counts who calls how
//! often. `streams` writes Server-Sent Events. `body`, `extract`, `idempotency` and `precondition` read requests; `answer`
//! and `problem` write answers; `layer` stands around every handler; `docs` describes it all.

pub mod answer;
pub mod auth;
pub mod barriers;
pub mod body;
pub mod bulk;
pub mod deliveries;
pub mod docs;
pub mod events;
pub mod extract;
pub mod idempotency;
pub mod layer;
pub mod locks;
pub mod ops;
pub mod orders;
mod path;
pub mod precondition;
pub mod problem;
pub mod rate_limit;
pub mod request_id;
pub mod reservations;
pub mod sales;
pub mod stock;
pub mod streams;
mod trace_parent;
pub mod webhooks;

use crate::metrics::Metrics;
use crate::webhooks::Sender;
use actix_web::http::Method;
use actix_web::web::{Data, ServiceConfig};
use auth::{BARRIER, Gate, LOCK, METRICS, NOTHING, Needs, OPERATOR, PARTICIPANT, STOREFRONT};
use layer::{Draining, Worker};
use path::Path;
use std::rc::Rc;
use streams::Streams;

/// What the routes of one listener have in common.
#[derive(Clone)]
pub struct Listener {
    /// Who is let in.
    pub gate: Gate,
    /// Which routes it has.
    pub routes: Routes,
    /// What is counted.
    pub metrics: Data<Metrics>,
    /// Whether the process is stopping.
    pub draining: Draining,
    /// Live streams, of all listeners and worker threads.
    pub streams: Data<Streams>,
    /// Sends messages to webhook endpoints.
    pub sender: Data<Sender>,
    /// Answers say when what they tell is on no replica.
    pub tells_durability: bool,
}

/// Which routes a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    /// All.
    All,
    /// All but those of `Ops`, which have a listener of their own.
    Api,
    /// Probes and metrics.
    Ops,
}

/// Adds the routes of a listener. The store comes as `Data<Store>` of the app, since each worker thread may have its
/// own.
pub fn routes(config: &mut ServiceConfig, listener: &Listener) {
    let worker =
        Rc::new(Worker::new(listener.draining.clone(), listener.gate.clone(), listener.tells_durability));
    config.app_data(Data::clone(&listener.metrics)).app_data(Data::new(listener.draining.clone()));
    config
        .app_data(Data::clone(&listener.sender))
        .app_data(Data::clone(&listener.streams))
        .app_data(Rc::clone(&worker));
    // Paths are tried in this order: the crowd's come first.
    let paths = match listener.routes {
        Routes::All => all_paths(),
        Routes::Api => api_paths(),
        Routes::Ops => ops_paths(),
    };
    for path in paths.into_iter().chain([Path::unmatched()]) {
        path.register(config, &listener.metrics, &worker);
    }
}

/// Every route: its method, its path, and what it needs.
pub fn needs() -> Vec<(Method, &'static str, Needs)> {
    let of =
        |path: Path| path.methods.into_iter().map(move |known| (known.method, path.pattern, known.needs));
    all_paths().into_iter().flat_map(of).collect()
}

fn all_paths() -> Vec<Path> {
    api_paths().into_iter().chain(ops_paths()).collect()
}

fn api_paths() -> Vec<Path> {
    let barriers = barrier_paths().into_iter();
    let sold = reservation_paths().into_iter().chain(barriers).chain(order_paths()).chain(lock_paths());
    sold.chain(sale_paths()).chain(webhook_paths()).chain(document_paths()).collect()
}

fn reservation_paths() -> Vec<Path> {
    const ONE: &str = "/v1/sales/{sale}/reservations/{id}";
    vec![
        Path::new("/v1/sales/{sale}/reservations")
            .on(Method::POST, 201, STOREFRONT, reservations::reserve)
            .on(Method::GET, 200, STOREFRONT, reservations::reservations),
        Path::new("/v1/sales/{sale}/stock/{sku}").on(Method::GET, 200, STOREFRONT, stock::level).on(
            Method::PUT,
            201,
            OPERATOR,
            stock::put_sku,
        ),
        Path::new("/v1/sales/{sale}/stock").on(Method::GET, 200, STOREFRONT, stock::levels),
        Path::new("/v1/sales/{sale}/reservations/{id}/confirm").on(
            Method::POST,
            200,
            STOREFRONT,
            reservations::confirm,
        ),
        Path::new("/v1/sales/{sale}/reservations/{id}/release").on(
            Method::POST,
            200,
            STOREFRONT,
            reservations::release,
        ),
        Path::new("/v1/sales/{sale}/reservations/bulk").on(Method::POST, 200, STOREFRONT, bulk::reserve_bulk),
        Path::new(ONE).on(Method::GET, 200, STOREFRONT, reservations::reservation),
        Path::new("/v1/sales/{sale}/reservations/{id}/extend").on(
            Method::POST,
            200,
            STOREFRONT,
            reservations::extend,
        ),
        Path::new("/v1/sales/{sale}/reservations/{id}/return").on(
            Method::POST,
            200,
            STOREFRONT,
            reservations::return_reservation,
        ),
        Path::new("/v1/sales/{sale}/buyers/{buyer}").on(Method::GET, 200, STOREFRONT, reservations::buyer),
    ]
}

fn barrier_paths() -> Vec<Path> {
    vec![
        Path::new("/v1/barriers/{barrier}/arrivals").on(Method::POST, 200, PARTICIPANT, barriers::arrive),
        Path::new(barriers::WAIT).on(Method::GET, 200, BARRIER, barriers::wait_for_barrier),
        Path::new(barriers::LIVE).on(Method::GET, 200, BARRIER, barriers::live_barrier),
        Path::new("/v1/barriers/{barrier}/participants")
            .on(Method::POST, 200, BARRIER, barriers::declare)
            .on(Method::GET, 200, BARRIER, barriers::participants),
        Path::new("/v1/barriers/{barrier}/seal").on(Method::POST, 200, BARRIER, barriers::seal),
        Path::new("/v1/barriers/{barrier}/extend").on(Method::POST, 200, BARRIER, barriers::extend_barrier),
        Path::new("/v1/barriers/{barrier}")
            .on(Method::GET, 200, BARRIER, barriers::barrier)
            .on(Method::PUT, 201, BARRIER, barriers::put_barrier)
            .on(Method::DELETE, 200, BARRIER, barriers::cancel_barrier),
        Path::new("/v1/barriers").on(Method::GET, 200, BARRIER, barriers::barriers),
    ]
}

fn order_paths() -> Vec<Path> {
    vec![
        Path::new("/v1/orders").on(Method::POST, 201, STOREFRONT, orders::place_order),
        Path::new("/v1/orders/{id}").on(Method::GET, 200, STOREFRONT, orders::order),
        Path::new("/v1/orders/{id}/confirm").on(Method::POST, 200, STOREFRONT, orders::confirm_order),
        Path::new("/v1/orders/{id}/release").on(Method::POST, 200, STOREFRONT, orders::release_order),
    ]
}

fn lock_paths() -> Vec<Path> {
    vec![
        Path::new(locks::FREE).on(Method::POST, 201, LOCK, locks::acquire_lock).on(
            Method::GET,
            200,
            LOCK,
            locks::lock,
        ),
        Path::new("/v1/locks/{name}/renew").on(Method::POST, 200, LOCK, locks::renew_lock),
        Path::new("/v1/locks/{name}/release").on(Method::POST, 200, LOCK, locks::release_lock),
        Path::new(locks::IN_A_SALE).on(Method::POST, 201, LOCK, locks::acquire_sale_lock).on(
            Method::GET,
            200,
            LOCK,
            locks::sale_lock,
        ),
        Path::new("/v1/sales/{sale}/locks/{name}/renew").on(Method::POST, 200, LOCK, locks::renew_sale_lock),
        Path::new("/v1/sales/{sale}/locks/{name}/release").on(
            Method::POST,
            200,
            LOCK,
            locks::release_sale_lock,
        ),
    ]
}

fn sale_paths() -> Vec<Path> {
    vec![
        Path::new("/v1/sales/{sale}/events").on(Method::GET, 200, STOREFRONT, events::events),
        Path::new(events::LIVE).on(Method::GET, 200, STOREFRONT, events::live),
        Path::new("/v1/sales/{sale}/stock/{sku}/adjustments")
            .on(Method::POST, 201, OPERATOR, stock::adjust)
            .on(Method::GET, 200, OPERATOR, stock::adjustments),
        Path::new("/v1/sales/{sale}")
            .on(Method::GET, 200, STOREFRONT, sales::sale)
            .on(Method::PUT, 201, OPERATOR, sales::put_sale)
            .on(Method::PATCH, 200, OPERATOR, sales::patch_sale)
            .on(Method::DELETE, 202, OPERATOR, sales::delete_sale),
        Path::new("/v1/sales").on(Method::GET, 200, STOREFRONT, sales::sales),
        Path::new("/v1/sales/{sale}/pause").on(Method::POST, 200, OPERATOR, sales::pause_sale),
        Path::new("/v1/sales/{sale}/resume").on(Method::POST, 200, OPERATOR, sales::resume_sale),
        Path::new("/v1/sales/{sale}/close").on(Method::POST, 200, OPERATOR, sales::close_sale),
    ]
}

fn webhook_paths() -> Vec<Path> {
    vec![
        Path::new("/v1/webhooks").on(Method::POST, 201, OPERATOR, webhooks::register_webhook).on(
            Method::GET,
            200,
            OPERATOR,
            webhooks::webhooks,
        ),
        Path::new("/v1/webhooks/{webhook}")
            .on(Method::GET, 200, OPERATOR, webhooks::webhook)
            .on(Method::PATCH, 200, OPERATOR, webhooks::patch_webhook)
            .on(Method::DELETE, 204, OPERATOR, webhooks::delete_webhook),
        Path::new("/v1/webhooks/{webhook}/rotate-secret").on(
            Method::POST,
            200,
            OPERATOR,
            webhooks::rotate_secret,
        ),
        Path::new("/v1/webhooks/{webhook}/test").on(Method::POST, 200, OPERATOR, webhooks::test_webhook),
        Path::new("/v1/webhooks/{webhook}/deliveries").on(Method::GET, 200, OPERATOR, deliveries::deliveries),
        Path::new("/v1/webhooks/{webhook}/redeliver").on(Method::POST, 200, OPERATOR, deliveries::redeliver),
    ]
}

fn ops_paths() -> Vec<Path> {
    vec![
        // Many load balancers ask with HEAD.
        Path::new("/livez").on(Method::GET, 200, NOTHING, ops::livez).on(
            Method::HEAD,
            200,
            NOTHING,
            ops::livez,
        ),
        Path::new("/readyz").on(Method::GET, 200, NOTHING, ops::readyz).on(
            Method::HEAD,
            200,
            NOTHING,
            ops::readyz,
        ),
        Path::new("/metrics").on(Method::GET, 200, METRICS, ops::metrics),
    ]
}

fn document_paths() -> Vec<Path> {
    vec![
        Path::new("/openapi.json").on(Method::GET, 200, NOTHING, ops::openapi),
        Path::new("/docs").on(Method::GET, 307, NOTHING, ops::docs_redirect),
        Path::new("/docs/{file:.*}").on(Method::GET, 200, NOTHING, ops::docs_page),
        Path::new("/problems").on(Method::GET, 200, NOTHING, ops::problems),
        Path::new("/problems/{code}").on(Method::GET, 200, NOTHING, ops::problem),
    ]
}

#[cfg(test)]
mod tests;
