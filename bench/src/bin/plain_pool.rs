//! The obvious service: actix-web, a bb8 pool of `RedisConnectionManager` as it comes, and one
//! EVALSHA a request.
//!
//! It does the same work as a reservation in Stockade (id and fingerprint by keyed hash, stock,
//! buyer limit, record, deadline, event; see `single_reserve.lua`) and answers with the same JSON.
//! What it lacks is group commit.
//!
//! Environment: `LISTEN`, `REDIS_URL`, `WORKERS`; `POOL_SIZE` and `POOL_TEST` (`true`, `false`)
//! change two of bb8's defaults (10 connections, each tested by a PING at check-out), for the row
//! of the tuned pool.

use actix_web::web::{Data, Json, Path};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bb8_redis::bb8::Pool;
use bb8_redis::{RedisConnectionManager, bb8};
use hmac::{Hmac, Mac};
use redis::{FromRedisValue, Script, Value};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use stockade_bench::{setting, workers};

const SCRIPT: &str = include_str!("../../single_reserve.lua");

struct Shop {
    pool: Pool<RedisConnectionManager>,
    script: Script,
    id_key: [u8; 16],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    buyer: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    sku: String,
    quantity: u32,
}

#[derive(Serialize)]
struct Reservation<'a> {
    id: String,
    sale: &'a str,
    status: &'static str,
    buyer: &'a str,
    lines: [HeldLine<'a>; 1],
    reference: Option<()>,
    metadata: Option<()>,
    created_at: String,
    expires_at: String,
    extendable_until: String,
    ended_at: Option<()>,
    retaken: bool,
    replaces: Option<()>,
    replaced_by: Option<()>,
    order: Option<()>,
    server_time: String,
}

#[derive(Serialize)]
struct HeldLine<'a> {
    sku: &'a str,
    quantity: u32,
    confirmed: u32,
    returned: u32,
}

impl Shop {
    fn digest(&self, text: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.id_key).expect("any length will do");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    async fn call(&self, sale: &str, id: &str, request: &Request) -> anyhow::Result<Vec<Value>> {
        let line = &request.lines[0];
        let bucket = self.digest(&request.buyer)[0] >> 4;
        let seen = format!("{}|{}={}", request.buyer, line.sku, line.quantity);
        let fingerprint = URL_SAFE_NO_PAD.encode(&self.digest(&seen)[..8]);
        let key = |name: &str| format!("st:{{{sale}}}:{name}");
        let mut call = self.script.prepare_invoke();
        call.key(key("rules")).key(key("stock"));
        call.key(key(&format!("buyers:{bucket:x}")));
        call.key(key("due")).key(key("events"));
        call.key(key(&format!("r:{id}")));
        call.arg(id).arg(&request.buyer).arg(&line.sku);
        call.arg(line.quantity).arg(fingerprint);
        let mut connection = self.pool.get().await?;
        Ok(call.invoke_async(&mut *connection).await?)
    }
}

async fn reserve(
    shop: Data<Shop>,
    sale: Path<String>,
    http: HttpRequest,
    body: Json<Request>,
) -> HttpResponse {
    let Some(key) = http.headers().get("idempotency-key") else {
        return HttpResponse::BadRequest().finish();
    };
    if body.lines.len() != 1 {
        return HttpResponse::UnprocessableEntity().finish();
    }
    let digest = shop.digest(&format!("|{}", String::from_utf8_lossy(key.as_bytes())));
    let id = URL_SAFE_NO_PAD.encode(&digest[..16]);
    match shop.call(&sale, &id, &body).await {
        Ok(reply) => answer(&sale, id, &body, &reply),
        Err(error) => HttpResponse::ServiceUnavailable().body(error.to_string()),
    }
}

fn answer(sale: &str, id: String, request: &Request, reply: &[Value]) -> HttpResponse {
    let word = |n: usize| {
        reply.get(n).and_then(|value| String::from_redis_value_ref(value).ok()).unwrap_or_default()
    };
    let outcome = word(0);
    if outcome != "held" {
        return HttpResponse::Conflict()
            .content_type("application/problem+json")
            .body(format!(r#"{{"status":409,"code":"{outcome}"}}"#));
    }
    let line = &request.lines[0];
    let location = format!("/v1/sales/{sale}/reservations/{id}");
    HttpResponse::Created()
        .insert_header(("location", location))
        .insert_header(("stockade-outcome", "held"))
        .json(Reservation {
            id,
            sale,
            status: "held",
            buyer: &request.buyer,
            lines: [HeldLine { sku: &line.sku, quantity: line.quantity, confirmed: 0, returned: 0 }],
            reference: None,
            metadata: None,
            created_at: rfc3339(&word(1)),
            expires_at: rfc3339(&word(2)),
            extendable_until: rfc3339(&word(3)),
            ended_at: None,
            retaken: false,
            replaces: None,
            replaced_by: None,
            order: None,
            server_time: rfc3339(&word(1)),
        })
}

/// Milliseconds since 1970 as RFC 3339, by Hinnant's days-to-civil.
fn rfc3339(ms: &str) -> String {
    let ms: i64 = ms.parse().unwrap_or(0);
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

async fn pool() -> anyhow::Result<Pool<RedisConnectionManager>> {
    let url = setting("REDIS_URL", "redis://127.0.0.1:6379".to_owned());
    let builder: bb8::Builder<RedisConnectionManager> = Pool::builder();
    let pool = builder
        .max_size(setting("POOL_SIZE", 10))
        .test_on_check_out(setting("POOL_TEST", true))
        .build(RedisConnectionManager::new(url)?)
        .await?;
    Ok(pool)
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let mut id_key = [0; 16];
    getrandom::fill(&mut id_key).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let shop = Data::new(Shop { pool: pool().await?, script: Script::new(SCRIPT), id_key });
    HttpServer::new(move || {
        App::new().app_data(shop.clone()).route("/v1/sales/{sale}/reservations", web::post().to(reserve))
    })
    .workers(workers())
    .bind(setting("LISTEN", "127.0.0.1:8091".to_owned()))?
    .run()
    .await?;
    Ok(())
}
