//! What the document says of keys: the scheme, and which scope each operation needs, from the table of routes.

use super::super::auth::{METRICS, NOTHING, Needs};
use super::super::problem::Code;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

const SCHEME: &str = "key";

/// Adds the scheme.
pub fn describe(document: &mut Document) {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("<id>.<secret>").description(Some(
        "An API key, as `stockade keys add` printed it. A service without a keys file needs none. A key may be limited to some sales: others do not exist for it.",
    ));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
}

/// What the route of this operation needs.
pub fn needs_of(method: &str, path: &str) -> Needs {
    let mut routes = super::super::needs().into_iter();
    let found =
        routes.find(|(of, pattern, _)| of.as_str() == method && pattern.replace("{file:.*}", "") == path);
    found.map_or(NOTHING, |(_, _, needs)| needs)
}

/// Says what an operation needs: one requirement a scope, since one of them is enough.
pub fn require(operation: &mut Operation, needs: Needs) {
    let requirement = |scope: &crate::domain::Scope| SecurityRequirement::new(SCHEME, [scope.as_str()]);
    operation.security = Some(needs.0.iter().map(requirement).collect());
    if needs.0.is_empty() {
        return;
    }
    let words: Vec<_> = needs.0.iter().map(|scope| format!("`{scope}`")).collect();
    let said = format!("Needs a key with the scope {}.", words.join(" or "));
    let description = operation.description.take().map(|text| format!("{text}\n\n{said}"));
    operation.description = Some(description.unwrap_or(said));
}

/// The problems of a call that is not let in.
pub fn problems(needs: Needs) -> &'static [Code] {
    match needs {
        NOTHING => &[Code::MisdirectedRequest],
        METRICS => &[Code::MisdirectedRequest, Code::Unauthorized, Code::Forbidden],
        _ => &[Code::MisdirectedRequest, Code::Unauthorized, Code::Forbidden, Code::RateLimited],
    }
}
