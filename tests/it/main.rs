//! All integration tests, in one binary: they share one build, one real server and these helpers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

mod audit;
mod auditor;
mod barriers;
mod bulk;
mod cluster;
mod demos;
mod durability;
mod egress;
mod embedded;
mod example_receiver;
mod faults;
mod fuzz;
mod http_api;
mod keys;
mod live;
mod locks;
mod lost_reply;
mod lua_contract;
mod model;
mod notifier;
mod orders;
mod parts;
mod proxy;
mod purge;
mod races;
mod reads;
mod receiver;
mod redis_cluster;
mod redis_server;
mod redis_watch;
mod repair;
mod rules;
mod sandbox;
mod self_test;
mod sentinel;
mod service;
mod shop;
mod strategies;
mod support;
mod tidy;
mod tracing;
mod webhooks;
