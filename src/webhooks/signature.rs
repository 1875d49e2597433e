//! Signatures as Standard Webhooks has them (<https://www.standardwebhooks.com>), symmetric, version 1: HMAC-SHA256
//! over `id.timestamp.body`.

use crate::domain::{SigningSecret, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a new secret; the standard wants 24 to 64.
const SECRET_BYTES: usize = 32;

/// A secret that nobody has yet.
pub fn new_secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// The header `webhook-signature`: one for each secret in force at `at`, so that receivers may change theirs when they
/// like while a secret is rotated. `seconds` is the header `webhook-timestamp`.
pub fn signatures(secrets: &[SigningSecret], id: &str, at: Timestamp, body: &[u8]) -> String {
    let seconds = seconds(at);
    let in_force = secrets.iter().filter(|secret| secret.until.is_none_or(|until| at < until));
    let signed: Vec<String> = in_force.filter_map(|secret| sign(&secret.secret, id, seconds, body)).collect();
    signed.join(" ")
}

/// The header `webhook-timestamp`.
pub fn seconds(at: Timestamp) -> i64 {
    at.as_ms() / 1000
}

/// None where the secret is none.
fn sign(secret: &str, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use standardwebhooks::Webhook;

    fn secret(text: &str, until: Option<i64>) -> SigningSecret {
        SigningSecret { secret: text.to_owned(), until: until.and_then(Timestamp::from_ms) }
    }

    #[test]
    fn the_example_of_the_standard_is_signed_as_it_says() {
        let secrets = [secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None)];
        let at = Timestamp::from_ms(1_614_265_330_999).expect("a time");
        let signed = signatures(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_in_force_signs_and_an_independent_verifier_agrees() {
        let (new, old) = (new_secret(), new_secret());
        assert_ne!(new, old);
        let now = jiff::Timestamp::now().as_millisecond();
        let at = Timestamp::from_ms(now).expect("a time");
        let both = signatures(&[secret(&new, None), secret(&old, Some(now + 1))], "id", at, b"body");
        let one = signatures(&[secret(&new, None), secret(&old, Some(now))], "id", at, b"body");
        assert_eq!((both.split(' ').count(), one.split(' ').count()), (2, 1));
        let verifies = |known: &str, signed: &str, body: &[u8]| {
            let headers = [
                ("webhook-id", "id".to_owned()),
                ("webhook-timestamp", seconds(at).to_string()),
                ("webhook-signature", signed.to_owned()),
            ];
            let mut map = http::HeaderMap::new();
            for (name, value) in headers {
                map.insert(name, value.parse().expect("a header"));
            }
            Webhook::new(known).expect("a secret").verify(body, &map).is_ok()
        };
        assert!(
            verifies(&new, &both, b"body") && verifies(&old, &both, b"body") && verifies(&new, &one, b"body")
        );
        assert!(!verifies(&old, &one, b"body") && !verifies(&new, &both, b"Body"));
    }
}
