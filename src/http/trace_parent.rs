//! The header `traceparent`: the span of whoever calls.

use crate::trace::TraceParent;
use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::{FromRequest, HttpRequest};
use std::convert::Infallible;
use std::future::{Ready, ready};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What the caller says; nothing if it is not legal, or said twice.
pub(super) fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut said = headers.get_all(TRACEPARENT);
    let parent = TraceParent::parse(said.next()?.as_bytes());
    parent.filter(|_| said.next().is_none())
}

/// The same, for handlers.
pub struct CallerSpan(pub Option<TraceParent>);

impl FromRequest for CallerSpan {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self(trace_parent(request.headers()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn it_is_read_only_if_it_is_said_once() {
        let mut headers = HeaderMap::new();
        assert_eq!(trace_parent(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(ONE));
        assert_eq!(trace_parent(&headers).unwrap().to_string(), ONE);
        headers.append(TRACEPARENT, HeaderValue::from_static(ONE));
        assert_eq!(trace_parent(&headers), None);
    }
}
