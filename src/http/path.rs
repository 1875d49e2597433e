//! One path of the table of routes, and how it is registered.

use super::auth::Needs;
use super::layer::{self, Layer, Worker};
use super::problem::Problem;
use super::{answer, ops};
use crate::metrics::Metrics;
use crate::metrics::catalogue::STREAM_ROUTES;
use crate::store::Durability;
use actix_web::dev::Service;
use actix_web::http::Method;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, Handler, Responder, Route};
use futures_util::future::Either;
use std::future::ready;
use std::rc::Rc;
use tracing::Instrument;

/// A method of a path.
pub struct KnownMethod {
    pub method: Method,
    /// Of the usual good answer: its counter exists from the start.
    success: u16,
    pub needs: Needs,
}

/// One path: the methods it knows, and what the layer around them must know.
pub struct Path {
    pub pattern: &'static str,
    label: &'static str,
    pub methods: Vec<KnownMethod>,
    routes: Vec<Route>,
}

impl Path {
    pub fn new(pattern: &'static str) -> Self {
        Self { pattern, label: pattern, methods: Vec::new(), routes: Vec::new() }
    }

    /// Every other path. All share one label, or anybody could make series without end.
    pub fn unmatched() -> Self {
        let any = web::route().to(ops::not_found);
        Self { pattern: "/{any:.*}", label: "unmatched", methods: Vec::new(), routes: vec![any] }
    }

    pub fn on<F, Args>(mut self, method: Method, success: u16, needs: Needs, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.methods.push(KnownMethod { method: method.clone(), success, needs });
        self.routes.push(web::method(method).to(handler));
        self
    }

    pub fn register(self, config: &mut ServiceConfig, metrics: &Metrics, worker: &Rc<Worker>) {
        let label = self.label;
        let known = |KnownMethod { method, success, needs }: &KnownMethod| {
            let metrics = metrics.http(label, method_label(method), *success);
            layer::KnownMethod { method: method.clone(), needs: *needs, metrics }
        };
        let layer = Rc::new(Layer {
            route: label,
            waits: STREAM_ROUTES.contains(&label),
            methods: self.methods.iter().map(known).collect(),
            other: metrics.http_unknown_methods(label),
            worker: Rc::clone(worker),
        });
        let allow = self.methods.iter().map(|known| known.method.as_str()).collect::<Vec<_>>().join(", ");
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
            let mut begun = layer.begin(&mut request);
            let answer = match layer.admit(&mut begun, &request) {
                Ok(()) => Either::Left(watched(begun.durability.clone(), handler.call(request))),
                Err(problem) => Either::Right(ready(Ok(request.error_response(problem)))),
            };
            let answer = answer.instrument(begun.span.clone());
            async move { Ok(layer.finish(begun, answer.await?)) }
        }));
    }
}

/// Lets the store say how durable what the handler writes is, where answers tell that.
fn watched<F: Future>(durability: Option<Durability>, handled: F) -> impl Future<Output = F::Output> {
    match durability {
        Some(durability) => Either::Left(durability.watch(handled)),
        None => Either::Right(handled),
    }
}

/// A method as a label: of those that some route knows.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
