//! What a request does.

use crate::store::scripts::{Script, Scripts};

/// What is done; one script each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take units.
    Reserve,
    /// Take the deadline off those of an order.
    Pin,
    /// Sell them.
    Confirm,
    /// Give them back.
    Release,
    /// Move the deadline.
    Extend,
    /// Give sold ones back.
    Return,
    /// Give overdue ones back.
    Expire,
    /// Change the supply.
    Adjust,
    /// Forget old records.
    Archive,
}

impl Verb {
    /// Settling comes first, and is never shed in favour of taking. Order of the calls in a round.
    pub(super) const ORDER: [Verb; 9] = [
        Verb::Pin,
        Verb::Confirm,
        Verb::Return,
        Verb::Extend,
        Verb::Release,
        Verb::Expire,
        Verb::Adjust,
        Verb::Archive,
        Verb::Reserve,
    ];

    pub(super) fn script(self, scripts: &Scripts) -> &Script {
        match self {
            Verb::Reserve => &scripts.reserve,
            Verb::Pin => &scripts.pin,
            Verb::Confirm => &scripts.confirm,
            Verb::Release => &scripts.release,
            Verb::Extend => &scripts.extend,
            Verb::Return => &scripts.return_reservation,
            Verb::Expire => &scripts.expire,
            Verb::Adjust => &scripts.adjust,
            Verb::Archive => &scripts.archive,
        }
    }
}
