//! The eight ways to buy one unit. Each answers whether the buyer was told that it is his.
//!
//! The commands are those that one would type into `redis-cli`. A purchase writes the counter and the buyer's order with
//! one MSET, so that they never differ; g and h write what a reservation is.

use crate::redlock;
use crate::till::{Buyer, LEASE_MS, Till};
use anyhow::{Result, bail};
use clap::ValueEnum;
use redis::Script;
use stockade::domain::{Caller, Decision, Outcome, Refusal, Reserve};
use uuid::Uuid;

/// What is compared, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Strategy {
    /// GET, then SET.
    A,
    /// A local mutex in each of two processes.
    B,
    /// A lock without owner, deleted in `finally`.
    C,
    /// WATCH, MULTI, EXEC, again until it fits.
    D,
    /// A lock with owner; the write compares him.
    E,
    /// Redlock over three servers; the write compares a fence.
    F,
    /// One script a purchase.
    G,
    /// Group commit.
    H,
}

impl Strategy {
    /// Its row.
    pub fn title(self) -> &'static str {
        match self {
            Self::A => "a  GET, then SET",
            Self::B => "b  a local mutex, two processes",
            Self::C => "c  SET NX PX, DEL in `finally`",
            Self::D => "d  WATCH, MULTI, EXEC",
            Self::E => "e  lock with owner, checked write",
            Self::F => "f  Redlock, fenced write",
            Self::G => "g  one script a purchase",
            Self::H => "h  group commit",
        }
    }

    /// Whether it sells what is not there.
    pub fn oversells(self) -> bool {
        matches!(self, Self::A | Self::B | Self::C)
    }

    /// One purchase.
    pub async fn buy(self, till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
        match self {
            Self::A => get_then_set(till, buyer).await,
            Self::B => local_mutex(till, buyer).await,
            Self::C => lock_without_owner(till, buyer).await,
            Self::D => watch(till, buyer).await,
            Self::E => lock_with_owner(till, buyer).await,
            Self::F => redlock(till, buyer).await,
            Self::G | Self::H => script(till, buyer).await,
        }
    }
}

/// Between GET and SET others read the same number, and sell the same unit.
async fn get_then_set(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    let left: i64 = till.redis("GET stock").await?;
    if left <= 0 {
        return Ok(false);
    }
    buyer.work().await;
    till.redis::<()>(&format!("MSET stock {} order:{buyer} 1", left - 1)).await?;
    Ok(true)
}

/// The other process has a mutex, too.
async fn local_mutex(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    let mutex = till.mutex.clone();
    let _turn = mutex.lock().await;
    get_then_set(till, buyer).await
}

/// Work that takes longer than the lease writes what it read before others sold. Then its DEL takes away the lock of
/// whoever has it by then, and the next two sell at the same time.
async fn lock_without_owner(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    while !till.is_ok(&format!("SET lock 1 NX PX {LEASE_MS}")).await? {
        till.pause().await;
    }
    let told = get_then_set(till, buyer).await;
    till.redis::<()>("DEL lock").await?; // finally
    told
}

/// EXEC does nothing if somebody has written since WATCH. Of all who work at the same time, one wins.
async fn watch(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    loop {
        till.redis::<()>("WATCH stock").await?;
        let left: i64 = till.redis("GET stock").await?;
        if left <= 0 {
            till.redis::<()>("UNWATCH").await?;
            return Ok(false);
        }
        buyer.work().await;
        if till.exec(&format!("MSET stock {} order:{buyer} 1", left - 1)).await? {
            return Ok(true);
        }
        till.retries += 1;
    }
}

/// Sells if the key still has this value: one script, so nothing comes between the comparison and the write.
const SELL_IF: &str = "#!lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('MSET', KEYS[2], ARGV[2], KEYS[3], 1)
return 1";

async fn sell_if(till: &mut Till, key: &str, value: &str, left: i64, buyer: &Buyer) -> Result<bool> {
    let script = Script::new(SELL_IF);
    let mut call = script.key(key);
    call.key("stock").key(format!("order:{buyer}")).arg(value).arg(left);
    Ok(call.invoke_async(&mut till.connection).await?)
}

/// The lock has an owner, who alone deletes it. That does not make it last: what makes this right is that the write
/// compares the token. Lock and stock must be on one server for that.
async fn lock_with_owner(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    loop {
        let token = Uuid::new_v4().to_string();
        while !till.is_ok(&format!("SET lock {token} NX PX {LEASE_MS}")).await? {
            till.pause().await;
        }
        let left: i64 = till.redis("GET stock").await?;
        let mut sold = false;
        if left > 0 {
            buyer.work().await;
            sold = sell_if(till, "lock", &token, left - 1, buyer).await?;
        }
        redlock::delete_if(&mut till.connection, &token).await?;
        if sold || left <= 0 {
            return Ok(sold);
        }
        till.pause().await; // the lease ran out
    }
}

/// The lock is on three servers, of which one may fail, and the stock on a fourth that cannot ask them. So it counts the
/// holders itself: each takes a fence before it reads, and a write is refused once somebody has taken the next one.
async fn redlock(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    loop {
        let token = Uuid::new_v4().to_string();
        while !till.redlock.lock(&token, LEASE_MS).await {
            till.pause().await;
        }
        let fence: u64 = till.redis("INCR fence").await?;
        let left: i64 = till.redis("GET stock").await?;
        let mut sold = false;
        if left > 0 {
            buyer.work().await;
            sold = sell_if(till, "fence", &fence.to_string(), left - 1, buyer).await?;
        }
        till.redlock.unlock(&token).await;
        if sold || left <= 0 {
            return Ok(sold);
        }
        till.pause().await; // somebody else has come
    }
}

/// Nothing is read outside, so there is nothing to protect: the work comes first, and nobody waits for it. In g each task
/// has a store of its own, so each purchase is a script call of its own; in h they share one, and purchases that wait at
/// the same moment share a call.
async fn script(till: &mut Till, buyer: &mut Buyer) -> Result<bool> {
    buyer.work().await;
    let key = format!("key-{buyer}").parse().map_err(anyhow::Error::msg)?;
    let request: Reserve = serde_json::from_str(&format!(
        r#"{{"buyer": "buyer-{buyer}", "lines": [{{"sku": "hot", "quantity": 1}}]}}"#
    ))?;
    match till.store.reserve(&till.sale, &Caller::default(), Some(&key), request).await? {
        Decision::Done(Outcome::Held, _) => Ok(true),
        Decision::Refused(Refusal::SoldOut { .. }) => Ok(false),
        other => bail!("a purchase was answered {other:?}"),
    }
}
