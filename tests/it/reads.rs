//! Reads of levels from caches: of one process, and shared by all.
//!
//! Stores of one `Shared` are worker threads of a process; `process` makes another process. Their clock stands still
//! unless a test moves it.

mod deletion;
mod levels;
mod lists;
mod pages;
mod work;

use crate::redis_server::{RedisServer, ServerOptions};
use crate::service::InProcess;
use crate::shop::{Shop, redis_cmd};
use crate::support::shared_on;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use stockade::domain::{Decision, PageRequest, PutSale};
use stockade::metrics::Metrics;
use stockade::store::{Decided, Shared, Store};

/// Whose commands nobody else's test counts, and that need not wait for the disk.
fn own_server() -> RedisServer {
    let args = ["--appendfsync", "no"].map(String::from).to_vec();
    RedisServer::with(ServerOptions { args, ..ServerOptions::default() })
}

async fn shop_on(server: &RedisServer, stock: &[(&str, u64)]) -> Shop {
    let shared = shared_on(server);
    shared.clock.stop();
    Shop::with(shared, PutSale::default(), stock).await
}

/// What another process on the same clock has.
fn process(of: &Shared) -> Shared {
    let new = Shared::new(of.config.clone(), Arc::new(Metrics::new().unwrap()));
    Shared { clock: Arc::clone(&of.clock), page_times: of.page_times, ..new }
}

impl Shop {
    /// The same sale in another process.
    fn elsewhere(&self) -> Self {
        let shared = process(&self.shared);
        let store = Store::open(&shared).unwrap();
        Self { store, shared, sale: self.sale.clone() }
    }

    async fn recent(&self, sku: &str) -> Value {
        shown(self.store.recent_level(self.sale.clone(), sku.parse().unwrap()).await)
    }

    async fn recent_list(&self, limit: usize, after: Option<&str>) -> Value {
        let request = PageRequest { limit, after: after.map(str::to_owned) };
        shown(self.store.recent_levels(self.sale.clone(), &request).await)
    }

    /// All pages of the list, one after the other.
    async fn recent_all(&self, limit: usize) -> Vec<Value> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = self.recent_list(limit, after.as_deref()).await;
            items.extend_from_slice(page["items"].as_array().unwrap());
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return items,
            }
        }
    }

    /// How often a cache had it, had to read it, and showed an old one.
    fn counted(&self, cache: &str) -> [u64; 3] {
        let page = self.shared.metrics.render();
        ["hit", "miss", "stale"].map(|result| {
            let series = format!("stockade_cache_requests_total{{cache=\"{cache}\",result=\"{result}\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
        })
    }

    async fn has_key(&self, server: &RedisServer, name: &str) -> bool {
        redis_cmd::<u64>(&mut server.connection().await, &["EXISTS", &self.key(name)]).await == 1
    }
}

/// What was found; each level of it adds up.
fn shown(decided: Decided<Bytes>) -> Value {
    let json = match decided {
        Ok(Decision::Done(_, json)) => json,
        other => panic!("{other:?}"),
    };
    let value: Value = serde_json::from_slice(&json).unwrap();
    let one = std::slice::from_ref(&value);
    for level in value["items"].as_array().map_or(one, Vec::as_slice) {
        assert_adds_up(level);
    }
    value
}

#[track_caller]
fn assert_adds_up(level: &Value) {
    let units = |field: &str| level[field].as_u64().unwrap();
    assert_eq!(units("available") + units("held") + units("sold"), units("granted"), "{level}");
}

/// Calls of a command since the last reset.
async fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats: String = redis_cmd(&mut server.connection().await, &["INFO", "commandstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

async fn forget_calls(server: &RedisServer) {
    let () = redis_cmd(&mut server.connection().await, &["CONFIG", "RESETSTAT"]).await;
}

/// A service whose caches keep what they have until the test moves time.
fn stopped_service() -> InProcess {
    let service = InProcess::start();
    service.shared.clock.stop();
    service
}
