//! The one layer around every handler: who may call, request id, headers, the writing of problems, metrics.
//!
//! It sits at the resource, not at the app: there the route is known without matching it again, and its counters are
//! at hand.

mod log;

pub use log::CallLog;

use super::answer::STOCKADE_OUTCOME;
use super::auth::{Gate, NOTHING, Needs};
use super::problem::{Code, Problem, RETRY_AFTER_SECONDS};
use super::rate_limit::Standing;
use super::request_id::{RequestIds, X_REQUEST_ID};
use super::trace_parent::trace_parent;
use crate::metrics::HttpMetrics;
use crate::store::Durability;
use crate::trace::spans;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode};
use log::{FailureLog, trace_id};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::watch;
use tracing::Span;

/// What the API's paths begin with.
const API: &str = "/v1";

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
const STOCKADE_DURABILITY: HeaderName = HeaderName::from_static("stockade-durability");
const LOCAL: HeaderValue = HeaderValue::from_static("local");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Set once when the process begins to stop; it is then not ready, and asks clients to leave.
#[derive(Clone, Default)]
pub struct Draining {
    /// Every request looks at it.
    has_begun: Arc<AtomicBool>,
    /// Streams wait for it.
    told: watch::Sender<bool>,
}

impl Draining {
    /// From now on.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
        self.told.send_replace(true);
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Comes when it begins.
    pub fn begun(&self) -> impl Future<Output = ()> + use<> {
        let mut told = self.told.subscribe();
        async move {
            // It ends with an error only when nobody is left to tell.
            let _ = told.wait_for(|begun| *begun).await;
        }
    }
}

/// What the layers of one worker thread share.
pub struct Worker {
    draining: Draining,
    request_ids: RequestIds,
    failures: FailureLog,
    gate: Gate,
    /// Answers say when what they tell is on no replica.
    tells_durability: bool,
}

impl Worker {
    /// One a thread.
    pub fn new(draining: Draining, gate: Gate, tells_durability: bool) -> Self {
        let failures = FailureLog::default();
        Self { draining, request_ids: RequestIds::new(), failures, gate, tells_durability }
    }
}

/// The layer of one route.
pub struct Layer {
    /// Pattern of its path, as metrics and log name it.
    pub route: &'static str,
    /// It answers when something has happened: how long that took says nothing of the service.
    pub waits: bool,
    /// Counters of each method that it knows.
    pub methods: Vec<KnownMethod>,
    /// Counters of all other methods.
    pub other: HttpMetrics,
    /// What the thread's layers share.
    pub worker: Rc<Worker>,
}

/// A method that the route knows.
pub struct KnownMethod {
    /// Which.
    pub method: Method,
    /// What it needs.
    pub needs: Needs,
    /// Its counters.
    pub metrics: HttpMetrics,
}

/// What is known of a request before its handler runs.
pub struct Begun {
    id: HeaderValue,
    at: Instant,
    /// Of the caller, where there is a limit of rate.
    standing: Option<Standing>,
    /// Of what it writes, where answers tell it.
    pub durability: Option<Durability>,
    /// Of the work for it.
    pub span: Span,
}

impl Layer {
    /// Before the handler.
    pub fn begin(&self, request: &mut ServiceRequest) -> Begun {
        let (id, at) = (self.worker.request_ids.of(request), Instant::now());
        // Probes and documents would be most of what is recorded.
        let is_wanted = spans::may_be_on() && self.route.starts_with(API);
        let span = if is_wanted { self.span(&id, request) } else { Span::none() };
        let durability = self.worker.tells_durability.then(Durability::default);
        Begun { id, at, standing: None, durability, span }
    }

    fn span(&self, id: &HeaderValue, request: &ServiceRequest) -> Span {
        let incoming = spans::Incoming {
            method: self.known(request.method()).map(|known| known.method.as_str()),
            route: self.route,
            request_id: id.to_str().unwrap_or_default(),
        };
        spans::request(&incoming, || trace_parent(request.headers()))
    }

    /// Whether the handler may run. A method that the route does not know needs no key to be refused.
    pub fn admit(&self, begun: &mut Begun, request: &ServiceRequest) -> Result<(), Problem> {
        let needs = self.known(request.method()).map_or(NOTHING, |known| known.needs);
        let gate = &self.worker.gate;
        gate.admit(request, needs)?;
        let Some(limit) = gate.rate_limit(needs) else { return Ok(()) };
        let standing = begun.standing.insert(limit.count(request));
        if standing.is_over { Err(Problem::new(Code::RateLimited)) } else { Ok(()) }
    }

    fn known(&self, method: &Method) -> Option<&KnownMethod> {
        self.methods.iter().find(|known| known.method == *method)
    }

    /// After it.
    pub fn finish(&self, begun: Begun, answer: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        let method = answer.request().method().clone();
        let mut answer = self.with_problem_written(&begun, &method, answer);
        let status = answer.status();
        let head = answer.response_mut().head_mut();
        head.headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if let Some(standing) = &begun.standing {
            standing.write(&mut head.headers);
        }
        if begun.durability.as_ref().is_some_and(Durability::is_local) {
            head.headers.insert(STOCKADE_DURABILITY, LOCAL);
        }
        if self.route.starts_with(API) || status.as_u16() >= 400 {
            head.headers.insert(header::CACHE_CONTROL, NO_STORE);
        }
        let body_is_unread = matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT);
        if body_is_unread || self.worker.draining.has_begun() {
            head.set_connection_type(ConnectionType::Close);
        }
        let is_stream = self.waits || matches!(answer.response().body().size(), BodySize::Stream);
        let duration = (!is_stream).then(|| begun.at.elapsed());
        let metrics = self.known(&method).map_or(&self.other, |known| &known.metrics);
        metrics.answered(status.as_u16(), duration);
        if !begun.span.is_disabled() {
            let outcome = answer.headers().get(STOCKADE_OUTCOME).and_then(|outcome| outcome.to_str().ok());
            spans::answered(&begun.span, status.as_u16(), outcome);
        }
        tracing::debug!(
            request_id = ?begun.id,
            trace_id = trace_id(&begun.span, answer.request().headers()).map(display),
            %method,
            route = self.route,
            status = status.as_u16(),
            ?duration,
            "Answered"
        );
        answer.headers_mut().insert(X_REQUEST_ID, begun.id);
        answer
    }

    /// Gives a problem its document, now that the request id is at hand.
    fn with_problem_written(
        &self,
        begun: &Begun,
        method: &Method,
        answer: ServiceResponse<BoxBody>,
    ) -> ServiceResponse<BoxBody> {
        let Some(problem) = answer.response().error().and_then(|error| error.as_error::<Problem>()) else {
            return answer;
        };
        let id = begun.id.to_str().unwrap_or_default();
        let code = problem.code();
        let document = problem.to_json(id);
        let allow = problem.allow().and_then(|methods| HeaderValue::try_from(methods).ok());
        if code.status() >= 500 {
            let trace_id = trace_id(&begun.span, answer.request().headers());
            self.worker.failures.say(id, trace_id, self.route, problem);
        }
        let mut answer = answer.map_body(|_, _| BoxBody::new(document));
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if !matches!(*method, Method::GET | Method::HEAD) {
            headers.insert(STOCKADE_OUTCOME, HeaderValue::from_static(code.as_str()));
        }
        if code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, BEARER);
        }
        if code.status() == 503 || code == Code::RequestTimeout {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        if let Some(allow) = allow {
            headers.insert(header::ALLOW, allow);
        }
        answer
    }
}
