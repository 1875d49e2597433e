//! Names and ids. Each is checked once, when it is made.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use utoipa::ToSchema;
use uuid::Uuid;

/// Longest name of a sale or SKU, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// Longest buyer, reference or reason, in characters.
pub const TEXT_CHARS_MAX: usize = 128;
/// Longest idempotency key, in characters.
pub const KEY_CHARS_MAX: usize = 255;

/// Why a text was refused, in words for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadText(pub &'static str);

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`: nothing that could leave its place in a Redis key.
fn check_name(text: &str) -> Result<(), BadText> {
    let bytes = text.as_bytes();
    let legal = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    match bytes.first() {
        Some(first)
            if first.is_ascii_alphanumeric() && bytes.len() <= NAME_CHARS_MAX && bytes.iter().all(legal) =>
        {
            Ok(())
        }
        _ => Err(BadText("must be 1-64 characters of A-Z a-z 0-9 . _ - and begin with a letter or digit")),
    }
}

fn check_text(text: &str) -> Result<(), BadText> {
    let printable = |b: u8| (0x20..0x7f).contains(&b);
    if (1..=TEXT_CHARS_MAX).contains(&text.len()) && text.bytes().all(printable) {
        Ok(())
    } else {
        Err(BadText("must be 1-128 printable ASCII characters"))
    }
}

fn check_key(text: &str) -> Result<(), BadText> {
    if (1..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        Ok(())
    } else {
        Err(BadText("must be 1-255 printable ASCII characters"))
    }
}

fn check_pattern(text: &str) -> Result<(), BadText> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'*');
    if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal) {
        Ok(())
    } else {
        Err(BadText("must be 1-64 characters of A-Z a-z 0-9 . _ - and *, which stands for any characters"))
    }
}

fn check_type_pattern(text: &str) -> Result<(), BadText> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let legal = |b: u8| b.is_ascii_lowercase() || matches!(b, b'.' | b'_');
    if (1..=NAME_CHARS_MAX).contains(&text.len()) && name.bytes().all(legal) {
        Ok(())
    } else {
        Err(BadText("must be a type of events such as barrier.completed, or its beginning and a *"))
    }
}

fn check_token(text: &str) -> Result<(), BadText> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if text.len() == 22 && text.bytes().all(legal) {
        Ok(())
    } else {
        Err(BadText("must be the 22 characters that acquire has answered"))
    }
}

/// Longest URL of a webhook, in characters.
pub const URL_CHARS_MAX: usize = 2_048;

fn check_url(text: &str) -> Result<(), BadText> {
    const BAD: BadText = BadText(
        "must be an http or https URL of at most 2048 characters, without a name, a password or a fragment",
    );
    if text.len() > URL_CHARS_MAX || !text.bytes().all(|b| (0x21..0x7f).contains(&b)) {
        return Err(BAD);
    }
    // The parser would also take `http:shop.example` and `HTTP:\\shop.example`, as browsers do.
    let has_scheme = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let url = url::Url::parse(text).map_err(|_| BAD)?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    if has_scheme && url.has_host() && is_plain { Ok(()) } else { Err(BAD) }
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $check:ident, $pattern:tt, $max:tt) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(try_from = "String")]
        #[schema(value_type = String, pattern = $pattern, min_length = 1, max_length = $max)]
        pub struct $name(String);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl TryFrom<String> for $name {
            type Error = BadText;
            fn try_from(text: String) -> Result<Self, BadText> {
                $check(&text)?;
                Ok(Self(text))
            }
        }
        impl FromStr for $name {
            type Err = BadText;
            fn from_str(text: &str) -> Result<Self, BadText> {
                $check(text)?;
                Ok(Self(text.to_owned()))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

checked_text!(
    /// Name of a sale.
    SaleId, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);
checked_text!(
    /// Name of one kind of unit inside a sale.
    Sku, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);
checked_text!(
    /// Opaque id of a buyer, given by the storefront.
    Buyer, check_text, r"^[ -~]{1,128}$", 128
);
checked_text!(
    /// The caller's own name for something: an order number, a reason.
    Reference, check_text, r"^[ -~]{1,128}$", 128
);
checked_text!(
    /// The caller's name for one intended effect; the same key never has two.
    IdempotencyKey, check_key, r"^[ -~]{1,255}$", 255
);

checked_text!(
    /// Name of an API key: ids depend on it.
    KeyName, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);
checked_text!(
    /// Names of sales: `*` stands for any characters, or none.
    SalePattern, check_pattern, r"^[A-Za-z0-9._*-]{1,64}$", 64
);

checked_text!(
    /// Type of events without `dev.stockade.`: `barrier.completed`; a `*` at the end stands for any characters.
    TypePattern, check_type_pattern, r"^[a-z._]{0,63}[a-z._*]$", 64
);
checked_text!(
    /// Where the messages of a webhook go.
    WebhookUrl, check_url, r"^https?://", 2048
);
checked_text!(
    /// Name of a barrier.
    BarrierId, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);
checked_text!(
    /// Name of a lock.
    LockName, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);
checked_text!(
    /// Proves that a lease is the caller's.
    LockToken, check_token, r"^[A-Za-z0-9_-]{22}$", 22
);
checked_text!(
    /// One that a barrier waits for.
    Participant, check_name, r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", 64
);

/// What all types of events begin with.
pub const TYPE_PREFIX: &str = "dev.stockade.";

impl TypePattern {
    /// Whether the type of an event, with its prefix, is one of these.
    pub fn matches(&self, kind: &str) -> bool {
        let kind = kind.strip_prefix(TYPE_PREFIX).unwrap_or(kind);
        match self.0.strip_suffix('*') {
            Some(beginning) => kind.starts_with(beginning),
            None => kind == self.0,
        }
    }
}

impl BarrierId {
    /// A barrier of our own (self-test), likewise.
    pub(crate) fn internal(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl LockName {
    /// A lock of our own; its name begins with `_`, which no caller's can.
    pub(crate) fn internal(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl SaleId {
    /// A sale of our own (self-test); its name begins with `_`, which no caller's can.
    pub(crate) fn internal(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// Id of a reservation: a UUIDv8 made from the sale's secret, the caller and the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = "uuid")]
pub struct ReservationId(pub Uuid);

/// Id of an operation that is not a reservation (an adjustment, an extend, a return), made likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = "uuid")]
pub struct OperationId(pub Uuid);

/// Id of a complex order: a UUIDv8 made from the store's secret, the caller and the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = "uuid")]
pub struct OrderId(pub Uuid);

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ascii_words_that_cannot_leave_their_key() {
        for good in ["a", "0", "drop-1", "A.b_c-9", &"x".repeat(64)] {
            assert!(good.parse::<SaleId>().is_ok(), "{good:?}");
        }
        for bad in ["", "-a", ".a", "a b", "a:b", "{x}", "a\r\n", "a\0", "*", "\u{39c}", "é", &"x".repeat(65)]
        {
            assert!(bad.parse::<Sku>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn buyers_are_printable() {
        assert!("Jane Doe <j@x>".parse::<Buyer>().is_ok());
        for bad in ["", "a\nb", "\u{1b}[2J", "é", &"x".repeat(129)] {
            assert!(bad.parse::<Buyer>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_url_begins_as_the_document_says() {
        assert!("https://shop.example/hook?a=b".parse::<WebhookUrl>().is_ok());
        for bad in ["http:shop.example", "http:/shop.example", r"http:\\shop.example", "HTTP://shop.example"]
        {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
    }
}
