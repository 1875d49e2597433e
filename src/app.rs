//! Wires the service, serves until it is told to stop, and stops without losing a request.

mod listening;
mod open_files;

use crate::api_keys::Access;
use crate::config::{Durability, LockNodes, Options, ReadFrom};
use crate::http::auth::Gate;
use crate::http::streams::{HEARTBEAT_EVERY, Streams};
use crate::http::{Listener, Routes, layer::Draining};
use crate::metrics::Metrics;
use crate::store::barriers::watch;
use crate::store::sweep::EventsKept;
use crate::store::watched::WatchLimits;
use crate::store::{PoolConfig, Shared, Store, live};
use crate::trace::Sampling;
use crate::webhooks::{Egress, Sender};
use crate::workers::{auditor, key_watch, notifier, recovery, redis_watch, sweeper};
use actix_web::web::Data;
use anyhow::{Context, Result, bail};
use listening::{Limits, Listening};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Histograms move what they recorded into buckets so often.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Part of the drain in which the process still accepts, while others see that it is unready.
const UNREADY_SHARE: u32 = 5;
/// A request that gets no connection to Redis within this is answered 503.
const POOL_WAIT: Duration = Duration::from_millis(500);
/// A health check gives up after this.
const HEALTHCHECK_DEADLINE: Duration = Duration::from_secs(3);

/// Threads of the listener of probes and metrics.
const OPS_WORKERS: usize = 1;

/// The service, listening.
pub struct Application {
    main: Listening,
    /// Probes and metrics, if they have an address of their own.
    ops: Option<Listening>,
    access: Access,
    shared: Shared,
    draining: Draining,
    drain: Duration,
    audit_interval: Option<Duration>,
    events_kept: EventsKept,
    watch_limits: WatchLimits,
    sender: Sender,
}

impl Application {
    /// Binds the sockets.
    pub fn build(options: &Options, shared: Shared, access: Access) -> Result<Self> {
        Store::open(&shared).context("the Redis URL is not one")?;
        let draining = Draining::default();
        let streams_max = usize::try_from(options.event_streams_max)?;
        let streams = Data::new(Streams::new(streams_max, HEARTBEAT_EVERY, Arc::clone(&shared.metrics)));
        let sender = Sender::new(egress(options, &access)).context("there is no HTTP client")?;
        let sender = sender.with_sampling(Sampling::from_env()?);
        let drain = options.drain();
        let bind = |address, routes, workers, connections_max| {
            let gate = Gate::new(&access, options, address);
            let metrics = Data::from(Arc::clone(&shared.metrics));
            let (draining, streams) = (draining.clone(), Data::clone(&streams));
            let sender = Data::new(sender.clone());
            let tells_durability = shared.config.replica_timeout.is_some();
            let listener = Listener { gate, routes, metrics, draining, streams, sender, tells_durability };
            Listening::bind(address, Limits { workers, connections_max, drain }, &shared, listener)
        };
        let routes = if options.ops_listen.is_some() { Routes::Api } else { Routes::All };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = options.workers.map_or(cores, usize::from);
        let files = open_files::raise();
        let main = bind(options.listen, routes, workers, open_files::connections_max(files, workers))?;
        let bind_ops = |address| bind(address, Routes::Ops, OPS_WORKERS, open_files::probes_max(files));
        let ops = options.ops_listen.map(bind_ops).transpose()?;
        let audit_interval = options.audit_interval();
        let events_kept = EventsKept {
            retention_ms: i64::try_from(options.events_retention_seconds * 1000)?,
            entries_max: options.events_max,
        };
        let watch_limits = WatchLimits { sales: options.metrics_sales_max, skus: options.metrics_skus_max };
        Ok(Self {
            main,
            ops,
            access,
            shared,
            draining,
            drain,
            audit_interval,
            events_kept,
            watch_limits,
            sender,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// Where probes and metrics are, if they have an address of their own.
    pub fn ops_address(&self) -> Option<SocketAddr> {
        self.ops.as_ref().map(|ops| ops.address)
    }

    /// Its port; useful where 0 was asked for.
    pub fn port(&self) -> u16 {
        self.main.address.port()
    }

    /// Serves until `stop`; then tells the world that it is unready, and finishes every request that it has begun.
    pub async fn run_until_stopped(self, stop: impl Future<Output = ()>) -> Result<()> {
        let handles = (self.main.server.handle(), self.ops.as_ref().map(|ops| ops.server.handle()));
        let sweeper =
            sweeper::run(Store::open(&self.shared)?, Arc::clone(&self.shared.metrics), self.events_kept);
        let redis_watch =
            redis_watch::run(Store::open(&self.shared)?, Arc::clone(&self.shared.metrics), self.watch_limits);
        let recovery_store = Store::open(&self.shared)?;
        let auditor_store = Store::open(&self.shared)?;
        let auditor = async {
            match self.audit_interval {
                Some(interval) => {
                    auditor::run(auditor_store, Arc::clone(&self.shared.metrics), interval).await
                }
                None => std::future::pending().await,
            }
        };
        let (stop_notifier, stopped) = tokio::sync::watch::channel(false);
        let notifier_store = Store::open(&self.shared)?;
        let mut notifier = pin!(notifier::run(notifier_store, &self.shared, self.sender, stopped));
        let mut server = pin!(self.main.server);
        let mut ops = pin!(async {
            match self.ops {
                Some(ops) => ops.server.await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            ended = &mut server => return ended.context("the server failed"),
            ended = &mut ops => return ended.context("the server of probes and metrics failed"),
            () = keep_up(&self.shared.metrics) => {} // never ends
            () = sweeper => {} // nor does this
            () = redis_watch => {}
            () = recovery::run(recovery_store) => {}
            () = auditor => {}
            () = &mut notifier => {}
            () = live::run(&self.shared) => {} // nor this
            () = watch::run(&self.shared) => {} // nor this
            never = key_watch::run(self.access.keys()) => match never {},
            () = stop => {}
        }
        self.draining.begin();
        tracing::info!(
            drain_seconds = self.drain.as_secs(),
            "Stopping: unready, requests in flight are finished"
        );
        let (handle, ops_handle) = handles;
        let stopping = async {
            tokio::time::sleep(unready(self.drain)).await;
            handle.stop(true).await;
        };
        // A message that is still on its way then is sent again by another process, with the same id.
        stop_notifier.send_replace(true);
        let finishing = tokio::time::timeout(self.drain, notifier);
        let stopped = tokio::select! {
            (ended, (), _) = async { tokio::join!(server, stopping, finishing) } => ended,
            ended = &mut ops => ended,
        };
        stopped.context("the server failed while stopping")?;
        // Last: until now it has told that the process is stopping.
        if let Some(handle) = ops_handle {
            let (ended, ()) = tokio::join!(ops, handle.stop(false));
            ended.context("the server of probes and metrics failed while stopping")?;
        }
        tracing::info!("Stopped");
        Ok(())
    }
}

/// The servers that decide about locks that belong to no sale. The Redis that has the stock is not one of them: it keeps
/// its own record of each lock, under the same name.
pub fn lock_nodes(options: &Options, url: &str) -> Result<Arc<[String]>> {
    let nodes: Vec<String> =
        options.lock_nodes.iter().flat_map(LockNodes::expose).map(str::to_owned).collect();
    if nodes.iter().any(|node| node == url) {
        bail!("--lock-nodes names the Redis that has the stock: take servers that do nothing else");
    }
    Ok(nodes.into())
}

/// Where Redis is, as the options say, or `url` of the private one.
/// Errors where the options ask for replicas that the URL cannot name.
pub fn pool_config(options: &Options, url: String) -> Result<PoolConfig> {
    let names_replicas = ["+sentinel://", "+cluster://"].iter().any(|kind| url.contains(kind));
    if options.read_from == ReadFrom::Replica && !names_replicas {
        bail!("--read-from replica needs a --redis-url of Sentinels or of a cluster");
    }
    if options.durability == Durability::Replicated && options.redis_url.is_none() {
        bail!("--durability replicated needs a --redis-url: the private Redis has no replica");
    }
    Ok(PoolConfig {
        url,
        size: options.pool_size,
        response_timeout: options.redis_timeout(),
        wait_timeout: POOL_WAIT.min(options.redis_timeout()),
        reads_replicas: options.read_from == ReadFrom::Replica,
        replica_timeout: (options.durability == Durability::Replicated).then(|| options.redis_timeout() / 2),
    })
}

/// Where webhooks may go. Whoever reaches a loopback listener without keys is on this machine already.
fn egress(options: &Options, access: &Access) -> Egress {
    let loopback = options.listen.ip().is_loopback() && access.keys().is_none();
    Egress { loopback, private: options.webhook_allow_private }
}

/// How long the process is unready before it stops accepting.
fn unready(drain: Duration) -> Duration {
    drain / UNREADY_SHARE
}

async fn keep_up(metrics: &Metrics) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        ticks.tick().await;
        metrics.upkeep();
    }
}

/// Comes when the process is told to stop, by SIGTERM or Ctrl-C.
pub fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Succeeds if the service is ready; `listen` is where its probes are.
pub fn healthcheck(listen: SocketAddr) -> Result<()> {
    let address = SocketAddr::new(reachable(listen.ip()), listen.port());
    let mut stream = TcpStream::connect_timeout(&address, HEALTHCHECK_DEADLINE)
        .with_context(|| format!("nothing listens on {address}"))?;
    stream.set_read_timeout(Some(HEALTHCHECK_DEADLINE))?;
    stream.write_all(
        format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).context("no answer")?;
    if &answer != b"HTTP/1.1 200" {
        bail!("not ready: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

/// An address that stands for all is reached at its loopback.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}
