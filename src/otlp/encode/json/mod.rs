//! OTLP/JSON, written straight from the messages.
//!
//! The messages' own serde would do (and reads what is written here, which the tests use), but it writes each empty field out
//! (`"traceState":"","droppedEventsCount":0,"status":null`), which doubles the files, and makes a text of each number first.
//! The encoding: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, Metric, NumberDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};

mod object;
mod spans;

use object::{Object, list, put_text, serde_value};
pub(super) use spans::model_spans;

pub(super) fn traces(out: &mut Vec<u8>, request: &ExportTraceServiceRequest) {
    let mut root = Object::open(out);
    root.array("resourceSpans", &request.resource_spans, |out, group| {
        let mut object = Object::open(out);
        object.resource(group.resource.as_ref());
        object.array("scopeSpans", &group.scope_spans, |out, scope| {
            let mut object = Object::open(out);
            object.scope(scope.scope.as_ref());
            object.array("spans", &scope.spans, span);
            object.text("schemaUrl", &scope.schema_url);
            object.close();
        });
        object.text("schemaUrl", &group.schema_url);
        object.close();
    });
    root.close();
}

pub(super) fn metrics(out: &mut Vec<u8>, request: &ExportMetricsServiceRequest) {
    let mut root = Object::open(out);
    root.array("resourceMetrics", &request.resource_metrics, |out, group| {
        let mut object = Object::open(out);
        object.resource(group.resource.as_ref());
        object.array("scopeMetrics", &group.scope_metrics, |out, scope| {
            let mut object = Object::open(out);
            object.scope(scope.scope.as_ref());
            object.array("metrics", &scope.metrics, metric);
            object.text("schemaUrl", &scope.schema_url);
            object.close();
        });
        object.text("schemaUrl", &group.schema_url);
        object.close();
    });
    root.close();
}

pub(super) fn logs(out: &mut Vec<u8>, request: &ExportLogsServiceRequest) {
    let mut root = Object::open(out);
    root.array("resourceLogs", &request.resource_logs, |out, group| {
        let mut object = Object::open(out);
        object.resource(group.resource.as_ref());
        object.array("scopeLogs", &group.scope_logs, |out, scope| {
            let mut object = Object::open(out);
            object.scope(scope.scope.as_ref());
            object.array("logRecords", &scope.log_records, log_record);
            object.text("schemaUrl", &scope.schema_url);
            object.close();
        });
        object.text("schemaUrl", &group.schema_url);
        object.close();
    });
    root.close();
}

fn span(out: &mut Vec<u8>, span: &Span) {
    let mut object = Object::open(out);
    object.hex("traceId", &span.trace_id);
    object.hex("spanId", &span.span_id);
    object.text("traceState", &span.trace_state);
    object.hex("parentSpanId", &span.parent_span_id);
    object.small("flags", span.flags);
    object.text("name", &span.name);
    object.small("kind", span.kind);
    object.long("startTimeUnixNano", span.start_time_unix_nano);
    object.long("endTimeUnixNano", span.end_time_unix_nano);
    object.array("attributes", &span.attributes, key_value);
    object.small("droppedAttributesCount", span.dropped_attributes_count);
    object.array("events", &span.events, span_event);
    object.small("droppedEventsCount", span.dropped_events_count);
    object.array("links", &span.links, link);
    object.small("droppedLinksCount", span.dropped_links_count);
    if let Some(status) = &span.status {
        object.key("status");
        let mut object = Object::open(object.out);
        object.text("message", &status.message);
        object.small("code", status.code);
        object.close();
    }
    object.close();
}

fn span_event(out: &mut Vec<u8>, event: &Event) {
    let mut object = Object::open(out);
    object.long("timeUnixNano", event.time_unix_nano);
    object.text("name", &event.name);
    object.array("attributes", &event.attributes, key_value);
    object.small("droppedAttributesCount", event.dropped_attributes_count);
    object.close();
}

fn link(out: &mut Vec<u8>, link: &Link) {
    let mut object = Object::open(out);
    object.hex("traceId", &link.trace_id);
    object.hex("spanId", &link.span_id);
    object.text("traceState", &link.trace_state);
    object.array("attributes", &link.attributes, key_value);
    object.small("droppedAttributesCount", link.dropped_attributes_count);
    object.small("flags", link.flags);
    object.close();
}

fn metric(out: &mut Vec<u8>, metric: &Metric) {
    let mut object = Object::open(out);
    object.text("name", &metric.name);
    object.text("description", &metric.description);
    object.text("unit", &metric.unit);
    object.array("metadata", &metric.metadata, key_value);
    match &metric.data {
        None => {}
        Some(Data::Gauge(gauge)) => {
            object.key("gauge");
            let mut object = Object::open(object.out);
            object.array("dataPoints", &gauge.data_points, number_point);
            object.close();
        }
        Some(Data::Sum(sum)) => {
            object.key("sum");
            let mut object = Object::open(object.out);
            object.array("dataPoints", &sum.data_points, number_point);
            object.small("aggregationTemporality", sum.aggregation_temporality);
            if sum.is_monotonic {
                object.serde("isMonotonic", &true);
            }
            object.close();
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            object.key("exponentialHistogram");
            let mut object = Object::open(object.out);
            object.array("dataPoints", &histogram.data_points, histogram_point);
            object.small("aggregationTemporality", histogram.aggregation_temporality);
            object.close();
        }
        // Shapes that stepline does not make: as the messages' own serde writes them.
        Some(Data::Histogram(histogram)) => object.serde("histogram", histogram),
        Some(Data::Summary(summary)) => object.serde("summary", summary),
    }
    object.close();
}

fn number_point(out: &mut Vec<u8>, point: &NumberDataPoint) {
    let mut object = Object::open(out);
    object.array("attributes", &point.attributes, key_value);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    object.array("exemplars", &point.exemplars, exemplar);
    object.small("flags", point.flags);
    match point.value {
        None => {}
        Some(number_data_point::Value::AsDouble(value)) => object.double("asDouble", value),
        Some(number_data_point::Value::AsInt(value)) => object.quoted("asInt", value),
    }
    object.close();
}

fn histogram_point(out: &mut Vec<u8>, point: &ExponentialHistogramDataPoint) {
    let mut object = Object::open(out);
    object.array("attributes", &point.attributes, key_value);
    object.long("startTimeUnixNano", point.start_time_unix_nano);
    object.long("timeUnixNano", point.time_unix_nano);
    object.long("count", point.count);
    object.optional_double("sum", point.sum);
    object.small("scale", point.scale);
    object.long("zeroCount", point.zero_count);
    object.buckets("positive", point.positive.as_ref());
    object.buckets("negative", point.negative.as_ref());
    object.small("flags", point.flags);
    object.array("exemplars", &point.exemplars, exemplar);
    object.optional_double("min", point.min);
    object.optional_double("max", point.max);
    if point.zero_threshold != 0.0 {
        object.double("zeroThreshold", point.zero_threshold);
    }
    object.close();
}

fn exemplar(out: &mut Vec<u8>, exemplar: &Exemplar) {
    let mut object = Object::open(out);
    object.array("filteredAttributes", &exemplar.filtered_attributes, key_value);
    object.long("timeUnixNano", exemplar.time_unix_nano);
    object.hex("spanId", &exemplar.span_id);
    object.hex("traceId", &exemplar.trace_id);
    match exemplar.value {
        None => {}
        Some(exemplar::Value::AsDouble(value)) => object.double("asDouble", value),
        Some(exemplar::Value::AsInt(value)) => object.quoted("asInt", value),
    }
    object.close();
}

fn log_record(out: &mut Vec<u8>, record: &LogRecord) {
    let mut object = Object::open(out);
    object.long("timeUnixNano", record.time_unix_nano);
    object.long("observedTimeUnixNano", record.observed_time_unix_nano);
    object.small("severityNumber", record.severity_number);
    object.text("severityText", &record.severity_text);
    if let Some(body) = &record.body {
        object.key("body");
        any_value(object.out, body);
    }
    object.array("attributes", &record.attributes, key_value);
    object.small("droppedAttributesCount", record.dropped_attributes_count);
    object.small("flags", record.flags);
    object.hex("traceId", &record.trace_id);
    object.hex("spanId", &record.span_id);
    object.text("eventName", &record.event_name);
    object.close();
}

/// Key and value are always written: an empty text is a value.
fn key_value(out: &mut Vec<u8>, pair: &KeyValue) {
    out.extend_from_slice(b"{\"key\":");
    put_text(out, &pair.key);
    if let Some(value) = &pair.value {
        out.extend_from_slice(b",\"value\":");
        any_value(out, value);
    }
    out.push(b'}');
}

fn any_value(out: &mut Vec<u8>, value: &AnyValue) {
    let mut object = Object::open(out);
    match &value.value {
        None => {}
        Some(Any::StringValue(text)) => object.string("stringValue", text),
        Some(Any::BoolValue(flag)) => object.serde("boolValue", flag),
        Some(Any::IntValue(number)) => object.quoted("intValue", *number),
        Some(Any::DoubleValue(number)) => object.double("doubleValue", *number),
        Some(Any::ArrayValue(array)) => {
            object.key("arrayValue");
            object.out.extend_from_slice(b"{\"values\":");
            list(object.out, &array.values, any_value);
            object.out.push(b'}');
        }
        Some(Any::KvlistValue(map)) => {
            object.key("kvlistValue");
            object.out.extend_from_slice(b"{\"values\":");
            list(object.out, &map.values, key_value);
            object.out.push(b'}');
        }
        Some(Any::BytesValue(_) | Any::StringValueStrindex(_)) => {
            // Kinds that stepline does not make: as the messages' own serde writes them.
            object.out.pop();
            serde_value(object.out, value);
            return;
        }
    }
    object.close();
}
