//! The spans: their names and fields, by OpenTelemetry's conventions where there are any.
//!
//! They are off unless somebody asked for them: `RUST_LOG=info,stockade::span=debug`, or a collector to send them to.
//! Off, a span costs the comparison of two numbers. No field holds text of a client but a request id, which was checked.

use super::{TraceId, TraceParent};
use tracing::field::{Empty, display};
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug_span};
use url::Url;

/// Target of all spans: what filters name.
pub const TARGET: &str = "stockade::span";

/// A request that came in.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Its method; none if it is one that the route does not know.
    pub method: Option<&'a str>,
    /// The pattern of its path.
    pub route: &'static str,
    /// Its id.
    pub request_id: &'a str,
}

/// The span of a request. `parent` is what its caller said, and is asked for only if the span is wanted.
pub fn request(incoming: &Incoming<'_>, parent: impl FnOnce() -> Option<TraceParent>) -> Span {
    let Incoming { method, route, request_id } = incoming;
    let span = debug_span!(
        target: TARGET,
        parent: None,
        "request",
        otel.kind = "server",
        otel.name = format!("{} {route}", method.unwrap_or("HTTP")),
        http.request.method = method.unwrap_or("_OTHER"),
        http.route = route,
        stockade.request_id = request_id,
        trace_id = Empty,
        http.response.status_code = Empty,
        stockade.outcome = Empty,
        error.r#type = Empty,
        otel.status_code = Empty,
    );
    if !span.is_disabled()
        && let Some(parent) = parent()
    {
        span.record("trace_id", display(parent.trace_id));
        continue_from(&span, parent);
    }
    span
}

/// How a request was answered. `outcome` is the word of `Stockade-Outcome`.
pub fn answered(span: &Span, status: u16, outcome: Option<&str>) {
    span.record("http.response.status_code", i64::from(status));
    if let Some(outcome) = outcome {
        span.record("stockade.outcome", outcome);
    }
    if status >= 500 {
        failed(span, outcome.unwrap_or("5xx"));
    }
}

/// The span of a script call that serves the present request; without one there is no span.
pub fn script(name: &'static str) -> Span {
    let present = current();
    if present.is_disabled() { present } else { script_span(Some(&present), name, 1) }
}

/// The span of a script call that carries several requests. It is nobody's child, and follows from all of them; without
/// any there is no span.
pub fn round<'a>(name: &'static str, count: usize, requests: impl Iterator<Item = &'a Span>) -> Span {
    if !may_be_on() {
        return Span::none();
    }
    let mut followed: Vec<&Span> = requests.filter(|span| !span.is_disabled()).collect();
    // Those of one bulk call stand together.
    followed.dedup_by_key(|span| span.id());
    if followed.is_empty() {
        return Span::none();
    }
    let span = script_span(None, name, count);
    followed.into_iter().for_each(|request| {
        span.follows_from(request);
    });
    span
}

fn script_span(parent: Option<&Span>, name: &'static str, requests: usize) -> Span {
    debug_span!(
        target: TARGET,
        parent: parent.and_then(Span::id),
        "script",
        otel.kind = "client",
        otel.name = format!("EVALSHA {name}"),
        db.system.name = "redis",
        db.operation.name = "EVALSHA",
        db.stored_procedure.name = name,
        stockade.requests = requests as u64,
        error.r#type = Empty,
        otel.status_code = Empty,
    )
}

/// The span of a command that serves the present request; without one there is no span.
pub fn command<'a>(name: impl FnOnce() -> &'a str) -> Span {
    let present = current();
    if present.is_disabled() {
        return present;
    }
    let name = name();
    debug_span!(
        target: TARGET,
        parent: &present,
        "command",
        otel.kind = "client",
        otel.name = name,
        db.system.name = "redis",
        db.operation.name = name,
        error.r#type = Empty,
        otel.status_code = Empty,
    )
}

/// The span of one try to deliver a message: of the present request, or the first of a trace.
pub fn delivery(url: &str, message: &str) -> Span {
    debug_span!(
        target: TARGET,
        "delivery",
        otel.kind = "client",
        otel.name = "POST",
        http.request.method = "POST",
        server.address = host(url),
        messaging.message.id = message,
        http.response.status_code = Empty,
        error.r#type = Empty,
        otel.status_code = Empty,
    )
}

/// Of a URL nothing else: its path may be a secret.
fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

/// How a receiver has answered a delivery.
pub fn delivered(span: &Span, status: Option<u16>, error: Option<&str>) {
    if let Some(status) = status {
        span.record("http.response.status_code", i64::from(status));
    }
    if let Some(error) = error {
        failed(span, error);
    }
}

/// What a span was about has failed; `kind` is one of a few words.
pub fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// The span of the present request, to be carried to where its work is done.
pub fn current() -> Span {
    if may_be_on() { Span::current() } else { Span::none() }
}

/// Whether anybody could want spans: what is worth its while only then should ask. Not `enabled!`: with filters of single layers it may lose the next event.
pub fn may_be_on() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// The trace that a line of the log belongs to: that of the span if it is sent to a collector, else what the caller said.
pub fn trace_id(span: &Span, parent: impl FnOnce() -> Option<TraceParent>) -> Option<TraceId> {
    exported(span).or_else(parent).map(|parent| parent.trace_id)
}

#[cfg(feature = "otlp")]
pub use super::otel::exported;

#[cfg(feature = "otlp")]
use super::otel::continue_from;

/// What children of the span are told, if it is sent to a collector; this build sends none.
#[cfg(not(feature = "otlp"))]
pub fn exported(_: &Span) -> Option<TraceParent> {
    None
}

#[cfg(not(feature = "otlp"))]
fn continue_from(_: &Span, _: TraceParent) {}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;
    use tracing::subscriber::with_default;
    use tracing_subscriber::fmt;

    fn spans_of_all_kinds(parent: impl Fn() -> Option<TraceParent>) -> Vec<Span> {
        let incoming = Incoming { method: None, route: "/v1/sales", request_id: "r" };
        let request = request(&incoming, parent);
        let (script, command) = request.in_scope(|| (script("sale/put"), command(|| "GET")));
        let round = round("reservation/reserve", 2, [&request, &request].into_iter());
        vec![request, script, command, round, delivery("https://a.example/secret", "id")]
    }

    #[test]
    fn nothing_is_made_for_who_does_not_ask() {
        let info = fmt().with_max_level(Level::INFO).with_writer(std::io::sink).finish();
        with_default(info, || {
            let spans = spans_of_all_kinds(|| panic!("nobody reads the header"));
            assert!(spans.iter().all(Span::is_disabled), "{spans:?}");
        });
    }

    #[test]
    fn each_kind_is_made_for_who_asks() {
        let debug = fmt().with_max_level(Level::DEBUG).with_writer(std::io::sink).finish();
        with_default(debug, || {
            let spans = spans_of_all_kinds(|| None);
            assert!(!spans.iter().any(Span::is_disabled), "{spans:?}");
            let alone = (script("sale/put"), command(|| "GET"), round("sale/put", 1, std::iter::empty()));
            assert!(
                alone.0.is_disabled() && alone.1.is_disabled() && alone.2.is_disabled(),
                "for no request"
            );
        });
    }

    #[test]
    fn of_a_url_only_the_host_is_told() {
        assert_eq!(host("https://user:word@a.example:1/secret?token").as_deref(), Some("a.example"));
    }
}
