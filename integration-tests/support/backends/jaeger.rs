//! What Jaeger has stored, asked through its version 3 API: spans with the parts that a test compares.

use serde_json::{Map, Value};

use super::Backends;

/// How many traces the memory storage keeps, and so the most that one can ask for.
pub(super) const MAX_TRACES: usize = 2000;

/// A span as Jaeger gives it back. Ids are lower-case hex; a link's or event's time and id are those that were sent.
#[derive(Clone, Debug)]
pub(crate) struct JaegerSpan {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// None for a root.
    pub(crate) parent_span_id: Option<String>,
    pub(crate) name: String,
    pub(crate) start_unix_nano: u64,
    pub(crate) end_unix_nano: u64,
    /// Plain JSON values: whole numbers as numbers, arrays as arrays.
    pub(crate) attributes: Map<String, Value>,
    pub(crate) links: Vec<JaegerLink>,
    pub(crate) events: Vec<JaegerEvent>,
    /// 0 unset, 1 ok, 2 error.
    pub(crate) status_code: i64,
    pub(crate) status_message: String,
    /// The attributes of the process that sent it.
    pub(crate) resource: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct JaegerLink {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    pub(crate) attributes: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct JaegerEvent {
    pub(crate) name: String,
    pub(crate) time_unix_nano: u64,
    pub(crate) attributes: Map<String, Value>,
}

impl Backends {
    /// All spans of the traces in which `service` has a span that starts between the two times;
    /// empty when there are none, or none yet.
    pub(crate) fn jaeger_traces(&self, service: &str, start_unix_nano: u64, end_unix_nano: u64) -> Vec<JaegerSpan> {
        let url = format!("http://127.0.0.1:{}/api/v3/traces", self.ports.jaeger_query);
        let request = self
            .http
            .get(&url)
            .query("query.service_name", service)
            // Both are required.
            .query("query.start_time_min", rfc3339(start_unix_nano))
            .query("query.start_time_max", rfc3339(end_unix_nano))
            // Required, and refused when it is more than the memory storage holds.
            .query("query.num_traces", MAX_TRACES.to_string());
        self.jaeger_spans(request)
    }

    /// All spans of one trace; empty when Jaeger does not know it.
    pub(crate) fn jaeger_trace(&self, trace_id: &str) -> Vec<JaegerSpan> {
        let url = format!("http://127.0.0.1:{}/api/v3/traces/{trace_id}", self.ports.jaeger_query);
        self.jaeger_spans(self.http.get(&url))
    }

    fn jaeger_spans(&self, request: ureq::RequestBuilder<ureq::typestate::WithoutBody>) -> Vec<JaegerSpan> {
        let mut response = request.call().expect("an answer of Jaeger");
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_string().expect("the body of Jaeger's answer");
        match status {
            200 => spans(&serde_json::from_str(&body).expect("JSON from Jaeger")),
            // Jaeger's way of saying "nothing".
            404 => Vec::new(),
            _ => panic!("Jaeger answered {status}: {body}"),
        }
    }
}

fn spans(answer: &Value) -> Vec<JaegerSpan> {
    let mut spans = Vec::new();
    for resource_spans in items(&answer["result"]["resourceSpans"]) {
        let resource = attributes(&resource_spans["resource"]);
        for scope_spans in items(&resource_spans["scopeSpans"]) {
            // Without `spans` where a span came twice.
            spans.extend(items(&scope_spans["spans"]).iter().map(|span| decode(span, &resource)));
        }
    }
    spans
}

fn decode(span: &Value, resource: &Map<String, Value>) -> JaegerSpan {
    let link = |link: &Value| JaegerLink { trace_id: text(&link["traceId"]), span_id: text(&link["spanId"]), attributes: attributes(link) };
    let event = |event: &Value| JaegerEvent {
        name: text(&event["name"]),
        time_unix_nano: nanoseconds(&event["timeUnixNano"]),
        attributes: attributes(event),
    };
    JaegerSpan {
        trace_id: text(&span["traceId"]),
        span_id: text(&span["spanId"]),
        parent_span_id: Some(text(&span["parentSpanId"])).filter(|id| !id.is_empty()),
        name: text(&span["name"]),
        start_unix_nano: nanoseconds(&span["startTimeUnixNano"]),
        end_unix_nano: nanoseconds(&span["endTimeUnixNano"]),
        attributes: attributes(span),
        links: items(&span["links"]).iter().map(link).collect(),
        events: items(&span["events"]).iter().map(event).collect(),
        status_code: span["status"]["code"].as_i64().unwrap_or(0),
        status_message: text(&span["status"]["message"]),
        resource: resource.clone(),
    }
}

fn attributes(owner: &Value) -> Map<String, Value> {
    items(&owner["attributes"]).iter().map(|attribute| (text(&attribute["key"]), plain(&attribute["value"]))).collect()
}

/// OTLP's `{"intValue": "3"}` as `3`, and so on.
fn plain(any_value: &Value) -> Value {
    let Some((kind, value)) = any_value.as_object().and_then(|object| object.iter().next()) else { return Value::Null };
    match kind.as_str() {
        // A string, because JSON's numbers end at 2^53.
        "intValue" => match value.as_str() {
            Some(digits) => digits.parse::<i64>().expect("a whole number").into(),
            None => value.clone(),
        },
        "arrayValue" => items(&value["values"]).iter().map(plain).collect(),
        "kvlistValue" => items(&value["values"]).iter().map(|entry| (text(&entry["key"]), plain(&entry["value"]))).collect(),
        _ => value.clone(),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn nanoseconds(value: &Value) -> u64 {
    match value {
        Value::String(digits) => digits.parse().expect("nanoseconds"),
        _ => value.as_u64().unwrap_or_default(),
    }
}

/// `2026-11-30T12:00:00.000000000Z`
fn rfc3339(unix_nano: u64) -> String {
    let (seconds, nanos) = (unix_nano / 1_000_000_000, unix_nano % 1_000_000_000);
    let (mut day, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    let days_in_month = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= days_in_month[month] {
        day -= days_in_month[month];
        month += 1;
    }
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z", month + 1, day + 1)
}

#[test]
fn times_are_written_as_rfc3339() {
    assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000000Z");
    assert_eq!(rfc3339(951_782_399_000_000_001), "2000-02-28T23:59:59.000000001Z");
    assert_eq!(rfc3339(951_782_400_000_000_000), "2000-02-29T00:00:00.000000000Z");
    assert_eq!(rfc3339(1_798_761_599_999_999_999), "2026-12-31T23:59:59.999999999Z");
}
