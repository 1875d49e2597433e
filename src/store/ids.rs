//! Ids that follow from the caller's key: a repeat finds its record without any further storage, and nobody can guess
//! an id without the sale's secret.

use crate::domain::{Caller, IdempotencyKey, OperationId, OrderId, ReservationId, WebhookId, WebhookUrl};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Characters of an id as it stands in keys: 16 bytes in base64url.
pub const ID_CHARS: usize = 22;

/// Makes the ids of one incarnation of a sale.
#[derive(Clone)]
pub struct IdMaker(Hmac<Sha256>);

impl std::fmt::Debug for IdMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdMaker(..)")
    }
}

impl IdMaker {
    /// `id_key` is the sale's secret.
    pub fn new(id_key: &[u8]) -> Self {
        let mac =
            Hmac::new_from_slice(id_key).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        Self(mac)
    }

    /// Of the purpose, the caller and the key; random without a key.
    fn make(&self, purpose: &str, caller: &Caller, key: Option<&IdempotencyKey>) -> Uuid {
        match key {
            Some(key) => {
                self.digest(&[purpose.as_bytes(), caller.name().as_bytes(), key.as_str().as_bytes()])
            }
            None => Uuid::new_v4(),
        }
    }

    /// HMAC-SHA256 over the parts, each with its length.
    fn hmac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// UUIDv8 of that.
    fn digest(&self, parts: &[&[u8]]) -> Uuid {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.hmac(parts)[..16]);
        Uuid::new_v8(bytes)
    }

    /// Id of the reservation that this key makes.
    pub fn reservation(&self, caller: &Caller, key: Option<&IdempotencyKey>) -> ReservationId {
        ReservationId(self.make("reservation", caller, key))
    }

    /// Id of the reservation that the request at `place` of a bulk call makes, when it has no key of its own. It has a
    /// purpose of its own too: no key that a client can send makes the same id.
    pub fn bulk_reservation(&self, caller: &Caller, key: &IdempotencyKey, place: usize) -> ReservationId {
        let (caller, key, place) =
            (caller.name().as_bytes(), key.as_str().as_bytes(), (place as u64).to_be_bytes());
        ReservationId(self.digest(&[b"bulk reservation", caller, key, &place]))
    }

    /// Id of the order that this key makes.
    pub fn order(&self, caller: &Caller, key: Option<&IdempotencyKey>) -> OrderId {
        OrderId(self.make("order", caller, key))
    }

    /// Id of the webhook endpoint that this key registers.
    pub fn webhook(&self, caller: &Caller, key: Option<&IdempotencyKey>) -> WebhookId {
        WebhookId(self.make("webhook", caller, key))
    }

    /// Id of the target of `notify` with this URL.
    pub fn notify_target(&self, url: &WebhookUrl) -> WebhookId {
        WebhookId(self.digest(&[b"notify target", url.as_str().as_bytes()]))
    }

    /// Secret that signs what is sent to this target of `notify`: whoever names the URL can be shown it again.
    pub fn notify_secret(&self, url: &WebhookUrl) -> String {
        format!("whsec_{}", STANDARD.encode(self.hmac(&[b"notify secret", url.as_str().as_bytes()])))
    }

    /// Id of an operation: `target` is its verb and what it is done to.
    pub fn operation(&self, target: &str, caller: &Caller, key: Option<&IdempotencyKey>) -> OperationId {
        OperationId(self.make(target, caller, key))
    }
}

/// The 22 characters that stand for an id in keys.
pub fn short(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// The id that 22 characters stand for.
pub fn long(short: &str) -> Option<Uuid> {
    let mut bytes = [0; 18];
    let length = URL_SAFE_NO_PAD.decode_slice(short, &mut bytes).ok()?;
    (length == 16).then(|| Uuid::from_slice(&bytes[..16]).ok()).flatten()
}

/// 66 bits of SHA-256 over the parsed request, in 11 characters: tells another body under the same key.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut text = URL_SAFE_NO_PAD.encode(&hash.finalize()[..9]);
    text.truncate(11);
    text
}

/// The bucket of a buyer, 0..16: the first hex digit of SHA-256 of the name.
pub fn bucket(buyer: &str) -> u8 {
    Sha256::digest(buyer.as_bytes())[0] >> 4
}

/// A new generation: 16 hex digits. A new secret: 32.
pub fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller::new(name.parse().unwrap(), None)
    }

    #[test]
    fn a_key_has_one_id_for_each_caller_purpose_and_secret() {
        let (one, other) = (IdMaker::new(b"secret"), IdMaker::new(b"other"));
        let key: IdempotencyKey = "k".parse().unwrap();
        let shop = caller("shop");
        let id = one.reservation(&shop, Some(&key));
        assert_eq!(id, one.reservation(&shop, Some(&key)));
        assert_eq!(id.0.get_version_num(), 8);
        assert_ne!(id, other.reservation(&shop, Some(&key)));
        assert_ne!(id, one.reservation(&Caller::default(), Some(&key)));
        assert_ne!(id.0, one.operation("return x", &shop, Some(&key)).0);
        assert_ne!(one.reservation(&shop, None), one.reservation(&shop, None));
        // A place in a bulk call is neither the key alone nor a key that looks like it.
        let parts = [0, 1, 256].map(|place| one.bulk_reservation(&shop, &key, place));
        assert!(parts[0] != parts[1] && parts[0] != parts[2] && !parts.contains(&id));
        assert_ne!(parts[0], one.reservation(&shop, "k#0".parse().ok().as_ref()));
        // The border between caller and key counts.
        let (ab, c) = (caller("ab"), "c".parse().unwrap());
        let (a, bc) = (caller("a"), "bc".parse().unwrap());
        assert_ne!(one.reservation(&ab, Some(&c)), one.reservation(&a, Some(&bc)));
    }

    #[test]
    fn short_ids_are_22_characters_and_read_back() {
        let id = Uuid::new_v4();
        assert_eq!(short(id).len(), ID_CHARS);
        assert_eq!(long(&short(id)), Some(id));
        for bad in ["", "x", "!!!!!!!!!!!!!!!!!!!!!!", &"A".repeat(24)] {
            assert_eq!(long(bad), None, "{bad:?}");
        }
    }
}
