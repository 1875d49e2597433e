//! Names of hosts.

use std::str::FromStr;

/// Name of a host, as it stands in `Host` without its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Whether the text names this host; upper and lower case are the same.
    pub fn is(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }
}

impl FromStr for HostName {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        match (1..=253).contains(&text.len()) && text.bytes().all(legal) {
            true => Ok(Self(text.to_owned())),
            false => Err("must be a name such as stock.example, without a port"),
        }
    }
}
