//! The self-test that runs at start is itself run on every server that we promise to work with.

use crate::redis_cluster::RedisCluster;
use crate::redis_server::{PASSWORD, RedisServer, ServerOptions, USERS, valkey_program};
use crate::sandbox::eventually;
use crate::shop::redis_cmd;
use crate::support::{shared_on, shared_with, store_on};
use std::time::Duration;
use stockade::domain::Switch;
use stockade::store::checks::CheckError;
use stockade::store::{EventsAfter, PoolConfig, Shared, Store, live};

#[tokio::test]
async fn passes_on_a_server_in_cluster_mode() {
    store_on(RedisServer::shared()).self_test().await.unwrap();
}

#[tokio::test]
async fn passes_on_valkey() {
    let server = RedisServer::with(ServerOptions { program: Some(valkey_program()), ..Default::default() });
    store_on(&server).self_test().await.unwrap();
}

fn with_shipped_users() -> Vec<String> {
    ["--aclfile", USERS].map(String::from).to_vec()
}

/// With exactly the rights of the user that is shipped everything runs, live events too.
#[tokio::test]
async fn passes_as_the_user_that_is_shipped() {
    let server = RedisServer::with(ServerOptions { args: with_shipped_users(), ..Default::default() });
    let shared = shared_with(format!("{}?user=stockade&pass={PASSWORD}", server.url()));
    let store = Store::open(&shared).unwrap();
    store.check_server().await.unwrap();
    let health = store.redis_health().await.unwrap();
    assert!(health.slowlog_entries.is_some() && health.spikes_ms.is_some() && health.buffer_bytes.is_some());
    let tested = store.self_test().await;
    let refused: redis::Value = redis_cmd(&mut server.connection().await, &["ACL", "LOG"]).await;
    tested.unwrap_or_else(|error| panic!("{error}: {refused:?}"));
    let reader = tokio::spawn(async move { live::run(&shared).await });
    let (sale, _) = crate::live::put(&store).await;
    let mut follower = crate::live::follow(&store, &sale, EventsAfter::Latest).await;
    let (heard, paused) = tokio::join!(follower.next(), store.switch_sale(&sale, Switch::Pause));
    paused.unwrap();
    assert!(heard.is_some());
    reader.abort();
}

/// Whoever steals its password can do what Stockade does, to keys of Stockade, and no more.
#[tokio::test]
async fn the_user_that_is_shipped_may_do_nothing_else() {
    let server = RedisServer::with(ServerOptions { args: with_shipped_users(), ..Default::default() });
    let mut redis = server.connection().await;
    let mut may = async |command: &str| {
        let words: Vec<&str> = ["ACL", "DRYRUN", "stockade"].into_iter().chain(command.split(' ')).collect();
        let said: String = redis_cmd(&mut redis, &words).await;
        said == "OK"
    };
    for command in ["GET st:sales", "HSET st:{a}:stock a:a 1", "PUBLISH st:barriers x", "TIME"] {
        assert!(may(command).await, "{command}");
    }
    // What is asked only of servers behind Sentinels, in a cluster, or with replicas.
    for command in ["ROLE", "CLUSTER SLOTS", "CLUSTER INFO", "ASKING", "READONLY", "WAIT 1 100"] {
        assert!(may(command).await, "{command}");
    }
    for command in [
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "CONFIG SET dir /tmp",
        "CONFIG REWRITE",
        "KEYS *",
        "SCAN 0",
        "DEBUG SLEEP 1",
        "SHUTDOWN",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "SAVE",
        "MODULE LOAD a",
        "ACL LIST",
        "REPLICAOF a 1",
        "CLIENT KILL TYPE normal",
        "MONITOR",
        "DUMP st:sales",
        "RESTORE st:sales 0 a",
        "MIGRATE a 1 st:sales 0 1",
        "RENAME st:sales st:a",
        "GET other",
        "SET other 1",
        "EVAL a 1 other",
        "HGETALL st:{a}:stock",
        "PUBLISH other x",
        "SUBSCRIBE other",
    ] {
        assert!(!may(command).await, "{command}");
    }
}

/// Of a server of tests, which has no limit of memory.
const NO_LIMIT: &str = "maxmemory is not set: a full machine kills Redis instead of refusing";

#[tokio::test]
async fn replicas_that_no_write_needs_are_remarked_on() {
    let server =
        |args: Vec<String>| RedisServer::with(ServerOptions { tcp: true, args, ..Default::default() });
    let master = server(Vec::new());
    let store = store_on(&master);
    assert_eq!(store.check_server().await.unwrap(), [NO_LIMIT]);
    let shared = shared_on(&master);
    let config = PoolConfig { replica_timeout: Some(Duration::from_secs(1)), ..shared.config.clone() };
    let waiting = Store::open(&Shared { config, ..shared }).unwrap();
    let said = waiting.check_server().await.unwrap();
    assert!(said[1].contains("no replica to wait for"), "{said:?}");
    let port = master.port().to_string();
    let _replica = server(["--replicaof", "127.0.0.1", &port].map(String::from).to_vec());
    eventually("the replica is there", async || store.check_server().await.unwrap().len() == 2).await;
    let said = store.check_server().await.unwrap();
    assert!(said[1].contains("min-replicas-to-write is 0") && said[1].contains("lost"), "{said:?}");
    let set = ["CONFIG", "SET", "min-replicas-to-write", "1"];
    let () = redis_cmd(&mut master.connection().await, &set).await;
    assert_eq!(store.check_server().await.unwrap(), [NO_LIMIT]);
}

#[tokio::test]
async fn each_shard_of_a_cluster_is_checked() {
    let args = ["--aclfile", USERS, "--maxmemory", "100mb", "--cluster-require-full-coverage", "no"];
    let mut cluster = RedisCluster::with(2, 0, &args).await;
    let url = cluster.url().replace("://", &format!("://stockade:{PASSWORD}@"));
    let store = Store::open(&shared_with(url)).unwrap();
    assert_eq!(store.check_server().await.unwrap(), [""; 0]);
    store.self_test().await.unwrap();

    cluster
        .ask::<()>(1, &["CONFIG", "SET", "appendfsync", "no", "cluster-require-full-coverage", "yes"])
        .await;
    let second = cluster.address(1);
    let said = store.check_server().await.unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with(&format!("{second}: appendfsync is no")), "{said:?}");
    assert!(said[1].starts_with(&format!("{second}: cluster-require-full-coverage is yes")), "{said:?}");
    cluster.ask::<()>(1, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let refused = store.check_server().await.unwrap_err();
    assert!(
        matches!(&refused, CheckError::Unfit(why) if why.starts_with(&format!("{second}: "))),
        "{refused}"
    );

    cluster.kill(1);
    let said = store.check_server().await.unwrap();
    assert!(
        matches!(&said[..], [one] if one.starts_with(&format!("{second}: could not be checked"))),
        "{said:?}"
    );
}
