//! From the model's words to OTLP's messages, and from those to bytes.
//!
//! Knows the wire's types and names; knows nothing of where a message goes. Official metrics get exactly the kind and unit that
//! `semconv` gives them, whoever asks.

mod json;
mod logs;
mod metrics;
mod traces;
mod value;
mod wire;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};

use crate::model::{Attribute, Event, Series, Signal, Span};
use crate::semconv;

/// Makes OTLP requests of one process: all of them carry the same resource and scope, so that backends can join what is in them.
#[derive(Debug, Clone)]
pub struct Encoder {
    resource: Resource,
    scope: InstrumentationScope,
}

impl Encoder {
    /// An encoder for the process that these attributes describe.
    #[must_use]
    pub fn new(resource: &[Attribute]) -> Self {
        let resource = Resource { attributes: value::key_values(resource), ..Resource::default() };
        let scope = InstrumentationScope {
            name: semconv::SCOPE_NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        Self { resource, scope }
    }

    /// One request with these spans. They are taken by value, so that their texts move instead of being copied.
    #[must_use]
    pub fn traces(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        if spans.is_empty() {
            return ExportTraceServiceRequest::default();
        }
        let spans = spans.into_iter().map(traces::span).collect();
        let scope = ScopeSpans { scope: Some(self.scope.clone()), spans, schema_url: semconv::SCHEMA_URL.to_owned() };
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![scope],
                schema_url: semconv::SCHEMA_URL.to_owned(),
            }],
        }
    }

    /// Appends the protobuf bytes of the request that [`traces`](Self::traces) makes of these spans: several times cheaper than by way
    /// of the request, and the spans stay. Nothing is appended for no spans.
    pub fn write_traces(&self, spans: &[Span], out: &mut Vec<u8>) {
        wire::traces(out, self, spans);
    }

    /// Appends the line of OTLP/JSON that the request of these spans makes, without the newline and without making the request.
    pub fn write_traces_json(&self, spans: &[Span], out: &mut Vec<u8>) {
        json::model_spans(out, self, spans);
    }

    /// One request with the points of these series; all series of a metric stand in one `Metric`. Series without points are left out.
    #[must_use]
    pub fn metrics(&self, series: &[Series]) -> ExportMetricsServiceRequest {
        let metrics = metrics::metrics(series);
        if metrics.is_empty() {
            return ExportMetricsServiceRequest::default();
        }
        let scope = ScopeMetrics { scope: Some(self.scope.clone()), metrics, schema_url: semconv::SCHEMA_URL.to_owned() };
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![scope],
                schema_url: semconv::SCHEMA_URL.to_owned(),
            }],
        }
    }

    /// One request with these log events.
    #[must_use]
    pub fn logs(&self, events: &[Event]) -> ExportLogsServiceRequest {
        if events.is_empty() {
            return ExportLogsServiceRequest::default();
        }
        let log_records = events.iter().map(logs::log_record).collect();
        let scope = ScopeLogs { scope: Some(self.scope.clone()), log_records, schema_url: semconv::SCHEMA_URL.to_owned() };
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(self.resource.clone()),
                scope_logs: vec![scope],
                schema_url: semconv::SCHEMA_URL.to_owned(),
            }],
        }
    }
}

/// An OTLP request of one signal.
pub trait Request: prost::Message + Default + serde::de::DeserializeOwned {
    /// Which signal it is of.
    const SIGNAL: Signal;

    /// How many items (spans, points, log events) it carries: what is counted when it is delivered or lost.
    fn items(&self) -> usize;

    /// Appends it as one line of OTLP/JSON, without the newline: hex ids, 64-bit integers as text, fields at their default left out.
    fn write_json(&self, out: &mut Vec<u8>);
}

impl Request for ExportTraceServiceRequest {
    const SIGNAL: Signal = Signal::Traces;

    fn items(&self) -> usize {
        self.resource_spans.iter().flat_map(|resource| &resource.scope_spans).map(|scope| scope.spans.len()).sum()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        json::traces(out, self);
    }
}

impl Request for ExportMetricsServiceRequest {
    const SIGNAL: Signal = Signal::Metrics;

    fn items(&self) -> usize {
        let scopes = self.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).map(points).sum()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        json::metrics(out, self);
    }
}

impl Request for ExportLogsServiceRequest {
    const SIGNAL: Signal = Signal::Logs;

    fn items(&self) -> usize {
        self.resource_logs.iter().flat_map(|resource| &resource.scope_logs).map(|scope| scope.log_records.len()).sum()
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        json::logs(out, self);
    }
}

/// How many items (spans, points, log events) a request carries.
#[must_use]
pub fn items<R: Request>(request: &R) -> usize {
    request.items()
}

/// How many points a metric carries.
#[must_use]
pub fn points(metric: &Metric) -> usize {
    match &metric.data {
        None => 0,
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
