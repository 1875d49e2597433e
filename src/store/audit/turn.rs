//! The background audit: one process at a time has the turn, and all know what was found last.

use super::PAGE_MAX;
use crate::store::keys::{AUDIT, AUDIT_TURN};
use crate::store::{Store, StoreError, ids, reply};
use redis::Value;
use std::time::{Duration, Instant};

/// Entries of a page of an audit that rests.
const SLOW_PAGE_MAX: usize = 100;

/// What the last audit of all sales has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastAudit {
    /// Things that are wrong.
    pub violations: u64,
    /// When it ended, by Redis's clock, in ms; 0: there was none.
    pub finished_at_ms: u64,
}

impl Store {
    /// The same store, whose audits rest after each page, nineteen times as long as the page took: a twentieth of the
    /// time of one connection is theirs.
    pub fn auditing_slowly(&self) -> Self {
        Self { audit_rests: 19, ..self.clone() }
    }

    /// Entries of a page of the audit: a slow one keeps others waiting for less.
    pub(super) fn audit_page(&self) -> usize {
        if self.audit_rests > 0 { SLOW_PAGE_MAX } else { PAGE_MAX }
    }

    /// Rests after a page that was begun then.
    pub(super) async fn audit_rest(&self, begun: Instant) {
        if self.audit_rests > 0 {
            tokio::time::sleep(begun.elapsed() * self.audit_rests).await;
        }
    }

    /// Takes the turn for so long; false while somebody has it, or has had it within that time.
    pub async fn take_audit_turn(&self, ttl: Duration) -> Result<bool, StoreError> {
        let mut cmd = redis::cmd("SET");
        cmd.arg(AUDIT_TURN).arg(ids::random_hex::<8>()).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        Ok(self.query(&cmd).await? != Value::Nil)
    }

    /// Keeps the turn for so long from now on. That it may be another's by now does no harm: then both audit.
    pub async fn keep_audit_turn(&self, ttl: Duration) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("SET");
        cmd.arg(AUDIT_TURN).arg(ids::random_hex::<8>()).arg("XX").arg("PX").arg(ttl.as_millis() as u64);
        self.query(&cmd).await.map(drop)
    }

    /// Tells all processes what was found.
    pub async fn tell_audit(&self, violations: u64) -> Result<(), StoreError> {
        let time: (u64, u64) = redis::from_redis_value(self.query(&redis::cmd("TIME")).await?)
            .map_err(|error| StoreError::Reply(error.to_string()))?;
        let mut cmd = redis::cmd("HSET");
        cmd.arg(AUDIT).arg("violations").arg(violations);
        cmd.arg("finished_at_ms").arg(time.0 * 1_000 + time.1 / 1_000);
        self.query(&cmd).await.map(drop)
    }

    /// What was found last.
    pub async fn last_audit(&self) -> Result<LastAudit, StoreError> {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(AUDIT).arg("violations").arg("finished_at_ms");
        Ok(match &crate::store::stock::hash_values(self.query(&cmd).await?)?[..] {
            [Some(violations), Some(finished_at)] => LastAudit {
                violations: reply::number(violations)?,
                finished_at_ms: reply::number(finished_at)?,
            },
            _ => LastAudit::default(),
        })
    }
}
