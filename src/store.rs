//! The only place that knows Redis. Every decision about stock is a script in `lua/`.
// STUB with the final signatures; the real one replaces this file.
#![allow(missing_docs, unused_variables, clippy::todo, dead_code)]

pub mod error { 
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing ran: safe to try again. `&'static str` = code: "queue_full", "draining", "store_full", "store_unavailable", "store_read_only", "store_busy", "store_loading"
    #[error("not applied: {0}")]
    NotApplied(&'static str),
    /// It may have run: try again with the same key. code "outcome_unknown"
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// A record or key holds what no script wrote (code "corrupt"): 500
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The script and its caller disagree: 500 (code "internal")
    #[error("reply: {0}")]
    Reply(String),
}
}
pub use error::StoreError;
use crate::domain::*;
use crate::domain::sale::Skus;

#[derive(Clone)]
pub struct Store {}
type Decided<T> = Result<Decision<T>, StoreError>;

/// Which reservations a list shows.
pub enum ReservationFilter { Held, Ended }

impl Store {
    pub async fn reserve(&self, sale: &SaleId, caller: &Caller, key: Option<&IdempotencyKey>, request: Reserve) -> Decided<Reservation> { todo!() }
    pub async fn confirm(&self, sale: &SaleId, id: ReservationId, request: Confirm) -> Decided<Reservation> { todo!() }
    pub async fn release(&self, sale: &SaleId, id: ReservationId) -> Decided<Reservation> { todo!() }
    pub async fn extend(&self, sale: &SaleId, id: ReservationId, caller: &Caller, key: Option<&IdempotencyKey>, request: Extend) -> Decided<Reservation> { todo!() }
    pub async fn return_reservation(&self, sale: &SaleId, id: ReservationId, caller: &Caller, key: Option<&IdempotencyKey>, request: Return) -> Decided<Reservation> { todo!() }
    /// Done(Unchanged, reservation) or Refused(UnknownSale | UnknownReservation); reads never write
    pub async fn reservation(&self, sale: &SaleId, id: ReservationId) -> Decided<Reservation> { todo!() }
    pub async fn reservation_by_key(&self, sale: &SaleId, caller: &Caller, key: &IdempotencyKey) -> Decided<Reservation> { todo!() }
    pub async fn reservations(&self, sale: &SaleId, filter: ReservationFilter, page: &PageRequest) -> Decided<Page<Reservation>> { todo!() }
    pub async fn buyer(&self, sale: &SaleId, buyer: &Buyer) -> Decided<BuyerStanding> { todo!() }
    /// Created | Changed | Unchanged | Replayed (a repeat of a create is Done(Created..) again only via Replayed + `created` flag: see PutAnswer)
    pub async fn put_sale(&self, sale: &SaleId, caller: &Caller, key: Option<&IdempotencyKey>, expect: &Expect, rules: SaleRules, stock: Skus) -> Decided<PutAnswer> { todo!() }
    pub async fn sale(&self, sale: &SaleId) -> Decided<Sale> { todo!() }
    pub async fn sales(&self, page: &PageRequest) -> Result<Page<Sale>, StoreError> { todo!() }
    pub async fn switch_sale(&self, sale: &SaleId, switch: Switch) -> Decided<Sale> { todo!() }
    pub async fn delete_sale(&self, sale: &SaleId) -> Decided<()> { todo!() }
    pub async fn put_sku(&self, sale: &SaleId, sku: &Sku, request: PutSku) -> Decided<Level> { todo!() }
    pub async fn level(&self, sale: &SaleId, sku: &Sku) -> Decided<Level> { todo!() }
    pub async fn levels(&self, sale: &SaleId, page: &PageRequest) -> Decided<Page<Level>> { todo!() }
    pub async fn adjust(&self, sale: &SaleId, caller: &Caller, key: Option<&IdempotencyKey>, sku: &Sku, request: Adjust) -> Decided<Adjustment> { todo!() }
    pub async fn adjustments(&self, sale: &SaleId, sku: &Sku, page: &PageRequest) -> Decided<Page<Adjustment>> { todo!() }
    /// Page's `next` is always given when there are items (the cursor of the last). after: cursor text, or "latest"
    pub async fn events(&self, sale: &SaleId, after: EventsAfter, limit: usize) -> Decided<Page<Event>> { todo!() }
    /// Runs a real script.
    pub async fn ready(&self) -> Result<(), StoreError> { todo!() }
}
/// Where a feed begins.
pub enum EventsAfter { Oldest, Latest, Cursor(Cursor) }
/// Answer of PUT sale.
#[derive(Debug, Clone, PartialEq)]
pub struct PutAnswer { pub sale: Sale, pub created: bool }
