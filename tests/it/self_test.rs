//! The self-test that runs at start is itself run on every server that we promise to work with.

use crate::redis_server::{RedisServer, ServerOptions, valkey_program};
use crate::support::store_on;

#[tokio::test]
async fn passes_on_a_server_in_cluster_mode() {
    store_on(RedisServer::shared()).self_test().await.unwrap();
}

#[tokio::test]
async fn passes_on_valkey() {
    let server = RedisServer::with(ServerOptions { program: Some(valkey_program()), ..Default::default() });
    store_on(&server).self_test().await.unwrap();
}
