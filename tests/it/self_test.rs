//! The self-test that runs at start is itself run on every server that we promise to work with.

use crate::redis_server::{RedisServer, ServerOptions, valkey_program};
use crate::shop::redis_cmd;
use crate::support::{shared_with, store_on};
use stockade::domain::Switch;
use stockade::store::{EventsAfter, Store, live};

#[tokio::test]
async fn passes_on_a_server_in_cluster_mode() {
    store_on(RedisServer::shared()).self_test().await.unwrap();
}

#[tokio::test]
async fn passes_on_valkey() {
    let server = RedisServer::with(ServerOptions { program: Some(valkey_program()), ..Default::default() });
    store_on(&server).self_test().await.unwrap();
}

/// README says what a user of Redis must be allowed to do: with exactly these rights everything runs, live events too.
#[tokio::test]
async fn passes_as_the_user_that_the_readme_makes() {
    let server = RedisServer::start();
    let readme = include_str!("../../README.md");
    let line = readme.lines().find(|line| line.starts_with("ACL SETUSER stockade")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let () = redis_cmd(&mut server.connection().await, &words).await;
    let shared = shared_with(format!("{}?user=stockade&pass=secret", server.url()));
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
async fn the_user_that_the_readme_makes_may_do_nothing_else() {
    let server = RedisServer::start();
    let mut redis = server.connection().await;
    let line = include_str!("../../README.md").lines().find(|line| line.starts_with("ACL SETUSER stockade"));
    let () = redis_cmd(&mut redis, &line.unwrap().split(' ').collect::<Vec<_>>()).await;
    let mut may = async |command: &str| {
        let words: Vec<&str> = ["ACL", "DRYRUN", "stockade"].into_iter().chain(command.split(' ')).collect();
        let said: String = redis_cmd(&mut redis, &words).await;
        said == "OK"
    };
    for command in ["GET st:sales", "HSET st:{a}:stock a:a 1", "PUBLISH st:barriers x", "TIME"] {
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
