//! Sending messages to webhook endpoints: signed as Standard Webhooks has it, and only to where it is allowed.

pub mod sender;

pub use sender::{Answer, Message, Sender};
