//! The three classes of outcome: applied (no error), not applied, unknown. Everything Redis can say is put into one
//! of them here, and nowhere else.

/// A call that was not answered by a script's decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing ran: safe to try again, with the same key. The word is the `code` of the problem.
    #[error("not applied: {0}")]
    NotApplied(&'static str),
    /// It may have run: try again with the same key.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// A record or key holds what no script wrote.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// A script and its caller disagree.
    #[error("reply: {0}")]
    Reply(String),
}

impl StoreError {
    /// The word: `code` of the problem, label `kind` of `redis_errors_total`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotApplied(code) => code,
            Self::Unknown(_) => "outcome_unknown",
            Self::Corrupt(_) => "corrupt",
            Self::Reply(_) => "internal",
        }
    }

    /// From the code and text of an error reply. With `#!lua` these refusals come before a script's first line.
    pub(super) fn from_reply(code: &str, detail: &str) -> Self {
        match code {
            "OOM" => Self::NotApplied("store_full"),
            "READONLY" | "NOREPLICAS" | "MISCONF" => Self::NotApplied("store_read_only"),
            "BUSY" => Self::NotApplied("store_busy"),
            "LOADING" | "MASTERDOWN" => Self::NotApplied("store_loading"),
            "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" => Self::NotApplied("slot_moving"),
            "NOPERM" | "NOAUTH" | "WRONGPASS" | "CROSSSLOT" => Self::NotApplied("store_unavailable"),
            // Redis adds where in which script.
            "CORRUPT" => Self::Corrupt(detail.split(" script:").next().unwrap_or_default().to_owned()),
            _ => Self::Reply(format!("{code} {detail}")),
        }
    }

    /// A connection that could not be made: nothing was sent.
    pub(super) fn unreachable() -> Self {
        Self::NotApplied("store_unavailable")
    }
}

impl From<redis::RedisError> for StoreError {
    fn from(error: redis::RedisError) -> Self {
        match error.code() {
            Some(code) => Self::from_reply(code, error.detail().unwrap_or_default()),
            None => Self::Unknown(error.to_string()),
        }
    }
}
