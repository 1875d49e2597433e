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
