//! Refusals of calls about locks, as problems.

use super::Code;
use crate::domain::LockRefusal;
use serde::ser::SerializeMap;
use std::fmt;

/// What only this kind of refusal has to say.
pub fn extension_members<M: SerializeMap>(refusal: &LockRefusal, map: &mut M) -> Result<(), M::Error> {
    match refusal {
        LockRefusal::Held { expires_at } => map.serialize_entry("expires_at", expires_at),
        LockRefusal::NotOwner | LockRefusal::Expired => Ok(()),
    }
}

/// The refusal in a sentence.
pub fn detail(refusal: &LockRefusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        LockRefusal::Held { expires_at } => write!(f, "Somebody else has it until {expires_at}."),
        refusal => write!(f, "{}.", Code::from(refusal).title()),
    }
}

impl From<&LockRefusal> for Code {
    fn from(refusal: &LockRefusal) -> Self {
        match refusal {
            LockRefusal::Held { .. } => Self::LockHeld,
            LockRefusal::NotOwner => Self::NotOwner,
            LockRefusal::Expired => Self::LockExpired,
        }
    }
}
