//! Spans.

use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span as OtlpSpan, Status};

use super::value::key_value;
use crate::model::{Attribute, Span, Value};
use crate::semconv;

/// The W3C flag "sampled". All that is exported was.
pub(super) const SAMPLED: u32 = 0x01;
/// It is known whether the parent is of another process.
const HAS_IS_REMOTE: u32 = 0x100;
/// The parent is of another process.
const IS_REMOTE: u32 = 0x200;

/// The flags of a span.
pub(super) fn flags(parent_is_remote: bool) -> u32 {
    SAMPLED | HAS_IS_REMOTE | if parent_is_remote { IS_REMOTE } else { 0 }
}

pub(super) fn span(span: Span) -> OtlpSpan {
    // One allocation: room for `error.type` too.
    let mut attributes = Vec::with_capacity(span.attributes.len() + usize::from(span.error_type.is_some()));
    attributes.extend(span.attributes.into_iter().map(key_value));
    // Status is an error or nothing: saying OK is for the application, not for instrumentation.
    let status = span.error_type.map(|error_type| {
        if !attributes.iter().any(|attribute| attribute.key == semconv::attributes::ERROR_TYPE) {
            let key = semconv::attributes::ERROR_TYPE.into();
            attributes.push(key_value(Attribute { key, value: Value::Text(error_type.into()) }));
        }
        Status { code: StatusCode::Error.into(), message: String::new() }
    });
    OtlpSpan {
        trace_id: span.trace_id.0.to_vec(),
        span_id: span.span_id.0.to_vec(),
        parent_span_id: span.parent_span_id.map_or_else(Vec::new, |parent| parent.0.to_vec()),
        flags: flags(span.parent_is_remote),
        name: span.name.into_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: span.begin_ns,
        end_time_unix_nano: span.end_ns,
        attributes,
        events: span
            .events
            .into_iter()
            .map(|event| Event {
                time_unix_nano: event.time_ns,
                name: event.name.into_owned(),
                attributes: event.attributes.into_iter().map(key_value).collect(),
                dropped_attributes_count: 0,
            })
            .collect(),
        links: span
            .links
            .into_iter()
            .map(|link| Link {
                trace_id: link.trace_id.0.to_vec(),
                span_id: link.span_id.0.to_vec(),
                attributes: link.attributes.into_iter().map(key_value).collect(),
                flags: SAMPLED,
                ..Link::default()
            })
            .collect(),
        status,
        ..OtlpSpan::default()
    }
}
