//! Who may call what. Each route says in the table of `routes` what it needs; the layer around it asks here, before
//! its handler runs.
//!
//! Where there are keys, a key is asked for. Where there are none, whoever reaches the listener may do everything, so
//! what must be kept out are browsers that a page of somebody else sends here.

use super::problem::{Code, Problem};
use super::rate_limit::RateLimit;
use crate::api_keys::{Access, ApiKeys};
use crate::config::{HostName, Options};
use crate::domain::{Caller, Scope};
use actix_web::HttpMessage;
use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a call needs: a key with one of these scopes; nothing, if there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs(pub &'static [Scope]);

/// Probes and documents: they tell nothing about stock.
pub const NOTHING: Needs = Needs(&[]);
/// What a checkout does, and what there is to read.
pub const STOREFRONT: Needs = Needs(&[Scope::Storefront, Scope::Operator]);
/// What changes sales and supply.
pub const OPERATOR: Needs = Needs(&[Scope::Operator]);
/// What those do who make barriers and wait for them.
pub const BARRIER: Needs = Needs(&[Scope::Barrier, Scope::Operator]);
/// What those do who want their turn: checkouts and jobs alike.
pub const LOCK: Needs = Needs(&[Scope::Storefront, Scope::Barrier, Scope::Operator]);
/// To arrive is for participants alone: whoever runs the sales must not speak for them.
pub const PARTICIPANT: Needs = Needs(&[Scope::Barrier]);
/// What Prometheus reads.
pub const METRICS: Needs = Needs(&[Scope::Metrics, Scope::Operator]);

/// Keeps strangers out of one listener.
#[derive(Clone)]
pub struct Gate {
    access: Access,
    /// Without keys, on loopback or where names are given: more names that `Host` may have.
    hosts: Option<Vec<HostName>>,
    /// Of all worker threads.
    rate_limit: Option<Arc<RateLimit>>,
}

impl Gate {
    /// Of the listener at `address`.
    pub fn new(access: &Access, options: &Options, address: SocketAddr) -> Self {
        let knows_its_names = address.ip().is_loopback() || !options.allowed_hosts.is_empty();
        let checks_host = access.keys().is_none() && knows_its_names;
        Self {
            access: access.clone(),
            hosts: checks_host.then(|| options.allowed_hosts.clone()),
            rate_limit: options.rate_limit.map(|rate| Arc::new(RateLimit::new(rate))),
        }
    }

    /// What limits the calls of somebody who was let in. Whoever watches the service must see it at all times, so probes
    /// and metrics are not limited.
    pub fn rate_limit(&self, needs: Needs) -> Option<&RateLimit> {
        self.rate_limit.as_deref().filter(|_| needs != NOTHING && needs != METRICS)
    }

    /// Lets a request in, and leaves its [`Caller`] with it; or says why not.
    pub fn admit(&self, request: &ServiceRequest, needs: Needs) -> Result<(), Problem> {
        let headers = request.headers();
        match self.access.keys() {
            None => self.admit_without_key(request.method(), headers),
            Some(_) if needs == NOTHING => Ok(()),
            Some(keys) => {
                let caller = holder(keys, headers, needs)?;
                request.extensions_mut().insert(caller);
                Ok(())
            }
        }
    }

    fn admit_without_key(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        if let Some(hosts) = &self.hosts
            && !is_local(headers, hosts)
        {
            return Err(Problem::new(Code::MisdirectedRequest));
        }
        if !method.is_safe() && is_from_another_site(headers) {
            return Err(Problem::with_detail(Code::Forbidden, "A page of another site must not do this."));
        }
        Ok(())
    }
}

fn holder(keys: &ApiKeys, headers: &HeaderMap, needs: Needs) -> Result<Caller, Problem> {
    let Some(token) = bearer(headers) else {
        return Err(Problem::with_detail(
            Code::Unauthorized,
            "Send one header `Authorization: Bearer <id>.<secret>`.",
        ));
    };
    let Some(key) = keys.find(token) else {
        return Err(Problem::with_detail(Code::Unauthorized, "There is no such key."));
    };
    if !key.has_any(needs.0) {
        let words = |scopes: &[Scope]| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>();
        let (needed, has) = (words(needs.0).join(" or "), words(key.scopes()).join(", "));
        return Err(Problem::with_detail(
            Code::Forbidden,
            format!("It needs the scope {needed}; the key has {has}."),
        ));
    }
    Ok(key.caller.clone())
}

/// The one header's value, if there is exactly one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name);
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether `Host` is a name of this machine. A page whose own name leads here (DNS rebinding) comes with that name. A
/// request without the header comes from no browser.
fn is_local(headers: &HeaderMap, hosts: &[HostName]) -> bool {
    if !headers.contains_key(header::HOST) {
        return true;
    }
    let Some(name) = only(headers, &header::HOST).and_then(name_of) else { return false };
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost") || hosts.iter().any(|host| host.is(name))
}

/// Without the port and the brackets, in which only IPv6 may stand.
fn name_of(authority: &str) -> Option<&str> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(ip, _)| ip.parse::<Ipv6Addr>().is_ok())?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Whether a browser says that a page from elsewhere sent this. Browsers say so with every call that is not a plain
/// read; other clients send neither header.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    if headers.contains_key(SEC_FETCH_SITE)
        && !matches!(only(headers, &SEC_FETCH_SITE), Some("same-origin" | "none"))
    {
        return true;
    }
    if !headers.contains_key(header::ORIGIN) {
        return false;
    }
    let origin = only(headers, &header::ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, only(headers, &header::HOST)) {
        (Some((_, from)), Some(to)) => !from.eq_ignore_ascii_case(to),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn headers(of: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_token_comes_in_one_header() {
        let token = |value| bearer(&headers(&[(header::AUTHORIZATION, value)])).map(str::to_owned);
        for good in ["Bearer a.b", "bearer a.b", "BEARER   a.b "] {
            assert_eq!(token(good).as_deref(), Some("a.b"), "{good}");
        }
        for bad in ["", "Bearer", "Bearer ", "Bearera.b", "Basic a.b", "a.b"] {
            assert_eq!(token(bad), None, "{bad}");
        }
        let twice = headers(&[(header::AUTHORIZATION, "Bearer a.b"), (header::AUTHORIZATION, "Bearer a.b")]);
        assert!(bearer(&twice).is_none() && bearer(&headers(&[])).is_none());
    }

    #[test]
    fn a_host_is_a_name_of_this_machine_or_a_declared_one() {
        let declared = ["stock.example".parse().expect("a name")];
        let local = |value| is_local(&headers(&[(header::HOST, value)]), &declared);
        for good in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:8080",
            "stock.example",
            "Stock.Example:443",
        ] {
            assert!(local(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:80:80",
            "localhost:x",
            "localhost@evil.example",
            "evil.stock.example",
            "10.0.0.1",
            "0.0.0.0",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]80",
            "[localhost]",
            "[127.0.0.1]",
            "[evil.example]",
            "2130706433",
        ] {
            assert!(!local(bad), "{bad}");
        }
        assert!(is_local(&headers(&[]), &[]));
        let twice = headers(&[(header::HOST, "localhost"), (header::HOST, "localhost")]);
        assert!(!is_local(&twice, &[]));
    }

    #[test]
    fn a_page_of_this_host_may_call_and_others_may_not() {
        let host = (header::HOST, "localhost:8080");
        let elsewhere = |of: &[(HeaderName, &'static str)]| {
            is_from_another_site(&headers(&[&[host.clone()][..], of].concat()))
        };
        for here in [
            &[][..],
            &[(header::ORIGIN, "http://localhost:8080")],
            &[(header::ORIGIN, "http://localhost:8080"), (SEC_FETCH_SITE, "same-origin")],
            &[(SEC_FETCH_SITE, "none")],
        ] {
            assert!(!elsewhere(here), "{here:?}");
        }
        for there in [
            &[(header::ORIGIN, "http://evil.example")][..],
            &[(header::ORIGIN, "http://localhost:3000")],
            &[(header::ORIGIN, "null")],
            &[(header::ORIGIN, "")],
            &[(SEC_FETCH_SITE, "cross-site")],
            &[(SEC_FETCH_SITE, "same-site")],
            &[(SEC_FETCH_SITE, "x")],
            &[(header::ORIGIN, "http://localhost:8080"), (SEC_FETCH_SITE, "cross-site")],
            &[(header::ORIGIN, "http://localhost:8080"), (header::ORIGIN, "http://localhost:8080")],
        ] {
            assert!(elsewhere(there), "{there:?}");
        }
        assert!(is_from_another_site(&headers(&[(header::ORIGIN, "http://localhost")])), "without Host");
    }
}
