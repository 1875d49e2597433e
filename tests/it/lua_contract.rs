//! The contract of the scripts: each is called alone, with rights to exactly the keys it declares, on a server in
//! cluster mode; every key of the sale is compared before and after, and the books are audited after every call.

mod audit;
mod batches;
mod calls;
mod corrupt;
mod counts;
mod deletion;
mod full_store;
mod refusals;
mod rig;
mod snapshot;
pub mod words;
mod words_barrier;
mod words_fence;
mod words_lock;
mod words_order;
mod words_parts;
mod words_repair;
mod words_sale;
mod words_settle;
mod words_sweep;
mod words_take;
mod words_webhook;
mod wrong_types;
