//! The engine and its service are killed and frozen.

use std::time::{Duration, Instant};

use stockade::embedded_redis::{AppendFsync, EmbeddedRedis, EngineError, Options, Role, find_server};

use super::{connect, engine_pid, get, impatient, script, service, set};
use crate::sandbox::{Sandbox, eventually, signal};

#[tokio::test]
async fn a_service_attaches_to_the_engine_of_one_that_was_killed() {
    let sandbox = Sandbox::new();
    let weak = Options { appendfsync: AppendFsync::No, ..Options::default() };
    let killed = EmbeddedRedis::start_with(sandbox.path(), Role::Service, weak).await.unwrap();
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
async fn no_engine_starts_while_a_child_of_a_dead_one_rewrites_the_log() {
    let sandbox = Sandbox::new();
    let killed = service(sandbox.path()).await;
    set(&killed, "key", "value").await;
    let pid = engine_pid(&sandbox);
    let mut connection = connect(&killed).await;
    // A minute for a key: the child is still there when its parent is not.
    let slowly = ["SET", "rdb-key-save-delay", "60000000"];
    let () = redis::cmd("CONFIG").arg(&slowly).query_async(&mut connection).await.unwrap();
    let () = redis::cmd("BGREWRITEAOF").query_async(&mut connection).await.unwrap();
    eventually("the child runs", async || sandbox.pids().len() == 2).await;
    signal("KILL", pid);
    drop(killed);
    eventually("only the child is left", async || !sandbox.pids().contains(&pid)).await;
    let child = engine_pid(&sandbox);

    let refused = EmbeddedRedis::start_with(sandbox.path(), Role::Service, impatient()).await;
    assert!(matches!(refused, Err(EngineError::Silent { .. })), "{refused:?}");
    assert_eq!(engine_pid(&sandbox), child);

    signal("KILL", child);
    let next = service(sandbox.path()).await;
    assert_eq!(get(&next, "key").await.as_deref(), Some("value"));
    next.stop().await.unwrap();
}

#[tokio::test]
async fn a_start_waits_for_an_engine_that_reads_a_long_log() {
    const KEYS: usize = 20_000;
    let sandbox = Sandbox::new();
    let first = service(sandbox.path()).await;
    let mut connection = connect(&first).await;
    for start in (0..KEYS).step_by(1000) {
        let mut writes = redis::pipe();
        for key in start..start + 1000 {
            writes.set(key, "value").ignore();
        }
        let () = writes.query_async(&mut connection).await.unwrap();
    }
    first.stop().await.unwrap();

    // A tenth of a millisecond for each key: two seconds at least, in which the engine answers LOADING, but
    // only after every 1024 keys.
    let real = find_server(Options::from_env().unwrap().server.as_deref()).unwrap();
    let real = real.display();
    let slow = script(
        &sandbox,
        &format!("[ \"$1\" = --version ] && exec {real} --version\nexec {real} \"$@\" --key-load-delay 100"),
    );
    let answer_within = Duration::from_secs(1);
    let options = Options { server: Some(slow), answer_within, ..Options::default() };
    let since = Instant::now();
    let second = EmbeddedRedis::start_with(sandbox.path(), Role::Service, options).await.unwrap();
    assert!(since.elapsed() > 2 * answer_within, "it waited for {:?} only", since.elapsed());
    let keys: usize = redis::cmd("DBSIZE").query_async(&mut connect(&second).await).await.unwrap();
    assert_eq!(keys, KEYS);
    second.stop().await.unwrap();
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
            let answer = redis::cmd("SET").arg(number).arg("value").query_async::<()>(&mut connection).await;
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
            let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
                return false;
            };
            redis::cmd("PING").query_async::<()>(&mut connection).await.is_ok()
        })
        .await;
    };
    tokio::select! {
        () = writes_and_a_kill => {}
        never = engine.supervise() => match never {},
    }

    assert_ne!(engine_pid(&sandbox), pid);
    assert!(answered.len() > 100);
    let found: u64 =
        redis::cmd("EXISTS").arg(&answered).query_async(&mut connect(&engine).await).await.unwrap();
    assert_eq!(found, answered.len() as u64);
    engine.stop().await.unwrap();
    assert!(sandbox.pids().is_empty());
}
