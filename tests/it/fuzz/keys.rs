//! API keys: the file that the operator writes, and what a client sends.

use super::{around, config, noise};
use actix_web::http::header::{self, HeaderValue};
use actix_web::test::TestRequest;
use clap::Parser;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use stockade::api_keys::file::{KeyFile, NewKey};
use stockade::api_keys::{Access, ApiKeys};
use stockade::config::Config;
use stockade::domain::Scope;
use stockade::http::auth::{Gate, STOREFRONT};
use tempfile::TempDir;

fn key() -> NewKey {
    NewKey::make("shop".parse().unwrap(), vec![Scope::Storefront], None).unwrap()
}

/// A value of JSON that may stand where another should.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        around("[0-9a-f]{16}|[0-9a-f]{64}|shop|operator|drop-\\*").prop_map(Value::from),
        vec(around("operator|storefront|drop-\\*"), 0..3).prop_map(Value::from),
    ]
}

/// What README says of each field.
fn is_key_file(file: &Value) -> bool {
    let keys = file["keys"].as_array().unwrap();
    let ids: BTreeSet<&str> = keys.iter().filter_map(|key| key["id"].as_str()).collect();
    ids.len() == keys.len() && keys.iter().all(is_entry)
}

fn is_entry(key: &Value) -> bool {
    let text = |field: &str| key[field].as_str().unwrap_or_default();
    let texts = |list: &Value| -> Option<Vec<String>> { serde_json::from_value(list.clone()).ok() };
    let id = text("id");
    let scopes = ["storefront", "operator", "barrier", "metrics"];
    let has_scopes = texts(&key["scopes"])
        .is_some_and(|list| !list.is_empty() && list.iter().all(|scope| scopes.contains(&&**scope)));
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
    let is_pattern = |text: &String| super::is_word(text, 64, legal, legal);
    let has_sales = key["sales"].is_null()
        || texts(&key["sales"]).is_some_and(|list| !list.is_empty() && list.iter().all(is_pattern));
    let hash = text("secret_sha256");
    (1..=64).contains(&id.len())
        && id.chars().all(|c| c.is_ascii_alphanumeric())
        && super::is_name(text("name"))
        && has_scopes
        && has_sales
        && hash.len() == 64
        && hash.chars().all(|c| c.is_ascii_hexdigit())
        && key["created_at"].is_string()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_keys_file_is_one_or_is_refused(
        count in 0usize..3,
        changes in vec((any::<Index>(), 0usize..6, any_value()), 0..3),
    ) {
        let keys = (0..count).map(|_| serde_json::to_value(key().entry).unwrap());
        let mut file = json!({ "keys": keys.collect::<Vec<_>>() });
        let fields = ["id", "name", "scopes", "sales", "secret_sha256", "created_at"];
        for (place, field, value) in changes.into_iter().filter(|_| count > 0) {
            file["keys"][place.index(count)][fields[field]] = value;
        }
        let read = KeyFile::parse(file.to_string().as_bytes());
        prop_assert_eq!(read.is_ok(), is_key_file(&file), "{}", file);
        if let Ok(read) = read {
            let again = serde_json::to_vec(&read).unwrap();
            prop_assert_eq!(serde_json::to_vec(&KeyFile::parse(&again).unwrap()).unwrap(), again);
        }
    }

    #[test]
    fn no_text_of_a_keys_file_does_harm(
        text in around(Just(json!({ "keys": [key().entry] }).to_string())),
        bytes in vec(any::<u8>(), 0..60),
    ) {
        for text in [text.as_bytes(), &bytes] {
            if let Ok(read) = KeyFile::parse(text) {
                let again = serde_json::to_vec(&read).unwrap();
                prop_assert_eq!(KeyFile::parse(&again).unwrap().keys.len(), read.keys.len());
            }
        }
    }
}

/// A service with one key.
struct Door {
    token: String,
    keys: ApiKeys,
    gate: Gate,
    _folder: TempDir,
}

impl Door {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("keys.json");
        let NewKey { entry, token } = key();
        let add = |file: &mut KeyFile| {
            file.keys.push(entry);
            Ok(())
        };
        KeyFile::change(&path, add).unwrap();
        let flags = ["stockade", "--keys-file", path.to_str().unwrap()];
        let options = Config::try_parse_from(flags).unwrap().options;
        let gate = Gate::new(&Access::of(&options).unwrap(), &options, options.listen);
        Self { token, keys: ApiKeys::open(&path).unwrap(), gate, _folder: folder }
    }

    /// Whether a request with this header gets in; none where a server would have refused the header.
    fn admits(&self, authorization: &str) -> Option<bool> {
        let value = HeaderValue::from_bytes(authorization.as_bytes()).ok()?;
        let request = TestRequest::default().insert_header((header::AUTHORIZATION, value));
        Some(self.gate.admit(&request.to_srv_request(), STOREFRONT).is_ok())
    }
}

#[test]
fn only_the_whole_token_opens() {
    let door = Door::new();
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let spaces = "[Bb][Ee][Aa][Rr][Ee][Rr] {1,3}";
    let tokens = (spaces, around(Just(door.token.clone())), " {0,2}", noise());
    let verdict = runner.run(&tokens, |(scheme, token, end, noise)| {
        let is_right = token == door.token;
        prop_assert_eq!(door.keys.find(&token).is_some(), is_right);
        prop_assert!(door.keys.find(&noise).is_none());
        // Spaces around the token belong to the header.
        let is_right = token.trim_matches(' ') == door.token;
        if let Some(admitted) = door.admits(&format!("{scheme}{token}{end}")) {
            prop_assert_eq!(admitted, is_right);
        }
        prop_assert_ne!(door.admits(&format!("Basic {token}")), Some(true));
        prop_assert_ne!(door.admits(&token), Some(true));
        prop_assert_ne!(door.admits(&noise), Some(true));
        Ok(())
    });
    verdict.unwrap();
}
