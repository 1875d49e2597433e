//! Stockade sells a limited number of units to a crowd without selling one unit twice and without losing one.
//!
//! `domain` names things, `store` decides (in Lua), `workers` expire, `http` translates, `app` wires.

pub mod domain;
pub mod metrics;
pub mod store;
pub mod workers;
pub mod http;
pub mod audit_command;
pub mod embedded_redis;
pub mod config;
pub mod telemetry;
pub mod app;
