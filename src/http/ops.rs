//! What operators and readers of the API need: probes, metrics, the document of the API, its problems.

use super::answer::{self, Answer};
use super::docs;
use super::layer::Draining;
use super::problem::page::{self, ProblemType};
use super::problem::{Code, Problem};
use crate::metrics::Metrics;
use crate::store::{Store, StoreError};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use std::sync::{Arc, LazyLock};
use utoipa::ToSchema;
use utoipa_swagger_ui::Config;

const HTML: &str = "text/html; charset=utf-8";

/// Answer of a probe.
#[derive(Debug, Serialize, ToSchema)]
pub struct Probe {
    /// `alive`.
    #[schema(example = "alive")]
    status: &'static str,
}

/// Answer of the probe of readiness.
#[derive(Debug, Serialize, ToSchema)]
pub struct Readiness {
    /// `ready`.
    #[schema(example = "ready")]
    status: &'static str,
    /// Masters of a Redis Cluster that do not answer, as `host:port`: their sales cannot be sold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable_shards: Vec<String>,
}

/// Is the process alive?
///
/// Does not touch Redis: a restart of this process would not help it.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "Operations",
    responses((status = 200, description = "It answers", body = Probe)),
)]
pub async fn livez() -> Answer {
    answer::json(StatusCode::OK, &Probe { status: "alive" })
}

/// Can the process serve requests?
///
/// Runs a real script in Redis. 503 also while the process is stopping. In a Redis Cluster it is ready as long as one
/// shard answers, since only the sales of the others cannot be sold: these shards are named.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "Operations",
    responses((status = 200, description = "It can", body = Readiness)),
)]
pub async fn readyz(store: Data<Store>, draining: Data<Draining>) -> Answer {
    if draining.has_begun() {
        return Err(StoreError::NotApplied(Code::Draining.as_str()).into());
    }
    let unavailable_shards = store.ready().await?;
    answer::json(StatusCode::OK, &Readiness { status: "ready", unavailable_shards })
}

/// Metrics for Prometheus
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "Operations",
    responses((status = 200, description = "Text format 0.0.4", body = String, content_type = "text/plain")),
)]
pub async fn metrics(metrics: Data<Metrics>) -> Answer {
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(metrics.render()))
}

static OPENAPI_JSON: LazyLock<String> = LazyLock::new(docs::openapi_json);
static SWAGGER: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

/// The document of this API
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "Operations",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)),
)]
pub async fn openapi() -> Answer {
    Ok(HttpResponse::Ok().content_type("application/json").body(OPENAPI_JSON.as_str()))
}

/// The page of this API, to read and to try
#[utoipa::path(
    get, path = "/docs/", operation_id = "docs", tag = "Operations",
    responses((status = 200, description = "HTML; needs nothing from other hosts", body = String, content_type = "text/html")),
)]
pub async fn docs_page(file: Path<String>) -> Answer {
    match utoipa_swagger_ui::serve(&file, Arc::clone(&SWAGGER)) {
        Ok(Some(file)) => {
            let mut answer = HttpResponse::Ok();
            if file.gzpipped {
                answer.insert_header((header::CONTENT_ENCODING, "gzip"));
            }
            Ok(answer.content_type(file.content_type).body(file.bytes.into_owned()))
        }
        Ok(None) => Err(Problem::new(Code::NotFound)),
        Err(_) => Err(Problem::new(Code::Internal)),
    }
}

/// `/docs` is at `/docs/`: the page names its files relative to that.
pub async fn docs_redirect() -> Answer {
    Ok(HttpResponse::TemporaryRedirect().insert_header((header::LOCATION, "/docs/")).finish())
}

/// All problems
#[utoipa::path(
    get, path = "/problems", operation_id = "problems", tag = "Operations",
    responses((status = 200, description = "Every code, its status, and what to do; HTML for browsers", body = Vec<ProblemType>)),
)]
pub async fn problems(request: HttpRequest) -> Answer {
    if wants_html(&request) {
        return Ok(HttpResponse::Ok().content_type(HTML).body(page::html_of_all()));
    }
    let all: Vec<_> = Code::ALL.iter().map(|code| ProblemType::from(*code)).collect();
    answer::json(StatusCode::OK, &all)
}

/// One problem: the page that `type` leads to
#[utoipa::path(
    get, path = "/problems/{code}", operation_id = "problem", tag = "Operations",
    params(("code" = String, Path, description = "The problem's `code`")),
    responses((status = 200, description = "What it means, and what to do; HTML for browsers", body = ProblemType)),
)]
pub async fn problem(request: HttpRequest, code: Path<String>) -> Answer {
    let code = Code::from_word(&code)
        .ok_or_else(|| Problem::with_detail(Code::NotFound, "There is no such problem."))?;
    if wants_html(&request) {
        return Ok(HttpResponse::Ok().content_type(HTML).body(page::html(code)));
    }
    answer::json(StatusCode::OK, &ProblemType::from(code))
}

fn wants_html(request: &HttpRequest) -> bool {
    const ACCEPT: HeaderName = header::ACCEPT;
    request
        .headers()
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|text| text.contains("text/html"))
}

/// Whatever no route knows.
pub async fn not_found() -> Answer {
    Err(Problem::new(Code::NotFound))
}
