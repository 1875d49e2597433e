//! The keys file: JSON, with the SHA-256 of each secret. It is written whole and put in its place at once, so that a
//! reader sees the old one or the new one.

use crate::domain::{KeyName, SalePattern, Scope};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;
use tempfile::NamedTempFile;

/// Random bytes of an id, and of a secret.
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// All keys there are.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// In the order in which they were added.
    pub keys: Vec<KeyEntry>,
}

/// One key. A name may have several, so that a new secret can be in use before the old one is revoked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// What stands before the dot.
    pub id: String,
    /// Who holds it.
    pub name: KeyName,
    /// What it is for; at least one.
    pub scopes: Vec<Scope>,
    /// The sales that it may see; null: all.
    pub sales: Option<Vec<SalePattern>>,
    /// Of what stands behind the dot.
    pub secret_sha256: SecretHash,
    /// When it was made, for people.
    pub created_at: String,
}

/// SHA-256, in hex. A secret is 32 random bytes: nothing slower is needed to keep it from being guessed.
#[derive(Debug, Clone, Copy)]
pub struct SecretHash(pub [u8; 32]);

impl Serialize for SecretHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}", hex(&self.0)))
    }
}

impl<'de> Deserialize<'de> for SecretHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |place: usize| {
            text.get(2 * place..2 * place + 2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let mut hash = [0; 32];
        for (place, to) in hash.iter_mut().enumerate() {
            let read = byte(place).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *to = read
                .filter(|_| text.len() == 64)
                .ok_or_else(|| de::Error::custom("must be 64 hex digits"))?;
        }
        Ok(Self(hash))
    }
}

/// A new key, and the only text that opens it.
pub struct NewKey {
    /// What is kept.
    pub entry: KeyEntry,
    /// `<id>.<secret>`.
    pub token: String,
}

impl NewKey {
    /// Makes one.
    pub fn make(name: KeyName, scopes: Vec<Scope>, sales: Option<Vec<SalePattern>>) -> Result<Self> {
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut random).context("the system gives no random bytes")?;
        let (id, secret) = random.split_at(ID_BYTES);
        let (id, secret) = (hex(id), URL_SAFE_NO_PAD.encode(secret));
        let token = format!("{id}.{secret}");
        let secret_sha256 = SecretHash(Sha256::digest(&secret).into());
        let created_at = format!("{:.0}", jiff::Timestamp::now());
        Ok(Self { entry: KeyEntry { id, name, scopes, sales, secret_sha256, created_at }, token })
    }
}

impl KeyFile {
    /// Reads and checks its text.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let file: Self = serde_json::from_slice(text)?;
        let mut ids = HashSet::new();
        for KeyEntry { id, name, scopes, sales, .. } in &file.keys {
            if !(1..=64).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
                bail!("key {name}: its id must be 1-64 letters and digits");
            }
            if !ids.insert(id) {
                bail!("key {name}: its id {id} is there twice");
            }
            if scopes.is_empty() {
                bail!("key {name} has no scope");
            }
            if sales.as_ref().is_some_and(Vec::is_empty) {
                bail!("key {name}: `sales` must name at least one, or be null for all");
            }
        }
        Ok(file)
    }

    /// Reads a file; one that is not there has no keys.
    pub fn read(path: &Path) -> Result<Self> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        Self::parse(&text).with_context(|| format!("{} is not a keys file", path.display()))
    }

    /// Changes a file. Two commands at once wait for each other: neither loses the other's key.
    pub fn change<T>(path: &Path, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let cannot = || format!("{} cannot be written", path.display());
        let folder_file = File::open(folder).with_context(cannot)?;
        // The folder, not the file: that is another one after each change.
        folder_file.lock().with_context(cannot)?;
        let mut file = Self::read(path)?;
        let changed = change(&mut file)?;
        file.write(path, folder).and_then(|()| Ok(folder_file.sync_all()?)).with_context(cannot)?;
        Ok(changed)
    }

    /// Mode 0600, and the owner that it had: a root who changes the file must not lock the service out of it.
    fn write(&self, path: &Path, folder: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut new = NamedTempFile::new_in(folder)?;
        new.write_all(&text)?;
        if let Ok(old) = fs::metadata(path) {
            let made = new.as_file().metadata()?;
            if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
                fchown(new.as_file(), Some(old.uid()), Some(old.gid()))?;
            }
        }
        new.as_file().sync_all()?;
        new.persist(path)?;
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> serde_json::Value {
        let name = "shop".parse().unwrap();
        serde_json::to_value(NewKey::make(name, vec![Scope::Storefront], None).unwrap().entry).unwrap()
    }

    fn parsed(entries: &[serde_json::Value]) -> Result<KeyFile> {
        KeyFile::parse(serde_json::json!({ "keys": entries }).to_string().as_bytes())
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = parsed(&[entry(), entry()]).unwrap();
        assert_eq!(file.keys.len(), 2);
        let written = serde_json::to_vec(&file).unwrap();
        let again = KeyFile::parse(&written).unwrap();
        assert_eq!(serde_json::to_vec(&again).unwrap(), written);
    }

    #[test]
    fn a_new_key_has_a_secret_that_is_not_kept() {
        let make = || NewKey::make("shop".parse().unwrap(), vec![Scope::Metrics], None).unwrap();
        let (key, other) = (make(), make());
        assert_ne!(key.token, other.token);
        let (id, secret) = key.token.split_once('.').unwrap();
        assert_eq!((id, secret.len()), (key.entry.id.as_str(), 43));
        let kept = serde_json::to_string(&key.entry).unwrap();
        assert!(!kept.contains(secret), "{kept}");
        assert_eq!(key.entry.secret_sha256.0, <[u8; 32]>::from(Sha256::digest(secret)));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let with = |field: &str, value: serde_json::Value| {
            let mut entry = entry();
            entry[field] = value;
            entry
        };
        for (field, value) in [
            ("id", "".into()),
            ("id", "a.b".into()),
            ("name", "two words".into()),
            ("scopes", serde_json::json!([])),
            ("scopes", serde_json::json!(["root"])),
            ("sales", serde_json::json!([])),
            ("sales", serde_json::json!(["a b"])),
            ("secret_sha256", "ab".into()),
            ("secret_sha256", "\u{e9}".repeat(32).into()),
            ("secret_sha256", format!("+f{}", "0".repeat(62)).into()),
            ("secret", "s".into()),
        ] {
            assert!(parsed(&[with(field, value.clone())]).is_err(), "{field} {value}");
        }
        let one = entry();
        assert!(parsed(&[one.clone(), one]).is_err(), "an id is there twice");
        for text in ["", "{}", "[]", "{\"keys\":[]} x", "{\"keys\":[],\"keys\":[]}"] {
            assert!(KeyFile::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
