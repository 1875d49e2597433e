//! Whether each server is what the promises rest on.

use super::CheckError;
use crate::store::health::read_info;
use crate::store::pool::{Shard, Slot};
use crate::store::{Store, StoreError};
use redis::{Cmd, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Oldest server version that runs the scripts.
const VERSION_MIN: u64 = 7;
/// A server that loads a large file is waited for so long at the start.
const LOADING_MAX: Duration = Duration::from_secs(600);
const LOADING_PAUSE: Duration = Duration::from_millis(100);

/// What a server says of itself.
type Fields = BTreeMap<String, String>;

impl Store {
    /// Checks the server, or each shard of the cluster; what is weaker than promised is said, a line each. Of a cluster not
    /// all need to answer.
    pub async fn check_server(&self) -> Result<Vec<String>, CheckError> {
        let shards = self.committer.pool.shards().await?;
        let [_, _, ..] = shards[..] else {
            return self.check_shard(Slot::for_key(""), false).await;
        };
        let mut warnings = Vec::new();
        let mut away = Vec::new();
        for Shard { name, slot } in &shards {
            match self.check_shard(*slot, true).await {
                Ok(said) => warnings.extend(said.into_iter().map(|said| format!("{name}: {said}"))),
                Err(CheckError::Unfit(why)) => return Err(CheckError::Unfit(format!("{name}: {why}"))),
                Err(error) => away.push((name, error)),
            }
        }
        if away.len() == shards.len() {
            return Err(away.remove(0).1);
        }
        let unknown = away.iter().map(|(name, error)| format!("{name}: could not be checked: {error}"));
        warnings.extend(unknown);
        Ok(warnings)
    }

    async fn check_shard(&self, slot: Slot, has_others: bool) -> Result<Vec<String>, CheckError> {
        let info = self.loaded_info(slot).await?;
        let get = |name: &str| info.get(name).map(String::as_str).unwrap_or_default();
        let version = get("redis_version");
        if version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0) < VERSION_MIN {
            return Err(CheckError::Unfit(format!("Redis {version} is too old: 7.0 or newer is needed")));
        }
        if get("maxmemory_policy") != "noeviction" {
            let policy = get("maxmemory_policy");
            return Err(CheckError::Unfit(format!(
                "maxmemory-policy is {policy}, which may evict stock: set it to noeviction"
            )));
        }
        let settings = self.settings(slot).await;
        let mut warnings = Vec::new();
        if get("aof_enabled") != "1" {
            warnings.push("appendonly is off: what is acknowledged is lost when Redis is killed".to_owned());
        } else if let Some(fsync) = settings.get("appendfsync").filter(|fsync| *fsync != "always") {
            warnings.push(format!("appendfsync is {fsync}: about a second is lost when the machine fails"));
        }
        if get("maxmemory") == "0" {
            warnings.push("maxmemory is not set: a full machine kills Redis instead of refusing".to_owned());
        }
        if get("connected_slaves") == "0" && self.committer.pool.waits_for_replicas() {
            warnings.push(
                "it has no replica to wait for: every answer says that it is durable here alone".to_owned(),
            );
        }
        // INFO has this field only where min-replicas-to-write is set.
        if get("connected_slaves") != "0" && !info.contains_key("min_slaves_good_slaves") {
            warnings.push(
                "it has replicas and min-replicas-to-write is 0: a master that is cut off from them goes on \
                 acknowledging, and all that is lost when a replica takes over"
                    .to_owned(),
            );
        }
        if has_others && settings.get("cluster-require-full-coverage").is_some_and(|value| value == "yes") {
            warnings.push("cluster-require-full-coverage is yes: one dead shard stops all others".to_owned());
        }
        Ok(warnings)
    }

    /// INFO, once the server has read its data: before that it answers, but about defaults.
    async fn loaded_info(&self, slot: Slot) -> Result<Fields, StoreError> {
        let begun = Instant::now();
        let mut cmd = redis::cmd("INFO");
        cmd.arg("server").arg("memory").arg("persistence").arg("replication");
        loop {
            let info = read_info(self.ask(slot, &cmd).await?)?;
            if info.get("loading").is_none_or(|loading| loading == "0") {
                return Ok(info);
            }
            if begun.elapsed() > LOADING_MAX {
                return Err(StoreError::NotApplied("store_loading"));
            }
            tokio::time::sleep(LOADING_PAUSE).await;
        }
    }

    /// Managed Redis forbids CONFIG; then they stay unknown.
    async fn settings(&self, slot: Slot) -> Fields {
        let mut cmd = redis::cmd("CONFIG");
        cmd.arg("GET").arg("appendfsync").arg("cluster-require-full-coverage");
        let answer = self.ask(slot, &cmd).await;
        answer.ok().and_then(|answer| redis::from_redis_value(answer).ok()).unwrap_or_default()
    }

    /// One command to whoever has the slot.
    async fn ask(&self, slot: Slot, cmd: &Cmd) -> Result<Value, StoreError> {
        let answer = self.committer.pool.get(slot).await?.query(cmd).await;
        self.note(answer)
    }
}
