//! Whether the document says what the table of routes has.

use super::*;
use serde_json::Value;

#[test]
fn the_document_describes_every_route_and_no_other() {
    let document: Value = serde_json::from_str(&docs::openapi_json()).expect("JSON");
    let mut described: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        described.extend(item.as_object().expect("methods").keys().map(|method| format!("{method} {path}")));
    }
    // HEAD is GET without the body.
    let mut routed: Vec<String> = needs()
        .iter()
        .filter(|(method, pattern, _)| method != Method::HEAD && *pattern != "/docs")
        .map(|(method, pattern, _)| format!("{method} {}", pattern.replace("{file:.*}", "")).to_lowercase())
        .collect();
    described.sort();
    routed.sort();
    assert_eq!(described, routed);
}

#[test]
fn every_route_of_the_api_needs_a_scope_and_probes_and_documents_need_none() {
    for (method, pattern, needs) in needs() {
        assert_eq!(
            pattern.starts_with("/v1/") || pattern == "/metrics",
            needs != NOTHING,
            "{method} {pattern}"
        );
    }
}

#[test]
fn the_document_names_the_problems_of_every_operation() {
    let document: Value = serde_json::from_str(&docs::openapi_json()).expect("JSON");
    let reserve = &document["paths"]["/v1/sales/{sale}/reservations"]["post"]["responses"];
    assert!(reserve["409"]["description"].as_str().is_some_and(|codes| codes.contains("`sold_out`")));
    let written = document["paths"].to_string();
    for code in problem::Code::ALL {
        let by_the_router = ["method_not_allowed"].contains(&code.as_str());
        assert!(by_the_router || written.contains(&format!("`{}`", code.as_str())), "{}", code.as_str());
    }
}
