//! Headers: `Idempotency-Key`, `If-Match` and `If-None-Match`, `Host`. They come as bytes, as often as the client likes.

use super::{around, config};
use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::test::TestRequest;
use actix_web::{FromRequest, HttpRequest};
use clap::Parser;
use futures_util::FutureExt;
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::Ipv6Addr;
use stockade::api_keys::Access;
use stockade::config::Config;
use stockade::domain::Expect;
use stockade::http::auth::{Gate, NOTHING};
use stockade::http::idempotency::{self, IDEMPOTENCY_KEY, Key};
use stockade::http::precondition::Precondition;

const BARE_KEY: &str = "[ \t]{0,2}[!#-:<-~]([ -:<-~]{0,254}[!-:<-~])?[ \t]{0,2}";
/// Also with what may not stand in brackets, and with a port that has lost its colon.
const HOST: &str = "(localhost|LocalHost|stock\\.example|127(\\.[0-9]{1,3}){3}|10\\.0\\.0\\.1|\
                    \\[(0:){0,7}:{0,2}1\\]\
                    |\\[(localhost|127\\.0\\.0\\.1)\\])(:?[0-9]{0,5})";
const QUOTED_KEY: &str = "\"([ !#-\\[\\]-~]|\\\\\"|\\\\\\\\){1,256}\"";

/// A request with these lines of headers, or none where a server would have refused one of them.
fn request(lines: &[(HeaderName, &str)]) -> Option<TestRequest> {
    let mut request = TestRequest::default();
    for (name, value) in lines {
        request = request.append_header((name.clone(), HeaderValue::from_bytes(value.as_bytes()).ok()?));
    }
    Some(request)
}

fn extract<T: FromRequest>(request: &HttpRequest) -> Option<T> {
    T::from_request(request, &mut Payload::None).now_or_never().expect("headers are there already").ok()
}

/// The key that a value means: a string of RFC 8941, or what stands there without quotes.
fn key_of(value: &str) -> Option<String> {
    let value = value.trim_matches(|c: char| " \t\r\n\u{c}".contains(c));
    let key = match value.strip_prefix('"') {
        Some(rest) => without_escapes(rest.strip_suffix('"')?)?,
        None if value.contains(';') => return None,
        None => value.to_owned(),
    };
    let fits = (1..=255).contains(&key.len()) && key.chars().all(|c| (' '..='~').contains(&c));
    fits.then_some(key)
}

/// Of what stands between the quotes.
fn without_escapes(text: &str) -> Option<String> {
    // With the pairs gone, a quote or a backslash that is left stood alone.
    let rest = text.replace("\\\\", "\u{1}").replace("\\\"", "\u{2}");
    let is_legal = !rest.contains(['"', '\\']) && !text.contains(['\u{1}', '\u{2}']);
    is_legal.then(|| rest.replace('\u{1}', "\\").replace('\u{2}', "\""))
}

fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Strong tags in quotes with commas between; some may be missing, as RFC 9110 wants it of lists.
fn tags_of(list: &str) -> Option<Vec<String>> {
    // Every other piece stands between quotes.
    let pieces: Vec<&str> = list.split('"').collect();
    let is_blank = |piece: &str| piece.chars().all(|c| " \t,".contains(c));
    let outside: Vec<&str> = pieces.iter().step_by(2).copied().collect();
    let between = outside.get(1..outside.len() - 1).unwrap_or_default();
    let fits = pieces.len() % 2 == 1
        && pieces.len() > 1
        && outside.iter().all(|piece| is_blank(piece))
        && between.iter().all(|piece| piece.contains(','));
    fits.then(|| pieces.iter().skip(1).step_by(2).map(|tag| (*tag).to_owned()).collect())
}

/// All lines of one header, as one.
fn joined(lines: &[String]) -> Option<String> {
    let is_visible = |line: &String| line.chars().all(|c| c == '\t' || (' '..='~').contains(&c));
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_matches([' ', '\t'])).collect();
    (!lines.is_empty() && lines.iter().all(is_visible)).then(|| trimmed.join(","))
}

fn expected(matching: &[String], none_matching: &[String]) -> Option<Expect> {
    let (is, not) = (joined(matching), joined(none_matching));
    match (matching.is_empty(), none_matching.is_empty()) {
        (true, true) => Some(Expect::Anything),
        (true, false) => (not? == "*").then_some(Expect::Absent),
        (false, false) => None,
        (false, true) if is.as_deref() == Some("*") => Some(Expect::Present),
        (false, true) => tags_of(&is?).map(Expect::Etags),
    }
}

/// Whether `Host` is a name of this machine, or `stock.example`.
fn is_local(host: &str) -> bool {
    let of_port = |port: &str| {
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()))
    };
    if host.starts_with('[') {
        let Some(end) = host.find(']') else { return false };
        return of_port(&host[end + 1..]) && host[1..end].parse() == Ok(Ipv6Addr::LOCALHOST);
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    let octets: Vec<&str> = name.split('.').collect();
    let is_octet = |text: &&str| text.parse::<u8>().is_ok_and(|octet| octet.to_string() == *text);
    let is_loopback = octets.len() == 4 && octets[0] == "127" && octets.iter().all(is_octet);
    let name = name.to_ascii_lowercase();
    of_port(port) && (is_loopback || name == "localhost" || name == "stock.example")
}

fn gate() -> Gate {
    let options = Config::try_parse_from(["stockade", "--allowed-host", "stock.example"]).unwrap().options;
    Gate::new(&Access::of(&options).unwrap(), &options, "127.0.0.1:80".parse().unwrap())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_idempotency_key_is_a_string_or_bare(
        value in prop_oneof![around(BARE_KEY), around(QUOTED_KEY)]
    ) {
        let key = idempotency::parse(value.as_bytes()).ok().map(|key| key.to_string());
        prop_assert_eq!(&key, &key_of(&value));
        if let Some(request) = request(&[(IDEMPOTENCY_KEY, &value)]) {
            let extracted = extract::<Key>(&request.to_http_request());
            let extracted = extracted.and_then(|Key(key)| key).map(|key| key.to_string());
            prop_assert_eq!(extracted, key);
            let twice = self::request(&[(IDEMPOTENCY_KEY, &value), (IDEMPOTENCY_KEY, &value)]).unwrap();
            prop_assert!(extract::<Key>(&twice.to_http_request()).is_none());
        }
    }

    #[test]
    fn every_idempotency_key_can_be_sent_in_quotes(key in "[ -~]{1,255}") {
        let read = idempotency::parse(quoted(&key).as_bytes()).unwrap();
        prop_assert_eq!(read.as_str(), key);
    }

    #[test]
    fn no_bytes_of_an_idempotency_key_do_harm(bytes in vec(any::<u8>(), 0..40)) {
        let text = str::from_utf8(&bytes).ok();
        let read = idempotency::parse(&bytes).ok();
        prop_assert_eq!(read.map(|key| key.to_string()), text.and_then(key_of));
    }

    #[test]
    fn a_precondition_is_a_list_of_tags_or_a_star(
        matching in vec(around("\\*|(\"[0-9a-f]{1,4}-[0-9]\"[ ,\t]{0,3}){0,3}"), 0..3),
        none_matching in vec(around("\\*"), 0..2),
        alone: bool,
    ) {
        let none_matching = if alone { Vec::new() } else { none_matching };
        let lines: Vec<(HeaderName, &str)> = matching.iter().map(|line| (header::IF_MATCH, &**line))
            .chain(none_matching.iter().map(|line| (header::IF_NONE_MATCH, &**line)))
            .collect();
        if let Some(request) = request(&lines) {
            let read = extract::<Precondition>(&request.to_http_request()).map(|Precondition(read)| read);
            prop_assert_eq!(read, expected(&matching, &none_matching));
        }
    }

    #[test]
    fn a_host_is_local_or_misdirected(
        host in around(HOST),
    ) {
        let gate = gate();
        let name = header::HOST;
        if let Some(request) = request(&[(name.clone(), &host)]) {
            let admitted = gate.admit(&request.to_srv_request(), NOTHING).is_ok();
            prop_assert_eq!(admitted, is_local(&host));
            let twice = self::request(&[(name.clone(), &host), (name, &host)]).unwrap();
            prop_assert!(gate.admit(&twice.to_srv_request(), NOTHING).is_err());
        }
    }
}
