//! All integration tests, in one binary: they share one build, one real server and these helpers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

mod audit;
mod bulk;
mod embedded;
mod faults;
mod http_api;
mod lost_reply;
mod lua_contract;
mod model;
mod proxy;
mod races;
mod redis_server;
mod sandbox;
mod self_test;
mod service;
mod shop;
mod support;
mod tidy;
