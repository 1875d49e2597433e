//! What is wrong with a body, and where.

use crate::http::problem::{Code, Problem};
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

pub(super) const OUT_OF_RANGE: &str = "number out of range";

pub(super) fn field_problem<T: DeserializeOwned>(bytes: &[u8]) -> Problem {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => Problem::new(Code::Internal),
        Err(error) => {
            let said = error.inner().to_string();
            let said = said.rfind(" at line ").map_or(said.as_str(), |end| &said[..end]);
            let (named, message) = in_plain_words(said);
            Problem::invalid(pointer(error.path(), named), message)
        }
    }
}

/// A field that an error names.
enum Named<'a> {
    /// It is missing in what the path leads to.
    Missing(&'a str),
    /// It stands there; the path may lead to it already.
    Given(&'a str),
    Nothing,
}

/// JSON pointer of what a path leads to, and of the field in it unless the path ends there.
fn pointer(path: &Path, named: Named<'_>) -> String {
    let mut pointer = String::new();
    let mut push = |name: &str| {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    };
    let mut last = None;
    for segment in path {
        match segment {
            Segment::Seq { index } => push(&index.to_string()),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                push(key);
                last = Some(key.as_str());
            }
            Segment::Unknown => {}
        }
    }
    match named {
        Named::Missing(field) => push(field),
        Named::Given(field) if last != Some(field) => push(field),
        Named::Given(_) | Named::Nothing => {}
    }
    pointer
}

/// What serde says, in the words of JSON rather than of Rust; and the field, where it names one.
fn in_plain_words(said: &str) -> (Named<'_>, String) {
    let named = |start: &str| said.strip_prefix(start)?.split('`').next();
    if let Some(field) = named("missing field `") {
        return (Named::Missing(field), "must be given".to_owned());
    }
    for (start, message) in
        [("unknown field `", "is not known here"), ("duplicate field `", "must be given once")]
    {
        if let Some(field) = named(start) {
            return (Named::Given(field), message.to_owned());
        }
    }
    if said == OUT_OF_RANGE {
        return (Named::Nothing, "must be a smaller number".to_owned());
    }
    if said.starts_with("UUID parsing failed") {
        return (Named::Nothing, "must be a UUID".to_owned());
    }
    let Some((_, expected)) = said.rsplit_once(", expected ").filter(|_| said.starts_with("invalid ")) else {
        return (Named::Nothing, said.to_owned());
    };
    let expected = match expected {
        "u64" | "u32" | "usize" => "an integer of at least 0",
        "i64" => "an integer",
        "a string" | "string" | "a formatted UUID string" => "a string",
        "a sequence" => "an array",
        "a boolean" => "true or false",
        words if words.starts_with("struct ") => "an object",
        words => words,
    };
    (Named::Nothing, format!("must be {expected}"))
}
