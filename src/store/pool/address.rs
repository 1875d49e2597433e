//! Where connections go: to one server, or to whichever server the Sentinels say is the master now; and where a cluster
//! begins.
//!
//! The crate asks the Sentinels and reads their answers. The connections are our own, made as for one server, and each
//! is asked for its role before anything else is sent on it: a Sentinel may not have heard yet that a master has come
//! back as a replica.

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult, Role, TlsMode,
};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Where a Sentinel listens, unless its address says otherwise.
const SENTINEL_PORT: u16 = 26_379;
/// How long a connection may lead to a master that has been replaced without anything having failed.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A caller waits for that.
const ASK_WAIT: Duration = Duration::from_millis(100);

/// Where connections go.
pub enum Address {
    /// To this server.
    Server(Client),
    /// To this server of a cluster, also for reads while it is a replica.
    Reader(Client),
    /// To the master of this name, or to one of its replicas. The Sentinels keep their connections between two questions.
    Watched {
        /// Who knows it.
        sentinels: Mutex<Sentinel>,
        /// What they call it.
        name: String,
        /// How to speak with it.
        settings: SentinelNodeConnectionInfo,
        /// Which of them.
        role: Wanted,
        /// Where it is.
        known: std::sync::Mutex<Known>,
    },
}

/// Whom the Sentinels are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Who decides.
    Master,
    /// Who has what was decided a moment ago.
    Replica,
}

/// What Sentinels said last.
#[derive(Default)]
pub struct Known {
    server: String,
    asked_at: Option<Instant>,
}

impl Address {
    /// Of `redis://`, `rediss://`, `unix://`, or
    /// `redis+sentinel://[user:password@]host[:port],host[:port],.../master[/database][?sentinel_user=...&sentinel_pass=...]`;
    /// user and password are those of the master. With `rediss+sentinel://` both speak TLS. Errors when the URL is not
    /// one of these.
    pub fn of(url: &str) -> RedisResult<Self> {
        match url.split_once("+sentinel://") {
            Some((scheme, rest)) => Self::watched(scheme, rest, Wanted::Master),
            None => {
                let info = url.into_connection_info()?;
                let settings = spoken(info.redis_settings());
                Ok(Self::Server(Client::open(info.set_tcp_settings(tcp()).set_redis_settings(settings))?))
            }
        }
    }

    /// Any replica of the master that a URL of Sentinels names. None: the URL names no replicas.
    pub fn of_replica(url: &str) -> RedisResult<Option<Self>> {
        let watched = url.split_once("+sentinel://");
        watched.map(|(scheme, rest)| Self::watched(scheme, rest, Wanted::Replica)).transpose()
    }

    fn watched(scheme: &str, rest: &str, role: Wanted) -> RedisResult<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() {
            return Err(invalid("the URL of Sentinels must end with the name of the master"));
        }
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let at = |user: &str, host: &str| with_user(scheme, user, host);
        // The crate reads user, password and database out of a URL of one server.
        let server = format!("{}/{database}", at(user, "master")).into_connection_info()?;
        let sentinel_user = credentials(query)?;
        let sentinels = hosts.split(',').map(|host| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let host = if has_port { host.to_owned() } else { format!("{host}:{SENTINEL_PORT}") };
            let info = at(&sentinel_user, &host).into_connection_info()?;
            Ok(info.set_tcp_settings(tcp()))
        });
        let sentinels = sentinels.collect::<RedisResult<Vec<_>>>()?;
        let mut settings = SentinelNodeConnectionInfo::default()
            .set_redis_connection_info(spoken(server.redis_settings()))
            .set_tcp_settings(tcp());
        if scheme == "rediss" {
            settings = settings.set_tls_mode(TlsMode::Secure);
        }
        let sentinels = Mutex::new(Sentinel::build(sentinels)?);
        let known = Default::default();
        Ok(Self::Watched { sentinels, name: name.to_owned(), settings, role, known })
    }

    /// Whether another server may stand there a moment later.
    pub fn may_change(&self) -> bool {
        matches!(self, Self::Watched { .. })
    }

    /// The server that is there now.
    pub async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::Server(client) | Self::Reader(client) => Ok(client.clone()),
            Self::Watched { sentinels, name, settings, role, known } => {
                let mut sentinels = sentinels.lock().await;
                let client = match role {
                    Wanted::Master => sentinels.async_master_for(name, Some(settings)).await?,
                    Wanted::Replica => sentinels.async_replica_rotate_for(name, Some(settings)).await?,
                };
                lock(known).server = server_of(&client);
                Ok(client)
            }
        }
    }

    /// Whether a connection to this server leads to where new ones would. Sentinels leave a master that was replaced as
    /// it is for ten seconds: it takes writes, which are lost then. So they are asked again from time to time; one that
    /// does not answer at once changes nothing.
    pub async fn is_still(&self, server: &str) -> bool {
        let Self::Watched { role: Wanted::Master, known, .. } = self else { return true };
        let is_due = lock(known).asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY);
        if is_due {
            lock(known).asked_at = Some(Instant::now());
            let _ = tokio::time::timeout(ASK_WAIT, Box::pin(self.client())).await;
        }
        lock(known).server == server
    }

    /// A connection to it, and where that leads. To a master: only once that has said itself that it is one.
    pub async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<(MultiplexedConnection, String)> {
        let client = self.client().await?;
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
        match self {
            Self::Watched { role: Wanted::Master, .. } => {
                match redis::cmd("ROLE").query_async(&mut connection).await? {
                    Role::Primary { .. } => {}
                    _ => return Err((ErrorKind::Io, "is not the master any more").into()),
                }
            }
            Self::Reader(_) => redis::cmd("READONLY").exec_async(&mut connection).await?,
            Self::Server(_) | Self::Watched { .. } => {}
        }
        Ok((connection, server_of(&client)))
    }
}

fn server_of(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}

fn lock(known: &std::sync::Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Servers of a cluster, of `redis+cluster://[user:password@]host[:port],host[:port],...`; user and password are those of
/// every server. With `rediss+cluster://` all speak TLS. None: it is no URL of a cluster. Errors when it is a wrong one.
pub fn seeds(url: &str) -> RedisResult<Option<Vec<ConnectionInfo>>> {
    let Some((scheme, rest)) = url.split_once("+cluster://") else { return Ok(None) };
    let (user, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    if hosts.contains(['/', '?']) {
        return Err(invalid("the URL of a cluster ends with its servers: a cluster has one database"));
    }
    let seed = |host: &str| {
        let info = with_user(scheme, user, host).into_connection_info()?;
        let settings = spoken(info.redis_settings());
        Ok(info.set_tcp_settings(tcp()).set_redis_settings(settings))
    };
    hosts.split(',').map(seed).collect::<RedisResult<Vec<_>>>().map(Some)
}

/// Another server, `host:port`, spoken with in the same way.
pub fn like(info: &ConnectionInfo, name: &str) -> Option<ConnectionInfo> {
    let (to, at) = name.rsplit_once(':')?;
    let (to, at) = (to.trim_matches(['[', ']']).to_owned(), at.parse().ok()?);
    let addr = match info.addr().clone() {
        ConnectionAddr::Tcp(..) => ConnectionAddr::Tcp(to, at),
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: to, port: at, insecure, tls_params }
        }
        _ => return None,
    };
    Some(info.clone().set_addr(addr))
}

/// Without the port.
pub fn host(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    }
}

fn with_user(scheme: &str, user: &str, host: &str) -> String {
    match user {
        "" => format!("{scheme}://{host}"),
        user => format!("{scheme}://{user}@{host}"),
    }
}

fn invalid(what: &'static str) -> RedisError {
    (ErrorKind::InvalidClientConfig, what).into()
}

/// `user:password` for the Sentinels, as the query has them, still percent-encoded.
fn credentials(query: &str) -> RedisResult<String> {
    let (mut user, mut password) = ("", "");
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_pass", value)) => password = value,
            _ => return Err(invalid("the URL of Sentinels knows sentinel_user and sentinel_pass alone")),
        }
    }
    let none = user.is_empty() && password.is_empty();
    Ok(if none { String::new() } else { format!("{user}:{password}") })
}

fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// Only with RESP3 the driver tells when a connection has gone.
fn spoken(settings: &RedisConnectionInfo) -> RedisConnectionInfo {
    settings.clone().set_protocol(ProtocolVersion::RESP3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_some_of_its_servers() {
        let names = |url: &str| -> Vec<String> {
            seeds(url).unwrap().unwrap().iter().map(|info| info.addr().to_string()).collect()
        };
        assert_eq!(names("redis+cluster://a,b:7001"), ["a:6379", "b:7001"]);
        let all = seeds("rediss+cluster://app:s%40cret@a:1,b:2").unwrap().unwrap();
        assert_eq!(all[1].redis_settings().password(), Some("s@cret"));
        let other = like(&all[0], "10.0.0.7:7002").unwrap();
        assert_eq!((other.addr().to_string(), host(&other)), ("10.0.0.7:7002".into(), "10.0.0.7".into()));
        assert!(matches!(other.addr(), ConnectionAddr::TcpTls { .. }));
        assert_eq!(other.redis_settings().username(), Some("app"));
        assert_eq!(host(&like(&all[0], "::1:7002").unwrap()), "::1");
        assert!(seeds("redis://a").unwrap().is_none());
        for bad in
            ["redis+cluster://a/1", "redis+cluster://a,,b", "http+cluster://a", "redis+cluster://a?x=1"]
        {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    fn error(url: &str) -> String {
        Address::of(url).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_master_is_named_after_its_sentinels() {
        for url in [
            "redis+sentinel://a/main",
            "redis+sentinel://a,b:26380,[::1]:26379/main/2",
            "redis+sentinel://app:s%40cret@a,b/main?sentinel_user=watch&sentinel_pass=s%40cret",
            "rediss+sentinel://a,b,c/main",
        ] {
            assert!(matches!(Address::of(url), Ok(Address::Watched { name, .. }) if name == "main"), "{url}");
        }
        assert!(error("redis+sentinel://a,b").contains("name of the master"));
        assert!(error("redis+sentinel://a/").contains("name of the master"));
        assert!(error("redis+sentinel://a/main?password=x").contains("sentinel_pass alone"));
        assert!(!error("redis+sentinel://a/main/two").is_empty());
        assert!(!error("redis+sentinel://a,,b/main").is_empty());
        assert!(!error("http+sentinel://a/main").is_empty());
    }
}
