//! Where a Redis is.

use crate::domain::lock::LOCK_NODES_MIN;
use std::fmt;
use std::str::FromStr;

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
    }

    #[test]
    fn locks_need_three_servers_that_are_not_the_same() {
        let nodes = |text: &str| text.parse::<LockNodes>();
        let three = nodes("redis://a,redis://b, redis://c").unwrap();
        assert_eq!(three.expose().collect::<Vec<_>>(), ["redis://a", "redis://b", "redis://c"]);
        assert!(nodes("redis://a,redis://b").unwrap_err().contains("at least 3"));
        assert!(nodes("redis://a,redis://b,redis://a").unwrap_err().contains("twice"));
        assert!(nodes("redis://a,redis://b,c").unwrap_err().contains("a URL"));
    }
}
