//! The document of the API is complete, and leads nowhere but into itself.

use crate::service::{InProcess, document, operations, shared_api};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use stockade::http::problem::Code;

/// Method and path of every route, as the metrics have them: their counters exist from the start.
async fn routes(service: &InProcess) -> BTreeSet<(String, String)> {
    let label = |series: &str, name: &str| {
        let (_, rest) = series.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let series = service.api.metrics().await;
    let requests = series.iter().filter(|(name, _)| name.starts_with("stockade_http_requests_total"));
    let of = requests.map(|(name, _)| (label(name, "method"), label(name, "route")));
    // HEAD is GET without the body.
    of.filter(|(method, _)| !["other", "HEAD"].contains(&method.as_str())).collect()
}

#[tokio::test]
async fn the_document_has_every_route() {
    let service = InProcess::start();
    let served = service.api.get("/openapi.json").await.expect(200, "");
    assert_eq!(&served.body, document());
    assert!(document()["openapi"].as_str().unwrap().starts_with("3.1."));
    assert!(document()["info"]["version"].is_string());
    let described: BTreeSet<_> = operations().map(|(method, path, _)| (method, path.to_owned())).collect();
    let mut routes = routes(&service).await;
    // The page of the document, which is at /docs/.
    assert!(
        routes.remove(&("GET".into(), "/docs".into()))
            && routes.remove(&("GET".into(), "/docs/{file:.*}".into()))
    );
    routes.insert(("GET".into(), "/docs/".into()));
    assert_eq!(described, routes);
}

/// Clients are made from the committed document, and people read it without starting anything.
#[tokio::test]
async fn the_committed_document_is_the_one_that_is_served() {
    let served = shared_api().get("/openapi.json").await.expect(200, "").text;
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let committed = std::fs::read_to_string(committed).unwrap_or_default();
    assert!(
        committed.trim_end() == served,
        "openapi.json is not what is served: run `make openapi` and commit what it changes"
    );
    let printed = Command::new(env!("CARGO_BIN_EXE_stockade")).arg("openapi").output().unwrap();
    assert!(printed.status.success() && printed.stdout == committed.into_bytes());
}

fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a str, &'a Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            visit(name, value);
            walk(value, visit);
        }),
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let mut used = BTreeSet::new();
    walk(document(), &mut |name, value| {
        if name == "$ref" {
            let reference = value.as_str().unwrap();
            let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads outside"));
            assert!(document().pointer(place).is_some(), "{reference} leads nowhere");
            used.insert(place);
        }
    });
    assert!(used.contains("/components/schemas/Problem") && used.contains("/components/schemas/Reservation"));
}

#[test]
fn every_operation_is_complete() {
    let mut ids = BTreeSet::new();
    let mut words = BTreeSet::new();
    for (method, path, operation) in operations() {
        let said = format!("{method} {path}");
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap()),
            "{said}: its operationId is another's"
        );
        assert!(operation["summary"].is_string() && operation["tags"][0].is_string(), "{said}");
        for name in path.split(['{', '}']).skip(1).step_by(2) {
            let parameters = operation["parameters"].as_array().unwrap();
            let is_it = |one: &Value| one["name"] == name && one["in"] == "path" && one["required"] == true;
            assert!(parameters.iter().any(is_it), "{said}: {name}");
        }
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(!answer["description"].as_str().unwrap().is_empty(), "{said}: {status}");
            if status.as_str() >= "400" {
                let schema = &answer["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{said}: {status}");
                words.extend(answer["description"].as_str().unwrap().split('`').skip(1).step_by(2));
            }
        }
    }
    // Each word of the table may be met somewhere, and there are no others.
    let beyond_routes = [Code::NotFound, Code::MethodNotAllowed];
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let met: BTreeSet<&str> = words.iter().copied().chain(beyond_routes.map(Code::as_str)).collect();
    assert_eq!(met, known);
}

/// Largest whole number that every language holds exactly.
const EXACT_MAX: i64 = (1 << 53) - 1;

/// Whether a schema is of numbers. They must be whole, and have bounds.
fn is_number(schema: &Value) -> bool {
    let kinds = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
    assert!(!kinds.iter().any(|kind| kind == "number"), "{schema}");
    let is_number = kinds.iter().any(|kind| kind == "integer");
    let bounds = ["minimum", "maximum"].map(|bound| schema[bound].as_i64().unwrap_or(i64::MAX));
    assert!(!is_number || bounds.iter().all(|bound| bound.abs() <= EXACT_MAX), "{schema}");
    is_number
}

#[test]
fn every_number_of_a_request_has_bounds() {
    let mut open: Vec<&Value> = operations().map(|(_, _, one)| &one["requestBody"]).collect();
    open.extend(operations().flat_map(|(_, _, one)| one["parameters"].as_array().into_iter().flatten()));
    let (mut seen, mut numbers) = (BTreeSet::new(), 0);
    while let Some(value) = open.pop() {
        numbers += usize::from(is_number(value));
        walk(value, &mut |name, inner| {
            numbers += usize::from(is_number(inner));
            if name == "$ref" && seen.insert(inner.as_str().unwrap()) {
                let place = inner.as_str().unwrap().trim_start_matches('#');
                open.push(document().pointer(place).unwrap());
            }
        });
    }
    assert!(numbers > 30, "{numbers}");
}

#[test]
fn no_operation_has_a_parameter_twice() {
    for (method, path, operation) in operations() {
        let mut seen = BTreeSet::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let named = (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap());
            assert!(seen.insert(named), "{method} {path} has {named:?} twice");
        }
    }
}

#[tokio::test]
async fn a_body_is_needed_where_the_document_says_so() {
    for (method, path, operation) in operations().filter(|(_, _, one)| one["requestBody"].is_object()) {
        let id = "11111111-1111-8111-8111-111111111111";
        let path = path.replace("{id}", id).replace("{webhook}", id).replace(['{', '}'], "");
        let answer = shared_api().call(&method, &path).send().await;
        // What has no body has no type.
        let refused = answer.status == 415;
        assert_eq!(refused, operation["requestBody"]["required"] == true, "{method} {path}: {}", answer.text);
    }
}
