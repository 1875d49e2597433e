//! The `Idempotency-Key` header: a structured-field string, or the bare text that many clients send.

use super::problem::{Code, Problem};
use crate::domain::IdempotencyKey;
use actix_web::dev::Payload;
use actix_web::http::header::HeaderName;
use actix_web::{FromRequest, HttpRequest};
use std::future::{Ready, ready};

/// Name of the header.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The caller's key, if there is one. Where a call is idempotent by nature it is checked and not needed.
pub struct Key(pub Option<IdempotencyKey>);

impl FromRequest for Key {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let mut values = request.headers().get_all(IDEMPOTENCY_KEY);
        ready(match (values.next(), values.next()) {
            (None, _) => Ok(Self(None)),
            (Some(value), None) => parse(value.as_bytes()).map(|key| Self(Some(key))),
            (Some(_), Some(_)) => Err(invalid("The header is there twice.")),
        })
    }
}

const PARAMETERS: &str =
    "Nothing may follow the key: it has no parameters. A semicolon in a key needs quotes around it.";

fn invalid(detail: &'static str) -> Problem {
    Problem::with_detail(Code::IdempotencyKeyInvalid, detail)
}

/// Reads a key: `"k"` and `k` are the same. Inside quotes `\"` and `\\` stand for `"` and `\`; a `;` must be in
/// quotes, since outside it begins a parameter.
pub fn parse(value: &[u8]) -> Result<IdempotencyKey, Problem> {
    let value = value.trim_ascii();
    let text = match value.split_first() {
        Some((b'"', quoted)) => unquoted(quoted)?,
        _ if value.contains(&b';') => return Err(invalid(PARAMETERS)),
        _ => value.to_vec(),
    };
    let text = String::from_utf8(text).map_err(|_| invalid("The key must be printable ASCII."))?;
    IdempotencyKey::try_from(text)
        .map_err(|bad| Problem::with_detail(Code::IdempotencyKeyInvalid, format!("The key {bad}.")))
}

fn unquoted(quoted: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' if bytes.as_slice().is_empty() => return Ok(text),
            b'"' => return Err(invalid(PARAMETERS)),
            b'\\' => match bytes.next() {
                Some(&escaped @ (b'"' | b'\\')) => text.push(escaped),
                _ => {
                    return Err(invalid("A backslash in quotes must be followed by a quote or a backslash."));
                }
            },
            _ => text.push(byte),
        }
    }
    Err(invalid("The closing quote is missing."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_bare_are_the_same_key() {
        for (value, key) in [
            (r#""k""#, "k"),
            ("k", "k"),
            ("  k ", "k"),
            (r#""order 17/a""#, "order 17/a"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#""a;b=1""#, "a;b=1"),
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ] {
            assert_eq!(parse(value.as_bytes()).expect(value).as_str(), key);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "k".repeat(256);
        for bad in [
            "",
            "\"\"",
            "\"k",
            "\"k\";a=1",
            "k;a=1",
            "\"k\" x",
            r#""a\nb""#,
            r#""a\"#,
            "k\u{e9}",
            "a\tb",
            "a\u{7f}",
            &long,
        ] {
            let problem = parse(bad.as_bytes()).expect_err(bad);
            assert_eq!(problem.code(), Code::IdempotencyKeyInvalid, "{bad:?}");
        }
        assert!(parse("k".repeat(255).as_bytes()).is_ok());
    }
}
