//! The service in a process of its own, which tests may kill, freeze and stop.

use super::Api;
use crate::sandbox::{Sandbox, eventually, own_address, signal};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const LOG_FILE: &str = "service.log";

/// What a test's service should be like.
#[derive(Default)]
pub struct ServiceOptions {
    /// A Redis of the test; without it the embedded one.
    pub redis_url: Option<String>,
    /// More flags.
    pub args: Vec<String>,
    /// More variables.
    pub env: Vec<(&'static str, String)>,
    /// Probes and metrics on an address of their own.
    pub ops: bool,
    /// Most files that it may open; default: as this process.
    pub files_max: Option<u32>,
}

/// `stockade serve` in a folder of its own. It goes when this is dropped, and its engine too.
pub struct Service {
    sandbox: Sandbox,
    options: ServiceOptions,
    address: SocketAddr,
    ops: Option<SocketAddr>,
    child: Option<Child>,
}

impl Service {
    /// With its embedded engine.
    pub async fn start() -> Self {
        Self::with(ServiceOptions::default()).await
    }

    /// On a Redis of the test.
    pub async fn on(redis_url: String) -> Self {
        Self::with(ServiceOptions { redis_url: Some(redis_url), ..ServiceOptions::default() }).await
    }

    pub async fn with(options: ServiceOptions) -> Self {
        let mut service = Self::launched(options);
        service.is_ready().await;
        service
    }

    /// It may not be ready yet.
    pub fn launched(options: ServiceOptions) -> Self {
        let ops = options.ops.then(own_address);
        let mut service = Self { sandbox: Sandbox::new(), options, address: own_address(), ops, child: None };
        service.launch();
        service
    }

    pub fn api(&self) -> Api {
        Api::new(format!("http://{}", self.address))
    }

    /// Where probes and metrics are.
    pub fn ops(&self) -> Api {
        Api::new(format!("http://{}", self.ops.unwrap_or(self.address)))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn data_dir(&self) -> PathBuf {
        self.sandbox.path().join("data")
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// Of the embedded Redis.
    pub fn engine_pid(&self) -> Option<u32> {
        let service = self.child.as_ref().map(Child::id);
        self.sandbox.pids().into_iter().find(|pid| Some(*pid) != service)
    }

    /// kill -9 of the service alone: its engine lives on.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again, as a supervisor would, and waits until it is ready.
    pub async fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs");
        self.launch();
        self.is_ready().await;
    }

    pub fn signal(&self, name: &str) {
        signal(name, self.pid());
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("running");
        let mut status = None;
        eventually("the service ends", async || {
            status = child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.sandbox.path().join(LOG_FILE)).unwrap_or_default()
    }

    fn launch(&mut self) {
        let log = File::options().create(true).append(true).open(self.sandbox.path().join(LOG_FILE)).unwrap();
        let mut command = command(self.sandbox.path(), &self.data_dir());
        if let Some(files) = self.options.files_max {
            command = with_files(&command, files);
        }
        command.args(["--listen", &self.address.to_string()]);
        if let Some(ops) = self.ops {
            command.args(["--ops-listen", &ops.to_string()]);
        }
        if let Some(url) = &self.options.redis_url {
            command.args(["--redis-url", url]);
        }
        command.envs(self.options.env.iter().map(|(name, value)| (name, value)));
        command.args(&self.options.args).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().expect("the program starts"));
    }

    pub async fn is_ready(&mut self) {
        let api = self.ops();
        eventually("the service is ready", async || {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("the service ended, {status}:\n{}", self.log());
            }
            matches!(api.call("GET", "/readyz").try_send().await, Ok(answer) if answer.status == 200)
        })
        .await;
    }
}

/// The program, with nothing of this shell's settings.
pub fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_string_lossy().starts_with("STOCKADE_");
        // Which server is the embedded one is a matter of the machine.
        let is_of_traces = name.to_string_lossy().starts_with("OTEL_");
        if (is_ours && name != "STOCKADE_REDIS_SERVER") || name == "RUST_LOG" || is_of_traces {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn command(folder: &Path, data_dir: &Path) -> Command {
    let mut command = program(folder);
    // Two workers, so that one sale has two lanes in a process; a test's own flag wins.
    command.env("STOCKADE_WORKERS", "2").env("STOCKADE_LOG", "json");
    command.arg("serve").arg("--data-dir").arg(data_dir);
    command
}

/// The same program, which finds a limit of open files that it cannot raise.
fn with_files(command: &Command, files: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -n "$0" && exec "$@""#, &files.to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    limited
}

/// A start that is meant to fail: how it ended, and what it said.
pub fn failed_start(data_dir: &Path, args: &[&str]) -> (ExitStatus, String) {
    let sandbox = Sandbox::new();
    let mut command = command(sandbox.path(), data_dir);
    if !args.contains(&"--listen") {
        command.args(["--listen", &own_address().to_string()]);
    }
    let output = command.args(args).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status, said.concat())
}
