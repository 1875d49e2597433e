//! Stands between a store and its Redis, and loses what it is told to lose.

use crate::redis_server::RedisServer;
use crate::support::shared_on;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade::store::{PoolConfig, Shared};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// How bytes travel, either way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Travel {
    /// In writes of so many bytes; 0: as they come.
    pub chunk: usize,
    /// Each write so much later.
    pub delay: Duration,
}

/// On which side of a request everything stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It is not forwarded.
    Before,
    /// It was carried out, and its answer is kept back.
    After,
}

/// Stands still at one request among those that hold one of the markers.
struct Halt {
    markers: &'static [&'static str],
    nth: usize,
    side: Side,
    seen: usize,
}

/// A Unix socket that leads to a server.
pub struct Proxy {
    dir: TempDir,
    wire: Arc<Wire>,
}

struct Wire {
    server: PathBuf,
    /// The answer to the next request that holds these bytes is lost, and its connection with it.
    lose: Mutex<Option<Vec<u8>>>,
    /// The next request that holds these bytes goes no further than to them, and its connection ends.
    cut: Mutex<Option<Vec<u8>>>,
    lost: AtomicUsize,
    travel: Mutex<Travel>,
    halt: Mutex<Option<Halt>>,
    /// Whether it stands still.
    is_halted: watch::Sender<bool>,
    /// What becomes of what was kept back: forwarded, or dropped.
    go_on: watch::Sender<Option<bool>>,
}

impl Proxy {
    pub fn before(server: &RedisServer) -> Self {
        let path = PathBuf::from(server.url().trim_start_matches("unix://"));
        let dir = tempfile::Builder::new().prefix("stockade-proxy-").tempdir().expect("a temporary folder");
        let listener = UnixListener::bind(dir.path().join("proxy.sock")).expect("a socket");
        let (lose, lost, travel) = (Mutex::default(), AtomicUsize::default(), Mutex::default());
        let (halt, is_halted, go_on) =
            (Mutex::default(), watch::Sender::new(false), watch::Sender::new(None));
        let wire = Wire { server: path, lose, cut: Mutex::default(), lost, travel, halt, is_halted, go_on };
        let wire = Arc::new(wire);
        let serving = Arc::clone(&wire);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(client));
            }
        });
        Self { dir, wire }
    }

    /// For a store behind it, on the clock of `shared`.
    pub fn shared(&self, shared: &Shared) -> Shared {
        let url = self.url();
        Shared { config: PoolConfig { url, ..shared.config.clone() }, ..shared.clone() }
    }

    /// Forwards the next request that holds `marker`, and cuts before its answer.
    pub fn lose_answer_to(&self, marker: &str) {
        *self.wire.lose.lock().unwrap() = Some(marker.as_bytes().to_vec());
    }

    /// Forwards the next request that holds `marker` up to there, and cuts.
    pub fn cut_before(&self, marker: &str) {
        *self.wire.cut.lock().unwrap() = Some(marker.as_bytes().to_vec());
    }

    /// As `unix://`.
    pub fn url(&self) -> String {
        format!("unix://{}", self.dir.path().join("proxy.sock").display())
    }

    /// Stands still at the nth request from now on, counted from 1, that holds one of `markers`.
    pub fn halt_at(&self, markers: &'static [&'static str], nth: usize, side: Side) {
        self.wire.is_halted.send_replace(false);
        self.wire.go_on.send_replace(None);
        *self.wire.halt.lock().unwrap() = Some(Halt { markers, nth, side, seen: 0 });
    }

    /// Comes when it stands still.
    pub async fn halted(&self) {
        let mut halted = self.wire.is_halted.subscribe();
        halted.wait_for(|halted| *halted).await.unwrap();
    }

    /// What was kept back travels on, or is lost with its connection.
    pub fn go_on(&self, forward: bool) {
        self.wire.go_on.send_replace(Some(forward));
    }

    /// How many answers were lost.
    pub fn lost(&self) -> usize {
        self.wire.lost.load(Ordering::SeqCst)
    }

    pub fn travel(&self, travel: Travel) {
        *self.wire.travel.lock().unwrap() = travel;
    }
}

impl Wire {
    async fn serve(self: Arc<Self>, client: UnixStream) {
        let Ok(server) = UnixStream::connect(&self.server).await else { return };
        let (client_read, client_write) = client.into_split();
        let (server_read, server_write) = server.into_split();
        let (doom, doomed) = watch::channel(false);
        let keep_back = AtomicBool::new(false);
        // Whichever ends first takes the other, and with them both connections.
        tokio::select! {
            () = self.requests(client_read, server_write, doom, &keep_back) => {}
            () = self.answers(server_read, client_write, doomed, &keep_back) => {}
        }
    }

    /// On which side of this request to stand still, if it is the one.
    fn meets(&self, bytes: &[u8]) -> Option<Side> {
        let mut halt = self.halt.lock().unwrap();
        let halt = halt.as_mut()?;
        let holds = |marker: &&str| bytes.windows(marker.len()).any(|window| window == marker.as_bytes());
        if !halt.markers.iter().any(holds) {
            return None;
        }
        halt.seen += 1;
        (halt.seen == halt.nth).then_some(halt.side)
    }

    /// Stands still, and says whether to forward then.
    async fn stand_still(&self) -> bool {
        self.is_halted.send_replace(true);
        let mut go_on = self.go_on.subscribe();
        go_on.wait_for(Option::is_some).await.is_ok_and(|forward| *forward == Some(true))
    }

    async fn requests(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        doom: watch::Sender<bool>,
        keep_back: &AtomicBool,
    ) {
        let (mut bytes, mut recent) = (vec![0; 64 * 1024], Vec::new());
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            recent.extend_from_slice(&bytes[..count]);
            {
                let mut lose = self.lose.lock().unwrap();
                if lose
                    .as_ref()
                    .is_some_and(|marker| recent.windows(marker.len()).any(|window| window == marker))
                {
                    *lose = None;
                    doom.send_replace(true);
                }
                if lose.is_none() {
                    recent.clear(); // a later marker is not to be found in an earlier request
                }
            }
            if let Some(at) = self.cut_at(&bytes[..count]) {
                let _ = self.forward(&bytes[..at], &mut to).await;
                self.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
            match self.meets(&bytes[..count]) {
                Some(Side::Before) if !self.stand_still().await => return,
                Some(Side::After) => keep_back.store(true, Ordering::SeqCst),
                _ => {}
            }
            recent.drain(..recent.len().saturating_sub(100));
            if self.forward(&bytes[..count], &mut to).await.is_err() {
                return;
            }
        }
    }

    /// Where these bytes are to be cut, if they are: markers come in one piece here.
    fn cut_at(&self, bytes: &[u8]) -> Option<usize> {
        let mut cut = self.cut.lock().unwrap();
        let marker = cut.as_ref()?;
        let at = bytes.windows(marker.len()).position(|window| window == marker)?;
        *cut = None;
        Some(at)
    }

    async fn answers(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        doomed: watch::Receiver<bool>,
        keep_back: &AtomicBool,
    ) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            if *doomed.borrow() {
                self.lost.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if keep_back.swap(false, Ordering::SeqCst) && !self.stand_still().await {
                return;
            }
            if self.forward(&bytes[..count], &mut to).await.is_err() {
                return;
            }
        }
    }

    async fn forward(&self, bytes: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        let Travel { chunk, delay } = *self.travel.lock().unwrap();
        for part in bytes.chunks(if chunk == 0 { bytes.len().max(1) } else { chunk }) {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            to.write_all(part).await?;
            to.flush().await?;
        }
        Ok(())
    }
}

/// A store's answer may take this long before it is unknown.
pub fn with_timeouts(server: &RedisServer, response: Duration, wait: Duration) -> Shared {
    let shared = shared_on(server);
    let config = PoolConfig { response_timeout: response, wait_timeout: wait, ..shared.config.clone() };
    Shared { config, ..shared }
}
