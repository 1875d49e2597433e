//! Sending messages to webhook endpoints: signed as Standard Webhooks has it, and only to where it is allowed.

pub mod egress;
pub mod sender;
pub mod signature;

pub use egress::Egress;
pub use sender::{Answer, Message, Sender};
