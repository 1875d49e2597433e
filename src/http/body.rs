//! Bodies: read within a limit and a deadline, then parsed so that an error names its field.

mod errors;

use super::problem::{Code, Problem};
use crate::domain::{
    AcquireLock, Adjust, Arrive, Confirm, ConfirmOrder, Declare, Extend, ExtendDeadline, OrderRequest,
    PatchSale, PutBarrier, PutSale, PutSku, Release, ReleaseLock, RenewLock, Reserve, ReserveBulk, Return,
    Seal,
};
use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderMap};
use actix_web::web::{Bytes, BytesMut};
use actix_web::{FromRequest, HttpRequest};
use errors::{OUT_OF_RANGE, field_problem};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Largest body, but for those that carry lists.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;
/// Largest body of PUT sale and of bulk: 1,000 SKUs with long names fit, and 500 carts of many lines.
pub const LIST_BYTES_MAX: usize = 1_024 * 1_024;
/// Largest body that names participants: 1,000 long names fit.
pub const NAMES_BYTES_MAX: usize = 128 * 1_024;
const JSON: &str = "application/json";
/// A body that takes longer is given up with 408.
const BODY_SECONDS_MAX: Duration = Duration::from_secs(10);

/// The body of a request, read and checked.
pub struct Body<T>(pub T);

/// What a body can be.
pub trait Document: DeserializeOwned + 'static {
    /// Largest body in bytes.
    const BYTES_MAX: usize = BODY_BYTES_MAX;
    /// Another media type that it may have beside `application/json`.
    const MEDIA_TYPE: &str = JSON;

    /// What no body at all means; `None`: a body is needed.
    fn when_empty() -> Option<Self> {
        None
    }
}

impl Document for Reserve {}
impl Document for Extend {}
impl Document for Adjust {}
impl Document for PutSku {}
impl Document for Arrive {}
impl Document for ExtendDeadline {}
impl Document for Declare {
    const BYTES_MAX: usize = NAMES_BYTES_MAX;
}
impl Document for PutBarrier {
    const BYTES_MAX: usize = NAMES_BYTES_MAX;
}
impl Document for Seal {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}
impl Document for PatchSale {
    const MEDIA_TYPE: &str = "application/merge-patch+json";
}
impl Document for PutSale {
    const BYTES_MAX: usize = LIST_BYTES_MAX;
}
impl Document for ReserveBulk {
    const BYTES_MAX: usize = LIST_BYTES_MAX;
}
impl Document for Confirm {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}
impl Document for AcquireLock {}
impl Document for RenewLock {}
impl Document for ReleaseLock {}
impl Document for OrderRequest {}
impl Document for ConfirmOrder {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}
impl Document for Release {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}
impl Document for Return {
    fn when_empty() -> Option<Self> {
        Some(Self::default())
    }
}

/// The body of a verb that needs no word: none, or `{}`.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl Document for Nothing {
    fn when_empty() -> Option<Self> {
        Some(Self {})
    }
}

impl<T: Document> FromRequest for Body<T> {
    type Error = Problem;
    type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let announced = announced(request.headers(), T::BYTES_MAX);
        let is_json = is_json(request.headers(), T::MEDIA_TYPE);
        let payload = payload.take();
        Box::pin(async move {
            announced?;
            let mut reading = pin!(read(payload, T::BYTES_MAX));
            // Nearly every body is there already, and needs no timer.
            let bytes = match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
                Poll::Ready(bytes) => bytes?,
                Poll::Pending => tokio::time::timeout(BODY_SECONDS_MAX, reading)
                    .await
                    .map_err(|_| Problem::new(Code::RequestTimeout))??,
            };
            match T::when_empty() {
                Some(default) if bytes.is_empty() => Ok(Self(default)),
                _ if !is_json => Err(Problem::new(Code::UnsupportedMediaType)),
                _ => parse(&bytes).map(Self),
            }
        })
    }
}

/// Refuses a body that says itself that it is too large, before any of it is read.
fn announced(headers: &HeaderMap, bytes_max: usize) -> Result<(), Problem> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|bytes| bytes > bytes_max as u64) { Err(too_large(bytes_max)) } else { Ok(()) }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::with_detail(Code::PayloadTooLarge, format!("At most {bytes_max} bytes are read here."))
}

/// `application/json`, or `other`, in UTF-8, not compressed. Browsers cannot send that to another site without asking first.
fn is_json(headers: &HeaderMap, other: &str) -> bool {
    let Some(content_type) = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes()) else {
        return false;
    };
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return false;
    }
    if content_type == JSON.as_bytes() {
        return true;
    }
    let mut parts = content_type.split(|&b| b == b';').map(|part| part.trim_ascii());
    let is_one =
        |name: &[u8]| [JSON, other].iter().any(|media_type| name.eq_ignore_ascii_case(media_type.as_bytes()));
    parts.next().is_some_and(is_one)
        && parts.all(|parameter| {
            let charset = parameter.len() > 8 && parameter[..8].eq_ignore_ascii_case(b"charset=");
            !charset || {
                let name = parameter[8..].trim_ascii();
                name.eq_ignore_ascii_case(b"utf-8") || name.eq_ignore_ascii_case(b"\"utf-8\"")
            }
        })
}

/// Reads the whole body. One that came in one piece, as small ones do, is not copied.
async fn read(mut payload: Payload, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut whole = Bytes::new();
    let mut pieces: Option<BytesMut> = None;
    while let Some(piece) = payload.next().await {
        let piece =
            piece.map_err(|_| Problem::with_detail(Code::MalformedJson, "The body is incomplete."))?;
        let length = pieces.as_ref().map_or(whole.len(), |pieces| pieces.len());
        if length + piece.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        match &mut pieces {
            Some(pieces) => pieces.extend_from_slice(&piece),
            None if whole.is_empty() => whole = piece,
            None => {
                let mut both = BytesMut::from(whole.as_ref());
                both.extend_from_slice(&piece);
                pieces = Some(both);
            }
        }
    }
    Ok(pieces.map_or(whole, BytesMut::freeze))
}

/// Parses a body. Only where that fails it is parsed again, slowly, to find the field.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde reads an array as a struct, in the order of its fields.
    if bytes.trim_ascii_start().first() == Some(&b'[') && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    {
        return Err(Problem::invalid("", "must be an object"));
    }
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => field_problem::<T>(bytes),
        // `1e400` is a number of JSON; it is only too large to be read as one.
        Category::Syntax if error.to_string().starts_with(OUT_OF_RANGE) => field_problem::<T>(bytes),
        Category::Eof if bytes.is_empty() => Problem::with_detail(Code::MalformedJson, "The body is empty."),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::with_detail(Code::MalformedJson, format!("The body is not JSON: {error}."))
        }
    })
}

#[cfg(test)]
mod tests;
