//! What a handler needs from the request line and headers, checked before it runs.

mod feed;

use super::idempotency;
use super::problem::{Code, Problem};
use crate::domain::page::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX};
use crate::domain::{Buyer, Caller, Expect, IdempotencyKey, PageRequest, ReservationId, SaleId, Sku};
use crate::store::ReservationFilter;
use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderName};
use actix_web::{FromRequest, HttpRequest, web};
pub use feed::{Feed, LiveFrom};
use std::future::{Ready, ready};

/// Parameters of the path.
pub struct At<T>(pub T);

/// What can stand in a path.
pub trait PathParameter: Sized {
    /// Reads it from its text.
    fn read(text: String) -> Result<Self, Problem>;
}

macro_rules! path_names {
    ($($name:ident $parameter:literal),*) => {$(
        impl PathParameter for $name {
            fn read(text: String) -> Result<Self, Problem> {
                Self::try_from(text).map_err(|bad| Problem::invalid($parameter, bad.0))
            }
        }
    )*};
}

path_names!(SaleId "sale", Sku "sku", Buyer "buyer");

impl PathParameter for ReservationId {
    /// An id that is no UUID is the id of nothing.
    fn read(text: String) -> Result<Self, Problem> {
        let id = uuid::Uuid::try_parse(&text).map_err(|_| Problem::new(Code::UnknownReservation))?;
        Ok(Self(id))
    }
}

/// A parameter that does not decode to UTF-8 names nothing.
fn undecodable<E>(_: E) -> Problem {
    Problem::with_detail(Code::NotFound, "The path is not UTF-8.")
}

impl<A: PathParameter + 'static> FromRequest for At<A> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let decoded = web::Path::<String>::from_request(request, payload).into_inner();
        ready(decoded.map_err(undecodable).and_then(|text| A::read(text.into_inner())).map(Self))
    }
}

/// Two parameters, in the order of the path.
pub struct Within<A, B>(pub A, pub B);

impl<A: PathParameter + 'static, B: PathParameter + 'static> FromRequest for Within<A, B> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let decoded = web::Path::<(String, String)>::from_request(request, payload).into_inner();
        ready(decoded.map_err(undecodable).and_then(|texts| {
            let (outer, inner) = texts.into_inner();
            Ok(Self(A::read(outer)?, B::read(inner)?))
        }))
    }
}

/// Who calls: ids depend on it. Without API keys all callers are one.
pub struct Who(pub Caller);

impl FromRequest for Who {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(_: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self(Caller::default())))
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

    fn take(&mut self, name: &str) -> Option<String> {
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

fn limit(parameters: &mut Parameters) -> Result<usize, Problem> {
    let Some(text) = parameters.take("limit") else { return Ok(PAGE_LIMIT_DEFAULT) };
    let legal = |limit: &usize| (1..=PAGE_LIMIT_MAX).contains(limit);
    let read = text.parse().ok().filter(legal);
    read.ok_or_else(|| Problem::invalid("limit", "must be an integer from 1 to 500"))
}

impl QueryParameters for PageRequest {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self { limit: limit(parameters)?, after: parameters.take_after() })
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

/// The state of the sale that a PUT wants to meet.
pub struct Precondition(pub Expect);

impl FromRequest for Precondition {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let value = |name: &HeaderName| match request.headers().get(name) {
            Some(value) => value.to_str().map(|text| Some(text.trim())),
            None => Ok(None),
        };
        ready(match (value(&header::IF_MATCH), value(&header::IF_NONE_MATCH)) {
            (Ok(matching), Ok(none_matching)) => expected(matching, none_matching).map(Self),
            _ => Err(Problem::invalid("If-Match", "must be printable ASCII")),
        })
    }
}

fn expected(matching: Option<&str>, none_matching: Option<&str>) -> Result<Expect, Problem> {
    let one_etag = |text: &str| {
        text.strip_prefix('"')?.strip_suffix('"').filter(|tag| !tag.contains('"')).map(str::to_owned)
    };
    match (matching, none_matching) {
        (None, None) => Ok(Expect::Anything),
        (None, Some("*")) => Ok(Expect::Absent),
        (None, Some(_)) => Err(Problem::invalid("If-None-Match", "must be *")),
        (Some(_), Some(_)) => Err(Problem::invalid("If-Match", "cannot stand beside If-None-Match")),
        (Some(text), None) => one_etag(text)
            .map(Expect::Etag)
            .ok_or_else(|| Problem::invalid("If-Match", "must be one ETag of the sale, in quotes")),
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
        for bad in ["limit=0", "limit=501", "limit=-1", "limit=x", "limit=", "limit=1&limit=1", "offset=1"] {
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

    #[test]
    fn a_precondition_is_one_etag_or_absence() {
        assert_eq!(expected(None, None).ok(), Some(Expect::Anything));
        assert_eq!(expected(None, Some("*")).ok(), Some(Expect::Absent));
        assert_eq!(expected(Some("\"9f3c-4\""), None).ok(), Some(Expect::Etag("9f3c-4".into())));
        for (matching, none_matching) in [
            (Some("*"), None),
            (Some("9f3c-4"), None),
            (Some("W/\"9f3c-4\""), None),
            (Some("\"a\", \"b\""), None),
            (None, Some("\"9f3c-4\"")),
            (Some("\"9f3c-4\""), Some("*")),
        ] {
            assert!(expected(matching, none_matching).is_err(), "{matching:?} {none_matching:?}");
        }
    }
}
