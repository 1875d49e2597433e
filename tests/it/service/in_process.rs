//! The service in a thread of this process: for tests that move its clock, and for the many that need no process.

use super::Api;
use crate::redis_server::{RedisServer, ServerOptions};
use crate::sandbox::eventually;
use crate::support::shared_on;
use actix_web::rt::System;
use clap::Parser;
use std::sync::{OnceLock, mpsc};
use stockade::api_keys::Access;
use stockade::app::Application;
use stockade::config::{Config, Options};
use stockade::store::Shared;
use tokio::sync::oneshot;

/// A service with a Redis of its own: its sweeper sees no sale of another test, and so no clock of another test.
pub struct InProcess {
    pub api: Api,
    pub shared: Shared,
    pub redis: RedisServer,
    /// Where probes and metrics are, if they have an address of their own.
    pub ops: Option<Api>,
    stop: Option<oneshot::Sender<()>>,
}

fn options(more: &[&str]) -> Options {
    // Tests compare all that is stored; those that want a background audit make one themselves.
    let mut flags =
        vec!["stockade", "--workers", "2", "--drain-seconds", "1", "--audit-interval-seconds", "0"];
    if !more.contains(&"--listen") {
        flags.extend(["--listen", "127.0.0.1:0"]);
    }
    Config::try_parse_from(flags.iter().chain(more)).unwrap().options
}

impl InProcess {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// With more flags.
    pub fn with(flags: &[&str]) -> Self {
        let options = options(flags);
        // Nothing is lost in a crash on purpose here, so it need not wait for the disk.
        let args = ["--appendfsync", "no"].map(String::from).to_vec();
        let redis = RedisServer::with(ServerOptions { args, ..ServerOptions::default() });
        let shared = shared_on(&redis);
        let (address_sender, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = shared.clone();
        std::thread::spawn(move || {
            System::new().block_on(async move {
                let access = Access::of(&options).unwrap();
                let application = Application::build(&options, served, access).unwrap();
                address_sender.send((application.address(), application.ops_address())).unwrap();
                let stop = async move { drop(stopped.await) };
                application.run_until_stopped(stop).await.unwrap();
            });
        });
        let (address, ops) = address.recv().expect("the service starts");
        let ops = ops.map(|address| Api::new(format!("http://{address}")));
        Self { api: Api::new(format!("http://{address}")), shared, redis, ops, stop: Some(stop) }
    }

    /// Moves time for its scripts.
    pub fn advance_seconds(&self, seconds: i64) {
        self.shared.clock.advance_ms(seconds * 1000);
    }

    /// Everything that the store holds, as it is stored; of streams their entries, for those who read them leave marks.
    ///
    /// A sweeper that saw a sale's entry in the registry before there was the sale takes it out, looks again, and puts it
    /// back: so a dump is of a moment when each sale has its entry.
    pub async fn dump(&self) -> Vec<(String, Vec<u8>)> {
        let mut dump = Vec::new();
        eventually("the registry names every sale", async || {
            dump = self.dump_now().await;
            let registry = dump.iter().find(|(key, _)| key == "st:sales");
            let registry = registry.map_or(String::new(), |(_, text)| String::from_utf8_lossy(text).into());
            let mut sales =
                dump.iter().filter_map(|(key, _)| key.strip_prefix("st:{")?.strip_suffix("}:rules"));
            sales.all(|sale| registry.contains(&format!("\"{sale}:")))
        })
        .await;
        dump
    }

    async fn dump_now(&self) -> Vec<(String, Vec<u8>)> {
        let mut connection = self.redis.connection().await;
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
        keys.sort();
        let mut dump = Vec::new();
        for key in keys {
            let kind: String = redis::cmd("TYPE").arg(&key).query_async(&mut connection).await.unwrap();
            if kind == "stream" {
                let mut cmd = redis::cmd("XRANGE");
                let entries: Vec<(String, Vec<String>)> =
                    cmd.arg(&key).arg("-").arg("+").query_async(&mut connection).await.unwrap();
                if !entries.is_empty() {
                    dump.push((key, format!("{entries:?}").into_bytes()));
                }
                continue;
            }
            if key == "st:sales" {
                let mut cmd = redis::cmd("ZRANGE");
                let entries: Vec<String> =
                    cmd.arg(&key).arg(0).arg(-1).query_async(&mut connection).await.unwrap();
                dump.push((key, format!("{entries:?}").into_bytes()));
                continue;
            }
            let value: Option<Vec<u8>> =
                redis::cmd("DUMP").arg(&key).query_async(&mut connection).await.unwrap();
            dump.push((key, value.unwrap_or_default()));
        }
        dump
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }
}

/// A client of the service that ordinary tests share, each with a sale of its own. Nobody moves its clock.
pub fn shared_api() -> Api {
    static SHARED: OnceLock<InProcess> = OnceLock::new();
    // A client of one's own: a connection belongs to the runtime of the test that made it.
    let shared = SHARED.get_or_init(InProcess::start);
    Api::new(format!("http://{}", shared.api.authority()))
}
