//! A real server for tests, which they may kill, freeze and restart.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use stockade::embedded_redis::{Options, find_server};

use crate::sandbox::{Sandbox, eventually_blocking, signal};

/// The users that are shipped, for `--aclfile`.
pub const USERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/redis/users.acl");
/// Their password in that file.
pub const PASSWORD: &str = "CHANGE_ME";
const SOCKET_FILE: &str = "redis.sock";
/// Another process may take a port between our finding it free and the server's binding it.
const START_TRIES_MAX: usize = 5;

/// What a test's server should be like.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Listen on a TCP port too (see [`RedisServer::tcp_url`]).
    pub tcp: bool,
    /// A cluster of one that owns all slots: it refuses scripts that touch undeclared keys of other slots.
    pub cluster: bool,
    /// Another server program, for instance Valkey's.
    pub program: Option<PathBuf>,
    /// More settings, as on the command line: `["--maxmemory", "10mb"]`.
    pub args: Vec<String>,
}

/// A server in a folder of its own. It writes an append-only file with fsync before each answer, as ours do.
pub struct RedisServer {
    sandbox: Sandbox,
    options: ServerOptions,
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// A plain server of the installed version, on a socket only.
    pub fn start() -> Self {
        Self::with(ServerOptions::default())
    }

    pub fn with(options: ServerOptions) -> Self {
        let mut server = Self { sandbox: Sandbox::new(), options, port: 0, child: None };
        server.launch();
        server
    }

    /// The one that ordinary tests share, each with a sale of its own. Cluster mode, so that a script with
    /// an undeclared key fails.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(|| {
            // Nothing here is lost in a crash on purpose, so it need not wait for the disk.
            let args = ["--appendfsync", "no"].map(String::from).to_vec();
            Self::with(ServerOptions { cluster: true, args, ..ServerOptions::default() })
        })
    }

    /// Of its Unix socket.
    pub fn url(&self) -> String {
        format!("unix://{}", self.sandbox.path().join(SOCKET_FILE).display())
    }

    /// Of its TCP port, if it has one.
    pub fn tcp_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        assert_ne!(self.port, 0, "started without a TCP port");
        self.port
    }

    pub async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).unwrap();
        // A loaded machine may keep it waiting; tests that must not wait say so.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(30)))
            .set_response_timeout(Some(Duration::from_secs(30)));
        client.get_multiplexed_async_connection_with_config(&config).await.expect("the server answers")
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// kill -9. What it had answered must still be there after [`RedisServer::restart`].
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// It keeps its connections and takes new ones, but answers nothing.
    pub fn freeze(&self) {
        signal("STOP", self.pid());
    }

    pub fn thaw(&self) {
        signal("CONT", self.pid());
    }

    /// Again, on the same files, socket and port.
    pub fn restart(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
        self.launch();
    }

    fn launch(&mut self) {
        for _ in 0..START_TRIES_MAX {
            if self.port == 0 && (self.options.tcp || self.options.cluster) {
                self.port = free_port();
            }
            self.child = Some(self.spawn());
            if self.is_ready() {
                return;
            }
            self.port = 0;
        }
        let log = std::fs::read_to_string(self.sandbox.path().join("redis.log")).unwrap_or_default();
        panic!("the server does not start:\n{log}");
    }

    fn spawn(&self) -> Child {
        let program = self.options.program.clone().unwrap_or_else(installed_program);
        let mut command = Command::new(&program);
        command.args(["--unixsocket", SOCKET_FILE, "--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        command.args(["--logfile", "redis.log", "--enable-debug-command", "yes"]);
        if self.options.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()]);
        }
        command.args(&self.options.args).current_dir(self.sandbox.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|failed| panic!("{}: {failed}", program.display()))
    }

    /// True once it answers, false if it has ended.
    fn is_ready(&mut self) -> bool {
        let client = redis::Client::open(self.url()).unwrap();
        let mut ended = false;
        let mut assigned = !self.options.cluster;
        eventually_blocking("the server answers", || {
            ended = self.child.as_mut().unwrap().try_wait().unwrap().is_some();
            let Ok(mut connection) = client.get_connection_with_timeout(Duration::from_secs(1)) else {
                return ended;
            };
            if redis::cmd("PING").query::<String>(&mut connection).is_err() {
                return ended;
            }
            if !assigned {
                let all = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383).query(&mut connection);
                // After a restart it has them already.
                let () = all.unwrap_or_default();
                assigned = true;
            }
            ended || !self.options.cluster || cluster_is_ok(&mut connection)
        });
        !ended
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

fn cluster_is_ok(connection: &mut redis::Connection) -> bool {
    let info = redis::cmd("CLUSTER").arg("INFO").query::<String>(connection);
    info.is_ok_and(|info| info.contains("cluster_state:ok"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The server that the embedded engine would be.
pub fn installed_program() -> PathBuf {
    let options = Options::from_env().expect("valid settings");
    find_server(options.server.as_deref()).expect("a server: run scripts/setup.sh test")
}

/// Valkey, as `scripts/setup.sh test` fetches it.
pub fn valkey_program() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools/bin/valkey-server")
}

async fn set(server: &RedisServer, key: &str, value: &str) {
    let () = redis::cmd("SET").arg(key).arg(value).query_async(&mut server.connection().await).await.unwrap();
}

async fn get(server: &RedisServer, key: &str) -> Option<String> {
    redis::cmd("GET").arg(key).query_async(&mut server.connection().await).await.unwrap()
}

#[tokio::test]
async fn a_killed_server_restarts_with_what_it_had_answered() {
    let mut server = RedisServer::with(ServerOptions { tcp: true, ..ServerOptions::default() });
    set(&server, "key", "value").await;
    let url = server.tcp_url();
    server.kill();
    server.restart();
    assert_eq!(get(&server, "key").await.as_deref(), Some("value"));
    assert_eq!(server.tcp_url(), url);
}

#[tokio::test]
async fn a_frozen_server_answers_once_it_is_thawed() {
    let server = RedisServer::start();
    server.freeze();
    let client = redis::Client::open(server.url()).unwrap();
    assert!(client.get_multiplexed_async_connection().await.is_err());
    server.thaw();
    set(&server, "key", "value").await;
    assert_eq!(get(&server, "key").await.as_deref(), Some("value"));
}

#[tokio::test]
async fn the_shared_server_refuses_a_script_that_leaves_its_slot() {
    let mut connection = RedisServer::shared().connection().await;
    let script = "#!lua\nreturn redis.call('SET', '{elsewhere}', 1)";
    let refusal =
        redis::cmd("EVAL").arg(script).arg(1).arg("{here}").query_async::<()>(&mut connection).await;
    let refusal = refusal.unwrap_err().to_string();
    assert!(refusal.contains("same slot"), "{refusal}");
}

#[tokio::test]
async fn valkey_serves_too() {
    let valkey = ServerOptions { program: Some(valkey_program()), ..ServerOptions::default() };
    let server = RedisServer::with(valkey);
    let mut connection = server.connection().await;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await.unwrap();
    assert!(info.contains("valkey_version:"), "{info}");
}
