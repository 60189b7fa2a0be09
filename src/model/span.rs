//! Spans as they go on the wire, without the wire's types.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{SpanId, TraceId};

/// The value of an attribute. Floats are finite: what is not is written as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    I64(i64),
    /// A finite number.
    F64(f64),
    /// Text.
    Text(Cow<'static, str>),
    /// Several whole numbers.
    I64s(Vec<i64>),
    /// Several finite numbers.
    F64s(Vec<f64>),
    /// Several texts.
    Texts(Vec<String>),
}

/// A name (from `semconv`) and a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// The name.
    pub key: Cow<'static, str>,
    /// The value.
    pub value: Value,
}

impl Attribute {
    /// A text attribute.
    #[must_use]
    pub fn text(key: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        Self { key: Cow::Borrowed(key), value: Value::Text(value.into()) }
    }

    /// A whole-number attribute; beyond `i64` it stops at the largest.
    #[must_use]
    pub fn int(key: &'static str, value: u64) -> Self {
        Self { key: Cow::Borrowed(key), value: Value::I64(i64::try_from(value).unwrap_or(i64::MAX)) }
    }

    /// A number attribute; text where it is not finite, since neither JSON nor most backends take it.
    #[must_use]
    pub fn number(key: &'static str, value: f64) -> Self {
        let value = if value.is_finite() { Value::F64(value) } else { Value::Text(Cow::Owned(value.to_string())) };
        Self { key: Cow::Borrowed(key), value }
    }

    /// A yes/no attribute.
    #[must_use]
    pub fn flag(key: &'static str, value: bool) -> Self {
        Self { key: Cow::Borrowed(key), value: Value::Bool(value) }
    }
}

/// A pointer to another span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// What the pointer means.
    pub attributes: Vec<Attribute>,
}

/// Something that happened at one time within a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpanEvent {
    /// What.
    pub name: Cow<'static, str>,
    /// When, Unix nanoseconds; within the span.
    pub time_ns: u64,
    /// More about it.
    pub attributes: Vec<Attribute>,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its trace.
    pub trace_id: TraceId,
    /// Itself.
    pub span_id: SpanId,
    /// The span around it.
    pub parent_span_id: Option<SpanId>,
    /// Whether the span around it is of another process, and so not among ours.
    pub parent_is_remote: bool,
    /// What it is; few different ones.
    pub name: Cow<'static, str>,
    /// When it began, Unix nanoseconds.
    pub begin_ns: u64,
    /// When it ended, Unix nanoseconds; never before its begin.
    pub end_ns: u64,
    /// More about it.
    pub attributes: Vec<Attribute>,
    /// What happened meanwhile.
    pub events: Vec<SpanEvent>,
    /// What it points to.
    pub links: Vec<Link>,
    /// `error.type` of a span that failed; its status is an error exactly then.
    pub error_type: Option<String>,
}

impl Span {
    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| &attribute.value)
    }

    /// The value of a number attribute, whole or not.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.attribute(key)? {
            Value::I64(value) => Some(*value as f64),
            Value::F64(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of a text attribute.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.attribute(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}
