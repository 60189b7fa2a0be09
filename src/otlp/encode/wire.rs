//! Spans straight to protobuf: the same bytes' meaning as [`Encoder::traces`](super::Encoder::traces) and prost, without the
//! messages in between, whose texts and vectors (a dozen allocations a span) cost several times what the bytes do.
//!
//! Tags are `field << 3 | wire type`; the fields are those of opentelemetry/proto/trace/v1/trace.proto. A test compares the two ways.

use prost::Message as _;

use super::Encoder;
use super::traces::{SAMPLED, flags};
use crate::model::{Attribute, Link, Span, SpanEvent, Value};
use crate::semconv;

/// Wire types.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

const fn tag(field: u8, wire_type: u8) -> u8 {
    (field << 3) | wire_type
}

/// Appends an `ExportTraceServiceRequest` with these spans.
pub(super) fn traces(out: &mut Vec<u8>, encoder: &Encoder, spans: &[Span]) {
    if spans.is_empty() {
        return;
    }
    // Inside out, since a length stands before what it counts.
    let mut body = Vec::with_capacity(spans.len() * 256);
    let mut scratch = Vec::with_capacity(1024);
    for span in spans {
        scratch.clear();
        write_span(&mut scratch, span);
        // ScopeSpans.spans
        put_bytes(&mut body, 2, &scratch);
    }
    let scope = encoder.scope.encode_to_vec();
    let resource = encoder.resource.encode_to_vec();
    let url = semconv::SCHEMA_URL.as_bytes();
    let scope_spans_len = field_len(scope.len()) + body.len() + field_len(url.len());
    let resource_spans_len = field_len(resource.len()) + field_len(scope_spans_len) + field_len(url.len());
    out.reserve(field_len(resource_spans_len));
    // ExportTraceServiceRequest.resource_spans
    put_header(out, 1, resource_spans_len);
    put_bytes(out, 1, &resource);
    // ResourceSpans.scope_spans
    put_header(out, 2, scope_spans_len);
    put_bytes(out, 1, &scope);
    out.extend_from_slice(&body);
    // ScopeSpans.schema_url, ResourceSpans.schema_url
    put_bytes(out, 3, url);
    put_bytes(out, 3, url);
}

fn write_span(out: &mut Vec<u8>, span: &Span) {
    put_bytes(out, 1, &span.trace_id.0);
    put_bytes(out, 2, &span.span_id.0);
    if let Some(parent) = &span.parent_span_id {
        put_bytes(out, 4, &parent.0);
    }
    put_text(out, 5, &span.name);
    // SPAN_KIND_INTERNAL
    out.extend_from_slice(&[tag(6, VARINT), 1]);
    put_fixed64(out, 7, span.begin_ns);
    put_fixed64(out, 8, span.end_ns);
    put_attributes(out, 9, &span.attributes);
    let has_error_type = || span.attributes.iter().any(|attribute| attribute.key == semconv::attributes::ERROR_TYPE);
    if let Some(error_type) = span.error_type.as_deref()
        && !has_error_type()
    {
        put_text_attribute(out, 9, semconv::attributes::ERROR_TYPE, error_type);
    }
    for event in &span.events {
        put_header(out, 11, event_len(event));
        put_fixed64(out, 1, event.time_ns);
        put_text(out, 2, &event.name);
        put_attributes(out, 3, &event.attributes);
    }
    for link in &span.links {
        put_header(out, 13, link_len(link));
        put_bytes(out, 1, &link.trace_id.0);
        put_bytes(out, 2, &link.span_id.0);
        put_attributes(out, 4, &link.attributes);
        out.push(tag(6, FIXED32));
        out.extend_from_slice(&SAMPLED.to_le_bytes());
    }
    if span.error_type.is_some() {
        // Status { code: ERROR }
        out.extend_from_slice(&[tag(15, BYTES), 2, tag(3, VARINT), 2]);
    }
    // Field 16: its tag takes two bytes.
    out.extend_from_slice(&[0x85, 0x01]);
    out.extend_from_slice(&flags(span.parent_is_remote).to_le_bytes());
}

fn event_len(event: &SpanEvent) -> usize {
    let time = if event.time_ns == 0 { 0 } else { 9 };
    time + text_len(&event.name) + attributes_len(&event.attributes)
}

fn link_len(link: &Link) -> usize {
    field_len(16) + field_len(8) + attributes_len(&link.attributes) + 5
}

fn attributes_len(attributes: &[Attribute]) -> usize {
    attributes.iter().map(|attribute| field_len(text_len(&attribute.key) + field_len(value_len(&attribute.value)))).sum()
}

fn put_attributes(out: &mut Vec<u8>, field: u8, attributes: &[Attribute]) {
    for attribute in attributes {
        let value_len = value_len(&attribute.value);
        put_header(out, field, text_len(&attribute.key) + field_len(value_len));
        put_text(out, 1, &attribute.key);
        put_header(out, 2, value_len);
        put_value(out, &attribute.value);
    }
}

fn put_text_attribute(out: &mut Vec<u8>, field: u8, key: &str, text: &str) {
    let value_len = field_len(text.len());
    put_header(out, field, text_len(key) + field_len(value_len));
    put_text(out, 1, key);
    put_header(out, 2, value_len);
    put_bytes(out, 1, text.as_bytes());
}

/// Length of an `AnyValue`.
fn value_len(value: &Value) -> usize {
    match value {
        Value::Bool(_) => 2,
        Value::I64(value) => integer_len(*value),
        Value::F64(value) => double_len(*value),
        Value::Text(text) => field_len(text.len()),
        _ => field_len(elements_len(value)),
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(value) => out.extend_from_slice(&[tag(2, VARINT), u8::from(*value)]),
        Value::I64(value) => put_integer(out, *value),
        Value::F64(value) => put_double(out, *value),
        Value::Text(text) => put_bytes(out, 1, text.as_bytes()),
        Value::I64s(values) => {
            put_header(out, 5, elements_len(value));
            for value in values {
                put_header(out, 1, integer_len(*value));
                put_integer(out, *value);
            }
        }
        Value::F64s(values) => {
            put_header(out, 5, elements_len(value));
            // An array has one type: if one element has no number on the wire, all are written as text.
            let as_text = values.iter().any(|value| !value.is_finite());
            for value in values {
                if as_text {
                    let text = value.to_string();
                    put_header(out, 1, field_len(text.len()));
                    put_bytes(out, 1, text.as_bytes());
                } else {
                    put_header(out, 1, double_len(*value));
                    put_double(out, *value);
                }
            }
        }
        Value::Texts(texts) => {
            put_header(out, 5, elements_len(value));
            for text in texts {
                put_header(out, 1, field_len(text.len()));
                put_bytes(out, 1, text.as_bytes());
            }
        }
    }
}

/// Length of the elements of an `ArrayValue`.
fn elements_len(value: &Value) -> usize {
    match value {
        Value::I64s(values) => values.iter().map(|value| field_len(integer_len(*value))).sum(),
        Value::F64s(values) if values.iter().any(|value| !value.is_finite()) => {
            values.iter().map(|value| field_len(field_len(value.to_string().len()))).sum()
        }
        Value::F64s(values) => values.iter().map(|value| field_len(double_len(*value))).sum(),
        Value::Texts(texts) => texts.iter().map(|text| field_len(field_len(text.len()))).sum(),
        Value::Bool(_) | Value::I64(_) | Value::F64(_) | Value::Text(_) => 0,
    }
}

fn integer_len(value: i64) -> usize {
    1 + varint_len(value.cast_unsigned())
}

fn put_integer(out: &mut Vec<u8>, value: i64) {
    out.push(tag(3, VARINT));
    put_varint(out, value.cast_unsigned());
}

/// Text where it is not finite, like [`super::value`].
fn double_len(value: f64) -> usize {
    if value.is_finite() { 9 } else { field_len(value.to_string().len()) }
}

fn put_double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.push(tag(4, FIXED64));
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        put_bytes(out, 1, value.to_string().as_bytes());
    }
}

/// proto3 leaves a 0 out.
fn put_fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        out.push(tag(field, FIXED64));
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// proto3 leaves an empty text out, unless it is one of several kinds of value.
fn put_text(out: &mut Vec<u8>, field: u8, text: &str) {
    if !text.is_empty() {
        put_bytes(out, field, text.as_bytes());
    }
}

fn text_len(text: &str) -> usize {
    if text.is_empty() { 0 } else { field_len(text.len()) }
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    put_header(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_header(out: &mut Vec<u8>, field: u8, len: usize) {
    if len < 0x80 {
        out.extend_from_slice(&[tag(field, BYTES), len as u8]);
    } else {
        out.push(tag(field, BYTES));
        put_varint(out, len as u64);
    }
}

/// Length of a field of this many bytes with its tag (of one byte) and its length.
fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

fn varint_len(value: u64) -> usize {
    // Seven bits a byte; 0 takes one.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
