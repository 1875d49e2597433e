//! The document of the API, and whether answers are as it says.

use super::Answer;
use serde_json::Value;
use std::sync::LazyLock;

pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(&stockade::http::docs::openapi_json()).unwrap());
    &DOCUMENT
}

/// Every operation: method in capitals, path, what the document says of it.
pub fn operations() -> impl Iterator<Item = (String, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    })
}

/// Whether a path is one of a pattern's. Patterns without parameters win, since they are compared first.
fn is_of(path: &str, pattern: &str) -> bool {
    let (mut path, mut pattern) = (path.split('/'), pattern.split('/'));
    loop {
        match (path.next(), pattern.next()) {
            (None, None) => return true,
            (Some(segment), Some(wanted)) if wanted == segment || wanted.starts_with('{') => {}
            _ => return false,
        }
    }
}

/// Fails if the document does not know the answer's status, or if its body is not as it says.
pub fn check(method: &str, path: &str, answer: &Answer) {
    let (method, has_body) = if method == "HEAD" { ("GET", false) } else { (method, true) };
    let path = path.split('?').next().unwrap();
    let Some((_, _, operation)) = operations().find(|(of, pattern, _)| of == method && is_of(path, pattern))
    else {
        assert!(
            matches!(answer.status, 307 | 404 | 405 | 421) || path.starts_with("/docs/"),
            "{method} {path}"
        );
        return;
    };
    if answer.code() == "not_found" {
        return; // a listener that does not have this route
    }
    let said = &operation["responses"][answer.status.to_string()];
    assert!(said.is_object(), "{method} {path}: {} is not in the document: {}", answer.status, answer.text);
    let kind = answer.header("content-type").split(';').next().unwrap();
    let schema = &said["content"][kind]["schema"];
    if has_body && kind.ends_with("json") && path != "/openapi.json" {
        assert!(schema.is_object(), "{method} {path}: {kind} of {} is not in the document", answer.status);
        if let Err(why) = fits(schema, &answer.body, true) {
            panic!("{method} {path}: {} is not as the document says: {why}: {}", answer.status, answer.text);
        }
    }
    let headers = said["headers"].as_object().into_iter().flat_map(|headers| headers.keys());
    // One is there only where there is something to say.
    for header in headers.filter(|header| *header != "Stockade-Durability") {
        assert!(!answer.header(header).is_empty(), "{method} {path}: {} lacks {header}", answer.status);
    }
}

fn resolve(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let found = document().pointer(reference.trim_start_matches('#'));
            found.unwrap_or_else(|| panic!("{reference} leads nowhere"))
        }
        None => schema,
    }
}

/// `closed`: what the schema does not know must not be there. Problems may have more, and parts of a whole too.
fn fits(schema: &'static Value, value: &Value, closed: bool) -> Result<(), String> {
    let is_problem = schema["$ref"] == "#/components/schemas/Problem";
    let schema = resolve(schema);
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().try_for_each(|part| fits(part, value, false));
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(some) = schema[choice].as_array() {
            let tried: Vec<_> = some.iter().map(|one| fits(one, value, closed)).collect();
            let fits = tried.iter().any(Result::is_ok);
            return if fits { Ok(()) } else { Err(format!("{value:.40} is none of {tried:?}")) };
        }
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(some) => some.iter().any(|one| one == kind),
        _ => true,
    };
    if !allowed {
        return Err(format!("{kind} instead of {}", schema["type"]));
    }
    if schema["minimum"].as_i64().is_some_and(|least| value.as_i64().is_some_and(|number| number < least)) {
        return Err(format!("{value} is too small"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(&schema["items"], item, closed)?;
    }
    match value.as_object() {
        Some(fields) => fields_fit(schema, fields, closed && !is_problem),
        None => Ok(()),
    }
}

fn fields_fit(
    schema: &'static Value,
    fields: &serde_json::Map<String, Value>,
    closed: bool,
) -> Result<(), String> {
    for field in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(field.as_str().unwrap()) {
            return Err(format!("{field} is left out"));
        }
    }
    let Some(known) = schema["properties"].as_object() else { return Ok(()) };
    for (name, value) in fields {
        match known.get(name) {
            Some(schema) => fits(schema, value, closed).map_err(|why| format!("{name}: {why}"))?,
            None if closed => return Err(format!("{name} is not known")),
            None => {}
        }
    }
    Ok(())
}
