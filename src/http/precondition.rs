//! `If-Match` and `If-None-Match`: the state of the sale that a change wants to meet (RFC 9110, section 13).

use super::problem::Problem;
use crate::domain::Expect;
use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderName};
use actix_web::{FromRequest, HttpRequest};
use std::future::{Ready, ready};

/// The state that a change wants to meet.
pub struct Precondition(pub Expect);

impl FromRequest for Precondition {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let read = |name: &HeaderName| text_of(request, name);
        ready(read(&header::IF_MATCH).and_then(|matching| {
            let none_matching = read(&header::IF_NONE_MATCH)?;
            expected(matching.as_deref(), none_matching.as_deref()).map(Self)
        }))
    }
}

/// All lines of a header are one list.
fn text_of(request: &HttpRequest, name: &HeaderName) -> Result<Option<String>, Problem> {
    let lines: Result<Vec<&str>, _> =
        request.headers().get_all(name).map(|value| value.to_str().map(str::trim)).collect();
    let name = if *name == header::IF_MATCH { "If-Match" } else { "If-None-Match" };
    match lines {
        Ok(lines) if lines.is_empty() => Ok(None),
        Ok(lines) => Ok(Some(lines.join(","))),
        Err(_) => Err(Problem::invalid(name, "must be printable ASCII")),
    }
}

fn expected(matching: Option<&str>, none_matching: Option<&str>) -> Result<Expect, Problem> {
    match (matching, none_matching) {
        (None, None) => Ok(Expect::Anything),
        (None, Some("*")) => Ok(Expect::Absent),
        (None, Some(_)) => Err(Problem::invalid("If-None-Match", "must be *")),
        (Some(_), Some(_)) => Err(Problem::invalid("If-Match", "cannot stand beside If-None-Match")),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(text), None) => tags(text)
            .map(Expect::Etags)
            .ok_or_else(|| Problem::invalid("If-Match", "must be * or strong ETags of the sale, in quotes")),
    }
}

/// The tags of a list. A weak one never matches here, so it is told at once rather than by a 412 for ever.
fn tags(text: &str) -> Option<Vec<String>> {
    const BETWEEN: [char; 3] = [',', ' ', '\t'];
    let (mut tags, mut rest) = (Vec::new(), text.trim_start_matches(BETWEEN));
    while !rest.is_empty() {
        let (tag, after) = rest.strip_prefix('"')?.split_once('"')?;
        tags.push(tag.to_owned());
        let after = after.trim_start();
        if !after.is_empty() && !after.starts_with(',') {
            return None;
        }
        rest = after.trim_start_matches(BETWEEN);
    }
    (!tags.is_empty()).then_some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_is_some_etags_or_any_or_absence() {
        let of = |tags: &[&str]| Some(Expect::Etags(tags.iter().map(|tag| (*tag).to_owned()).collect()));
        assert_eq!(expected(None, None).ok(), Some(Expect::Anything));
        assert_eq!(expected(None, Some("*")).ok(), Some(Expect::Absent));
        assert_eq!(expected(Some("*"), None).ok(), Some(Expect::Present));
        for (text, tags) in [
            ("\"9f3c-4\"", of(&["9f3c-4"])),
            ("\"a\", \"b\"", of(&["a", "b"])),
            ("\"a\" ,, \"b,c\",", of(&["a", "b,c"])),
            (", ,\"a\"", of(&["a"])),
        ] {
            assert_eq!(expected(Some(text), None).ok(), tags, "{text}");
        }
        for (matching, none_matching) in [
            (Some(""), None),
            (Some(","), None),
            (Some("9f3c-4"), None),
            (Some("W/\"9f3c-4\""), None),
            (Some("\"a\", W/\"b\""), None),
            (Some("\"a\" \"b\""), None),
            (Some("\"a\", *"), None),
            (Some("\"a"), None),
            (None, Some("\"9f3c-4\"")),
            (Some("\"9f3c-4\""), Some("*")),
        ] {
            assert!(expected(matching, none_matching).is_err(), "{matching:?} {none_matching:?}");
        }
    }
}
