//! From OTLP's messages back to the model's words.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{DataPointFlags, Metric, NumberDataPoint, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span as OtlpSpan;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::model::{Attribute, Link, Number, NumberPoint, Points, Series, Span, SpanEvent, SpanId, TraceId, Value};
use crate::otlp::encode::points;
use crate::semconv;

/// The parent is of another process.
const IS_REMOTE: u32 = 0x200;

/// What conventions say for an error of unknown kind.
const OTHER_ERROR: &str = "_OTHER";

/// Spans of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceSpans {
    /// The attributes of its resource.
    pub resource: Vec<Attribute>,
    /// Its spans.
    pub spans: Vec<Span>,
    /// Spans whose ids are none, and which are therefore left out.
    pub skipped: u64,
}

/// The spans of a request, by resource.
#[must_use]
pub fn spans(request: ExportTraceServiceRequest) -> Vec<ResourceSpans> {
    let groups = request.resource_spans.into_iter().map(|group| {
        let mut decoded = ResourceSpans {
            resource: attributes(group.resource.map_or_else(Vec::new, |resource| resource.attributes)),
            ..Default::default()
        };
        for one in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            match span(one) {
                Some(span) => decoded.spans.push(span),
                None => decoded.skipped += 1,
            }
        }
        decoded
    });
    groups.collect()
}

/// Metric points of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceSeries {
    /// The attributes of its resource.
    pub resource: Vec<Attribute>,
    /// Its gauges and sums. Points of one series that follow one another stand in one entry.
    pub series: Vec<Series>,
    /// How many points there are in all, those of histograms included.
    pub points: u64,
}

/// The points of a request, by resource.
#[must_use]
pub fn series(request: ExportMetricsServiceRequest) -> Vec<ResourceSeries> {
    let groups = request.resource_metrics.into_iter().map(|group| {
        let resource = attributes(group.resource.map_or_else(Vec::new, |resource| resource.attributes));
        let mut decoded = ResourceSeries { resource, ..Default::default() };
        for metric in group.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            decoded.points += points(&metric) as u64;
            add_numbers(&mut decoded.series, metric);
        }
        decoded
    });
    groups.collect()
}

fn add_numbers(series: &mut Vec<Series>, metric: Metric) {
    let points = match metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points,
        Some(Data::Sum(sum)) => sum.data_points,
        _ => return,
    };
    let mut last: Option<Vec<KeyValue>> = None;
    for point in points {
        let number = number_point(&point);
        match series.last_mut().map(|series| &mut series.points) {
            Some(Points::Numbers(numbers)) if last.as_ref() == Some(&point.attributes) => numbers.push(number),
            _ => {
                series.push(Series {
                    metric: Cow::Owned(metric.name.clone()),
                    attributes: attributes(point.attributes.clone()),
                    points: Points::Numbers(vec![number]),
                });
                last = Some(point.attributes);
            }
        }
    }
}

fn number_point(point: &NumberDataPoint) -> NumberPoint {
    let is_absent = point.flags & DataPointFlags::NoRecordedValueMask as u32 != 0;
    let value = match point.value {
        Some(number_data_point::Value::AsInt(value)) if !is_absent => Number::I64(value),
        Some(number_data_point::Value::AsDouble(value)) if !is_absent && value.is_finite() => Number::F64(value),
        _ => Number::Absent,
    };
    NumberPoint { time_ns: point.time_unix_nano, start_ns: point.start_time_unix_nano, value }
}

/// Attributes of the kinds that the model has; others (maps, bytes, nothing) are left out.
#[must_use]
pub fn attributes(pairs: Vec<KeyValue>) -> Vec<Attribute> {
    pairs.into_iter().filter_map(|pair| Some(Attribute { key: Cow::Owned(pair.key), value: value(pair.value?)? })).collect()
}

fn span(span: OtlpSpan) -> Option<Span> {
    let is_error = span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error);
    let mut attributes = attributes(span.attributes);
    let error_type = is_error.then(|| {
        let place = attributes.iter().position(|attribute| attribute.key == semconv::attributes::ERROR_TYPE);
        match place.map(|place| attributes.remove(place).value) {
            Some(Value::Text(text)) => text.into_owned(),
            _ => OTHER_ERROR.to_owned(),
        }
    });
    Some(Span {
        trace_id: trace_id(&span.trace_id)?,
        span_id: span_id(&span.span_id)?,
        parent_span_id: if span.parent_span_id.is_empty() { None } else { Some(span_id(&span.parent_span_id)?) },
        parent_is_remote: span.flags & IS_REMOTE != 0,
        name: Cow::Owned(span.name),
        begin_ns: span.start_time_unix_nano,
        // A file may hold anything; the model's spans never end before they begin.
        end_ns: span.end_time_unix_nano.max(span.start_time_unix_nano),
        attributes,
        events: span
            .events
            .into_iter()
            .map(|event| SpanEvent {
                name: Cow::Owned(event.name),
                time_ns: event.time_unix_nano,
                attributes: self::attributes(event.attributes),
            })
            .collect(),
        links: span
            .links
            .into_iter()
            .filter_map(|link| {
                Some(Link {
                    trace_id: trace_id(&link.trace_id)?,
                    span_id: span_id(&link.span_id)?,
                    attributes: self::attributes(link.attributes),
                })
            })
            .collect(),
        error_type,
    })
}

fn trace_id(bytes: &[u8]) -> Option<TraceId> {
    bytes.try_into().ok().filter(|id| *id != [0; 16]).map(TraceId)
}

fn span_id(bytes: &[u8]) -> Option<SpanId> {
    bytes.try_into().ok().filter(|id| *id != [0; 8]).map(SpanId)
}

fn value(value: AnyValue) -> Option<Value> {
    match value.value? {
        Any::StringValue(text) => Some(Value::Text(Cow::Owned(text))),
        Any::BoolValue(value) => Some(Value::Bool(value)),
        Any::IntValue(value) => Some(Value::I64(value)),
        Any::DoubleValue(value) => Some(Value::F64(value)),
        Any::ArrayValue(array) => {
            let values: Vec<Any> = array.values.into_iter().map(|value| value.value).collect::<Option<_>>()?;
            match values.first() {
                Some(Any::IntValue(_)) => {
                    all(values, |value| if let Any::IntValue(value) = value { Some(value) } else { None }).map(Value::I64s)
                }
                Some(Any::DoubleValue(_)) => {
                    all(values, |value| if let Any::DoubleValue(value) = value { Some(value) } else { None }).map(Value::F64s)
                }
                _ => all(values, |value| if let Any::StringValue(value) = value { Some(value) } else { None }).map(Value::Texts),
            }
        }
        Any::KvlistValue(_) | Any::BytesValue(_) | Any::StringValueStrindex(_) => None,
    }
}

/// The elements if all are of the kind that `pick` takes.
fn all<T>(values: Vec<Any>, pick: impl Fn(Any) -> Option<T>) -> Option<Vec<T>> {
    values.into_iter().map(pick).collect()
}
