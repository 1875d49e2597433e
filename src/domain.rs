//! The words of the trade, as types that cannot be wrong. No I/O, no async, and no rule about stock: the scripts
//! decide, `outcome` names their answers.

pub mod barrier;
pub mod bulk;
pub mod caller;
pub mod delivery;
pub mod event;
pub mod id;
pub mod level_page;
pub mod lock;
pub mod order;
pub mod outcome;
pub mod page;
pub mod quantity;
pub mod reservation;
pub mod rules;
pub mod sale;
pub mod stock;
pub mod time;
pub mod webhook;

pub use barrier::{
    ArrivalOutcome, Arrive, Barrier, BarrierEnd, BarrierMode, BarrierParticipant, BarrierProgress,
    BarrierRefusal, BarrierSpec, BarrierStatus, Declare, ExtendDeadline, FailedParticipant, Names, Note,
    NotifyTarget, ParticipantFilter, PutBarrier, Seal,
};
pub use bulk::{BulkRequest, ReserveBulk};
pub use caller::{Caller, Scope};
pub use delivery::{Delivery, DeliveryStatus};
pub use event::{Cursor, Event, EventKind};
pub use id::{
    BarrierId, Buyer, IdempotencyKey, KeyName, LockName, LockToken, OperationId, OrderId, Participant,
    Reference, ReservationId, SaleId, SalePattern, Sku, TypePattern, WebhookUrl,
};
pub use level_page::LevelPage;
pub use lock::{AcquireLock, Fence, Lock, LockPlace, LockRefusal, LockState, ReleaseLock, RenewLock};
pub use order::{ConfirmOrder, Order, OrderLine, OrderLineRequest, OrderRefusal, OrderRequest, OrderStatus};
pub use outcome::{Decision, Outcome, Refusal};
pub use page::{Page, PageRequest};
pub use quantity::{Lines, Quantity};
pub use reservation::{
    Confirm, Extend, IfExpired, Release, Reservation, ReservationLine, ReservationStatus, Reserve, Return,
};
pub use rules::{Expect, PatchSale, SaleRules};
pub use sale::{PutSale, PutSku, Sale, SaleStatus, Switch, Totals};
pub use stock::{Adjust, Adjustment, BuyerSku, BuyerStanding, Level, Shortfall};
pub use time::Timestamp;
pub use webhook::{
    Endpoint, PatchWebhook, RegisterWebhook, SigningSecret, Webhook, WebhookId, WebhookSecret,
};
