//! Lists come in pages.

use super::id::Sku;
use super::sale::BadField;
use serde::Serialize;
use utoipa::ToSchema;

/// Items of a page unless the caller asks otherwise.
pub const PAGE_LIMIT_DEFAULT: usize = 100;
/// Most items of a page.
pub const PAGE_LIMIT_MAX: usize = 500;

/// Which page: what comes after a cursor, at most `limit` items.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// 1..=500.
    pub limit: usize,
    /// The `next` of the page before.
    pub after: Option<String>,
}

impl PageRequest {
    /// Refuses a cursor that no page of this list can have given.
    pub fn check(&self, is_cursor: fn(&str) -> bool) -> Result<(), BadField> {
        match &self.after {
            Some(after) if !is_cursor(after) => Err(BadField {
                field: "after".to_owned(),
                message: "must be the `next` of a page".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Reservations: `<score>-<22 characters of the id>`; a part of an order has no deadline.
pub fn is_reservation_cursor(text: &str) -> bool {
    let id = |id: &str| {
        id.len() == 22 && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    text.split_once('-').is_some_and(|(score, rest)| (is_number(score) || score == "inf") && id(rest))
}

/// Adjustments: `<ms>-<seq>`, the id of an entry.
pub fn is_adjustment_cursor(text: &str) -> bool {
    text.split_once('-').is_some_and(|(ms, seq)| is_number(ms) && is_number(seq))
}

/// Levels: the name of a SKU.
pub fn is_level_cursor(text: &str) -> bool {
    text.parse::<Sku>().is_ok()
}

/// Missing participants, and barriers: a name.
pub fn is_name_cursor(text: &str) -> bool {
    is_level_cursor(text)
}

/// Participants that have arrived: `<ms>-<name>`.
pub fn is_arrival_cursor(text: &str) -> bool {
    text.split_once('-').is_some_and(|(ms, name)| is_number(ms) && is_name_cursor(name))
}

/// Sales: `<sale>:<generation>`.
pub fn is_sale_cursor(text: &str) -> bool {
    let sale = |sale: &str| sale.trim_start_matches('_').parse::<Sku>().is_ok();
    let generation = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    text.split_once(':').is_some_and(|(name, of)| sale(name) && generation(of))
}

/// One page of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// Pass it as `after` for the next page; null when this is the last.
    pub next: Option<String>,
}
