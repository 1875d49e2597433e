//! Refusals of calls about orders, as problems.

use super::Code;
use super::detail::Detail;
use crate::domain::OrderRefusal;
use serde::ser::SerializeMap;
use std::fmt;

/// The field that is wrong, where that is what it is about.
pub fn field(refusal: &OrderRefusal) -> Option<String> {
    match refusal {
        OrderRefusal::Line { line, .. } if Code::from(refusal).status() == 422 => {
            Some(format!("/lines/{line}"))
        }
        _ => None,
    }
}

/// What only this kind of refusal has to say.
pub fn extension_members<M: SerializeMap>(refusal: &OrderRefusal, map: &mut M) -> Result<(), M::Error> {
    match refusal {
        OrderRefusal::Unknown => Ok(()),
        OrderRefusal::AlreadyConfirmed(order)
        | OrderRefusal::AlreadyReleased(order)
        | OrderRefusal::Expired(order) => map.serialize_entry("order", order),
        OrderRefusal::Line { line, sale, refusal } => {
            map.serialize_entry("line", line)?;
            map.serialize_entry("sale", sale)?;
            super::extension_members(refusal, map)
        }
    }
}

/// The refusal in a sentence.
pub fn detail(refusal: &OrderRefusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        OrderRefusal::Unknown => write!(f, "{}.", Code::from(refusal).title()),
        OrderRefusal::AlreadyConfirmed(order)
        | OrderRefusal::AlreadyReleased(order)
        | OrderRefusal::Expired(order) => write!(f, "The order is {}.", order.status.as_str()),
        OrderRefusal::Line { line, sale, refusal } => {
            write!(f, "Line {line}, of the sale {sale}: {}", Detail(refusal))
        }
    }
}

impl From<&OrderRefusal> for Code {
    fn from(refusal: &OrderRefusal) -> Self {
        match refusal {
            OrderRefusal::Unknown => Self::UnknownOrder,
            OrderRefusal::AlreadyConfirmed(_) => Self::AlreadyConfirmed,
            OrderRefusal::AlreadyReleased(_) => Self::AlreadyReleased,
            OrderRefusal::Expired(_) => Self::HoldExpired,
            OrderRefusal::Line { refusal, .. } => (&**refusal).into(),
        }
    }
}
