//! The embedded engine: one service and one engine a folder, whatever is killed or frozen.

mod faults;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stockade::embedded_redis::{EmbeddedRedis, EngineError, Options, Role};

use crate::sandbox::Sandbox;

/// For starts that are meant to fail.
fn impatient() -> Options {
    Options { answer_within: Duration::from_millis(300), ..Options::default() }
}

async fn service(data_dir: &Path) -> EmbeddedRedis {
    EmbeddedRedis::start_with(data_dir, Role::Service, Options::default()).await.expect("the service starts")
}

async fn tool(data_dir: &Path) -> EmbeddedRedis {
    EmbeddedRedis::start_with(data_dir, Role::Tool, Options::default()).await.expect("the tool starts")
}

async fn connect(engine: &EmbeddedRedis) -> MultiplexedConnection {
    let client = redis::Client::open(engine.url()).unwrap();
    client.get_multiplexed_async_connection().await.expect("the engine answers")
}

async fn set(engine: &EmbeddedRedis, key: &str, value: &str) {
    let () = redis::cmd("SET").arg(key).arg(value).query_async(&mut connect(engine).await).await.unwrap();
}

async fn get(engine: &EmbeddedRedis, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query_async(&mut connect(engine).await).await.unwrap()
}

/// A program in the folder that pretends to be a server.
fn script(sandbox: &Sandbox, body: &str) -> PathBuf {
    let path = sandbox.path().join("pretended-server");
    // Not written by this process: a child of another test, caught between fork and exec, would still have the
    // file open for writing, and running it would fail with "text file busy".
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
    let written = Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(body).status().unwrap();
    assert!(written.success());
    path
}

/// The only process of the folder.
fn engine_pid(sandbox: &Sandbox) -> u32 {
    let pids = sandbox.pids();
    assert_eq!(pids.len(), 1, "one engine in {}", sandbox.path().display());
    pids[0]
}

#[tokio::test]
async fn a_stopped_service_leaves_its_data_and_nothing_else() {
    let sandbox = Sandbox::new();
    let first = service(sandbox.path()).await;
    set(&first, "key", "value").await;
    first.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());

    let second = service(sandbox.path()).await;
    assert_eq!(get(&second, "key").await.as_deref(), Some("value"));
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_service_on_one_folder_is_refused() {
    let sandbox = Sandbox::new();
    let first = service(sandbox.path()).await;
    let second = EmbeddedRedis::start_with(sandbox.path(), Role::Service, impatient()).await;
    assert!(matches!(second, Err(EngineError::ServiceRunning(_))), "{second:?}");
    set(&first, "key", "value").await;
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_works() {
    let sandbox = Sandbox::new();
    let data_dir = sandbox.path().join("a folder with a long name, spaces & 100% Umlaute: äöü ".repeat(3));
    assert!(data_dir.as_os_str().len() > 107);
    let engine = service(&data_dir).await;
    set(&engine, "key", "value").await;
    assert_eq!(get(&engine, "key").await.as_deref(), Some("value"));
    engine.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn a_path_with_odd_characters_works() {
    let sandbox = Sandbox::new();
    let engine = service(&sandbox.path().join("50% ä?#")).await;
    set(&engine, "key", "value").await;
    engine.stop().await.unwrap();
}

#[tokio::test]
async fn a_tool_attaches_to_a_service_and_does_not_stop_its_engine() {
    let sandbox = Sandbox::new();
    let service = service(sandbox.path()).await;
    set(&service, "key", "value").await;
    let tool = tool(sandbox.path()).await;
    assert_eq!(get(&tool, "key").await.as_deref(), Some("value"));
    tool.stop().await.unwrap();
    assert_eq!(get(&service, "key").await.as_deref(), Some("value"));
    service.stop().await.unwrap();
}

#[tokio::test]
async fn a_tool_stops_the_engine_that_it_started() {
    let sandbox = Sandbox::new();
    let tool = tool(sandbox.path()).await;
    set(&tool, "key", "value").await;
    tool.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn a_tool_leaves_its_engine_to_a_service_that_came_meanwhile() {
    let sandbox = Sandbox::new();
    let tool = tool(sandbox.path()).await;
    let service = service(sandbox.path()).await;
    tool.stop().await.unwrap();
    set(&service, "key", "value").await;
    service.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn an_engine_that_cannot_start_says_why() {
    let sandbox = Sandbox::new();
    // Where the engine wants its folder of log files.
    fs::write(sandbox.path().join("appendonlydir"), "in the way").unwrap();
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, Options::default()).await;
    let failure = failed.expect_err("there is a file in its way");
    assert!(matches!(failure, EngineError::Exited { .. }), "{failure}");
    assert!(failure.to_string().contains("appendonlydir"), "{failure}");
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn what_is_not_a_server_is_refused() {
    let sandbox = Sandbox::new();
    let options = Options { server: Some("/bin/echo".into()), ..Options::default() };
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, options).await;
    assert!(matches!(failed, Err(EngineError::NotAServer(_))), "{failed:?}");
}

#[tokio::test]
async fn an_old_server_is_refused() {
    let sandbox = Sandbox::new();
    let script = script(&sandbox, "echo 'Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64'");
    let options = Options { server: Some(script), ..Options::default() };
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, options).await;
    let failure = failed.expect_err("scripts need Redis 7");
    assert!(failure.to_string().contains("6.2.14"), "{failure}");
}
