//! From what the store decided to the answer of HTTP.

use super::problem::{Code, Problem};
use crate::domain::{Decision, Outcome, Page, Sale};
use crate::store::StoreError;
use actix_web::HttpResponse;
use actix_web::body::MessageBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use serde::Serialize;

/// Says in one word how a mutation went: the words of the metric label `outcome`.
pub const STOCKADE_OUTCOME: HeaderName = HeaderName::from_static("stockade-outcome");
/// Says that the effect was there already.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a handler returns.
pub type Answer = Result<HttpResponse, Problem>;

/// A mutation that was carried out, now or before.
pub struct Done<T> {
    /// How.
    pub outcome: Outcome,
    /// What there is after it.
    pub value: T,
}

impl<T> Done<T> {
    /// The same, with what `make` makes of the value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Done<U> {
        Done { outcome: self.outcome, value: make(self.value) }
    }
}

/// What was done; a refusal or a failure is a problem.
pub fn done<T>(decided: Result<Decision<T>, StoreError>) -> Result<Done<T>, Problem> {
    match decided? {
        Decision::Done(outcome, value) => Ok(Done { outcome, value }),
        Decision::Refused(refusal) => Err(refusal.into()),
    }
}

/// Answer to a read: what there is.
pub fn found<T: Serialize>(decided: Result<Decision<T>, StoreError>) -> Answer {
    json(StatusCode::OK, &done(decided)?.value)
}

/// Answer to a read of what is JSON already.
pub fn found_json(decided: Result<Decision<Bytes>, StoreError>) -> Answer {
    Ok(of_json(StatusCode::OK, done(decided)?.value))
}

/// Answer to a mutation: its value, and how it went.
pub fn carried_out<T: Serialize>(status: StatusCode, done: &Done<T>) -> Answer {
    let mut answer = json(status, &done.value)?;
    say_outcome(&mut answer, done.outcome);
    Ok(answer)
}

/// Adds the headers that say how a mutation went.
pub fn say_outcome(answer: &mut HttpResponse, outcome: Outcome) {
    let headers = answer.headers_mut();
    headers.insert(STOCKADE_OUTCOME, HeaderValue::from_static(outcome.as_str()));
    if outcome == Outcome::Replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}

/// A JSON answer, written once.
pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    let mut body = Vec::with_capacity(640);
    serde_json::to_writer(&mut body, value).map_err(|_| Problem::new(Code::Internal))?;
    Ok(of_json(status, body))
}

fn of_json(status: StatusCode, body: impl MessageBody + 'static) -> HttpResponse {
    let mut answer = HttpResponse::with_body(status, body).map_into_boxed_body();
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer
}

/// One page with one item, or none: how a look-up that may find nothing answers.
pub fn page_of<T>(item: Option<T>) -> Page<T> {
    Page { items: item.into_iter().collect(), next: None }
}

/// A sale, with its ETag.
pub fn sale(mut answer: HttpResponse, sale: &Sale) -> Answer {
    let etag = HeaderValue::try_from(format!("\"{}-{}\"", sale.generation, sale.version))
        .map_err(|_| Problem::new(Code::Internal))?;
    answer.headers_mut().insert(header::ETAG, etag);
    Ok(answer)
}
