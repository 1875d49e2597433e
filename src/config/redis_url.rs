//! Where a Redis is.

use crate::domain::lock::LOCK_NODES_MIN;
use std::fmt;
use std::str::FromStr;

const NO_URL: &str = "must be a URL that begins with redis://, rediss:// (TLS), unix://, redis+sentinel:// or redis+cluster://";

/// URL of a Redis: of one server, of the Sentinels that know where it is, or of a cluster. It may hold a password, so it is never shown in full.
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
        let (scheme, rest) = text.split_once("://").filter(|(_, rest)| !rest.is_empty()).ok_or(NO_URL)?;
        match scheme {
            "redis" | "rediss" | "unix" => {}
            "redis+sentinel" | "rediss+sentinel" => check_sentinels(rest)?,
            "redis+cluster" | "rediss+cluster" => check_cluster(rest)?,
            _ => return Err(NO_URL),
        }
        Ok(Self(text.to_owned()))
    }
}

/// `[user:password@]host[:port],.../master[/database][?sentinel_user=...&sentinel_pass=...]`
fn check_sentinels(rest: &str) -> Result<(), &'static str> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    check_hosts(authority)?;
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    if master.is_empty() {
        return Err(
            "must end with the name that the Sentinels have for the master: redis+sentinel://host1,host2,host3/master",
        );
    }
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Err("must have a number for the database: redis+sentinel://host1,host2,host3/master/0");
    }
    let names = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next());
    match names.flatten().all(|name| ["sentinel_user", "sentinel_pass"].contains(&name)) {
        true => Ok(()),
        false => Err("may have sentinel_user and sentinel_pass after the `?`, and nothing else"),
    }
}

/// `[user:password@]host[:port],...`
fn check_cluster(rest: &str) -> Result<(), &'static str> {
    check_hosts(rest)?;
    match rest.rsplit('@').next().is_some_and(|hosts| hosts.contains(['/', '?'])) {
        true => Err("must end with the servers: a cluster has one database, and knows no settings"),
        false => Ok(()),
    }
}

/// Of several servers, with a user before the first or without.
fn check_hosts(authority: &str) -> Result<(), &'static str> {
    let is_host = |host: &str| match host.rsplit_once(':') {
        // An IPv6 address stands in brackets.
        Some((name, port)) if !host.ends_with(']') => !name.is_empty() && port.parse::<u16>().is_ok(),
        _ => !host.is_empty(),
    };
    match authority.rsplit('@').next().is_some_and(|hosts| hosts.split(',').all(is_host)) {
        true => Ok(()),
        false => {
            Err("must name servers with commas between, each with a port or without: host1:7001,host2:7002")
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str("***") };
        match rest.split_once('?') {
            // Whose password it is cannot be told.
            Some((_, query)) if query.contains('@') => write!(f, "{scheme}://***"),
            Some((rest, _)) => write!(f, "{scheme}://{}?***", without_user(rest)),
            None => write!(f, "{scheme}://{}", without_user(rest)),
        }
    }
}

fn without_user(rest: &str) -> String {
    rest.rsplit_once('@').map_or(rest.to_owned(), |(_, hosts)| format!("***@{hosts}"))
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// URLs of the servers that decide about locks that belong to no sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockNodes(Vec<RedisUrl>);

impl LockNodes {
    /// The URLs with their passwords.
    pub fn expose(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(RedisUrl::expose)
    }
}

impl FromStr for LockNodes {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if ["+sentinel://", "+cluster://"].iter().any(|of_several| text.contains(of_several)) {
            return Err(
                "must be URLs of single servers: each decides by itself, so none is a cluster or behind Sentinels",
            );
        }
        let urls = text.split(',').map(|url| url.trim().parse()).collect::<Result<Vec<RedisUrl>, _>>()?;
        if urls.len() < LOCK_NODES_MIN {
            return Err("must be URLs of at least 3 independent servers, with commas between");
        }
        if urls.iter().enumerate().any(|(at, url)| urls[..at].contains(url)) {
            return Err("must be URLs of independent servers: one is there twice");
        }
        Ok(Self(urls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let url: RedisUrl = "rediss://app:s3cret@cache:6380/0".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "rediss://***@cache:6380/0 rediss://***@cache:6380/0");
        assert_eq!(url.expose(), "rediss://app:s3cret@cache:6380/0");
        for (url, shown) in [
            ("redis+sentinel://a:1,b/main?sentinel_pass=s3cret", "redis+sentinel://a:1,b/main?***"),
            ("redis+sentinel://u:s3cret@a/main?sentinel_pass=s3@cret", "redis+sentinel://***"),
            ("redis+cluster://u:s3@cret@a,b", "redis+cluster://***@a,b"),
            ("unix:///run/redis.sock?user=u&pass=s3cret", "unix:///run/redis.sock?***"),
            ("redis://u:s3?cret@a", "redis://***"),
        ] {
            assert_eq!(url.parse::<RedisUrl>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_url_is_one_of_three_kinds() {
        let why = |url: &str| url.parse::<RedisUrl>().err().unwrap_or_default();
        for url in [
            "redis://127.0.0.1:6379",
            "unix:///run/redis.sock",
            "redis+sentinel://a/main",
            "rediss+sentinel://u:p@a,b:26380,[::1],[::2]:26379/main/2?sentinel_user=watch&sentinel_pass=x",
            "redis+cluster://a",
            "rediss+cluster://u:p/w@a,b:7001,[::1]:7002",
        ] {
            assert_eq!(why(url), "", "{url}");
        }
        for url in ["a", "redis://", "http://a", "redi://a", "http+cluster://a", "valkey+sentinel://a/main"] {
            assert!(why(url).contains("must be a URL"), "{url}");
        }
        for url in ["redis+sentinel://a,b", "redis+sentinel://a/", "redis+sentinel://a//1"] {
            assert!(why(url).contains("name that the Sentinels have"), "{url}");
        }
        for url in [
            "redis+sentinel:///main",
            "redis+sentinel://a,,b/main",
            "redis+cluster://a,",
            "redis+cluster://u:p@",
        ] {
            assert!(why(url).contains("must name servers"), "{url}");
        }
        for url in ["redis+sentinel://a:b/main", "redis+cluster://a:70000", "redis+cluster://:7001"] {
            assert!(why(url).contains("must name servers"), "{url}");
        }
        assert!(why("redis+sentinel://a/main/two").contains("a number for the database"));
        assert!(why("redis+sentinel://a/main?password=x").contains("nothing else"));
        assert!(why("redis+cluster://a/0").contains("must end with the servers"));
        assert!(why("redis+cluster://a?x=y").contains("must end with the servers"));
    }

    #[test]
    fn locks_need_three_servers_that_are_not_the_same() {
        let nodes = |text: &str| text.parse::<LockNodes>();
        let three = nodes("redis://a,redis://b, redis://c").unwrap();
        assert_eq!(three.expose().collect::<Vec<_>>(), ["redis://a", "redis://b", "redis://c"]);
        assert!(nodes("redis://a,redis://b").unwrap_err().contains("at least 3"));
        assert!(nodes("redis://a,redis://b,redis://a").unwrap_err().contains("twice"));
        assert!(nodes("redis://a,redis+cluster://b,c,redis://d").unwrap_err().contains("single servers"));
        assert!(nodes("redis://a,redis://b,c").unwrap_err().contains("a URL"));
    }
}
