//! Lists come in pages.

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

/// One page of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// Pass it as `after` for the next page; null when this is the last.
    pub next: Option<String>,
}
