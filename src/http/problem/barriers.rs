//! Refusals of calls about barriers, as problems.

use super::Code;
use crate::domain::BarrierRefusal;
use serde::ser::SerializeMap;
use std::fmt;

/// The field that is wrong.
pub fn field(refusal: &BarrierRefusal) -> Option<&'static str> {
    match refusal {
        BarrierRefusal::NothingDeclared => Some("/expected"),
        BarrierRefusal::UnknownParticipant { field, .. } | BarrierRefusal::NamesNotKept { field } => {
            Some(field)
        }
        _ => None,
    }
}

/// What only this kind of refusal has to say.
pub fn extension_members<M: SerializeMap>(refusal: &BarrierRefusal, map: &mut M) -> Result<(), M::Error> {
    match refusal {
        BarrierRefusal::Exists(barrier) | BarrierRefusal::Ended(barrier) => {
            map.serialize_entry("barrier", barrier)
        }
        BarrierRefusal::TooManyArrivals { declared } => map.serialize_entry("declared", declared),
        BarrierRefusal::AlreadySealed { expected } => map.serialize_entry("expected", expected),
        _ => Ok(()),
    }
}

/// The refusal in a sentence.
pub fn detail(refusal: &BarrierRefusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        BarrierRefusal::Ended(barrier) => write!(f, "The barrier is {}.", barrier.status.as_str()),
        BarrierRefusal::UnknownParticipant { participant, .. } => {
            write!(f, "The barrier does not wait for {participant}.")
        }
        BarrierRefusal::TooManyArrivals { declared } => write!(f, "{declared} participants are known."),
        BarrierRefusal::AlreadySealed { expected } => write!(f, "It waits for {expected} participants."),
        refusal => write!(f, "{}.", Code::from(refusal).title()),
    }
}

impl From<&BarrierRefusal> for Code {
    fn from(refusal: &BarrierRefusal) -> Self {
        match refusal {
            BarrierRefusal::Unknown => Self::UnknownBarrier,
            BarrierRefusal::Exists(_) => Self::BarrierExists,
            BarrierRefusal::Ended(_) => Self::BarrierEnded,
            BarrierRefusal::UnknownParticipant { .. } => Self::UnknownParticipant,
            BarrierRefusal::TooManyParticipants => Self::TooManyParticipants,
            BarrierRefusal::NothingDeclared => Self::NothingDeclared,
            BarrierRefusal::TooManyArrivals { .. } => Self::TooManyArrivals,
            BarrierRefusal::AlreadySealed { .. } => Self::AlreadySealed,
            BarrierRefusal::NamesNotKept { .. } => Self::NamesNotKept,
        }
    }
}
