//! The self-test that runs at start is itself run on every server that we promise to work with.

use crate::redis_server::{RedisServer, ServerOptions, valkey_program};
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

/// README tells operators what to type; with exactly these rights everything runs, live events too.
#[tokio::test]
async fn passes_as_the_user_of_the_readme() {
    let readme = include_str!("../../README.md");
    let rights = readme.lines().find_map(|line| line.strip_prefix("ACL SETUSER stockade ")).unwrap();
    let server = RedisServer::start();
    let mut admin = server.connection().await;
    let rights: Vec<&str> = rights.split(' ').collect();
    let () =
        redis::cmd("ACL").arg("SETUSER").arg("stockade").arg(&rights).query_async(&mut admin).await.unwrap();
    let shared = shared_with(format!("{}?user=stockade&pass=secret", server.url()));
    let store = Store::open(&shared).unwrap();
    store.check_server().await.unwrap();
    store.self_test().await.unwrap();
    let reader = tokio::spawn(async move { live::run(&shared).await });
    let (sale, _) = crate::live::put(&store).await;
    let mut follower = crate::live::follow(&store, &sale, EventsAfter::Latest).await;
    let (heard, paused) = tokio::join!(follower.next(), store.switch_sale(&sale, Switch::Pause));
    paused.unwrap();
    assert!(heard.is_some());
    reader.abort();
}
