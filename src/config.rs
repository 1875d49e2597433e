//! Options: flags, or environment variables of the same name. Wrong ones stop the start.

use crate::domain::SaleId;
use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
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
    },
    /// Print the OpenAPI document.
    Openapi,
    /// Ask the service at the listen address whether it is ready; for container health checks.
    Healthcheck,
}

/// How it does it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address and port to listen on.
    #[arg(long, env = "STOCKADE_LISTEN", default_value = "127.0.0.1:8080", global = true)]
    pub listen: SocketAddr,

    /// Listen on any address although there are no API keys: whoever reaches it can do everything.
    #[arg(long, env = "STOCKADE_ALLOW_NO_KEYS", global = true)]
    pub allow_no_keys: bool,

    /// The Redis to use. Without it a private one is started in the data folder.
    #[arg(long, env = "STOCKADE_REDIS_URL", hide_env_values = true, global = true)]
    pub redis_url: Option<RedisUrl>,

    /// Folder of the private Redis.
    #[arg(long, env = "STOCKADE_DATA_DIR", default_value = "./stockade-data", global = true)]
    pub data_dir: PathBuf,

    /// How long one call of Redis may take.
    #[arg(long, env = "STOCKADE_REDIS_TIMEOUT_MS", default_value_t = 2_000, global = true,
          value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub redis_timeout_ms: u64,

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

    /// How long events are kept.
    #[arg(long, env = "STOCKADE_EVENTS_RETENTION_SECONDS", default_value_t = 7 * 86_400, global = true,
          value_parser = clap::value_parser!(u64).range(60..=315_360_000))]
    pub events_retention_seconds: u64,

    /// Most entries of events that a sale keeps; an entry holds the events of one script call.
    #[arg(long, env = "STOCKADE_EVENTS_MAX", default_value_t = 200_000, global = true,
          value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub events_max: u64,

    /// Most live event streams that this process serves at the same time.
    #[arg(long, env = "STOCKADE_EVENT_STREAMS_MAX", default_value_t = 10_000, global = true,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub event_streams_max: u32,

    /// Form of the log. Its level is set by RUST_LOG.
    #[arg(long, env = "STOCKADE_LOG", default_value = "pretty", global = true)]
    pub log: LogForm,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// URL of a Redis. It may hold a password, so it is never shown in full.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// The URL with its password.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for RedisUrl {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("://") {
            Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() => Ok(Self(text.to_owned())),
            _ => Err("must be a URL such as redis://127.0.0.1:6379"),
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once("://") {
            Some((scheme, rest)) => match rest.rsplit_once('@') {
                Some((_, host)) => write!(f, "{scheme}://***@{host}"),
                None => f.write_str(&self.0),
            },
            None => f.write_str("***"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
    /// Refuses to serve strangers.
    pub fn check_listen(&self) -> Result<()> {
        if !self.listen.ip().is_loopback() && !self.allow_no_keys {
            bail!(
                "will not listen on {}: there are no API keys, so whoever reaches that address can sell, release and \
                 delete everything. Listen on 127.0.0.1, or set STOCKADE_ALLOW_NO_KEYS=true where only trusted hosts \
                 can reach it",
                self.listen
            );
        }
        Ok(())
    }

    /// Whether strangers are served on purpose.
    pub fn is_open_to_others(&self) -> bool {
        self.allow_no_keys && !self.listen.ip().is_loopback()
    }

    /// How long one call of Redis may take.
    pub fn redis_timeout(&self) -> Duration {
        Duration::from_millis(self.redis_timeout_ms)
    }

    /// From the signal to the exit.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn config(arguments: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(std::iter::once(&"stockade").chain(arguments))
    }

    #[test]
    fn the_command_line_is_sound_and_every_flag_has_a_variable() {
        <Config as CommandFactory>::command().debug_assert();
        for argument in <Config as CommandFactory>::command()
            .get_arguments()
            .filter(|argument| argument.get_env().is_none())
        {
            assert!(["help", "version"].contains(&argument.get_id().as_str()), "{argument:?}");
        }
    }

    #[test]
    fn serve_is_the_default_and_flags_stand_on_either_side() {
        assert_eq!(config(&[]).unwrap().command(), Command::Serve);
        let after = config(&["serve", "--listen", "127.0.0.1:0"]).unwrap();
        let before = config(&["--listen", "127.0.0.1:0", "serve"]).unwrap();
        assert_eq!((after.options.listen, after.command()), (before.options.listen, before.command()));
    }

    #[test]
    fn strangers_are_served_only_on_purpose() {
        assert!(config(&[]).unwrap().options.check_listen().is_ok());
        assert!(config(&["--listen", "[::1]:80"]).unwrap().options.check_listen().is_ok());
        assert!(config(&["--listen", "0.0.0.0:80"]).unwrap().options.check_listen().is_err());
        let open = config(&["--listen", "0.0.0.0:80", "--allow-no-keys"]).unwrap().options;
        assert!(open.check_listen().is_ok() && open.is_open_to_others());
    }

    #[test]
    fn wrong_options_stop_the_start() {
        for bad in [
            ["--drain-seconds", "0"],
            ["--pool-size", "0"],
            ["--log", "xml"],
            ["--listen", "here"],
            ["--redis-url", "localhost"],
            ["--redis-timeout-ms", "1"],
            ["--events-retention-seconds", "59"],
            ["--events-max", "999"],
        ] {
            assert!(config(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url: RedisUrl = "rediss://app:s3cret@cache:6380/0".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "rediss://***@cache:6380/0 rediss://***@cache:6380/0");
        assert_eq!(url.expose(), "rediss://app:s3cret@cache:6380/0");
    }
}
