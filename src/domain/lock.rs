//! Locks: leases on names. A lock never protects stock by itself, the scripts do: it gives callers who compute outside
//! Redis their turn, and a fence that the script that writes compares.

use super::id::SaleId;
use super::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::ToSchema;

pub use super::id::{LockName, LockToken};

/// Shortest lease, in milliseconds.
pub const TTL_MS_MIN: u64 = 100;
/// Longest lease, in milliseconds: five minutes.
pub const TTL_MS_MAX: u64 = 300_000;
/// Longest wait for a lock, in milliseconds.
pub const WAIT_MS_MAX: u64 = 30_000;

/// Largest fence: Lua and JavaScript hold every whole number up to it exactly. Those given out are times of creation
/// in milliseconds, counted on: far below.
pub const FENCE_MAX: u64 = (1 << 53) - 1;

/// Fewest servers that locks can be spread over: of two a majority is both, so one more to lose makes nothing safer.
pub const LOCK_NODES_MIN: usize = 3;

/// Where a lock lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockPlace {
    /// By itself: its fence is compared by whatever the caller protects with it.
    Free,
    /// In a sale: its fence is compared by the scripts of that sale.
    Sale(SaleId),
}

impl LockPlace {
    /// The sale, if it is in one.
    pub fn sale(&self) -> Option<&SaleId> {
        match self {
            Self::Free => None,
            Self::Sale(sale) => Some(sale),
        }
    }
}

fn ttl_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(deserializer)?;
    if (TTL_MS_MIN..=TTL_MS_MAX).contains(&ms) {
        Ok(ms)
    } else {
        Err(de::Error::custom("must be an integer from 100 to 300000"))
    }
}

fn wait_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(deserializer)?;
    if ms <= WAIT_MS_MAX { Ok(ms) } else { Err(de::Error::custom("must be an integer from 0 to 30000")) }
}

fn fence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let fence = u64::deserialize(deserializer)?;
    if fence <= FENCE_MAX {
        Ok(fence)
    } else {
        Err(de::Error::custom("must be an integer from 0 to 9007199254740991"))
    }
}

/// Body of acquire.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireLock {
    /// How long the lease lasts unless it is renewed, in milliseconds.
    #[serde(deserialize_with = "ttl_ms")]
    #[schema(minimum = 100, maximum = 300000)]
    pub ttl_ms: u64,
    /// How long to wait while somebody else has it, in milliseconds; 0: not at all.
    #[serde(default, deserialize_with = "wait_ms")]
    #[schema(maximum = 30000)]
    pub wait_ms: u64,
}

/// Body of renew.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewLock {
    /// What acquire has answered.
    pub token: LockToken,
    /// The lease lasts so long from now on, in milliseconds.
    #[serde(deserialize_with = "ttl_ms")]
    #[schema(minimum = 100, maximum = 300000)]
    pub ttl_ms: u64,
}

/// Body of release.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLock {
    /// What acquire has answered.
    pub token: LockToken,
}

/// A lease, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lock {
    /// Its name.
    pub name: LockName,
    /// Its sale; null: it belongs to none.
    pub sale: Option<SaleId>,
    /// Proves that it is the caller's.
    pub token: LockToken,
    /// Larger than that of every lease before.
    pub fence: u64,
    /// The end of the lease.
    pub expires_at: Timestamp,
    /// The server's time of this answer.
    pub server_time: Timestamp,
}

/// A lock, as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LockState {
    /// Its name.
    pub name: LockName,
    /// Its sale; null: it belongs to none.
    pub sale: Option<SaleId>,
    /// Whether somebody has it.
    pub held: bool,
    /// Fence of the present lease; null: there is none.
    pub fence: Option<u64>,
    /// End of the present lease; null: there is none.
    pub expires_at: Option<Timestamp>,
    /// The server's time of this answer.
    pub server_time: Timestamp,
}

/// Makes a write depend on a lease of the same sale: it is refused unless the lock has this token and fence, and its
/// lease is not over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// Name of the lock.
    pub lock: LockName,
    /// What acquire has answered.
    pub token: LockToken,
    /// What acquire has answered.
    #[serde(deserialize_with = "fence")]
    #[schema(maximum = 9_007_199_254_740_991i64)]
    pub fence: u64,
}

/// Why a call about a lock was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockRefusal {
    /// Somebody else has it.
    Held {
        /// Until then, unless it is renewed or released.
        expires_at: Timestamp,
    },
    /// It is another one's.
    NotOwner,
    /// The lease is over: it ran out, or was released.
    Expired,
}

impl LockRefusal {
    /// The word: `code` of the problem, `Stockade-Outcome`, label `outcome`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held { .. } => "lock_held",
            Self::NotOwner => "not_owner",
            Self::Expired => "lock_expired",
        }
    }
}
