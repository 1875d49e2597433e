//! The no-op: what actix-web alone makes of the same request and an answer of the same size.
//!
//! A POST: it reads the whole body into memory and throws it away (no JSON is parsed), then answers with
//! one fixed status, one fixed body and the headers that the service sends, all taken from one
//! real answer of the service. A GET of a level: the same, without a body. Content-Length and Date come from actix-web, as they do in the
//! service. Nothing else happens: no routing beyond three resources, no logging, no metrics.
//!
//! Environment: `LISTEN`, `STATUS` (201), `ANSWER_FILE` (the body) or `ANSWER_BYTES` (600),
//! `HEADERS_FILE` (a `Name: value` a line), `WORKERS`.

use std::fs;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::{Bytes, Data};
use actix_web::{App, HttpResponse, HttpServer, web};
use stockade_bench::{setting, workers};

struct Answer {
    status: StatusCode,
    body: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Answer {
    fn from_env() -> anyhow::Result<Self> {
        let body_file = setting("ANSWER_FILE", String::new());
        let body = if body_file.is_empty() {
            vec![b'x'; setting("ANSWER_BYTES", 600)]
        } else {
            fs::read(body_file)?
        };
        let headers_file = setting("HEADERS_FILE", String::new());
        let lines = if headers_file.is_empty() {
            "content-type: application/json".to_owned()
        } else {
            fs::read_to_string(headers_file)?
        };
        let mut headers = Vec::new();
        for (name, value) in lines.lines().filter_map(|line| line.split_once(':')) {
            headers.push((name.trim().parse()?, value.trim().parse()?));
        }
        Ok(Self { status: StatusCode::from_u16(setting("STATUS", 201))?, body: body.into(), headers })
    }
}

async fn post(answer: Data<Answer>, _body: Bytes) -> HttpResponse {
    respond(&answer)
}

async fn get(answer: Data<Answer>) -> HttpResponse {
    respond(&answer)
}

fn respond(answer: &Answer) -> HttpResponse {
    let mut response = HttpResponse::build(answer.status);
    for header in &answer.headers {
        response.insert_header(header.clone());
    }
    response.body(answer.body.clone())
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let answer = Data::new(Answer::from_env()?);
    HttpServer::new(move || {
        App::new()
            .app_data(answer.clone())
            .route("/v1/sales/{sale}/reservations", web::post().to(post))
            .route("/v1/barriers/{barrier}/arrivals", web::post().to(post))
            .route("/v1/sales/{sale}/stock/{sku}", web::get().to(get))
    })
    .workers(workers())
    .bind(setting("LISTEN", "127.0.0.1:8090".to_owned()))?
    .run()
    .await?;
    Ok(())
}
