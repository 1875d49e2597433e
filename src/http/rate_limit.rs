//! How often one caller may call: one limit for all worker threads of a process, and the headers that tell where a
//! caller stands (draft-ietf-httpapi-ratelimit-headers).

use crate::config::Rate;
use crate::domain::Caller;
use actix_web::HttpMessage;
use actix_web::dev::ServiceRequest;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Callers who may send all of their requests again are forgotten once in so many calls: never more are kept than have
/// called within one window, and so many.
const FORGET_EVERY: u64 = 4_096;

/// First half of an IPv6 address. Whoever has one such address has the whole network.
const NETWORK: u128 = !(u64::MAX as u128);

/// Whose calls are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    /// The holders of an API key, by its name: a second key of the name is no second limit.
    Key(String),
    /// Where there are no keys, the other end of the connection. No header is believed.
    Peer(IpAddr),
}

impl Who {
    fn of(request: &ServiceRequest) -> Self {
        if let Some(caller) = request.extensions().get::<Caller>() {
            return Self::Key(caller.name().to_owned());
        }
        let peer = request.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        Self::Peer(network(peer))
    }
}

/// The addresses that one peer can call from.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & NETWORK).into(),
        ip => ip,
    }
}

type Limiter<C> = RateLimiter<Who, DefaultKeyedStateStore<Who>, C, StateInformationMiddleware>;

/// Where a caller stands after a call.
#[derive(Debug)]
pub struct Standing {
    /// The call is one too many, and is not counted.
    pub is_over: bool,
    /// So many more may come at once.
    remaining: u32,
    /// One more than these after at most so many seconds.
    more_after: u64,
    policy: HeaderValue,
}

impl Standing {
    /// Tells the caller. `Retry-After` must be no earlier than the `t` beside it: they are the same.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Self { remaining, more_after, .. } = self;
        headers.insert(RATE_LIMIT_POLICY, self.policy.clone());
        if let Ok(value) = HeaderValue::try_from(format!("\"default\";r={remaining};t={more_after}")) {
            headers.insert(RATE_LIMIT, value);
        }
        if self.is_over {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(*more_after));
        }
    }
}

/// The limit of each caller.
pub struct RateLimit<C: Clock = DefaultClock> {
    limiter: Limiter<C>,
    policy: HeaderValue,
    /// The time from one request to the next where they are evenly spread.
    interval: Duration,
    calls: AtomicU64,
}

impl RateLimit {
    /// With nothing counted.
    pub fn new(rate: Rate) -> Self {
        Self::with_clock(rate, DefaultClock::default())
    }
}

impl<C: Clock> RateLimit<C> {
    fn with_clock(Rate { requests, seconds }: Rate, clock: C) -> Self {
        let interval = Duration::from_secs(seconds.get().into()) / requests.get();
        let quota = Quota::with_period(interval).unwrap_or_else(|| unreachable!("a microsecond at least"));
        let policy = HeaderValue::try_from(format!("\"default\";q={requests};w={seconds}"));
        Self {
            limiter: RateLimiter::new(quota.allow_burst(requests), DefaultKeyedStateStore::default(), clock),
            policy: policy.unwrap_or_else(|error| unreachable!("numbers only: {error}")),
            interval,
            calls: AtomicU64::new(0),
        }
    }

    /// Counts a call.
    pub fn count(&self, request: &ServiceRequest) -> Standing {
        self.count_of(&Who::of(request))
    }

    fn count_of(&self, who: &Who) -> Standing {
        if self.calls.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            self.limiter.retain_recent();
        }
        let (is_over, remaining, wait) = match self.limiter.check_key(who) {
            Ok(state) => (false, state.remaining_burst_capacity(), self.interval),
            Err(until) => (true, 0, until.wait_time_from(self.limiter.clock().now())),
        };
        Standing { is_over, remaining, more_after: whole_seconds(wait), policy: self.policy.clone() }
    }
}

/// Rounded up: who comes back then must not come too early.
fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;

    fn limit(rate: &str) -> (RateLimit<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (RateLimit::with_clock(rate.parse().unwrap(), clock.clone()), clock)
    }

    fn peer(ip: &str) -> Who {
        Who::Peer(network(ip.parse().unwrap()))
    }

    #[test]
    fn each_caller_has_a_limit_of_its_own() {
        let (limit, _) = limit("2/3");
        for who in [Who::Key("a".into()), Who::Key("b".into()), peer("192.0.2.1"), peer("192.0.2.2")] {
            let counted: Vec<_> =
                (0..4).map(|_| limit.count_of(&who)).map(|it| (it.is_over, it.remaining)).collect();
            assert_eq!(counted, [(false, 1), (false, 0), (true, 0), (true, 0)], "{who:?}");
        }
    }

    #[test]
    fn one_network_of_ipv6_is_one_caller() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8:0:0:ffff::2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }

    #[test]
    fn a_caller_who_waits_as_told_may_call_again_and_not_before() {
        let (limit, clock) = limit("2/3");
        let who = peer("192.0.2.1");
        let call = || {
            let standing = limit.count_of(&who);
            (standing.is_over, standing.remaining, standing.more_after)
        };
        assert_eq!([call(), call()], [(false, 1, 2), (false, 0, 2)]);
        assert_eq!(call(), (true, 0, 2), "one and a half seconds, rounded up");
        clock.advance(Duration::from_millis(1_499));
        assert_eq!(call(), (true, 0, 1), "calls too many put nothing off");
        clock.advance(Duration::from_millis(1));
        assert_eq!([call(), call()], [(false, 0, 2), (true, 0, 2)]);
        clock.advance(Duration::from_secs(3600));
        assert_eq!([call(), call(), call()], [(false, 1, 2), (false, 0, 2), (true, 0, 2)]);
    }

    #[test]
    fn callers_are_forgotten_when_nothing_is_held_against_them() {
        let (limit, clock) = limit("2/3");
        for n in 0..u32::try_from(3 * FORGET_EVERY).unwrap() {
            limit.count_of(&Who::Peer(Ipv4Addr::from_bits(n).into()));
        }
        assert_eq!(limit.limiter.len() as u64, 3 * FORGET_EVERY, "not while something is");
        clock.advance(Duration::from_secs(4));
        for _ in 0..FORGET_EVERY {
            limit.count_of(&peer("192.0.2.1"));
        }
        assert_eq!(limit.limiter.len(), 1);
    }

    #[test]
    fn waits_are_rounded_up() {
        let waits = [0, 1, 999, 1_000, 1_001, 720_000].map(Duration::from_millis);
        assert_eq!(waits.map(whole_seconds), [1, 1, 1, 1, 2, 720]);
    }
}
