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
const V4: [(Ipv4Net, Class); 24] = [
    (v4(169, 254, 169, 254, 32), Metadata), // AWS, Google, Azure, and most others
    (v4(169, 254, 0, 23, 32), Metadata),    // Tencent
    (v4(169, 254, 42, 42, 32), Metadata),   // Scaleway
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

/// The last row holds them all: what is not in `2000::/3` belongs to no host, unless a row before says so.
const V6: [(Ipv6Net, Class); 16] = [
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Metadata), // AWS
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Metadata),  // AWS EKS
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Metadata),  // Google
    (v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128), Metadata),   // Scaleway
    (v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), Metadata), // OpenStack
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private), // unique local
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Private), // link-local
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Private), // site-local, of old
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Private), // benchmarks
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), NoHost), // protocols, Teredo among them
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), NoHost), // documents
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), NoHost),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Class::Public),
    // Translators of an operator's own: where in it the IPv4 address stands is the operator's choice.
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), NoHost),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 0), NoHost),
];

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated (RFC 6052), or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => of(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => of(high, low),
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
mod tests;
