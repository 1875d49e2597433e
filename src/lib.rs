//! Stockade sells a limited number of units to a crowd without selling one unit twice and without losing one.
//!
//! `domain` names things, `store` decides (in Lua), `workers` expire, `http` translates, `app` wires.

pub mod api_keys;
pub mod app;
pub mod audit_command;
pub mod config;
pub mod domain;
pub mod embedded_redis;
pub mod http;
pub mod keys_command;
pub mod metrics;
pub mod store;
pub mod telemetry;
pub mod trace;
pub mod webhooks;
pub mod workers;
