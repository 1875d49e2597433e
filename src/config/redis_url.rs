//! Where a Redis is.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let url: RedisUrl = "rediss://app:s3cret@cache:6380/0".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "rediss://***@cache:6380/0 rediss://***@cache:6380/0");
        assert_eq!(url.expose(), "rediss://app:s3cret@cache:6380/0");
    }
}
