//! The model's spans straight to OTLP/JSON: the same text as by way of the messages (a test compares), without making them.

use super::super::Encoder;
use super::super::traces::{SAMPLED, flags};
use super::object::{Object, list, put_text};
use crate::model::{Attribute, Span, Value};
use crate::semconv;

/// SPAN_KIND_INTERNAL
const INTERNAL: i32 = 1;
/// STATUS_CODE_ERROR
const ERROR: i32 = 2;

/// Appends an `ExportTraceServiceRequest` with these spans.
pub(in super::super) fn model_spans(out: &mut Vec<u8>, encoder: &Encoder, spans: &[Span]) {
    let mut root = Object::open(out);
    root.array("resourceSpans", &[()], |out, ()| {
        let mut object = Object::open(out);
        object.resource(Some(&encoder.resource));
        object.array("scopeSpans", &[()], |out, ()| {
            let mut object = Object::open(out);
            object.scope(Some(&encoder.scope));
            object.array("spans", spans, span);
            object.text("schemaUrl", semconv::SCHEMA_URL);
            object.close();
        });
        object.text("schemaUrl", semconv::SCHEMA_URL);
        object.close();
    });
    root.close();
}

fn span(out: &mut Vec<u8>, span: &Span) {
    let mut object = Object::open(out);
    object.hex("traceId", &span.trace_id.0);
    object.hex("spanId", &span.span_id.0);
    if let Some(parent) = &span.parent_span_id {
        object.hex("parentSpanId", &parent.0);
    }
    object.small("flags", flags(span.parent_is_remote));
    object.text("name", &span.name);
    object.small("kind", INTERNAL);
    object.long("startTimeUnixNano", span.begin_ns);
    object.long("endTimeUnixNano", span.end_ns);
    let has_error_type = || span.attributes.iter().any(|attribute| attribute.key == semconv::attributes::ERROR_TYPE);
    match &span.error_type {
        Some(error_type) if !has_error_type() => {
            object.key("attributes");
            object.out.push(b'[');
            span.attributes.iter().for_each(|one| {
                attribute(object.out, one);
                object.out.push(b',');
            });
            key_and_value(object.out, semconv::attributes::ERROR_TYPE, |object| object.string("stringValue", error_type));
            object.out.push(b']');
        }
        _ => object.array("attributes", &span.attributes, attribute),
    }
    object.array("events", &span.events, |out, event| {
        let mut object = Object::open(out);
        object.long("timeUnixNano", event.time_ns);
        object.text("name", &event.name);
        object.array("attributes", &event.attributes, attribute);
        object.close();
    });
    object.array("links", &span.links, |out, link| {
        let mut object = Object::open(out);
        object.hex("traceId", &link.trace_id.0);
        object.hex("spanId", &link.span_id.0);
        object.array("attributes", &link.attributes, attribute);
        object.small("flags", SAMPLED);
        object.close();
    });
    if span.error_type.is_some() {
        object.key("status");
        let mut object = Object::open(object.out);
        object.small("code", ERROR);
        object.close();
    }
    object.close();
}

fn attribute(out: &mut Vec<u8>, attribute: &Attribute) {
    key_and_value(out, &attribute.key, |object| match &attribute.value {
        Value::Bool(value) => object.serde("boolValue", value),
        Value::I64(value) => object.quoted("intValue", *value),
        Value::F64(value) => double(object, *value),
        Value::Text(text) => object.string("stringValue", text),
        Value::I64s(values) => array(object, values, |object, value| object.quoted("intValue", *value)),
        Value::Texts(texts) => array(object, texts, |object, text| object.string("stringValue", text)),
        // An array has one type: if one element has no number on the wire, all are written as text.
        Value::F64s(values) if values.iter().any(|value| !value.is_finite()) => {
            array(object, values, |object, value| object.string("stringValue", &value.to_string()));
        }
        Value::F64s(values) => array(object, values, |object, value| double(object, *value)),
    });
}

/// Text where it is not finite, like [`super::super::value`].
fn double(object: &mut Object<'_>, value: f64) {
    if value.is_finite() { object.double("doubleValue", value) } else { object.string("stringValue", &value.to_string()) }
}

fn array<T>(object: &mut Object<'_>, values: &[T], write: impl Fn(&mut Object<'_>, &T)) {
    object.key("arrayValue");
    object.out.extend_from_slice(b"{\"values\":");
    list(object.out, values, |out, value| {
        let mut object = Object::open(out);
        write(&mut object, value);
        object.close();
    });
    object.out.push(b'}');
}

fn key_and_value(out: &mut Vec<u8>, key: &str, write: impl FnOnce(&mut Object<'_>)) {
    out.extend_from_slice(b"{\"key\":");
    put_text(out, key);
    out.extend_from_slice(b",\"value\":");
    let mut object = Object::open(out);
    write(&mut object);
    object.close();
    out.push(b'}');
}
