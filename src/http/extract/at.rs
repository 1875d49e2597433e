//! Parameters of the path.

use super::caller_of;
use crate::domain::{
    BarrierId, Buyer, Caller, LockName, OrderId, Refusal, ReservationId, SaleId, Sku, WebhookId,
};
use crate::http::problem::{Code, Problem};
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use std::future::{Ready, ready};

/// One parameter.
pub struct At<T>(pub T);

/// What can stand in a path.
pub trait PathParameter: Sized {
    /// Reads it from its text; the caller does not see everything.
    fn read(text: String, caller: &Caller) -> Result<Self, Problem>;
}

macro_rules! path_names {
    ($($name:ident $parameter:literal),*) => {$(
        impl PathParameter for $name {
            fn read(text: String, _: &Caller) -> Result<Self, Problem> {
                Self::try_from(text).map_err(|bad| Problem::invalid($parameter, bad.0))
            }
        }
    )*};
}

path_names!(Sku "sku", Buyer "buyer", BarrierId "barrier", LockName "name");

impl PathParameter for SaleId {
    /// A sale that the caller may not see does not exist for him: checked here, where every sale of a path comes in.
    fn read(text: String, caller: &Caller) -> Result<Self, Problem> {
        let sale = Self::try_from(text).map_err(|bad| Problem::invalid("sale", bad.0))?;
        if caller.may_see(&sale) { Ok(sale) } else { Err(Refusal::UnknownSale.into()) }
    }
}

impl PathParameter for ReservationId {
    /// An id that is no UUID is the id of nothing.
    fn read(text: String, _: &Caller) -> Result<Self, Problem> {
        let id = uuid::Uuid::try_parse(&text).map_err(|_| Problem::new(Code::UnknownReservation))?;
        Ok(Self(id))
    }
}

impl PathParameter for OrderId {
    /// An id that is no UUID is the id of nothing.
    fn read(text: String, _: &Caller) -> Result<Self, Problem> {
        let id = uuid::Uuid::try_parse(&text).map_err(|_| Problem::new(Code::UnknownOrder))?;
        Ok(Self(id))
    }
}

impl PathParameter for WebhookId {
    /// An id that is no UUID is the id of nothing.
    fn read(text: String, _: &Caller) -> Result<Self, Problem> {
        let id = uuid::Uuid::try_parse(&text).map_err(|_| Problem::new(Code::UnknownWebhook))?;
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
        let caller = caller_of(request);
        ready(decoded.map_err(undecodable).and_then(|text| A::read(text.into_inner(), &caller)).map(Self))
    }
}

/// Two parameters, in the order of the path.
pub struct Within<A, B>(pub A, pub B);

impl<A: PathParameter + 'static, B: PathParameter + 'static> FromRequest for Within<A, B> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let decoded = web::Path::<(String, String)>::from_request(request, payload).into_inner();
        let caller = caller_of(request);
        ready(decoded.map_err(undecodable).and_then(|texts| {
            let (outer, inner) = texts.into_inner();
            Ok(Self(A::read(outer, &caller)?, B::read(inner, &caller)?))
        }))
    }
}
