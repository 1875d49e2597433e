//! The words of the trade, as types that cannot be wrong. No I/O, no async, and no rule about stock: the scripts
//! decide, `outcome` names their answers.

pub mod id;
pub mod time;
pub mod quantity;
pub mod sale;
pub mod stock;
pub mod reservation;
pub mod event;
pub mod page;
pub mod outcome;

pub use event::{Cursor, Event, EventKind};
pub use id::{Buyer, Caller, IdempotencyKey, OperationId, Reference, ReservationId, SaleId, Sku};
pub use outcome::{Decision, Outcome, Refusal};
pub use page::{Page, PageRequest};
pub use quantity::{Lines, Quantity};
pub use reservation::{Confirm, Extend, IfExpired, Reservation, ReservationLine, ReservationStatus, Reserve, Return};
pub use sale::{Expect, PutSale, PutSku, Sale, SaleRules, SaleStatus, Switch, Totals};
pub use stock::{Adjust, Adjustment, BuyerSku, BuyerStanding, Level, Shortfall};
pub use time::Timestamp;
