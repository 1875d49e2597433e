//! Redlock as small as it can be: a majority of independent servers has the token, and enough of the lease is left.

use futures_util::future::join_all;
use redis::Script;
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// What clocks of servers may differ by while a lease runs: a hundredth of it, and 2 ms for the servers' own rounding.
fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

/// Deletes the lock if it is ours.
pub async fn delete_if(connection: &mut MultiplexedConnection, token: &str) -> redis::RedisResult<bool> {
    let script = Script::new(
        "#!lua\nreturn redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0",
    );
    script.key("lock").arg(token).invoke_async(connection).await
}

/// One client of the lock.
pub struct Redlock {
    nodes: Vec<MultiplexedConnection>,
}

impl Redlock {
    /// Over these servers.
    pub fn new(nodes: Vec<MultiplexedConnection>) -> Self {
        Self { nodes }
    }

    /// One try. A server that does not answer counts as one that refuses.
    pub async fn lock(&mut self, token: &str, lease_ms: u64) -> bool {
        let (begun, lease) = (Instant::now(), Duration::from_millis(lease_ms));
        let mut set = redis::cmd("SET");
        set.arg("lock").arg(token).arg("NX").arg("PX").arg(lease_ms);
        let asked = self.nodes.iter_mut().map(|node| timeout(lease, set.query_async::<Option<String>>(node)));
        let granted = join_all(asked).await.iter().filter(|answer| matches!(answer, Ok(Ok(Some(_))))).count();
        let is_valid = begun.elapsed() + drift(lease) < lease;
        if granted > self.nodes.len() / 2 && is_valid {
            return true;
        }
        self.unlock(token).await;
        false
    }

    /// Everywhere: a server whose answer was lost may have it. What cannot be deleted ends with its lease.
    pub async fn unlock(&mut self, token: &str) {
        let patience = Duration::from_secs(1);
        join_all(self.nodes.iter_mut().map(|node| timeout(patience, delete_if(node, token)))).await;
    }
}
