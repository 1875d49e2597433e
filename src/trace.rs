//! Traces: who began the work, what was done for it, and what receivers are told of that.
//!
//! `parent` reads and writes `traceparent`; `sampling` decides which traces are recorded; `spans` makes the spans, with
//! their names and fields. Where they go is a matter of `telemetry` (`docs/adr/0025-tracing.md`).

#[cfg(feature = "otlp")]
pub mod otel;
pub mod parent;
pub mod sampling;
pub mod spans;

pub use parent::{TraceId, TraceParent};
pub use sampling::Sampling;
