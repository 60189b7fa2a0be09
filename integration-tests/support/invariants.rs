//! What must hold of everything that stepline sends or writes, whatever the run was like: checked on every capture that a test makes.
//!
//! Written against the wire (decoded OTLP), not against the code that makes it; of stepline it uses the table of names only.

mod metrics;
mod otlpcheck;
mod selftest;
mod spans;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde::de::DeserializeOwned;

pub(crate) use otlpcheck::{Outcome as OtlpcheckOutcome, otlpcheck};

/// 2015-01-01, Unix nanoseconds: an earlier time is a wrong unit.
const YEAR_2015_NS: u64 = 1_420_070_400_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// What was broken in the files (OTLP/JSON lines, all of one process); nothing if all is well. The files are one capture: parents,
/// links and exemplars are looked for in all of them.
pub(crate) fn check(paths: &[PathBuf]) -> Vec<String> {
    let mut faults = Faults::default();
    let capture = Capture::read(paths, &mut faults);
    capture.check_into(&mut faults);
    faults.list
}

/// The `.jsonl` files in a directory, in the order in which they were written.
pub(crate) fn files_of(directory: &Path) -> Vec<PathBuf> {
    let found = stepline::otlp::file::read_directory(directory).expect("a directory of files");
    stepline::model::Signal::ALL.iter().flat_map(|signal| found.files(*signal).to_vec()).collect()
}

/// What was broken, in words.
#[derive(Default)]
struct Faults {
    list: Vec<String>,
}

impl Faults {
    fn add(&mut self, place: &str, fault: impl AsRef<str>) {
        self.list.push(format!("{place}: {}", fault.as_ref()));
    }
}

/// Everything that was sent or written by one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture {
    pub(crate) traces: Vec<ExportTraceServiceRequest>,
    pub(crate) metrics: Vec<ExportMetricsServiceRequest>,
    pub(crate) logs: Vec<ExportLogsServiceRequest>,
}

impl Capture {
    fn read(paths: &[PathBuf], faults: &mut Faults) -> Self {
        let mut capture = Self::default();
        for path in paths {
            let name = path.display().to_string();
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) => {
                    faults.add(&name, format!("cannot be read: {error}"));
                    continue;
                }
            };
            if !text.is_empty() && !text.ends_with('\n') {
                faults.add(&name, "the last line has no end");
            }
            for (number, line) in text.lines().enumerate() {
                let place = format!("{name}:{}", number + 1);
                if line.starts_with("{\"resourceSpans\"") {
                    capture.traces.extend(parse(line, &place, faults));
                } else if line.starts_with("{\"resourceMetrics\"") {
                    capture.metrics.extend(parse(line, &place, faults));
                } else if line.starts_with("{\"resourceLogs\"") {
                    capture.logs.extend(parse(line, &place, faults));
                } else {
                    faults.add(&place, "no OTLP/JSON request");
                }
            }
        }
        capture
    }

    /// What was broken; nothing if all is well.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut faults = Faults::default();
        self.check_into(&mut faults);
        faults.list
    }

    fn check_into(&self, faults: &mut Faults) {
        self.check_resources(faults);
        let spans = spans::check(&self.traces, faults);
        metrics::check(&self.metrics, &spans, faults);
        self.check_logs(&spans, faults);
        if self.traces.is_empty() && self.metrics.is_empty() && self.logs.is_empty() {
            faults.add("capture", "nothing at all");
        }
    }

    /// One process has one resource, said in full and the same way each time.
    fn check_resources(&self, faults: &mut Faults) {
        let spans = self.traces.iter().flat_map(|request| &request.resource_spans).map(|group| &group.resource);
        let metrics = self.metrics.iter().flat_map(|request| &request.resource_metrics).map(|group| &group.resource);
        let logs = self.logs.iter().flat_map(|request| &request.resource_logs).map(|group| &group.resource);
        let mut distinct: BTreeMap<String, &Resource> = BTreeMap::new();
        for resource in spans.chain(metrics).chain(logs) {
            match resource {
                None => faults.add("resource", "missing"),
                Some(resource) => {
                    distinct.insert(identity(&resource.attributes), resource);
                }
            }
        }
        if distinct.len() > 1 {
            faults.add("resource", format!("{} different ones in the capture of one process", distinct.len()));
        }
        for resource in distinct.values() {
            check_attributes("resource", &resource.attributes, faults);
            for key in ["service.name", "service.instance.id"] {
                if !has_text(&resource.attributes, key) {
                    faults.add("resource", format!("has no {key}"));
                }
            }
            if resource.attributes.iter().any(|pair| pair.key.starts_with("process.")) {
                for key in ["process.pid", "process.creation.time"] {
                    if value(&resource.attributes, key).is_none() {
                        faults.add("resource", format!("has process.* attributes but no {key}"));
                    }
                }
            }
        }
    }

    fn check_logs(&self, spans: &Spans, faults: &mut Faults) {
        let scopes = self.logs.iter().flat_map(|request| &request.resource_logs).flat_map(|group| &group.scope_logs);
        for record in scopes.flat_map(|scope| &scope.log_records) {
            let place = format!("log {}", record.event_name);
            check_time(&place, record.time_unix_nano, faults);
            check_time(&place, record.observed_time_unix_nano, faults);
            check_attributes(&place, &record.attributes, faults);
            if record.event_name.is_empty() {
                faults.add(&place, "has no event name");
            }
            if !(1..=24).contains(&record.severity_number) || record.severity_text.is_empty() {
                faults.add(&place, "has no severity");
            }
            if !record.span_id.is_empty() {
                spans.expect(&place, "belongs to", &record.trace_id, &record.span_id, faults);
            }
        }
    }
}

fn parse<R: DeserializeOwned>(line: &str, place: &str, faults: &mut Faults) -> Option<R> {
    serde_json::from_str(line).map_err(|error| faults.add(place, format!("cannot be read: {error}"))).ok()
}

/// The spans of the capture by trace and span id, with begin and end.
#[derive(Default)]
struct Spans {
    times: HashMap<(Vec<u8>, Vec<u8>), (u64, u64)>,
}

impl Spans {
    /// Something speaks of a span, which must be in the capture; a capture without any span says nothing of that.
    fn expect(&self, place: &str, how: &str, trace_id: &[u8], span_id: &[u8], faults: &mut Faults) {
        if !self.times.is_empty() && !self.times.contains_key(&(trace_id.to_vec(), span_id.to_vec())) {
            faults.add(place, format!("{how} the span {}/{}, which was not exported", hex(trace_id), hex(span_id)));
        }
    }
}

fn check_time(place: &str, time_ns: u64, faults: &mut Faults) {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    if !(YEAR_2015_NS..=now_ns + HOUR_NS).contains(&time_ns) {
        faults.add(place, format!("the time {time_ns} is not between 2015 and now"));
    }
}

fn check_attributes(place: &str, attributes: &[KeyValue], faults: &mut Faults) {
    let mut keys = BTreeSet::new();
    for pair in attributes {
        if pair.key.is_empty() {
            faults.add(place, "an attribute has no key");
        }
        if !keys.insert(&pair.key) {
            faults.add(place, format!("the attribute {} stands twice", pair.key));
        }
        match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
            None => faults.add(place, format!("the attribute {} has no value", pair.key)),
            Some(value) if !is_finite(value) => faults.add(place, format!("the attribute {} is no finite number", pair.key)),
            Some(_) => {}
        }
    }
}

fn is_finite(value: &Any) -> bool {
    match value {
        Any::DoubleValue(number) => number.is_finite(),
        Any::ArrayValue(array) => array.values.iter().all(|value| value.value.as_ref().is_none_or(is_finite)),
        _ => true,
    }
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a AnyValue> {
    attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_ref())
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    match value(attributes, key)?.value.as_ref()? {
        Any::StringValue(text) => Some(text),
        _ => None,
    }
}

fn has_text(attributes: &[KeyValue], key: &str) -> bool {
    text(attributes, key).is_some_and(|text| !text.is_empty())
}

/// The attributes as one text that does not depend on their order.
fn identity(attributes: &[KeyValue]) -> String {
    let mut parts: Vec<String> = attributes.iter().map(|pair| format!("{}={:?}", pair.key, pair.value)).collect();
    parts.sort();
    parts.join(", ")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
