//! One listener, with its limits.

use super::unready;
use crate::http::{self, Listener};
use crate::store::{Shared, Store};
use actix_web::dev::Server;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::time::Duration;

/// Connections that may wait to be accepted: a sale opens for everybody in the same second.
const BACKLOG: u32 = 4_096;
/// Longer than the idle time of usual load balancers, so that it is they who close.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// For the head of a request; `http::body` has the deadline of bodies.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// One bound listener.
pub struct Listening {
    pub server: Server,
    pub address: SocketAddr,
}

/// How much it may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub workers: usize,
    /// Of each worker.
    pub connections_max: usize,
    pub drain: Duration,
}

impl Listening {
    /// Each worker thread has a store of its own: its rounds of group commit need no other thread
    /// (`docs/adr/0003-one-committer-a-worker.md`).
    pub fn bind(address: SocketAddr, limits: Limits, shared: &Shared, listener: Listener) -> Result<Self> {
        let (shared, drain) = (shared.clone(), limits.drain);
        let server = HttpServer::new(move || {
            let store = Store::open(&shared).unwrap_or_else(|error| unreachable!("opened before: {error}"));
            App::new().app_data(Data::new(store)).configure(|config| http::routes(config, &listener))
        })
        .workers(limits.workers)
        .max_connections(limits.connections_max)
        .disable_signals()
        .backlog(BACKLOG)
        .keep_alive(KEEP_ALIVE)
        // Who waits for long and leaves makes room at once.
        .h1_allow_half_closed(false)
        .tcp_nodelay(true)
        .client_request_timeout(HEAD_DEADLINE)
        .shutdown_timeout((drain - unready(drain)).as_secs().max(1))
        .bind(address)
        .with_context(|| format!("cannot listen on {address}"))?;
        let address = *server.addrs().first().context("there is no address to listen on")?;
        Ok(Self { server: server.run(), address })
    }
}
