//! Lines of the log about requests that failed.

use super::Worker;
use crate::http::problem::{Code, Problem};
use crate::http::request_id::X_REQUEST_ID;
use crate::http::trace_parent::trace_parent;
use crate::trace::{TraceId, spans};
use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, HeaderValue};
use actix_web::{FromRequest, HttpRequest};
use std::cell::Cell;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tracing::Span;
use tracing::field::display;

/// While the store is away every request fails: one line tells it.
const FAILURE_LINE_EVERY: Duration = Duration::from_secs(1);

/// Says that the store fails, once a second at most, and how often it did.
#[derive(Default)]
pub(super) struct FailureLog {
    last: Cell<Option<Instant>>,
    unsaid: Cell<u64>,
}

impl FailureLog {
    pub(super) fn say(&self, id: &str, trace_id: Option<TraceId>, route: &str, problem: &Problem) {
        let trace_id = trace_id.map(display);
        let code = problem.code().as_str();
        let cause = problem.cause().map(ToString::to_string).unwrap_or_default();
        if problem.code().status() == 500 {
            tracing::error!(request_id = id, trace_id, route, code, ?cause, "A request met a fault");
            return;
        }
        let due = self.last.get().is_none_or(|last| last.elapsed() >= FAILURE_LINE_EVERY);
        if due {
            let unsaid = self.unsaid.take();
            self.last.set(Some(Instant::now()));
            tracing::warn!(
                request_id = id,
                trace_id,
                route,
                code,
                ?cause,
                unsaid,
                "Requests are answered 503"
            );
        } else {
            self.unsaid.set(self.unsaid.get() + 1);
        }
    }
}

/// The call as log and `instance` name it: for handlers whose answers hold problems of their own.
pub struct CallLog {
    id: HeaderValue,
    trace_id: Option<TraceId>,
    worker: Rc<Worker>,
}

impl CallLog {
    /// The request's id.
    pub fn id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// Logs a failure, as that of a whole call is.
    pub fn say(&self, instance: &str, route: &str, problem: &Problem) {
        self.worker.failures.say(instance, self.trace_id, route, problem);
    }

    #[cfg(test)]
    pub(in crate::http) fn for_test(id: &'static str) -> Self {
        use super::Draining;
        use crate::http::auth::Gate;
        use clap::Parser;
        let options =
            crate::config::Config::try_parse_from(["stockade"]).expect("defaults are legal").options;
        let access = crate::api_keys::Access::of(&options).expect("loopback needs no keys");
        let gate = Gate::new(&access, &options, options.listen);
        let id = HeaderValue::from_static(id);
        Self { id, trace_id: None, worker: Rc::new(Worker::new(Draining::default(), gate, false)) }
    }
}

/// The trace that lines of the log about a request belong to.
pub(super) fn trace_id(span: &Span, headers: &HeaderMap) -> Option<TraceId> {
    spans::trace_id(span, || trace_parent(headers))
}

impl FromRequest for CallLog {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let (id, worker) = (request.headers().get(X_REQUEST_ID), request.app_data::<Rc<Worker>>());
        ready(match (id, worker) {
            (Some(id), Some(worker)) => {
                let trace_id = trace_id(&spans::current(), request.headers());
                Ok(Self { id: id.clone(), trace_id, worker: Rc::clone(worker) })
            }
            _ => Err(Problem::new(Code::Internal)),
        })
    }
}
