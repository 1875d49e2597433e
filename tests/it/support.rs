//! What most tests need: a store on a server, and the programs of examples.

use crate::redis_server::RedisServer;
use std::path::{Path, PathBuf};
use std::process::Command;
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
        replica_timeout: None,
        reads_replicas: false,
    };
    Shared::new(config, Arc::new(Metrics::new().unwrap()))
}

/// A store like a worker's.
pub fn store_on(server: &RedisServer) -> Store {
    Store::open(&shared_on(server)).unwrap()
}

/// What a process shows under this name, labels included.
pub fn sample(shared: &Shared, series: &str) -> Option<f64> {
    let page = shared.metrics.render();
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(value.parse().unwrap())
}

/// The program of an example. Cargo builds examples beside tests, but not where one test binary is asked for.
pub fn example_program(name: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--offline", "--example", name]);
    // What it tells tests of their package would make it build some dependencies anew, and again after us.
    let told = ["CARGO_MANIFEST", "CARGO_PKG", "CARGO_CRATE", "CARGO_PRIMARY"];
    for (name, _) in std::env::vars_os() {
        if told.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            build.env_remove(name);
        }
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Path::new(env!("CARGO_BIN_EXE_stockade")).with_file_name("examples").join(name)
}
