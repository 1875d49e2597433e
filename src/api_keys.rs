//! API keys: who may call, as the keys file says. The file is read again while the service runs, so that a key can be
//! added or revoked without a restart; a file that cannot be read changes nothing.
//!
//! `file` is its form, and how commands change it.

pub mod file;

use crate::config::Options;
use crate::domain::{Caller, Scope};
use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use file::KeyFile;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Largest keys file, in bytes: some thousand keys.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// SHA-256 of a secret.
type Digest256 = [u8; 32];

/// One key, without its secret.
#[derive(Debug)]
pub struct ApiKey {
    /// Who holds it.
    pub caller: Caller,
    scopes: Vec<Scope>,
    digest: Digest256,
}

impl ApiKey {
    /// Whether it has one of these scopes.
    pub fn has_any(&self, scopes: &[Scope]) -> bool {
        self.scopes.iter().any(|scope| scopes.contains(scope))
    }

    /// What it is for.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }
}

/// The keys of one reading, by id.
struct Ring {
    text: Vec<u8>,
    by_id: HashMap<String, Arc<ApiKey>>,
}

/// The keys in force. Requests find theirs without a lock.
pub struct ApiKeys {
    path: PathBuf,
    ring: ArcSwap<Ring>,
}

impl ApiKeys {
    /// Reads the file for the first time.
    pub fn open(path: &Path) -> Result<Self> {
        let ring =
            Ring::new(read(path)?).with_context(|| format!("the keys file {} is not one", path.display()))?;
        Ok(Self { path: path.to_owned(), ring: ArcSwap::from_pointee(ring) })
    }

    /// Where they are kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ring.load().by_id.len()
    }

    /// The key that `<id>.<secret>` opens. An unknown id takes the same path as a wrong secret: the time of an answer
    /// tells neither.
    pub fn find(&self, token: &str) -> Option<Arc<ApiKey>> {
        const NOBODYS: Digest256 = [0; 32];
        let (id, secret) = token.split_once('.').unwrap_or((token, ""));
        let ring = self.ring.load();
        let found = ring.by_id.get(id);
        let digest: Digest256 = Sha256::digest(secret).into();
        let is_right = digest.ct_eq(found.map_or(&NOBODYS, |key| &key.digest));
        found.filter(|_| is_right.into()).map(Arc::clone)
    }

    /// Looks whether the file has changed; if so, says how many keys are in force now. After an error they are those
    /// from before. The text is compared, not the file's times: these miss a change within one tick of the clock, and
    /// a folder that is swapped as a whole.
    pub fn read_again(&self) -> Result<Option<usize>> {
        let text = read(&self.path)?;
        if text == self.ring.load().text {
            return Ok(None);
        }
        let ring = Ring::new(text)?;
        let count = ring.by_id.len();
        self.ring.store(Arc::new(ring));
        Ok(Some(count))
    }
}

impl Ring {
    fn new(text: Vec<u8>) -> Result<Self> {
        let mut by_id = HashMap::new();
        for entry in KeyFile::parse(&text)?.keys {
            let caller = Caller::new(entry.name, entry.sales);
            let key = ApiKey { caller, scopes: entry.scopes, digest: entry.secret_sha256.0 };
            by_id.insert(entry.id, Arc::new(key));
        }
        Ok(Self { text, by_id })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text))
        .with_context(|| format!("the keys file {} cannot be read", path.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("the keys file {} is larger than {FILE_BYTES_MAX} bytes", path.display());
    }
    Ok(text)
}

/// Who may call, decided once, at the start: holders of keys; or everybody, where only this machine can call or the
/// operator insists. There is no other way to make one, so nothing listens without this decision.
#[derive(Clone)]
pub struct Access(Option<Arc<ApiKeys>>);

impl Access {
    /// As the options say.
    pub fn of(options: &Options) -> Result<Self> {
        if let Some(path) = &options.keys_file {
            return Ok(Self(Some(Arc::new(ApiKeys::open(path)?))));
        }
        match options.open_address() {
            Some(address) if !options.allow_no_keys => bail!(
                "will not listen on {address}: there are no API keys, so whoever reaches that address can sell, \
                 release and delete everything. Make a key with `stockade keys add` and name the file with \
                 STOCKADE_KEYS_FILE, or listen on 127.0.0.1, or set STOCKADE_ALLOW_NO_KEYS=true where only trusted \
                 hosts can reach it",
            ),
            _ => Ok(Self(None)),
        }
    }

    /// None: everybody may do everything.
    pub fn keys(&self) -> Option<&Arc<ApiKeys>> {
        self.0.as_ref()
    }
}
