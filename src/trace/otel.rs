//! Between our words and OpenTelemetry's.

use super::{Sampling, TraceId, TraceParent};
use opentelemetry::trace::{Link, SpanContext, SpanKind, TraceContextExt, TraceFlags, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes a span the child of one in another program.
pub(super) fn continue_from(span: &Span, parent: TraceParent) {
    let TraceParent { trace_id, span_id, is_sampled } = parent;
    let flags = TraceFlags::default().with_sampled(is_sampled);
    let (trace_id, span_id) = (trace_id.0.into(), span_id.into());
    let remote = SpanContext::new(trace_id, span_id, flags, true, TraceState::default());
    // It fails where spans go nowhere, and then there is nothing to do.
    let _ = span.set_parent(Context::new().with_remote_span_context(remote));
}

/// What children of the span are told, if it is sent to a collector.
pub fn exported(span: &Span) -> Option<TraceParent> {
    let context = span.context().span().span_context().clone();
    let trace_id = u128::from_be_bytes(context.trace_id().to_bytes());
    let span_id = u64::from_be_bytes(context.span_id().to_bytes());
    TraceParent::new(trace_id, span_id, context.is_sampled())
}

/// [`Sampling`], for OpenTelemetry. A script call that carries requests begins a trace of its own, and is recorded if any
/// of them is.
#[derive(Debug, Clone)]
pub struct Sampler(pub Sampling);

impl ShouldSample for Sampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: opentelemetry::TraceId,
        _: &str,
        _: &SpanKind,
        _: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let parent = parent.map(|parent| parent.span().span_context().clone()).filter(SpanContext::is_valid);
        let is_sampled = match &parent {
            None if !links.is_empty() => links.iter().any(|link| link.span_context.is_sampled()),
            parent => {
                let parent = parent.as_ref().map(SpanContext::is_sampled);
                self.0.of(parent, TraceId(u128::from_be_bytes(trace_id.to_bytes())))
            }
        };
        let decision = if is_sampled { SamplingDecision::RecordAndSample } else { SamplingDecision::Drop };
        let trace_state = parent.map(|parent| parent.trace_state().clone()).unwrap_or_default();
        SamplingResult { decision, attributes: Vec::new(), trace_state }
    }
}
