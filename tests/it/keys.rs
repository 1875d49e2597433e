//! API keys: who is let in, what a key reaches, and how keys come and go.

mod browsers;
mod command;
mod ops_listener;
mod rate_limit;
mod reload;
mod sales;
mod scopes;
mod secrets;

use crate::service::InProcess;
use std::path::PathBuf;
use stockade::api_keys::file::{KeyFile, NewKey};
use stockade::domain::Scope;
use tempfile::TempDir;

/// A keys file in a folder of its own.
struct Keyring {
    folder: TempDir,
}

impl Keyring {
    fn new() -> Self {
        let keyring = Self { folder: tempfile::tempdir().unwrap() };
        KeyFile::change(&keyring.path(), |_| Ok(())).unwrap();
        keyring
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("keys.json")
    }

    /// Adds a key that sees these sales, or all: its token.
    fn add(&self, name: &str, scope: Scope, sales: &[&str]) -> String {
        let sales = sales.iter().map(|pattern| pattern.parse().unwrap()).collect::<Vec<_>>();
        let sales = Some(sales).filter(|sales| !sales.is_empty());
        let key = NewKey::make(name.parse().unwrap(), vec![scope], sales).unwrap();
        KeyFile::change(&self.path(), |file| {
            file.keys.push(key.entry);
            Ok(())
        })
        .unwrap();
        key.token
    }

    fn revoke(&self, name: &str) {
        KeyFile::change(&self.path(), |file| {
            file.keys.retain(|key| key.name.as_str() != name);
            Ok(())
        })
        .unwrap();
    }

    fn flags(&self) -> [String; 2] {
        ["--keys-file".to_owned(), self.path().to_str().unwrap().to_owned()]
    }

    /// A service that asks for these keys.
    fn service(&self) -> InProcess {
        self.service_with(&[])
    }

    fn service_with(&self, flags: &[&str]) -> InProcess {
        let keys = self.flags();
        InProcess::with(&[&keys.each_ref().map(String::as_str)[..], flags].concat())
    }
}
