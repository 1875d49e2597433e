//! What a refusal says to people.

use super::{Code, barriers, locks, orders};
use crate::domain::{Refusal, Shortfall};
use std::fmt;

/// A refusal in a sentence, for people; programs read `code` and the members.
pub(super) struct Detail<'a>(pub(super) &'a Refusal);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Refusal::UnknownSku(sku) => write!(f, "The sale has no SKU {sku}."),
            Refusal::SaleNotOpen { opens_at: Some(opens_at) } => write!(f, "The sale opens at {opens_at}."),
            Refusal::SaleNotEmpty { held, sold } => write!(f, "{held} units are held and {sold} sold."),
            Refusal::StockExists { sku, initial } => write!(f, "{sku} began with {initial} units."),
            Refusal::HoldTooLong { extendable_until } => {
                write!(f, "The hold cannot last longer than until {extendable_until}.")
            }
            Refusal::BuyerHolds { limit, held, .. } => {
                write!(f, "The buyer has {held} open holds; {limit} are allowed.")
            }
            Refusal::BuyerLimit { sku, limit, counted, requested } => {
                write!(f, "The buyer has {counted} units and asked for {requested}; {limit} are allowed")?;
                sku.iter().try_for_each(|sku| write!(f, " of {sku}"))?;
                f.write_str(".")
            }
            Refusal::SoldOut { shortfalls, .. } => match shortfalls.as_slice() {
                [] => f.write_str("Not enough units are left."),
                [Shortfall { sku, requested, available, .. }, others @ ..] => {
                    write!(f, "{available} of {requested} units of {sku} are available")?;
                    if !others.is_empty() {
                        write!(f, ", and {} more lines fall short", others.len())?;
                    }
                    f.write_str(".")
                }
            },
            Refusal::QuantityExceedsReservation(_) => {
                f.write_str("The lines ask for more units, or for other SKUs, than the reservation has left.")
            }
            Refusal::InsufficientAvailable(level) => {
                write!(f, "{} units of {} are available.", level.available, level.sku)
            }
            Refusal::Barrier(refusal) => barriers::detail(refusal, f),
            Refusal::Lock(refusal) => locks::detail(refusal, f),
            Refusal::Order(refusal) => orders::detail(refusal, f),
            Refusal::GrantedChanged(level) => write!(f, "{} has {} units granted.", level.sku, level.granted),
            refusal => write!(f, "{}.", Code::from(refusal).title()),
        }
    }
}
