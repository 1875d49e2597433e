//! What most tests need: a store on a server, a sale of one's own.

use crate::redis_server::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use stockade::metrics::Metrics;
use stockade::store::{PoolConfig, Shared, Store};

/// What the stores of a test share: one clock.
pub fn shared_on(server: &RedisServer) -> Shared {
    shared_with(server.url())
}

/// The same, for a Redis that the test did not start itself.
pub fn shared_with(url: String) -> Shared {
    let config = PoolConfig {
        url,
        size: 4,
        response_timeout: Duration::from_secs(5),
        wait_timeout: Duration::from_secs(2),
    };
    Shared::new(config, Arc::new(Metrics::new().unwrap()))
}

/// A store like a worker's.
pub fn store_on(server: &RedisServer) -> Store {
    Store::open(&shared_on(server)).unwrap()
}
