//! Attributes.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

use crate::model::{Attribute, Value};

/// The attributes as OTLP's, copied.
pub(super) fn key_values(attributes: &[Attribute]) -> Vec<KeyValue> {
    attributes.iter().cloned().map(key_value).collect()
}

/// The attribute as OTLP's; its texts move.
pub(super) fn key_value(attribute: Attribute) -> KeyValue {
    KeyValue { key: attribute.key.into_owned(), value: Some(any_value(attribute.value)), key_strindex: 0 }
}

/// A text as OTLP's value.
pub(super) fn text(text: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Any::StringValue(text.into())) }
}

fn any_value(value: Value) -> AnyValue {
    let value = match value {
        Value::Bool(value) => Any::BoolValue(value),
        Value::I64(value) => Any::IntValue(value),
        Value::F64(value) => number(value),
        Value::Text(value) => Any::StringValue(Cow::into_owned(value)),
        Value::I64s(values) => array(values.into_iter().map(Any::IntValue)),
        Value::Texts(values) => array(values.into_iter().map(Any::StringValue)),
        // An array has one type: if one element has no number on the wire, all are written as text.
        Value::F64s(values) if values.iter().any(|value| !value.is_finite()) => {
            array(values.into_iter().map(|value| Any::StringValue(value.to_string())))
        }
        Value::F64s(values) => array(values.into_iter().map(Any::DoubleValue)),
    };
    AnyValue { value: Some(value) }
}

/// A number; text where it is not finite, since JSON and most backends have no such number.
fn number(value: f64) -> Any {
    if value.is_finite() { Any::DoubleValue(value) } else { Any::StringValue(value.to_string()) }
}

fn array(values: impl Iterator<Item = Any>) -> Any {
    Any::ArrayValue(ArrayValue { values: values.map(|value| AnyValue { value: Some(value) }).collect() })
}
