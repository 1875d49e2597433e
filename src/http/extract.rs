//! What a handler needs from the request line and headers, checked before it runs.

mod at;
mod barrier;
mod feed;

pub use at::{At, PathParameter, Within};
pub use barrier::{BarrierList, ParticipantList, WaitSeconds};
pub use feed::{Feed, LiveFrom};

use super::idempotency;
use super::problem::{Code, Problem};
use crate::domain::page::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX};
use crate::domain::{Caller, IdempotencyKey, PageRequest};
use crate::store::ReservationFilter;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use std::future::{Ready, ready};
use std::str::FromStr;

/// As the gate has left it with the request. Without API keys all callers are one.
fn caller_of(request: &HttpRequest) -> Caller {
    request.extensions().get::<Caller>().cloned().unwrap_or_default()
}

/// Who calls: ids depend on it, and what there is to see.
pub struct Who(pub Caller);

impl FromRequest for Who {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self(caller_of(request))))
    }
}

/// Parameters of the query, each known and given once.
pub struct Query<T>(pub T);

/// What can be read from a query.
pub trait QueryParameters: Sized {
    /// Takes its parameters out; what is left over is refused.
    fn take(parameters: &mut Parameters) -> Result<Self, Problem>;
}

/// The pairs of a query that nobody has taken yet.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn read(query: &str) -> Result<Self, Problem> {
        if query.is_empty() {
            return Ok(Self(Vec::new())); // as nearly all are
        }
        let pairs = web::Query::<Vec<(String, String)>>::from_query(query)
            .map_err(|_| Problem::with_detail(Code::InvalidRequest, "The query cannot be read."))?
            .into_inner();
        match pairs.iter().enumerate().find(|(i, pair)| pairs[..*i].iter().any(|before| before.0 == pair.0)) {
            Some((_, twice)) => Err(Problem::invalid(&twice.0, "must be given once")),
            None => Ok(Self(pairs)),
        }
    }

    /// A cursor; one without text is none, so that the first page may be asked for like the others.
    fn take_after(&mut self) -> Option<String> {
        self.take("after").filter(|text| !text.is_empty())
    }

    /// The value of one.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|pair| pair.0 == name)?;
        Some(self.0.swap_remove(place).1)
    }
}

impl<T: QueryParameters + 'static> FromRequest for Query<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Parameters::read(request.query_string()).and_then(|mut parameters| {
            let taken = T::take(&mut parameters)?;
            match parameters.0.first() {
                Some((name, _)) => Err(Problem::invalid(name, "is not known here")),
                None => Ok(Self(taken)),
            }
        }))
    }
}

/// Digits and nothing else: `parse` alone would take `+7` as well.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

fn limit(parameters: &mut Parameters) -> Result<usize, Problem> {
    let Some(text) = parameters.take("limit") else { return Ok(PAGE_LIMIT_DEFAULT) };
    let legal = |limit: &usize| (1..=PAGE_LIMIT_MAX).contains(limit);
    let read = number(&text).filter(legal);
    read.ok_or_else(|| Problem::invalid("limit", "must be an integer from 1 to 500"))
}

impl QueryParameters for PageRequest {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self { limit: limit(parameters)?, after: parameters.take_after() })
    }
}

/// Two kinds of parameters in one query.
impl<A: QueryParameters, B: QueryParameters> QueryParameters for (A, B) {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok((A::take(parameters)?, B::take(parameters)?))
    }
}

/// Which reservations are asked for.
pub enum Wanted {
    /// The one that this key made.
    ByKey(IdempotencyKey),
    /// A page of a list.
    Page(ReservationFilter, PageRequest),
}

impl QueryParameters for Wanted {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let key = parameters.take("idempotency_key");
        let status = parameters.take("status");
        let page = PageRequest::take(parameters)?;
        match (key, status.as_deref()) {
            (Some(_), Some(_)) => Err(Problem::invalid("idempotency_key", "cannot stand beside status")),
            (Some(key), None) => idempotency::parse(key.as_bytes()).map(Self::ByKey),
            (None, None | Some("held")) => Ok(Self::Page(ReservationFilter::Held, page)),
            (None, Some("ended")) => Ok(Self::Page(ReservationFilter::Ended, page)),
            (None, Some(_)) => Err(Problem::invalid("status", "must be held or ended")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: QueryParameters + 'static>(query: &str) -> Result<T, Problem> {
        let request = actix_web::test::TestRequest::with_uri(&format!("/?{query}")).to_http_request();
        Query::from_request(&request, &mut Payload::None).into_inner().map(|Query(read)| read)
    }

    #[test]
    fn pages_have_1_to_500_items() {
        let page: PageRequest = read("limit=500&after=a%2Fb").expect("legal");
        assert_eq!((page.limit, page.after.as_deref()), (500, Some("a/b")));
        assert_eq!(read::<PageRequest>("").expect("legal").limit, PAGE_LIMIT_DEFAULT);
        for bad in [
            "limit=0",
            "limit=501",
            "limit=-1",
            "limit=%2B1",
            "limit=x",
            "limit=",
            "limit=1&limit=1",
            "offset=1",
        ] {
            assert_eq!(read::<PageRequest>(bad).expect_err(bad).code(), Code::InvalidRequest, "{bad}");
        }
    }

    #[test]
    fn reservations_are_asked_for_by_status_or_by_key() {
        assert!(matches!(read("status=ended"), Ok(Wanted::Page(ReservationFilter::Ended, _))));
        assert!(matches!(read(""), Ok(Wanted::Page(ReservationFilter::Held, _))));
        assert!(matches!(read("idempotency_key=%22k%22"), Ok(Wanted::ByKey(key)) if key.as_str() == "k"));
        for bad in ["status=open", "status=held&idempotency_key=k", "idempotency_key="] {
            assert!(read::<Wanted>(bad).is_err(), "{bad}");
        }
    }
}
