//! Metric points and log events as they go on the wire, without the wire's types.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Attribute, ExponentialHistogram, SpanId, TraceId};

/// The value of a point. Floats are finite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// A whole number.
    I64(i64),
    /// A finite number.
    F64(f64),
    /// The series has no value from here on until the next point (OTLP's no-recorded-value flag).
    Absent,
}

/// One value of a gauge or a sum at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NumberPoint {
    /// When it was so, Unix nanoseconds: the time of the sample, not of the export.
    pub time_ns: u64,
    /// Since when it counts, Unix nanoseconds; 0 for gauges.
    pub start_ns: u64,
    /// The value.
    pub value: Number,
}

/// A recorded value with the span that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exemplar {
    /// When, Unix nanoseconds.
    pub time_ns: u64,
    /// The value.
    pub value: f64,
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span: exported, never one that was let go.
    pub span_id: SpanId,
}

/// A distribution since `start_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistogramPoint {
    /// Until when, Unix nanoseconds.
    pub time_ns: u64,
    /// Since when, Unix nanoseconds.
    pub start_ns: u64,
    /// The values.
    pub histogram: ExponentialHistogram,
    /// Some of the values recorded since the point before, with their spans.
    pub exemplars: Vec<Exemplar>,
}

/// Points of one series in the order of their times, which strictly increase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Points {
    /// Of a gauge or a sum.
    Numbers(Vec<NumberPoint>),
    /// Of a histogram.
    Histograms(Vec<HistogramPoint>),
}

/// Points of one metric with one set of attributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name of the metric; unit and kind follow from it (`semconv`).
    pub metric: Cow<'static, str>,
    /// What tells it from the metric's other series.
    pub attributes: Vec<Attribute>,
    /// Its points.
    pub points: Points,
}

/// How bad an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody should look.
    Warn,
    /// Something failed.
    Error,
}

/// A log event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened; few different ones.
    pub name: Cow<'static, str>,
    /// When, Unix nanoseconds.
    pub time_ns: u64,
    /// How bad.
    pub severity: Severity,
    /// A sentence for people.
    pub body: String,
    /// More about it.
    pub attributes: Vec<Attribute>,
    /// The span that it belongs to, and that is or will be exported.
    pub span: Option<(TraceId, SpanId)>,
}
