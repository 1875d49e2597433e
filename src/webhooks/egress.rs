//! Where messages may go. Whoever registers a URL makes this service call it, from inside its own network: so every
//! address is judged where it is about to be used, in the resolver of the HTTP client. A check before that would
//! judge one answer of the name server and connect to the next (`docs/adr/0018-egress-and-signing.md`).

use crate::domain::WebhookUrl;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ipnet::{Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use url::{Host, Url};

/// Which addresses that are not public may be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Egress {
    /// This machine.
    pub loopback: bool,
    /// Whatever else is not public; and `http` to anywhere.
    pub private: bool,
}

/// A target that may not be called; in words for whoever named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forbidden(pub &'static str);

/// What an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Public,
    Loopback,
    Private,
    /// Where clouds give secrets to whoever asks.
    Metadata,
    /// No host has it.
    NoHost,
}

use Class::{Loopback, Metadata, NoHost, Private};

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

/// The first that holds an address says what it is; in none it is public. From the registry of special-purpose
/// addresses of IANA (RFC 6890 and its successors) and the clouds' own documents.
const V4: [(Ipv4Net, Class); 22] = [
    (v4(169, 254, 169, 254, 32), Metadata), // AWS, Google, Azure, and most others
    (v4(169, 254, 170, 2, 32), Metadata),   // AWS ECS
    (v4(169, 254, 170, 23, 32), Metadata),  // AWS EKS
    (v4(100, 100, 100, 200, 32), Metadata), // Alibaba
    (v4(168, 63, 129, 16, 32), Metadata),   // Azure's host
    (v4(192, 0, 0, 192, 32), Metadata),     // Oracle
    (v4(0, 0, 0, 0, 8), NoHost),
    (v4(127, 0, 0, 0, 8), Loopback),
    (v4(10, 0, 0, 0, 8), Private),
    (v4(172, 16, 0, 0, 12), Private),
    (v4(192, 168, 0, 0, 16), Private),
    (v4(169, 254, 0, 0, 16), Private), // link-local
    (v4(100, 64, 0, 0, 10), Private),  // carriers
    (v4(198, 18, 0, 0, 15), Private),  // benchmarks
    (v4(192, 0, 0, 0, 24), NoHost),    // protocols
    (v4(192, 0, 2, 0, 24), NoHost),    // documents
    (v4(198, 51, 100, 0, 24), NoHost),
    (v4(203, 0, 113, 0, 24), NoHost),
    (v4(192, 88, 99, 0, 24), NoHost), // relays of 6to4
    (v4(192, 31, 196, 0, 24), NoHost),
    (v4(224, 0, 0, 0, 4), NoHost), // multicast
    (v4(240, 0, 0, 0, 4), NoHost), // reserved, and broadcast
];

const fn v6(segments: [u16; 8], bits: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), bits)
}

const V6: [(Ipv6Net, Class); 13] = [
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Metadata), // AWS
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Metadata),  // AWS EKS
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Metadata),  // Google
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private), // unique local
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Private), // link-local
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Private), // site-local, of old
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Private), // benchmarks
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), NoHost), // protocols, Teredo among them
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), NoHost), // documents
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), NoHost),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), NoHost), // discard
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), NoHost), // multicast
];

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated (RFC 6052, RFC 8215), or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => of(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, .., high, low] => of(high, low),
        [0x2002, high, low, ..] => of(high, low),
        _ => None,
    }
}

fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_of(&V4, |net| net.contains(&address)),
        IpAddr::V6(address) if address.is_unspecified() => NoHost,
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => class(address.into()),
            None => class_of(&V6, |net| net.contains(&address)),
        },
    }
}

fn class_of<N>(table: &[(N, Class)], holds: impl Fn(&N) -> bool) -> Class {
    table.iter().find(|(net, _)| holds(net)).map_or(Class::Public, |(_, class)| *class)
}

impl Egress {
    /// Whether this address may be called.
    pub fn judge(self, address: IpAddr) -> Result<(), Forbidden> {
        match class(address) {
            Class::Public => Ok(()),
            Loopback if self.loopback || self.private => Ok(()),
            Private if self.private => Ok(()),
            Loopback | Private => Err(Forbidden("must not lead to a private address")),
            Metadata => Err(Forbidden("must not lead to the metadata of a cloud")),
            NoHost => Err(Forbidden("must lead to an address that a host can have")),
        }
    }

    /// Judges what the URL itself says: its scheme, and an address that stands in it. A client calls such an address
    /// without asking its resolver.
    pub fn judge_url(self, url: &WebhookUrl) -> Result<(), Forbidden> {
        let url = Url::parse(url.as_str()).map_err(|_| Forbidden("must be a URL"))?;
        let is_this_machine = match url.host() {
            Some(Host::Ipv4(address)) => {
                self.judge(address.into())?;
                class(address.into()) == Loopback
            }
            Some(Host::Ipv6(address)) => {
                self.judge(address.into())?;
                class(address.into()) == Loopback
            }
            Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
            None => false,
        };
        if is_this_machine && !self.loopback && !self.private {
            return Err(Forbidden("must not lead to a private address"));
        }
        if url.scheme() == "https" || self.private || is_this_machine {
            return Ok(());
        }
        Err(Forbidden("must be https: what is sent over http can be read on its way"))
    }
}

/// Finds the addresses of a name.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// As the system does.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    })
}

/// The resolver of the HTTP client: it gives no address that may not be called.
pub(super) struct Judge {
    pub(super) egress: Egress,
    pub(super) lookup: Lookup,
}

/// A name that has no address.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
pub(super) struct NoAddress;

impl Resolve for Judge {
    fn resolve(&self, name: Name) -> Resolving {
        let (egress, found) = (self.egress, (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move {
            let found = found.await.map_err(|_| NoAddress)?;
            let mut refused = None;
            let mut allowed = Vec::new();
            for address in found {
                match egress.judge(address) {
                    Ok(()) => allowed.push(SocketAddr::new(address, 0)),
                    Err(forbidden) => refused = Some(forbidden),
                }
            }
            match (allowed.is_empty(), refused) {
                (false, _) => Ok(Box::new(allowed.into_iter()) as Addrs),
                (true, Some(forbidden)) => Err(forbidden.into()),
                (true, None) => Err(NoAddress.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Egress = Egress { loopback: false, private: false };
    const LOCAL: Egress = Egress { loopback: true, private: false };
    const OPEN: Egress = Egress { loopback: false, private: true };

    fn judge(egress: Egress, url: &str) -> Result<(), Forbidden> {
        egress.judge_url(&url.parse().unwrap_or_else(|bad| panic!("{url}: {bad}")))
    }

    /// Forty spellings of what must not be called; `allowed` says by whom all the same.
    const FORBIDDEN: [(&str, &str); 40] = [
        ("https://127.0.0.1/", "local open"),
        ("https://127.1/", "local open"),
        ("https://2130706433/", "local open"),
        ("https://0x7f000001/", "local open"),
        ("https://0177.0.0.1/", "local open"),
        ("https://0x7f.1/", "local open"),
        ("https://127.255.255.254:6379/", "local open"),
        ("https://[::1]/", "local open"),
        ("https://[::ffff:127.0.0.1]/", "local open"),
        ("https://[::ffff:7f00:1]/", "local open"),
        ("https://[::127.0.0.1]/", "local open"),
        ("https://[64:ff9b::7f00:1]/", "local open"),
        ("https://[2002:7f00:1::]/", "local open"),
        ("https://localhost/", "local open"),
        ("https://LOCALHOST./", "local open"),
        ("http://localhost:9000/", "local open"),
        ("https://10.0.0.1/", "open"),
        ("https://172.16.0.1/", "open"),
        ("https://172.31.255.255/", "open"),
        ("https://192.168.1.1/", "open"),
        ("https://3232235777/", "open"),
        ("https://169.254.1.1/", "open"),
        ("https://100.64.0.1/", "open"),
        ("https://198.18.0.1/", "open"),
        ("https://[fc00::1]/", "open"),
        ("https://[fe80::1]/", "open"),
        ("https://[::ffff:10.0.0.1]/", "open"),
        ("https://[64:ff9b:1::a00:1]/", "open"),
        ("http://example.com/", "open"),
        ("http://93.184.215.14/", "open"),
        ("https://169.254.169.254/latest/meta-data/", ""),
        ("https://0xa9fea9fe/", ""),
        ("https://[::ffff:169.254.169.254]/", ""),
        ("https://[fd00:ec2::254]/", ""),
        ("https://100.100.100.200/", ""),
        ("https://0.0.0.0/", ""),
        ("https://[::]/", ""),
        ("https://224.0.0.1/", ""),
        ("https://255.255.255.255/", ""),
        ("https://[ff02::1]/", ""),
    ];

    #[test]
    fn forty_targets_are_forbidden_unless_somebody_allowed_them() {
        for (url, allowed) in FORBIDDEN {
            assert!(judge(STRICT, url).is_err(), "{url}");
            assert_eq!(judge(LOCAL, url).is_ok(), allowed.contains("local"), "{url}");
            assert_eq!(judge(OPEN, url).is_ok(), allowed.contains("open"), "{url}");
        }
    }

    #[test]
    fn public_targets_are_allowed() {
        for url in [
            "https://example.com/hook?a=1",
            "https://1.1.1.1/",
            "https://172.32.0.1/",
            "https://100.128.0.1/",
            "https://[2606:4700:4700::1111]/",
            "https://[::ffff:1.1.1.1]/",
            "https://[64:ff9b::101:101]/",
            "https://localhost.example.com/",
        ] {
            for egress in [STRICT, LOCAL, OPEN] {
                assert_eq!(judge(egress, url), Ok(()), "{url}");
            }
        }
    }

    #[test]
    fn what_is_no_url_of_ours_is_none() {
        for bad in
            ["ftp://a/", "https://", "https://u:p@a/", "https://u@a/", "https://a/#x", "a", "https://a b/"]
        {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
        assert!(format!("https://a/{}", "x".repeat(2_048)).parse::<WebhookUrl>().is_err());
    }
}
