//! The words of the trade, as types that cannot be wrong. No I/O, no async, and no rule about stock: the scripts
//! decide, `outcome` names their answers.

pub mod bulk;
pub mod event;
pub mod id;
pub mod outcome;
pub mod page;
pub mod quantity;
pub mod reservation;
pub mod sale;
pub mod stock;
pub mod time;

pub use bulk::{BulkRequest, ReserveBulk};
pub use event::{Cursor, Event, EventKind};
pub use id::{Buyer, Caller, IdempotencyKey, OperationId, Reference, ReservationId, SaleId, Sku};
pub use outcome::{Decision, Outcome, Refusal};
pub use page::{Page, PageRequest};
pub use quantity::{Lines, Quantity};
pub use reservation::{
    Confirm, Extend, IfExpired, Reservation, ReservationLine, ReservationStatus, Reserve, Return,
};
pub use sale::{Expect, PutSale, PutSku, Sale, SaleRules, SaleStatus, Switch, Totals};
pub use stock::{Adjust, Adjustment, BuyerSku, BuyerStanding, Level, Shortfall};
pub use time::Timestamp;
