//! What waits for its round.

use super::Verb;
use crate::domain::Fence;

/// One request, prepared as far as it doesn't depend on the store's state.
#[derive(Debug)]
pub struct Request {
    /// What is done.
    pub verb: Verb,
    /// The reservation, or for adjust the operation: 22 characters.
    pub id: String,
    /// The lock that it depends on: of reserve, confirm, release and adjust.
    pub fence: Option<Fence>,
    /// The rest, by verb.
    pub body: Body,
}

/// How a reservation comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Like most: while the sale is open.
    Plain,
    /// In the place of another hold: its 22 characters.
    Replaces(String),
    /// In the place of a part of an order that has expired, whether the sale is open or not: the money is there.
    Paid,
}

impl Entry {
    /// The hold to replace.
    pub(super) fn replaces(&self) -> Option<&str> {
        match self {
            Self::Replaces(old) => Some(old),
            Self::Plain | Self::Paid => None,
        }
    }

    /// As `reserve.lua` has it.
    pub(super) fn sign(&self) -> char {
        match self {
            Self::Plain => '-',
            Self::Replaces(_) => '+',
            Self::Paid => '*',
        }
    }
}

/// What a request says beside its id.
#[derive(Debug)]
pub enum Body {
    /// Reserve.
    Take(Take),
    /// Any other verb: its arguments as the script's header lists them.
    Settle {
        /// Operation whose record the script keeps (return): 22 characters.
        operation: Option<String>,
        /// Arguments.
        args: Vec<String>,
    },
}

/// What a reserve says.
#[derive(Debug)]
pub struct Take {
    /// Bucket and name.
    pub buyer: Option<(u8, String)>,
    /// The sale's default where none.
    pub hold_ms: Option<u64>,
    /// How it comes in.
    pub entry: Entry,
    /// The record from its fingerprint on.
    pub tail: String,
    /// What is wanted, as records and scripts have it: `sku=units,...`.
    pub lines: String,
    /// How many lines that are.
    pub line_count: usize,
}

impl Request {
    /// Of a hold that was made now, `reserve.lua` tells what the request does not say: the record up to its tail.
    pub(super) fn complete(&self, answer: String) -> String {
        match (&self.body, answer.split_once('\n')) {
            (Body::Take(take), Some(("new", head))) => {
                let (id, tail) = (&self.id, &take.tail);
                ["held\n\n", id, "\n", head, tail].concat()
            }
            _ => answer,
        }
    }
}
