//! OTLP to an endpoint, by HTTP or gRPC: a queue, and a thread of its own that empties it.
//!
//! The thread runs a runtime that nobody else sees, so it makes no difference whether the application has one, of which kind, or is
//! just about to drop it. What is handed over is encoded at once and waits as bytes. Each signal has its own way to its own endpoint:
//! one that fails does not hold up the others, and within a signal the order stays. Nothing is lost silently: what was handed over is
//! delivered or counted as dropped, to the item.

#[cfg(not(any(feature = "http", feature = "grpc")))]
mod absent;
#[cfg(any(feature = "http", feature = "grpc"))]
mod answer;
#[cfg(any(feature = "http", feature = "grpc"))]
mod body;
#[cfg(any(feature = "http", feature = "grpc"))]
mod connect;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(any(feature = "http", feature = "grpc"))]
mod hints;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "http", feature = "grpc"))]
mod ledger;
#[cfg(any(feature = "http", feature = "grpc"))]
mod outage;
#[cfg(any(feature = "http", feature = "grpc"))]
mod retry;
#[cfg(any(feature = "http", feature = "grpc"))]
mod running;
#[cfg(any(feature = "http", feature = "grpc"))]
mod split;
#[cfg(any(feature = "http", feature = "grpc"))]
mod tls;
#[cfg(feature = "grpc")]
mod untraced;
#[cfg(any(feature = "http", feature = "grpc"))]
mod worker;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use crate::model::Delivery;

#[cfg(not(any(feature = "http", feature = "grpc")))]
pub use absent::Push;
#[cfg(any(feature = "http", feature = "grpc"))]
pub use running::Push;

/// What is sent: a request of one signal.
#[derive(Debug, Clone)]
pub enum Export {
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Metric points.
    Metrics(ExportMetricsServiceRequest),
    /// Log events.
    Logs(ExportLogsServiceRequest),
}

/// What became of everything that was handed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// By signal, in items (spans, points, events), in the order of [`Signal::ALL`](crate::model::Signal::ALL).
    pub deliveries: [Delivery; 3],
    /// Why something was dropped, one line each; empty if nothing was.
    pub reasons: Vec<String>,
}
