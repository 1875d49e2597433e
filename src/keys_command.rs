//! `stockade keys`: makes, lists and revokes API keys. What a script wants is printed on standard output, what a person
//! wants to know on standard error.

use crate::api_keys::file::{KeyEntry, KeyFile, NewKey};
use crate::config::KeysCommand;
use crate::domain::{KeyName, SalePattern, Scope};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Carries out a command.
pub fn run(path: Option<&Path>, command: KeysCommand) -> Result<()> {
    let path = path.context("name the keys file with --keys-file or STOCKADE_KEYS_FILE")?;
    match command {
        KeysCommand::Add { name, scopes, sales } => add(path, name, scopes, sales),
        KeysCommand::Rotate { name } => rotate(path, &name),
        KeysCommand::List => list(path),
        KeysCommand::Revoke { name, id } => revoke(path, &name, id.as_deref()),
    }
}

fn add(path: &Path, name: KeyName, scopes: Vec<Scope>, sales: Vec<SalePattern>) -> Result<()> {
    let key = NewKey::make(name, scopes, Some(sales).filter(|sales| !sales.is_empty()))?;
    KeyFile::change(path, |file| {
        let name = &key.entry.name;
        if file.keys.iter().any(|known| known.name == *name) {
            bail!("there is a key named {name}: revoke it first, or see `stockade keys rotate`");
        }
        file.keys.push(key.entry.clone());
        Ok(())
    })?;
    tell(path, &key);
    Ok(())
}

fn rotate(path: &Path, name: &KeyName) -> Result<()> {
    let key = KeyFile::change(path, |file| {
        let old = file.keys.iter().rfind(|known| known.name == *name).with_context(|| unknown(name))?;
        let key = NewKey::make(old.name.clone(), old.scopes.clone(), old.sales.clone())?;
        file.keys.push(key.entry.clone());
        Ok(key)
    })?;
    tell(path, &key);
    eprintln!(
        "The older one goes with `stockade keys revoke {name} --id ...`, when nobody uses it any more."
    );
    Ok(())
}

fn tell(path: &Path, key: &NewKey) {
    let KeyEntry { name, scopes, sales, .. } = &key.entry;
    eprintln!(
        "Key {name} ({}; sales: {}) is in {}.",
        words(scopes),
        patterns(sales.as_deref()),
        path.display()
    );
    eprintln!("It is shown this once. Send it as `Authorization: Bearer` and this:");
    println!("{}", key.token);
}

fn list(path: &Path) -> Result<()> {
    let file = KeyFile::read(path)?;
    println!("{:<16}  {:<20}  {:<20}  {:<20}  SALES", "ID", "CREATED", "NAME", "SCOPES");
    for KeyEntry { id, created_at, name, scopes, sales, .. } in &file.keys {
        let (name, scopes) = (name.as_str(), words(scopes));
        println!("{id:<16}  {created_at:<20}  {name:<20}  {scopes:<20}  {}", patterns(sales.as_deref()));
    }
    Ok(())
}

fn revoke(path: &Path, name: &KeyName, id: Option<&str>) -> Result<()> {
    let revoked = KeyFile::change(path, |file| {
        let before = file.keys.len();
        file.keys.retain(|key| key.name != *name || id.is_some_and(|id| key.id != id));
        match before - file.keys.len() {
            0 => bail!("{}", id.map_or_else(|| unknown(name), |id| format!("{name} has no key {id}"))),
            revoked => Ok(revoked),
        }
    })?;
    eprintln!("Revoked {revoked} of {name} in {}.", path.display());
    Ok(())
}

fn unknown(name: &KeyName) -> String {
    format!("there is no key named {name}")
}

fn words(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

fn patterns(sales: Option<&[SalePattern]>) -> String {
    sales
        .map_or("all".to_owned(), |sales| sales.iter().map(SalePattern::as_str).collect::<Vec<_>>().join(","))
}
