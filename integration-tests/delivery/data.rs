//! Requests to send, with items that can be told apart.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use stepline::model::Signal;
use stepline::otlp::push::Export;

use crate::support::otlp_sink::Decoded;

const TIME_NS: u64 = 1_790_000_000_000_000_000;

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn resource() -> Option<Resource> {
    let attributes = vec![text("service.name", "wine"), text("service.instance.id", "7c0c0b6e-0000-4000-8000-000000000001")];
    Some(Resource { attributes, ..Resource::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "stepline".to_owned(), version: "0.1.0".to_owned(), ..InstrumentationScope::default() })
}

/// Items number `from..from + count`. `padding` makes each so many bytes larger.
pub(super) fn export(signal: Signal, from: u64, count: u64, padding: usize) -> Export {
    let numbers = from..from + count;
    let padding = || text("padding", &"x".repeat(padding));
    match signal {
        Signal::Traces => {
            let spans = numbers.map(|number| Span {
                // A trace of its own: it has no parent.
                trace_id: (u128::from(number) + 1).to_be_bytes().to_vec(),
                span_id: (number + 1).to_be_bytes().to_vec(),
                name: "train.step".to_owned(),
                kind: 1,
                flags: 0x101,
                start_time_unix_nano: TIME_NS + number,
                end_time_unix_nano: TIME_NS + number + 1,
                attributes: vec![padding()],
                ..Span::default()
            });
            let scope_spans = vec![ScopeSpans { scope: scope(), spans: spans.collect(), ..ScopeSpans::default() }];
            Export::Traces(ExportTraceServiceRequest {
                resource_spans: vec![ResourceSpans { resource: resource(), scope_spans, ..ResourceSpans::default() }],
            })
        }
        Signal::Metrics => {
            let points = numbers.map(|number| NumberDataPoint {
                time_unix_nano: TIME_NS + number,
                attributes: vec![padding()],
                value: Some(number_data_point::Value::AsInt(number as i64)),
                ..NumberDataPoint::default()
            });
            let data = Some(Data::Gauge(Gauge { data_points: points.collect() }));
            let metric = Metric { name: "stepline.loss".to_owned(), unit: "1".to_owned(), data, ..Metric::default() };
            let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics: vec![metric], ..ScopeMetrics::default() }];
            Export::Metrics(ExportMetricsServiceRequest {
                resource_metrics: vec![ResourceMetrics { resource: resource(), scope_metrics, ..ResourceMetrics::default() }],
            })
        }
        Signal::Logs => {
            let log_records = numbers.map(|number| LogRecord {
                time_unix_nano: TIME_NS + number,
                observed_time_unix_nano: TIME_NS + number,
                severity_number: 9,
                severity_text: "INFO".to_owned(),
                event_name: "stepline.run.started".to_owned(),
                attributes: vec![padding()],
                ..LogRecord::default()
            });
            let scope_logs = vec![ScopeLogs { scope: scope(), log_records: log_records.collect(), ..ScopeLogs::default() }];
            Export::Logs(ExportLogsServiceRequest {
                resource_logs: vec![ResourceLogs { resource: resource(), scope_logs, ..ResourceLogs::default() }],
            })
        }
    }
}

/// What the sink calls these items.
pub(super) fn items(export: &Export) -> Vec<String> {
    match export.clone() {
        Export::Traces(request) => Decoded::Traces(request),
        Export::Metrics(request) => Decoded::Metrics(request),
        Export::Logs(request) => Decoded::Logs(request),
    }
    .items()
}
