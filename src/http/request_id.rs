//! The id of a request: the client's own, or one of ours.

use actix_web::dev::ServiceRequest;
use actix_web::http::header::{HeaderName, HeaderValue};
use std::cell::Cell;

/// Names one request, in the answer and in the log.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is taken over from the client.
const REQUEST_ID_CHARS_MAX: usize = 128;

/// Makes ids: a random beginning a worker, then a number. No system call, and no two alike.
pub(super) struct RequestIds {
    random: String,
    next: Cell<u64>,
}

impl RequestIds {
    /// For one worker thread.
    pub(super) fn new() -> Self {
        Self { random: uuid::Uuid::new_v4().simple().to_string()[..16].to_owned(), next: Cell::new(0) }
    }

    /// The client's id if it is a legal one, else a new one, which the request then carries.
    pub(super) fn of(&self, request: &mut ServiceRequest) -> HeaderValue {
        match request.headers().get(X_REQUEST_ID) {
            Some(id) if is_legal(id.as_bytes()) => id.clone(),
            _ => {
                let id = self.make();
                request.headers_mut().insert(X_REQUEST_ID, id.clone());
                id
            }
        }
    }

    fn make(&self) -> HeaderValue {
        let number = self.next.get();
        self.next.set(number + 1);
        let mut id = [b'-'; 16 + 1 + 12];
        id[..16].copy_from_slice(self.random.as_bytes());
        for (place, digit) in id[17..].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
        }
        HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("-"))
    }
}

fn is_legal(id: &[u8]) -> bool {
    let legal = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.iter().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_legal_and_all_different() {
        let ids = RequestIds::new();
        let made: std::collections::HashSet<_> =
            (0..10_000).map(|_| ids.make().as_bytes().to_vec()).collect();
        assert_eq!(made.len(), 10_000);
        assert!(made.iter().all(|id| is_legal(id)));
    }

    #[test]
    fn the_clients_request_id_is_taken_over_if_it_is_harmless() {
        assert!(is_legal(b"2f6b.A_z-9"));
        for bad in ["", "a b", "a\"b", "{}", &"x".repeat(129)] {
            assert!(!is_legal(bad.as_bytes()), "{bad:?}");
        }
    }
}
