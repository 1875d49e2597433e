//! HTTP: a handler extracts, makes one call of the store, and maps its answer. Nothing here decides about stock.
//!
//! `routes` is the whole table. `body`, `extract` and `idempotency` read requests; `answer` and `problem` write
//! answers; `layer` stands around every handler; `docs` describes it all.

pub mod answer;
pub mod body;
pub mod bulk;
pub mod docs;
pub mod events;
pub mod extract;
pub mod idempotency;
pub mod layer;
pub mod ops;
pub mod problem;
pub mod reservations;
pub mod sales;
pub mod stock;

use crate::metrics::Metrics;
use actix_web::dev::Service;
use actix_web::http::Method;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{FromRequest, Handler, Responder, Route};
use layer::{Draining, Layer, Worker};
use problem::Problem;
use std::rc::Rc;

/// Adds every route. The store comes as `Data<Store>` of the app, since each worker thread may have its own.
pub fn routes(config: &mut ServiceConfig, metrics: &Data<Metrics>, draining: &Draining) {
    let worker = Rc::new(Worker::new(draining.clone()));
    config.app_data(Data::clone(metrics)).app_data(Data::new(draining.clone())).app_data(Rc::clone(&worker));
    // Paths are tried in this order: the crowd's come first.
    for path in reservation_paths().into_iter().chain(sale_paths()).chain(ops_paths()) {
        path.register(config, metrics, &worker);
    }
}

fn reservation_paths() -> Vec<Path> {
    const ONE: &str = "/v1/sales/{sale}/reservations/{id}";
    vec![
        Path::new("/v1/sales/{sale}/reservations").on(Method::POST, 201, reservations::reserve).on(
            Method::GET,
            200,
            reservations::reservations,
        ),
        Path::new("/v1/sales/{sale}/reservations/{id}/confirm").on(Method::POST, 200, reservations::confirm),
        Path::new("/v1/sales/{sale}/reservations/{id}/release").on(Method::POST, 200, reservations::release),
        Path::new("/v1/sales/{sale}/stock/{sku}").on(Method::GET, 200, stock::level).on(
            Method::PUT,
            201,
            stock::put_sku,
        ),
        Path::new("/v1/sales/{sale}/stock").on(Method::GET, 200, stock::levels),
        Path::new("/v1/sales/{sale}/reservations/bulk").on(Method::POST, 200, bulk::reserve_bulk),
        Path::new(ONE).on(Method::GET, 200, reservations::reservation),
        Path::new("/v1/sales/{sale}/reservations/{id}/extend").on(Method::POST, 200, reservations::extend),
        Path::new("/v1/sales/{sale}/reservations/{id}/return").on(
            Method::POST,
            200,
            reservations::return_reservation,
        ),
        Path::new("/v1/sales/{sale}/buyers/{buyer}").on(Method::GET, 200, reservations::buyer),
    ]
}

fn sale_paths() -> Vec<Path> {
    vec![
        Path::new("/v1/sales/{sale}/events").on(Method::GET, 200, events::events),
        Path::new("/v1/sales/{sale}/stock/{sku}/adjustments").on(Method::POST, 201, stock::adjust).on(
            Method::GET,
            200,
            stock::adjustments,
        ),
        Path::new("/v1/sales/{sale}")
            .on(Method::GET, 200, sales::sale)
            .on(Method::PUT, 201, sales::put_sale)
            .on(Method::DELETE, 202, sales::delete_sale),
        Path::new("/v1/sales").on(Method::GET, 200, sales::sales),
        Path::new("/v1/sales/{sale}/pause").on(Method::POST, 200, sales::pause_sale),
        Path::new("/v1/sales/{sale}/resume").on(Method::POST, 200, sales::resume_sale),
        Path::new("/v1/sales/{sale}/close").on(Method::POST, 200, sales::close_sale),
    ]
}

fn ops_paths() -> Vec<Path> {
    vec![
        Path::new("/livez").on(Method::GET, 200, ops::livez),
        Path::new("/readyz").on(Method::GET, 200, ops::readyz),
        Path::new("/metrics").on(Method::GET, 200, ops::metrics),
        Path::new("/openapi.json").on(Method::GET, 200, ops::openapi),
        Path::new("/docs").on(Method::GET, 307, ops::docs_redirect),
        Path::new("/docs/{file:.*}").on(Method::GET, 200, ops::docs_page),
        Path::new("/problems").on(Method::GET, 200, ops::problems),
        Path::new("/problems/{code}").on(Method::GET, 200, ops::problem),
        Path::unmatched(),
    ]
}

/// One path: the methods it knows, and what the layer around them must know.
struct Path {
    pattern: &'static str,
    label: &'static str,
    methods: Vec<(Method, u16)>,
    routes: Vec<Route>,
}

impl Path {
    fn new(pattern: &'static str) -> Self {
        Self { pattern, label: pattern, methods: Vec::new(), routes: Vec::new() }
    }

    /// Every other path. All share one label, or anybody could make series without end.
    fn unmatched() -> Self {
        let any = web::route().to(ops::not_found);
        Self { pattern: "/{any:.*}", label: "unmatched", methods: Vec::new(), routes: vec![any] }
    }

    /// `success` is the status of the usual good answer: its counter exists from the start.
    fn on<F, Args>(mut self, method: Method, success: u16, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.methods.push((method.clone(), success));
        self.routes.push(web::method(method).to(handler));
        self
    }

    fn register(self, config: &mut ServiceConfig, metrics: &Metrics, worker: &Rc<Worker>) {
        let label = self.label;
        let counters = |(method, success): &(Method, u16)| {
            (method.clone(), metrics.http(label, method_label(method), *success))
        };
        let layer = Rc::new(Layer {
            route: label,
            methods: self.methods.iter().map(counters).collect(),
            other: metrics.http_unknown_methods(label),
            worker: Rc::clone(worker),
        });
        let allow = self.methods.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ");
        let refuse = move || {
            let problem = Problem::method_not_allowed(allow.clone());
            async move { answer::Answer::Err(problem) }
        };
        let mut resource = web::resource(self.pattern).default_service(web::to(refuse));
        for route in self.routes {
            resource = resource.route(route);
        }
        config.service(resource.wrap_fn(move |mut request, handler| {
            let layer = Rc::clone(&layer);
            let begun = layer.begin(&mut request);
            let answer = handler.call(request);
            async move { Ok(layer.finish(begun, answer.await?)) }
        }));
    }
}

/// A method as a label: of those that some route knows.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_document_describes_every_route_and_no_other() {
        let document: Value = serde_json::from_str(&docs::openapi_json()).expect("JSON");
        let mut described: Vec<String> = Vec::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            described
                .extend(item.as_object().expect("methods").keys().map(|method| format!("{method} {path}")));
        }
        let mut routed: Vec<String> = Vec::new();
        for path in reservation_paths().into_iter().chain(sale_paths()).chain(ops_paths()) {
            let pattern = path.pattern.replace("{file:.*}", "");
            routed
                .extend(path.methods.iter().map(|(m, _)| format!("{} {pattern}", m.as_str().to_lowercase())));
        }
        routed.retain(|route| route != "get /docs");
        described.sort();
        routed.sort();
        assert_eq!(described, routed);
    }

    #[test]
    fn the_document_names_the_problems_of_every_operation() {
        let document: Value = serde_json::from_str(&docs::openapi_json()).expect("JSON");
        let reserve = &document["paths"]["/v1/sales/{sale}/reservations"]["post"]["responses"];
        assert!(reserve["409"]["description"].as_str().is_some_and(|codes| codes.contains("`sold_out`")));
        let written = document["paths"].to_string();
        for code in problem::Code::ALL {
            let by_the_router = ["method_not_allowed"].contains(&code.as_str());
            assert!(by_the_router || written.contains(&format!("`{}`", code.as_str())), "{}", code.as_str());
        }
    }
}
