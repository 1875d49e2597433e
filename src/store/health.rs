//! How Redis is, as it says itself.

use super::pool::Slot;
use super::{Store, StoreError};
use redis::{FromRedisValue, Value, from_redis_value};
use std::collections::{BTreeMap, HashMap};

/// Where there are more connections, listing them would keep buyers waiting.
const CLIENTS_LISTED_MAX: f64 = 200.0;
/// A spike of the latency monitor that is older is over.
const SPIKE_SECONDS: u64 = 60;

/// What Redis says of itself. What it does not tell this user, or not at all, is none.
#[derive(Debug, Default)]
pub struct RedisHealth {
    info: BTreeMap<String, String>,
    /// Slow commands since the start.
    pub slowlog_entries: Option<u64>,
    /// Events of the latency monitor, and their last spikes in milliseconds, where these are not over.
    pub spikes_ms: Option<HashMap<String, u64>>,
    /// The largest input and output buffer of any connection, in bytes.
    pub buffer_bytes: Option<[u64; 2]>,
}

impl RedisHealth {
    /// A field of INFO.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.info.get(field).map(String::as_str)
    }

    /// A field of INFO that is a number.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.text(field)?.parse().ok()
    }

    /// Keys, over all databases.
    pub fn keys(&self) -> f64 {
        let is_database =
            |field: &str| field.strip_prefix("db").is_some_and(|number| number.parse::<u8>().is_ok());
        let databases = self.info.iter().filter(|(field, _)| is_database(field));
        let keys = |text: &str| text.strip_prefix("keys=")?.split(',').next()?.parse::<f64>().ok();
        databases.filter_map(|(_, text)| keys(text)).sum()
    }

    fn read(&mut self, slowlog: Value, latency: Value) {
        type Slow = Vec<(u64, Value, Value, Value, Value, Value)>;
        let slow = from_redis_value::<Slow>(slowlog).ok();
        self.slowlog_entries = slow.map(|slow| slow.first().map_or(0, |(id, ..)| id + 1));
        let now = self.number("server_time_usec").unwrap_or(0.0) as u64 / 1_000_000;
        self.spikes_ms = latency.into_sequence().ok().map(|events| {
            let spike = |event: Value| {
                let [event, at, last, ..] = &event.into_sequence().ok()?[..] else { return None };
                let (at, last) =
                    (u64::from_redis_value(at.clone()).ok()?, u64::from_redis_value(last.clone()).ok()?);
                (at + SPIKE_SECONDS >= now).then_some((String::from_redis_value(event.clone()).ok()?, last))
            };
            events.into_iter().filter_map(spike).collect()
        });
    }
}

impl Store {
    /// Asks Redis how it is; of a cluster, the server that has the most data.
    pub async fn redis_health(&self) -> Result<RedisHealth, StoreError> {
        let shards = self.committer.pool.shards().await?;
        let mut all =
            futures_util::future::try_join_all(shards.iter().map(|shard| self.health_of(shard.slot))).await?;
        let bytes = |health: &RedisHealth| health.number("used_memory").unwrap_or(0.0);
        all.sort_by(|a, b| bytes(a).total_cmp(&bytes(b)));
        all.pop().ok_or_else(StoreError::unreachable)
    }

    async fn health_of(&self, slot: Slot) -> Result<RedisHealth, StoreError> {
        let (mut slowlog, mut latency) = (redis::cmd("SLOWLOG"), redis::cmd("LATENCY"));
        slowlog.arg("GET").arg(1);
        latency.arg("LATEST");
        let mut connection = self.committer.pool.get(slot).await?;
        let answers = connection.query_all(&[&redis::cmd("INFO"), &slowlog, &latency]).await;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let info = read_info(self.note(next())?)?;
        let mut health = RedisHealth { info, ..RedisHealth::default() };
        // Managed Redis forbids these.
        health.read(next().unwrap_or(Value::Nil), next().unwrap_or(Value::Nil));
        if health.number("connected_clients").is_some_and(|clients| clients <= CLIENTS_LISTED_MAX) {
            let listed = connection.query(redis::cmd("CLIENT").arg("LIST")).await;
            health.buffer_bytes =
                listed.ok().and_then(|list| from_redis_value(list).ok()).map(largest_buffers);
        }
        Ok(health)
    }
}

/// The fields of an answer to INFO.
pub(super) fn read_info(answer: Value) -> Result<BTreeMap<String, String>, StoreError> {
    let text: String = from_redis_value(answer).map_err(|error| StoreError::Reply(error.to_string()))?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Of a list of clients, one a line: `... qbuf=<input> ... obl=<output> ... omem=<more output> ...`.
fn largest_buffers(list: String) -> [u64; 2] {
    let mut largest = [0, 0];
    for client in list.lines() {
        let field = |name: &str| {
            let mut values =
                client.split(' ').filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            values.next().and_then(|value| value.parse().ok()).unwrap_or(0u64)
        };
        largest = [largest[0].max(field("qbuf")), largest[1].max(field("obl") + field("omem"))];
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buffers_of_any_connection_are_found() {
        let list = "id=3 addr=a qbuf=26 qbuf-free=20448 obl=5 oll=0 omem=0 cmd=client|list\nid=4 addr=b qbuf=0 obl=1 omem=40\n";
        assert_eq!(largest_buffers(list.to_owned()), [26, 41]);
        assert_eq!(largest_buffers(String::new()), [0, 0]);
    }
}
