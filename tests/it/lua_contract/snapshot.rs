//! All keys of a sale as texts, so that a test can name everything that a script has changed.

use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use std::ops::Deref;

/// What each place of each key holds: `stock one:a` a field, `due #a` a member, `events[2]` an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot(BTreeMap<String, String>);

impl Deref for Snapshot {
    type Target = BTreeMap<String, String>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// DUMP and time of expiry of each key: equal only if nothing at all was written.
pub type Bytes = BTreeMap<String, (Vec<u8>, i64)>;

pub async fn keys_of(connection: &mut MultiplexedConnection, prefix: &str) -> Vec<String> {
    let slot: u64 = redis::cmd("CLUSTER").arg("KEYSLOT").arg(prefix).query_async(connection).await.unwrap();
    let mut cmd = redis::cmd("CLUSTER");
    let keys: Vec<String> =
        cmd.arg("GETKEYSINSLOT").arg(slot).arg(100_000).query_async(connection).await.unwrap();
    keys.into_iter().filter(|key| key.starts_with(prefix)).collect()
}

pub async fn bytes(connection: &mut MultiplexedConnection, prefix: &str) -> Bytes {
    let keys = keys_of(connection, prefix).await;
    let mut pipe = redis::pipe();
    for key in &keys {
        pipe.cmd("DUMP").arg(key).cmd("PEXPIRETIME").arg(key);
    }
    let flat: Vec<redis::Value> = pipe.query_async(connection).await.unwrap();
    let dumps: Vec<(Vec<u8>, i64)> = redis::from_redis_value(redis::Value::Array(flat)).unwrap();
    keys.into_iter().zip(dumps).collect()
}

pub async fn restore(connection: &mut MultiplexedConnection, prefix: &str, bytes: &Bytes) {
    let mut pipe = redis::pipe();
    for key in keys_of(connection, prefix).await {
        pipe.cmd("DEL").arg(key).ignore();
    }
    for (key, (dump, expires_at_ms)) in bytes {
        pipe.cmd("RESTORE").arg(key).arg((*expires_at_ms).max(0)).arg(dump).arg("ABSTTL").ignore();
    }
    let () = pipe.query_async(connection).await.unwrap();
}

pub async fn snapshot(connection: &mut MultiplexedConnection, prefix: &str) -> Snapshot {
    let mut leaves = BTreeMap::new();
    let keys = keys_of(connection, prefix).await;
    let mut kinds = redis::pipe();
    for key in &keys {
        kinds.cmd("TYPE").arg(key).cmd("PEXPIRETIME").arg(key);
    }
    let kinds: Vec<(String, i64)> = match keys.len() {
        0 => Vec::new(),
        _ => {
            let flat: Vec<redis::Value> = kinds.query_async(connection).await.unwrap();
            redis::from_redis_value(redis::Value::Array(flat)).unwrap()
        }
    };
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    for (key, (kind, expires_at_ms)) in keys.iter().zip(kinds) {
        let name = key.strip_prefix(prefix).unwrap();
        read_key(connection, &mut leaves, key, name, &kind).await;
        if expires_at_ms >= 0 {
            let minutes = (expires_at_ms - seconds * 1000 + 30_000) / 60_000;
            leaves.insert(format!("{name} ttl"), format!("{minutes} min"));
        }
    }
    let short: BTreeMap<String, String> = leaves.iter().map(|(k, v)| (short_ids(k), short_ids(v))).collect();
    assert_eq!(short.len(), leaves.len(), "two ids are shown alike");
    Snapshot(short)
}

async fn read_key(
    connection: &mut MultiplexedConnection,
    leaves: &mut BTreeMap<String, String>,
    key: &str,
    name: &str,
    kind: &str,
) {
    match kind {
        "hash" => {
            let fields: BTreeMap<String, String> =
                redis::cmd("HGETALL").arg(key).query_async(connection).await.unwrap();
            leaves.extend(fields.into_iter().map(|(field, value)| (format!("{name} {field}"), value)));
        }
        "zset" => {
            let mut cmd = redis::cmd("ZRANGE");
            let members: Vec<(String, String)> =
                cmd.arg(key).arg(0).arg(-1).arg("WITHSCORES").query_async(connection).await.unwrap();
            leaves.extend(members.into_iter().map(|(member, score)| (format!("{name} {member}"), score)));
        }
        "stream" => {
            let mut cmd = redis::cmd("XRANGE");
            let entries: Vec<(String, Vec<String>)> =
                cmd.arg(key).arg("-").arg("+").query_async(connection).await.unwrap();
            let entries = entries.into_iter().enumerate();
            leaves.extend(entries.map(|(n, (_, fields))| (format!("{name}[{n}]"), fields.join(" "))));
        }
        "string" => {
            let text: String = redis::cmd("GET").arg(key).query_async(connection).await.unwrap();
            leaves.insert(name.to_owned(), text);
        }
        other => {
            leaves.insert(name.to_owned(), format!("a {other}"));
        }
    }
}

/// `#name` for each id that `rig::id` made.
fn short_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("___") {
        let start = rest[..at].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |before| before + 1);
        let end = start + 22;
        out.push_str(&rest[..start]);
        out.push('#');
        out.push_str(&rest[start..at]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

impl Snapshot {
    /// An answer or event as a test writes it: a record that stands in its own key is `*`.
    pub fn shorten(&self, text: &str) -> String {
        let text = short_ids(text);
        let (mut out, mut rest) = (String::new(), text.as_str());
        while let Some((before, after)) = rest.split_once('#') {
            out.push_str(before);
            out.push('#');
            rest = after;
            if let Some((id, tail)) = after.split_once('\n') {
                let record = self.0.get(&format!("r:#{id}"));
                if let Some(tail) = record.and_then(|record| tail.strip_prefix(record.as_str())) {
                    out.push_str(id);
                    out.push_str("\n*");
                    rest = tail;
                }
            }
        }
        out.push_str(rest);
        out.replace('\n', "/").replace('\u{1e}', " & ")
    }
}

/// Every place that differs: `leaf = new`, or `leaf gone`.
pub fn changes(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = after
        .iter()
        .filter(|(leaf, value)| before.get(*leaf) != Some(value))
        .map(|(leaf, value)| format!("{leaf} = {}", after.shorten(value)))
        .collect();
    lines.extend(before.keys().filter(|leaf| !after.contains_key(*leaf)).map(|leaf| format!("{leaf} gone")));
    lines.sort();
    lines
}
