//! Barriers: complete when all participants have arrived; then exactly one notification is sent.

mod refusal;
mod requests;
#[cfg(test)]
mod tests;

pub use refusal::BarrierRefusal;
pub use requests::*;

use super::id::{BarrierId, Participant, WebhookUrl};
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// What this word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}

words!(
    /// What a barrier keeps.
    BarrierMode {
        /// Who has arrived, when and how, and who is missing.
        Members "members",
        /// Numbers, and a mark of each arrival.
        Count "count",
    }
);

words!(
    /// Whether a barrier waits, or how it ended.
    BarrierStatus {
        /// It waits.
        Open "open",
        /// All have arrived.
        Completed "completed",
        /// More have failed than are tolerated.
        Failed "failed",
        /// The deadline came first.
        TimedOut "timed_out",
        /// Somebody deleted it.
        Cancelled "cancelled",
    }
);

words!(
    /// How a participant arrives.
    ArrivalOutcome {
        /// Its part is done.
        Completed "completed",
        /// It could not do its part.
        Failed "failed",
    }
);

words!(
    /// Which participants a list shows.
    ParticipantFilter {
        /// Declared, and not there yet; by name.
        Missing "missing",
        /// Those that are there; by time.
        Arrived "arrived",
        /// Of these, the failed ones.
        Failed "failed",
    }
);

/// One that hears of the barrier's end, as answers show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotifyTarget {
    /// Where the message goes.
    pub url: WebhookUrl,
    /// What its messages are signed with; only in the answer to PUT, otherwise null.
    pub secret: Option<String>,
}

/// A barrier as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Barrier {
    /// Its name.
    pub barrier: BarrierId,
    /// Whether it waits, or how it ended.
    pub status: BarrierStatus,
    /// What it keeps.
    pub mode: BarrierMode,
    /// Whether it is settled how many it waits for.
    pub sealed: bool,
    /// How many it waits for; null until it is sealed.
    pub expected: Option<u64>,
    /// Participants that are known: named, or arrived.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// Failures that do not end it; null: no number of them does.
    pub tolerated_failures: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// It times out then.
    pub deadline: Timestamp,
    /// When it ended; null while it waits.
    pub ended_at: Option<Timestamp>,
    /// It is kept so long after its end.
    pub retention_seconds: u64,
    /// Who is told of its end.
    pub notify: Vec<NotifyTarget>,
    /// The store's time when this was true.
    pub server_time: Timestamp,
}

/// What an arrival or a seal has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierProgress {
    /// The barrier.
    pub barrier: BarrierId,
    /// Whether it waits, or how it ended.
    pub status: BarrierStatus,
    /// Whether it was this very call that ended it: true for one call of a barrier, however often that is repeated.
    pub fired: bool,
    /// How many it waits for; null until it is sealed.
    pub expected: Option<u64>,
    /// Participants that are known.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// It times out then.
    pub deadline: Timestamp,
    /// When it ended; null while it waits.
    pub ended_at: Option<Timestamp>,
    /// The store's time.
    pub server_time: Timestamp,
}

impl BarrierProgress {
    /// Of a barrier as it is now.
    pub fn of(now: &Barrier, fired: bool) -> Self {
        Self {
            barrier: now.barrier.clone(),
            status: now.status,
            fired,
            expected: now.expected,
            declared: now.declared,
            completed: now.completed,
            failed: now.failed,
            deadline: now.deadline,
            ended_at: now.ended_at,
            server_time: now.server_time,
        }
    }
}

/// A participant of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierParticipant {
    /// Its name.
    pub participant: Participant,
    /// How it arrived; null: it is missing.
    pub outcome: Option<ArrivalOutcome>,
    /// What it said.
    pub note: Option<Note>,
    /// When it arrived first.
    pub arrived_at: Option<Timestamp>,
}

/// A participant that failed, as events show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailedParticipant {
    /// Its name.
    pub participant: Participant,
    /// What it said.
    pub note: Option<Note>,
}

/// `data` of an event of a barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierEnd {
    /// The barrier.
    pub barrier: BarrierId,
    /// How it ended.
    pub status: BarrierStatus,
    /// Its status before.
    pub previous_status: BarrierStatus,
    /// What it keeps.
    pub mode: BarrierMode,
    /// How many it waited for; null: it was never sealed.
    pub expected: Option<u64>,
    /// Participants that were known.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// Failures that would not have ended it.
    pub tolerated_failures: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it would have timed out.
    pub deadline: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The first 100 that failed.
    pub failed_participants: Vec<FailedParticipant>,
    /// The first 100 that were declared and had not arrived.
    pub missing: Vec<Participant>,
    /// Whether one of the two lists ends before all are named, as it does in mode `count`.
    pub truncated: bool,
    /// Where the missing ones are listed for as long as the barrier is kept; null in mode `count`.
    pub link: Option<String>,
}
