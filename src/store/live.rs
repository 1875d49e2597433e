//! Live events: one reader a process follows the streams of sales, and any number of listeners hear it.
//!
//! The reader keeps a connection of its own for up to `SALES_A_LANE` sales (a *lane*) and blocks in XREAD. What it reads
//! is written as frames once, and every listener gets the same bytes through a bounded channel of its sale. A listener
//! that joins, or that was too slow for its channel, reads the stream itself until it has caught up: by its own place,
//! so nothing is left out and nothing comes twice (`docs/adr/0011-one-reader-many-listeners.md`).

mod follower;
mod lane;

pub use follower::Follower;

use super::events::{EntryId, Feed, Place};
use super::health::read_info;
use super::keys::SaleKeys;
use super::pool::Pool;
use super::{Shared, Store, StoreError};
use crate::domain::SaleId;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lane::Lane;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, Semaphore, broadcast, mpsc};

/// Sales that one connection follows: each event makes the reader name all of them again.
const SALES_A_LANE: usize = 64;
/// A cluster takes only keys of one slot in one call, and two sales rarely share one.
const SALES_A_LANE_IN_CLUSTER: usize = 1;
/// Entries that a listener may lie behind the reader before it has to read for itself.
const ENTRIES_BEHIND_MAX: usize = 64;
/// Listeners that read for themselves at the same time: a crowd that comes back must leave connections to the takes.
const CATCHING_UP_MAX: usize = 4;

/// The events of one entry, as every listener sends them.
#[derive(Debug, Clone)]
struct LiveEntry {
    /// Behind its last event.
    place: Place,
    frames: Bytes,
    /// Nothing comes after it.
    is_last: bool,
}

/// Who listens to what.
#[derive(Debug)]
pub struct Hub {
    /// Lanes with a sale in them.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Lanes that the reader does not know yet.
    begun: mpsc::UnboundedSender<Arc<Lane>>,
    to_read: Mutex<Option<mpsc::UnboundedReceiver<Arc<Lane>>>>,
    sales_a_lane: OnceCell<usize>,
    catching_up: Semaphore,
}

impl Default for Hub {
    fn default() -> Self {
        let (begun, to_read) = mpsc::unbounded_channel();
        Self {
            lanes: Mutex::default(),
            begun,
            to_read: Mutex::new(Some(to_read)),
            sales_a_lane: OnceCell::new(),
            catching_up: Semaphore::new(CATCHING_UP_MAX),
        }
    }
}

/// The place of a listener at its sale. When the last one goes, the sale is no longer read.
#[derive(Debug)]
struct Seat {
    lane: Arc<Lane>,
    feed: Arc<Feed>,
    /// How far the reader had come.
    read_to: EntryId,
    /// None only while it is dropped.
    receiver: Option<broadcast::Receiver<LiveEntry>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.receiver = None;
        self.lane.leave(&self.feed.sale);
    }
}

impl Hub {
    /// Hears the reader from now on. If nobody followed the sale, the reader begins behind `place`.
    fn join(&self, feed: &Arc<Feed>, place: EntryId) -> Seat {
        let room = self.sales_a_lane.get().copied().unwrap_or(SALES_A_LANE_IN_CLUSTER);
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = lanes.iter().find(|lane| lane.has(&feed.sale));
        let lane = match is_there.or_else(|| lanes.iter().find(|lane| lane.len() < room)) {
            Some(lane) => Arc::clone(lane),
            None => {
                let lane = Arc::new(Lane::default());
                lanes.push(Arc::clone(&lane));
                // Fails when the process stops, which ends every stream anyway.
                let _ = self.begun.send(Arc::clone(&lane));
                lane
            }
        };
        let (read_to, receiver) = lane.join(feed, place);
        Seat { lane, feed: Arc::clone(feed), read_to, receiver: Some(receiver) }
    }

    /// Takes a lane without sales out: nobody can join it any more.
    fn has_ended(&self, lane: &Arc<Lane>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_empty = lane.len() == 0;
        if is_empty {
            lanes.retain(|other| !Arc::ptr_eq(lane, other));
        }
        is_empty
    }
}

/// Reads for all listeners of a process, until it is dropped; once a process.
pub async fn run(shared: &Shared) {
    let hub = &shared.live;
    let to_read = hub.to_read.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(mut to_read), Ok(pool)) = (to_read, Pool::open(&shared.config, &shared.metrics)) else {
        return std::future::pending().await;
    };
    let mut lanes = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(lane) = to_read.recv() => lanes.push(lane::read(hub, lane, &pool, &shared.metrics)),
            Some(()) = lanes.next() => {}
        }
    }
}

impl Store {
    /// Whether the reader's command is allowed.
    pub(super) async fn try_reading_live(&self, sale: &SaleId) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("XREAD");
        cmd.arg("COUNT").arg(1).arg("STREAMS").arg(SaleKeys::new(sale).events()).arg("0-0");
        self.query(&cmd).await.map(drop)
    }

    async fn learn_sales_a_lane(&self) -> Result<(), StoreError> {
        self.streams_a_connection().await.map(drop)
    }

    /// How many streams one connection can follow on this server.
    pub async fn streams_a_connection(&self) -> Result<usize, StoreError> {
        let learn = async {
            let mut cmd = redis::cmd("INFO");
            cmd.arg("server");
            let info = read_info(self.query(&cmd).await?)?;
            let is_cluster = info.get("redis_mode").is_some_and(|mode| mode == "cluster");
            Ok(if is_cluster { SALES_A_LANE_IN_CLUSTER } else { SALES_A_LANE })
        };
        self.live.sales_a_lane.get_or_try_init(|| learn).await.copied()
    }
}
