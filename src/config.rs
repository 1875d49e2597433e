//! Options: flags, or environment variables of the same name. Wrong ones stop the start.

mod host_name;
mod rate;
mod redis_url;
mod secret;

pub use host_name::HostName;
pub use rate::Rate;
pub use redis_url::{LockNodes, RedisUrl};

use crate::domain::{KeyName, SaleId, SalePattern, Scope};
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Sells a limited number of units to a crowd without selling one unit twice and without losing one.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Config {
    /// What to do.
    #[command(subcommand)]
    command: Option<Command>,
    /// How.
    #[command(flatten)]
    pub options: Options,
}

/// What the program can do.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve HTTP (the default).
    Serve,
    /// Check the books of one sale, or of all: exit code 1 if a counter is not what records and ledger say.
    Audit {
        /// The sale; default: all.
        sale: Option<SaleId>,
        /// Set right what can be set right exactly, and say what was done. Available units are raised only where the
        /// sale is paused and nothing is held.
        #[arg(long)]
        repair: bool,
    },
    /// Make, list and revoke the API keys in the keys file.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the OpenAPI document.
    Openapi,
    /// Ask the service at the listen address whether it is ready; for container health checks.
    Healthcheck,
}

/// What can be done to API keys. A service that runs takes over a change within a second or two.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum KeysCommand {
    /// Make a key, and print `<id>.<secret>`: this once, for only a hash of the secret is kept.
    Add {
        /// Whose it is. Ids of reservations depend on it: a later key of the same name finds those of this one.
        name: KeyName,
        /// What it is for: storefront, operator, barrier or metrics. May be given several times.
        #[arg(long = "scope", required = true, value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// The sales that it may see, as a name or a pattern such as 'drop-*'. May be given several times. Default:
        /// all.
        #[arg(long, num_args = 1.., value_delimiter = ',')]
        sales: Vec<SalePattern>,
    },
    /// Make another key of this name, with the same scopes and sales; the old one stays until it is revoked.
    Rotate {
        /// Whose it is.
        name: KeyName,
    },
    /// List the keys, without their secrets.
    List,
    /// Revoke the keys of this name.
    Revoke {
        /// Whose they are.
        name: KeyName,
        /// Only the one with this id.
        #[arg(long)]
        id: Option<String>,
    },
}

/// How it does it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address and port to listen on.
    #[arg(long, env = "STOCKADE_LISTEN", default_value = "127.0.0.1:8080", global = true)]
    pub listen: SocketAddr,

    /// Address and port of their own for /metrics, /livez and /readyz, which the other address then does not know.
    #[arg(long, env = "STOCKADE_OPS_LISTEN", global = true)]
    pub ops_listen: Option<SocketAddr>,

    /// The API keys (`stockade keys`). It is read again when it changes. Without it there are no keys.
    #[arg(long, env = "STOCKADE_KEYS_FILE", global = true)]
    pub keys_file: Option<PathBuf>,

    /// Name that `Host` may have where there are no keys, beside localhost and addresses of loopback. May be given several
    /// times, or with commas. Where it is not given, a service that is not on loopback answers to any name.
    #[arg(long = "allowed-host", env = "STOCKADE_ALLOWED_HOST", value_delimiter = ',', global = true)]
    pub allowed_hosts: Vec<HostName>,

    /// Listen on any address although there are no API keys: whoever reaches it can do everything.
    #[arg(long, env = "STOCKADE_ALLOW_NO_KEYS", global = true)]
    pub allow_no_keys: bool,

    /// Most calls of one API key, by its name, that this process answers: requests a second, or requests and seconds such
    /// as 100/10; all of them may come at once. Without keys, of one address. Default: no limit.
    #[arg(long, env = "STOCKADE_RATE_LIMIT", global = true)]
    pub rate_limit: Option<Rate>,

    /// The Redis to use: redis://, rediss:// or unix://; redis+sentinel://host,host/master for whichever server the Sentinels
    /// call the master; redis+cluster://host,host for a Redis Cluster. Without it a private one is started in the data folder.
    #[arg(long, env = "STOCKADE_REDIS_URL", hide_env_values = true, global = true,
          value_parser = Secret::<RedisUrl>::parser())]
    pub redis_url: Option<RedisUrl>,

    /// URLs of at least 3 independent Redis servers, with commas between: locks that belong to no sale then need a majority
    /// of them (Redlock). None of them may be the Redis that has the stock.
    #[arg(long, env = "STOCKADE_LOCK_NODES", hide_env_values = true, global = true,
          value_parser = Secret::<LockNodes>::parser())]
    pub lock_nodes: Option<LockNodes>,

    /// Folder of the private Redis.
    #[arg(long, env = "STOCKADE_DATA_DIR", default_value = "./stockade-data", global = true)]
    pub data_dir: PathBuf,

    /// How long one call of Redis may take.
    #[arg(long, env = "STOCKADE_REDIS_TIMEOUT_MS", default_value_t = 2_000, global = true,
          value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub redis_timeout_ms: u64,

    /// What an answer waits for: the Redis that decides, or also one of its replicas, for up to half of
    /// `--redis-timeout-ms`. Where none has it by then the answer has `Stockade-Durability: local`.
    #[arg(long, env = "STOCKADE_DURABILITY", default_value = "local", global = true)]
    pub durability: Durability,

    /// Where levels of a moment ago are read: where they are decided, or from replicas, which may be behind. Needs a URL of
    /// Sentinels or of a cluster.
    #[arg(long, env = "STOCKADE_READ_FROM", default_value = "master", global = true)]
    pub read_from: ReadFrom,

    /// Most connections to Redis of one pool; each worker thread has a pool, and the sweeper.
    #[arg(long, env = "STOCKADE_POOL_SIZE", default_value_t = 8, global = true,
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub pool_size: u32,

    /// Threads that serve HTTP; default: one a core.
    #[arg(long, env = "STOCKADE_WORKERS", global = true, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub workers: Option<u16>,

    /// From SIGTERM to the exit at the latest; requests in flight are finished within it.
    #[arg(long, env = "STOCKADE_DRAIN_SECONDS", default_value_t = 10, global = true,
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub drain_seconds: u64,

    /// The books of all sales are audited so often in the background, by one of all processes; 0: never.
    #[arg(long, env = "STOCKADE_AUDIT_INTERVAL_SECONDS", default_value_t = 60, global = true,
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub audit_interval_seconds: u64,

    /// Most sales that have series of their own in /metrics: the busiest where answers are counted, those that are open or
    /// about to open where their stock is shown.
    #[arg(long, env = "STOCKADE_METRICS_SALES_MAX", default_value_t = 50, global = true,
          value_parser = clap::value_parser!(u32).range(0..=10_000).map(|max| max as usize))]
    pub metrics_sales_max: usize,

    /// Most SKUs, over all sales, that have series of their own in /metrics; four each.
    #[arg(long, env = "STOCKADE_METRICS_SKUS_MAX", default_value_t = 100, global = true,
          value_parser = clap::value_parser!(u32).range(0..=100_000).map(|max| max as usize))]
    pub metrics_skus_max: usize,

    /// How long events are kept.
    #[arg(long, env = "STOCKADE_EVENTS_RETENTION_SECONDS", default_value_t = 7 * 86_400, global = true,
          value_parser = clap::value_parser!(u64).range(60..=315_360_000))]
    pub events_retention_seconds: u64,

    /// Most entries of events that a sale keeps, or one of 16 buckets of barriers or of orders; an entry holds the events of
    /// one script call.
    #[arg(long, env = "STOCKADE_EVENTS_MAX", default_value_t = 200_000, global = true,
          value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub events_max: u64,

    /// Most live streams, and waits at barriers and for locks, that this process serves at the same time.
    #[arg(long, env = "STOCKADE_EVENT_STREAMS_MAX", default_value_t = 10_000, global = true,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub event_streams_max: u32,

    /// Send webhooks also to addresses that are not public, and over http. Without it only public targets are called,
    /// over https; and this machine, where the service listens on loopback without API keys.
    #[arg(long, env = "STOCKADE_WEBHOOK_ALLOW_PRIVATE", global = true)]
    pub webhook_allow_private: bool,

    /// Form of the log. Its level is set by RUST_LOG.
    #[arg(long, env = "STOCKADE_LOG", default_value = "pretty", global = true)]
    pub log: LogForm,
}

/// What has what an answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// The Redis that decides, with its log.
    Local,
    /// One of its replicas, too.
    Replicated,
}

/// Who is asked for levels of a moment ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadFrom {
    /// Who decides about them.
    Master,
    /// A replica.
    Replica,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// From the command line and the environment.
    pub fn load() -> Self {
        Self::parse()
    }

    /// What to do.
    pub fn command(&self) -> Command {
        self.command.clone().unwrap_or(Command::Serve)
    }
}

impl Options {
    /// An address that others than this machine can reach, if it listens on one.
    pub fn open_address(&self) -> Option<SocketAddr> {
        [Some(self.listen), self.ops_listen].into_iter().flatten().find(|address| !address.ip().is_loopback())
    }

    /// Where the probes are.
    pub fn probe_address(&self) -> SocketAddr {
        self.ops_listen.unwrap_or(self.listen)
    }

    /// How long one call of Redis may take.
    pub fn redis_timeout(&self) -> Duration {
        Duration::from_millis(self.redis_timeout_ms)
    }

    /// Between two background audits, if there are to be any.
    pub fn audit_interval(&self) -> Option<Duration> {
        (self.audit_interval_seconds > 0).then(|| Duration::from_secs(self.audit_interval_seconds))
    }

    /// From the signal to the exit.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }
}

#[cfg(test)]
mod tests;
