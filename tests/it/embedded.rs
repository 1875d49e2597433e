//! The embedded engine: one service and one engine a folder, whatever is killed or frozen.

use std::path::Path;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use stockade::embedded_redis::{AppendFsync, EmbeddedRedis, EngineError, Options, Role};

use crate::sandbox::{Sandbox, eventually, signal};

/// For starts that are meant to fail.
fn impatient() -> Options {
    Options {
        answer_within: Duration::from_millis(300),
        ..Options::default()
    }
}

async fn service(data_dir: &Path) -> EmbeddedRedis {
    EmbeddedRedis::start_with(data_dir, Role::Service, Options::default())
        .await
        .expect("the service starts")
}

async fn tool(data_dir: &Path) -> EmbeddedRedis {
    EmbeddedRedis::start_with(data_dir, Role::Tool, Options::default())
        .await
        .expect("the tool starts")
}

async fn connect(engine: &EmbeddedRedis) -> MultiplexedConnection {
    let client = redis::Client::open(engine.url()).unwrap();
    client
        .get_multiplexed_async_connection()
        .await
        .expect("the engine answers")
}

async fn set(engine: &EmbeddedRedis, key: &str, value: &str) {
    let () = redis::cmd("SET")
        .arg(key)
        .arg(value)
        .query_async(&mut connect(engine).await)
        .await
        .unwrap();
}

async fn get(engine: &EmbeddedRedis, key: &str) -> Option<String> {
    redis::cmd("GET")
        .arg(key)
        .query_async(&mut connect(engine).await)
        .await
        .unwrap()
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
    assert!(
        matches!(second, Err(EngineError::ServiceRunning(_))),
        "{second:?}"
    );
    set(&first, "key", "value").await;
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_service_attaches_to_the_engine_of_one_that_was_killed() {
    let sandbox = Sandbox::new();
    let weak = Options {
        appendfsync: AppendFsync::No,
        ..Options::default()
    };
    let killed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, weak)
        .await
        .unwrap();
    set(&killed, "key", "value").await;
    let pid = engine_pid(&sandbox);
    drop(killed);

    let next = service(sandbox.path()).await;
    assert_eq!(engine_pid(&sandbox), pid);
    assert_eq!(get(&next, "key").await.as_deref(), Some("value"));
    // Its own promise holds, not that of the service before it.
    let setting: Vec<String> = redis::cmd("CONFIG")
        .arg(&["GET", "appendfsync"])
        .query_async(&mut connect(&next).await)
        .await
        .unwrap();
    assert_eq!(setting, ["appendfsync", "always"]);
    next.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn no_second_engine_starts_while_the_first_is_frozen() {
    let sandbox = Sandbox::new();
    let killed = service(sandbox.path()).await;
    set(&killed, "key", "value").await;
    let pid = engine_pid(&sandbox);
    signal("STOP", pid);
    drop(killed);

    for role in [Role::Service, Role::Tool] {
        let refused = EmbeddedRedis::start_with(sandbox.path(), role, impatient()).await;
        let failure = refused.expect_err("a frozen engine does not answer");
        assert!(matches!(failure, EngineError::Silent { .. }), "{failure}");
        assert!(failure.to_string().contains("an engine is there"), "{failure}");
        assert_eq!(engine_pid(&sandbox), pid);
    }

    signal("CONT", pid);
    let next = service(sandbox.path()).await;
    assert_eq!(engine_pid(&sandbox), pid);
    assert_eq!(get(&next, "key").await.as_deref(), Some("value"));
    next.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_waits_for_an_engine_that_thaws_in_time() {
    let sandbox = Sandbox::new();
    let killed = service(sandbox.path()).await;
    let pid = engine_pid(&sandbox);
    signal("STOP", pid);
    drop(killed);

    let thaw = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        signal("CONT", pid);
    };
    let (next, ()) = tokio::join!(service(sandbox.path()), thaw);
    assert_eq!(engine_pid(&sandbox), pid);
    next.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_engine_is_restarted_and_has_every_answered_write() {
    let sandbox = Sandbox::new();
    let engine = service(sandbox.path()).await;
    let pid = engine_pid(&sandbox);
    let mut answered = Vec::new();

    let writes_and_a_kill = async {
        let mut connection = connect(&engine).await;
        for number in 0.. {
            let answer = redis::cmd("SET")
                .arg(number)
                .arg("value")
                .query_async::<()>(&mut connection)
                .await;
            if answer.is_err() {
                break;
            }
            answered.push(number);
            if number == 100 {
                // In the middle of the writes, not between two of them.
                std::thread::spawn(move || signal("KILL", pid));
            }
        }
        eventually("the engine is back", async || {
            let client = redis::Client::open(engine.url()).unwrap();
            client.get_multiplexed_async_connection().await.is_ok()
        })
        .await;
    };
    tokio::select! {
        () = writes_and_a_kill => {}
        never = engine.supervise() => match never {},
    }

    assert_ne!(engine_pid(&sandbox), pid);
    assert!(answered.len() > 100);
    let found: u64 = redis::cmd("EXISTS")
        .arg(&answered)
        .query_async(&mut connect(&engine).await)
        .await
        .unwrap();
    assert_eq!(found, answered.len() as u64);
    engine.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_works() {
    let sandbox = Sandbox::new();
    let data_dir = sandbox
        .path()
        .join("a folder with a long name, spaces & 100% Umlaute: äöü ".repeat(3));
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
    std::fs::write(sandbox.path().join("appendonlydir"), "in the way").unwrap();
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, Options::default()).await;
    let failure = failed.expect_err("there is a file in its way");
    assert!(matches!(failure, EngineError::Exited { .. }), "{failure}");
    assert!(failure.to_string().contains("appendonlydir"), "{failure}");
    assert!(sandbox.pids().is_empty());
}

#[tokio::test]
async fn what_is_not_a_server_is_refused() {
    let sandbox = Sandbox::new();
    let options = Options {
        server: Some("/bin/echo".into()),
        ..Options::default()
    };
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, options).await;
    assert!(matches!(failed, Err(EngineError::NotAServer(_))), "{failed:?}");
}

#[tokio::test]
async fn an_old_server_is_refused() {
    let sandbox = Sandbox::new();
    let script = sandbox.path().join("redis-server");
    std::fs::write(
        &script,
        "#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64'\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let options = Options {
        server: Some(script),
        ..Options::default()
    };
    let failed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, options).await;
    let failure = failed.expect_err("scripts need Redis 7");
    assert!(failure.to_string().contains("6.2.14"), "{failure}");
}
