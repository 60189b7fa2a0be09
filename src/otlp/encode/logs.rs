//! Log events.

use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};

use super::value::{key_values, text};
use crate::model::{Event, Severity};

/// The W3C flag "sampled": the span that the event belongs to is exported.
const SAMPLED: u32 = 0x01;

pub(super) fn log_record(event: &Event) -> LogRecord {
    let (number, name) = match event.severity {
        Severity::Info => (SeverityNumber::Info, "INFO"),
        Severity::Warn => (SeverityNumber::Warn, "WARN"),
        Severity::Error => (SeverityNumber::Error, "ERROR"),
    };
    LogRecord {
        time_unix_nano: event.time_ns,
        // Whoever makes an event observes it as it happens. Not the time of encoding: exporting twice must give the same record.
        observed_time_unix_nano: event.time_ns,
        severity_number: number.into(),
        severity_text: name.to_owned(),
        body: Some(text(event.body.as_str())),
        attributes: key_values(&event.attributes),
        dropped_attributes_count: 0,
        flags: if event.span.is_some() { SAMPLED } else { 0 },
        trace_id: event.span.map_or_else(Vec::new, |(trace_id, _)| trace_id.0.to_vec()),
        span_id: event.span.map_or_else(Vec::new, |(_, span_id)| span_id.0.to_vec()),
        event_name: event.name.clone().into_owned(),
    }
}
