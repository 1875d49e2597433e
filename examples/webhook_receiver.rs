//! Receives Stockade's webhooks: checks the signature, drops repeats by id, prints a line for each event.
//!
//! ```text
//! cargo run --example webhook_receiver -- --secret whsec_... --listen 127.0.0.1:9000
//! ```
//!
//! What to copy: the check before anything else, on the bytes as they came; the id as what makes an event new; a quick
//! 2xx. Whatever takes longer than a few seconds belongs behind a queue of your own.

use actix_web::web::{Bytes, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A message that is older, or from so far ahead, may be somebody's recording. Clocks differ, so it is not less.
const TOLERANCE_SECONDS: u64 = 300;
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Ids that are remembered.
const SEEN_MAX: usize = 100_000;

#[derive(Parser)]
struct Options {
    /// A secret that messages may be signed with; may be given more than once.
    #[arg(
        long = "secret",
        required = true,
        env = "WEBHOOK_SECRETS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    #[arg(value_parser = read_secret)]
    secrets: Vec<Secret>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: std::net::SocketAddr,
}

/// The key in a secret.
type Secret = Hmac<Sha256>;

fn read_secret(text: &str) -> Result<Secret, String> {
    let key =
        STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|error| error.to_string())?;
    Hmac::new_from_slice(&key).map_err(|error| error.to_string())
}

/// Ids of events that were taken in. It forgets the oldest, and all when the process ends: a real receiver has a table
/// whose unique column is the id, and writes to it in the transaction that does the work.
#[derive(Default)]
struct Seen {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    fn is_new(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

/// Whether one of the signatures was made with one of the secrets, not long ago: during a change of the secret there
/// are several of both. It tells nobody by its speed how much of a signature is right.
fn is_genuine(secrets: &[Secret], id: &str, timestamp: &str, signatures: &str, body: &[u8]) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_fresh = timestamp.parse().is_ok_and(|sent: u64| sent.abs_diff(now) <= TOLERANCE_SECONDS);
    let known = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
    let mut signatures = known.filter_map(|signature| STANDARD.decode(signature).ok());
    is_fresh
        && signatures.any(|signature| {
            secrets.iter().any(|secret| {
                let mut mac = secret.clone();
                for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                    mac.update(part);
                }
                mac.verify_slice(&signature).is_ok()
            })
        })
}

/// Such as `barrier.completed nightly 3/3`.
fn line(event: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&event["type"]).unwrap_or_default();
    let kind = kind.strip_prefix("dev.stockade.").unwrap_or(&kind);
    let of = text(&event["subject"]).or_else(|| text(&event["source"])).unwrap_or_default();
    let data = &event["data"];
    let mut line = format!("{kind} {of}");
    if let (Some(completed), Some(expected)) = (data["completed"].as_u64(), data["expected"].as_u64()) {
        line += &format!(" {completed}/{expected}");
    }
    for list in ["failed_participants", "missing"] {
        let items = data[list].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&str> =
            items.iter().filter_map(|one| one["participant"].as_str().or(one.as_str())).collect();
        if !names.is_empty() {
            line += &format!(", {}: {}", list.trim_end_matches("_participants"), names.join(" "));
        }
    }
    line
}

async fn receive(
    request: HttpRequest,
    body: Bytes,
    options: Data<Options>,
    seen: Data<Mutex<Seen>>,
) -> HttpResponse {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = header("webhook-id");
    if !is_genuine(&options.secrets, id, header("webhook-timestamp"), header("webhook-signature"), &body) {
        return HttpResponse::Unauthorized().finish();
    }
    // Signed, and still no event: to ask for it again would not help.
    let Ok(event) = serde_json::from_slice::<Value>(&body) else { return HttpResponse::NoContent().finish() };
    // The work is done before the answer: an event that was answered does not come again.
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.is_new(id) {
        println!("{}", line(&event));
    }
    HttpResponse::NoContent().finish()
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let options = Data::new(Options::parse());
    let seen = Data::new(Mutex::new(Seen::default()));
    let listen = options.listen;
    let server = HttpServer::new(move || {
        App::new()
            .app_data(options.clone())
            .app_data(seen.clone())
            .app_data(PayloadConfig::new(BODY_BYTES_MAX))
            .default_service(web::post().to(receive))
    });
    let server = server.workers(1).bind(listen)?;
    println!("listens on http://{listen}");
    server.run().await
}
