//! Why a call about a barrier was refused.

use super::Barrier;
use crate::domain::id::Participant;

/// Nothing changed, but for a deadline that had come.
#[derive(Debug, Clone, PartialEq)]
pub enum BarrierRefusal {
    /// No such barrier.
    Unknown,
    /// There is a barrier of this name that waits for something else.
    Exists(Box<Barrier>),
    /// The barrier has ended.
    Ended(Box<Barrier>),
    /// Everybody whom the barrier waits for is known, and this one is nobody of them.
    UnknownParticipant {
        /// The name.
        participant: Participant,
        /// Where the request says it.
        field: &'static str,
    },
    /// The barrier has all the participants that one can have.
    TooManyParticipants,
    /// Nobody is known yet: there is no number to seal with.
    NothingDeclared,
    /// More participants are known than the seal has.
    TooManyArrivals {
        /// How many are known.
        declared: u64,
    },
    /// It is settled how many the barrier waits for.
    AlreadySealed {
        /// How many.
        expected: u64,
    },
    /// A barrier of mode `count` keeps no names.
    NamesNotKept {
        /// What asked for them.
        field: &'static str,
    },
}

impl BarrierRefusal {
    /// The word: `code` of the problem, `Stockade-Outcome`, label `outcome`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_barrier",
            Self::Exists(_) => "barrier_exists",
            Self::Ended(_) => "barrier_ended",
            Self::UnknownParticipant { .. } => "unknown_participant",
            Self::TooManyParticipants => "too_many_participants",
            Self::NothingDeclared => "nothing_declared",
            Self::TooManyArrivals { .. } => "too_many_arrivals",
            Self::AlreadySealed { .. } => "already_sealed",
            Self::NamesNotKept { .. } => "names_not_kept",
        }
    }
}
