//! Problems: what a refused or failed request is answered with (RFC 9457).
//!
//! `table` says what each code means; here a `Problem` is made and written. It is written by the layer around the
//! handlers, in one place, because the request id belongs into it.

mod barriers;
mod code;
mod detail;
mod locks;
mod orders;
pub mod page;
pub mod table;

pub use table::{Code, Remedy};

use crate::domain::Refusal;
use crate::domain::sale::BadField;
use crate::store::StoreError;
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use detail::Detail;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Whole seconds in `Retry-After` of a 503.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Why a request got no answer of its own. Boxed: it travels through `Result`, and most requests have none.
#[derive(Debug)]
pub struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    code: Code,
    /// Said in `detail`; without it a refusal speaks for itself, else the title does.
    detail: Option<Cow<'static, str>>,
    errors: Vec<FieldError>,
    refusal: Option<Refusal>,
    /// For the log, never for the caller.
    cause: Option<StoreError>,
    allow: Option<String>,
}

/// A field of the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// JSON pointer of the field in the body; or the name of the path or query parameter or header.
    #[schema(example = "/lines/0/quantity")]
    pub field: String,
    /// What it must be.
    #[schema(example = "must be an integer from 1 to 1000000")]
    pub message: String,
}

impl Problem {
    /// A problem whose title says it all.
    pub fn new(code: Code) -> Self {
        Self(Box::new(Parts {
            code,
            detail: None,
            errors: Vec::new(),
            refusal: None,
            cause: None,
            allow: None,
        }))
    }

    /// A problem with something to add to its title.
    pub fn with_detail(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let mut problem = Self::new(code);
        problem.0.detail = Some(detail.into());
        problem
    }

    /// 422: one field is wrong.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_field(Code::InvalidRequest, field, message)
    }

    /// The same, with a code of its own.
    pub fn of_field(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problem = Self::new(code);
        problem.0.errors.push(FieldError { field: field.into(), message: message.into() });
        problem
    }

    /// 405, with the methods that the path knows.
    pub fn method_not_allowed(allow: String) -> Self {
        let mut problem = Self::new(Code::MethodNotAllowed);
        problem.0.allow = Some(allow);
        problem
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The failure behind it, for the log.
    pub fn cause(&self) -> Option<&StoreError> {
        self.0.cause.as_ref()
    }

    /// Value of `Allow`, for a 405.
    pub fn allow(&self) -> Option<&str> {
        self.0.allow.as_deref()
    }

    /// The JSON document; `instance` is the request's id.
    pub fn to_json(&self, instance: &str) -> Vec<u8> {
        let mut json = Vec::with_capacity(512);
        // Writing to memory fails only where a map's key is no string, and all keys here are.
        if serde_json::to_writer(&mut json, &Document { problem: self, instance }).is_err() {
            json.clear();
        }
        json
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::InvalidRules(bad) = refusal {
            return bad.into();
        }
        let mut problem = Self::new(Code::from(&refusal));
        let field = match refusal {
            Refusal::HoldTooLong { .. } => Some("/hold_seconds"),
            Refusal::InitialRequired => Some("/initial"),
            Refusal::BuyerRequired => Some("/buyer"),
            Refusal::IdempotencyKeyReused => Some("Idempotency-Key"),
            Refusal::QuantityExceedsReservation(_) => Some("/lines"),
            Refusal::Barrier(ref refusal) => barriers::field(refusal),
            _ => None,
        };
        let field = match refusal {
            Refusal::Order(ref refusal) => orders::field(refusal),
            _ => field.map(str::to_owned),
        };
        if let Some(field) = field {
            problem.0.errors.push(FieldError { field, message: Detail(&refusal).to_string() });
        }
        problem.0.refusal = Some(refusal);
        problem
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let mut problem = Self::new(Code::from(&error));
        problem.0.cause = Some(error);
        problem
    }
}

impl From<BadField> for Problem {
    fn from(bad: BadField) -> Self {
        Self::invalid(bad.field, bad.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.detail, &self.0.refusal, self.0.errors.as_slice()) {
            (Some(detail), ..) => f.write_str(detail),
            (None, Some(refusal), _) => Detail(refusal).fmt(f),
            (None, None, [error, ..]) if error.field.is_empty() => write!(f, "The body {}.", error.message),
            (None, None, [error, ..]) => write!(f, "`{}` {}.", error.field, error.message),
            (None, None, []) => write!(f, "{}.", self.0.code.title()),
        }
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Only the status: the layer around the handlers writes the rest, when it adds the request id.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}

/// A problem as its caller sees it.
pub(super) struct Document<'a> {
    pub(super) problem: &'a Problem,
    pub(super) instance: &'a str,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = &*self.problem.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", parts.code.uri())?;
        map.serialize_entry("title", parts.code.title())?;
        map.serialize_entry("status", &parts.code.status())?;
        map.serialize_entry("detail", &Text(self.problem))?;
        map.serialize_entry("instance", self.instance)?;
        map.serialize_entry("code", parts.code.as_str())?;
        map.serialize_entry("retryable", &parts.code.retryable())?;
        if let Some(outcome) = parts.code.outcome() {
            map.serialize_entry("outcome", outcome)?;
        }
        if !parts.errors.is_empty() {
            map.serialize_entry("errors", &parts.errors)?;
        }
        if let Some(refusal) = &parts.refusal {
            if let Some(reservation) = refusal.reservation() {
                map.serialize_entry("reservation", reservation)?;
            }
            extension_members(refusal, &mut map)?;
        }
        map.end()
    }
}

/// What only this kind of refusal has to say.
fn extension_members<M: SerializeMap>(refusal: &Refusal, map: &mut M) -> Result<(), M::Error> {
    match refusal {
        Refusal::UnknownSku(sku) => map.serialize_entry("sku", sku),
        Refusal::SaleNotOpen { opens_at } => map.serialize_entry("opens_at", opens_at),
        Refusal::SaleNotEmpty { held, sold } => {
            map.serialize_entry("held", held)?;
            map.serialize_entry("sold", sold)
        }
        Refusal::StockExists { sku, initial } => {
            map.serialize_entry("sku", sku)?;
            map.serialize_entry("initial", initial)
        }
        Refusal::HoldTooLong { extendable_until } => {
            map.serialize_entry("extendable_until", extendable_until)
        }
        Refusal::BuyerHolds { limit, held, retry_at } => {
            map.serialize_entry("limit", limit)?;
            map.serialize_entry("held", held)?;
            map.serialize_entry("retry_at", retry_at)
        }
        Refusal::BuyerLimit { sku, limit, counted, requested } => {
            map.serialize_entry("sku", sku)?;
            map.serialize_entry("limit", limit)?;
            map.serialize_entry("counted", counted)?;
            map.serialize_entry("requested", requested)
        }
        Refusal::SoldOut { shortfalls, retry_at, .. } => {
            map.serialize_entry("shortfalls", shortfalls)?;
            map.serialize_entry("may_return", &shortfalls.iter().any(|line| line.held > 0))?;
            map.serialize_entry("retry_at", retry_at)
        }
        Refusal::HoldExpired(_, Some(retake)) => map.serialize_entry("retake", retake),
        Refusal::InsufficientAvailable(level) | Refusal::GrantedChanged(level) => {
            map.serialize_entry("level", level)
        }
        Refusal::Barrier(refusal) => barriers::extension_members(refusal, map),
        Refusal::Lock(refusal) => locks::extension_members(refusal, map),
        Refusal::Order(refusal) => orders::extension_members(refusal, map),
        Refusal::CursorExpired { oldest } => map.serialize_entry("oldest", oldest),
        _ => Ok(()),
    }
}

/// Writes the detail straight into the document.
struct Text<'a>(&'a Problem);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

#[cfg(test)]
mod tests;
