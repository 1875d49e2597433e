//! What a purchase needs, and the crowd that purchases.

use crate::buy::Strategy;
use crate::redlock::Redlock;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stockade::domain::SaleId;
use stockade::store::Store;
use tokio::sync::{Barrier, Mutex};
use tokio::time::sleep;

/// A lease, and what a call outside takes when it is slow: more than the lease, as it sometimes is everywhere.
pub const LEASE_MS: u64 = 100;
const SLOW_MS: u64 = 400;
const WORK_US: std::ops::Range<u64> = 500..1500;
/// Longest pause before the next try to lock, in milliseconds; pauses grow up to it.
const PAUSE_MS_MAX: u64 = 64;

/// One who wants a unit. His number decides how long his work takes, so it is the same in all strategies.
pub struct Buyer {
    number: u32,
    work: Duration,
    extra: Duration,
}

impl std::fmt::Display for Buyer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}

impl Buyer {
    fn new(number: u32, crowd: &Crowd) -> Self {
        let mut rng = StdRng::seed_from_u64(crowd.seed ^ (u64::from(number) << 32));
        let is_slow = number % crowd.slow_every == crowd.slow_every / 2;
        let extra = Duration::from_millis(if is_slow { SLOW_MS } else { 0 });
        Self { number, work: Duration::from_micros(rng.random_range(WORK_US)), extra }
    }

    /// Prices, a check for fraud, a payment: what a shop computes elsewhere before it sells. It is slow for some, and then
    /// only at the first try.
    pub async fn work(&mut self) {
        sleep(self.work + std::mem::take(&mut self.extra)).await;
    }
}

/// What one task has.
pub struct Till {
    /// To the server that has the stock.
    pub connection: MultiplexedConnection,
    /// All tasks of this process share it.
    pub mutex: Arc<Mutex<()>>,
    /// To the servers that have the lock of f.
    pub redlock: Redlock,
    /// Stockade's.
    pub store: Store,
    /// What it sells there.
    pub sale: SaleId,
    /// Tries that came to nothing.
    pub retries: u64,
    /// Of the pauses.
    pub rng: StdRng,
    /// The next one's longest, in milliseconds.
    pub pause_ms: u64,
}

/// A command from its words, which have no spaces.
fn typed(command: &str) -> Cmd {
    let mut cmd = Cmd::new();
    command.split(' ').for_each(|word| {
        cmd.arg(word);
    });
    cmd
}

impl Till {
    /// One command, as one types it.
    pub async fn redis<T: FromRedisValue>(&mut self, command: &str) -> Result<T> {
        let answer = typed(command).query_async(&mut self.connection).await;
        answer.with_context(|| command.to_owned())
    }

    /// One that is answered OK, or nil when its condition does not hold.
    pub async fn is_ok(&mut self, command: &str) -> Result<bool> {
        Ok(self.redis::<Option<String>>(command).await?.is_some())
    }

    /// One in MULTI and EXEC; false when a watched key was written.
    pub async fn exec(&mut self, command: &str) -> Result<bool> {
        let mut transaction = redis::pipe();
        transaction.atomic().add_command(typed(command));
        let answer: Option<(String,)> = transaction.query_async(&mut self.connection).await?;
        Ok(answer.is_some())
    }

    /// After a try that came to nothing.
    pub async fn pause(&mut self) {
        self.retries += 1;
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MS_MAX);
        sleep(Duration::from_millis(self.rng.random_range(1..=self.pause_ms))).await;
    }
}

/// Who comes.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// Numbers of the buyers: from `first` on, each `step`th below `end`.
    pub first: u32,
    /// See `first`.
    pub step: u32,
    /// See `first`.
    pub end: u32,
    /// What the buyers' work follows from.
    pub seed: u64,
    /// One of so many is slow.
    pub slow_every: u32,
}

/// A receipt: when it was given after the doors had opened, and how long its buyer had waited.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Receipt {
    /// Microseconds.
    pub at_us: u64,
    /// Microseconds.
    pub took_us: u64,
}

/// What became of a crowd.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Of all who were told that a unit is theirs.
    pub receipts: Vec<Receipt>,
    /// Tries that came to nothing.
    pub retries: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.receipts.extend(other.receipts);
        self.retries += other.retries;
    }
}

/// Opens the doors: all tills serve at the same time, each one buyer after the other.
pub async fn serve(strategy: Strategy, tills: Vec<Till>, crowd: Crowd) -> Result<Tally> {
    let doors = Arc::new(Barrier::new(tills.len() + 1));
    let next = Arc::new(AtomicU32::new(crowd.first));
    let tasks: Vec<_> = tills
        .into_iter()
        .map(|mut till| {
            let (doors, next) = (Arc::clone(&doors), Arc::clone(&next));
            tokio::spawn(async move {
                doors.wait().await;
                let mut receipts = Vec::new();
                loop {
                    let number = next.fetch_add(crowd.step, Ordering::Relaxed);
                    if number >= crowd.end {
                        return anyhow::Ok((receipts, till.retries));
                    }
                    let (begun, mut buyer) = (Instant::now(), Buyer::new(number, &crowd));
                    till.pause_ms = 1;
                    if strategy.buy(&mut till, &mut buyer).await? {
                        receipts.push((begun, Instant::now()));
                    }
                }
            })
        })
        .collect();
    doors.wait().await;
    let opened = Instant::now();
    let us = |from: Instant, to: Instant| to.saturating_duration_since(from).as_micros() as u64;
    let mut tally = Tally::default();
    for task in tasks {
        let (receipts, retries) = task.await??;
        let receipts =
            receipts.into_iter().map(|(begun, at)| Receipt { at_us: us(opened, at), took_us: us(begun, at) });
        tally.add(Tally { receipts: receipts.collect(), retries });
    }
    Ok(tally)
}
