//! The API over HTTP: every route, state and refusal, and what bad input gets.

mod bad_body;
mod bad_names;
mod bulk;
mod conventions;
mod crowd;
mod deletion;
mod described;
mod events;
mod fences;
mod limits;
mod lists;
mod log;
mod operations;
mod outage;
mod parts;
mod patch;
mod refusals;
mod sales;
mod settling;
mod states;
mod stock;
