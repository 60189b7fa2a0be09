//! Hand-made OTLP through the three servers and back: what the configuration promises, without stepline.
//! When a test with stepline fails and these pass, the fault is not in the servers.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::jaeger::JaegerSpan;
use super::{Backends, wait_for};

const SERVICE: &str = "hand-made";
const SECOND: u64 = 1_000_000_000;
const SAMPLE_INTERVAL: u64 = SECOND / 10;
/// The collector tries a server that was away again after 15 s at most.
const ARRIVAL: Duration = Duration::from_secs(30);

#[test]
fn what_is_sent_comes_back_from_jaeger_prometheus_and_the_files() {
    let Some(backends) = Backends::require("backends-round-trip") else { return };
    // Whole milliseconds, since Prometheus keeps no more, but beside the grid of a subquery's evaluations.
    // A minute ago, since the points reach into the future of it.
    let start = now() / SECOND * SECOND - 60 * SECOND + 37_000_000;
    assert!(backends.otlp_grpc_endpoint().starts_with("http://127.0.0.1:"));

    send(&backends, "traces", &traces(start));
    send(&backends, "metrics", &metrics(start));
    send(&backends, "logs", &logs(start));

    check_traces(&backends, start);
    check_points_and_staleness(&backends, start);
    check_histogram_and_exemplar(&backends, start);
    check_files(&backends);
}

#[test]
fn an_outage_loses_nothing_that_was_accepted() {
    let Some(mut backends) = Backends::require("backends-outage") else { return };
    let start = now() - 60 * SECOND;

    // Jaeger and Prometheus are away, and then the collector is killed with their data in its queue.
    backends.stop_jaeger();
    backends.stop_prometheus();
    send(&backends, "traces", &traces(start));
    send(&backends, "metrics", &metrics(start));
    backends.kill_collector();
    backends.start_collector();
    // And an orderly stop while it is trying in vain.
    backends.stop_collector();
    backends.start_collector();
    send(&backends, "metrics", &metrics(start + 30 * SECOND));
    backends.start_prometheus();
    backends.start_jaeger();

    assert_eq!(wait_for_spans(&backends, start, 3).len(), 3);
    wait_for("the points of both requests", ARRIVAL, || {
        let series = backends.prometheus_range_vector("hw_gpu_memory_usage_bytes[10m]", now());
        (series.first()?.points.len() == 2 * SAMPLES as usize).then_some(())
    });
    let lines = |path| fs::read_to_string(path).expect("a file of the collector").lines().count();
    // Appended to, not emptied, by the two starts.
    assert_eq!(lines(backends.collector_files().metrics), 2);
}

fn check_traces(backends: &Backends, start: u64) {
    let spans = wait_for_spans(backends, start, 3);
    let named = |name: &str| spans.iter().find(|span| span.name == name).expect("a span of this name");
    let (epoch, segment, step) = (named("train.epoch"), named("train.segment"), named("train.step"));
    assert_eq!(epoch.trace_id, RUN_TRACE);
    assert_eq!(epoch.parent_span_id, None);
    assert_eq!(epoch.attributes["stepline.epoch.index"], json!(3));
    assert_eq!(epoch.attributes["stepline.gpu.ids"], json!(["GPU-a", "GPU-b"]));
    assert_eq!(epoch.attributes["stepline.gpu.utilization.mean"], json!(0.5));
    assert_eq!(epoch.resource["service.instance.id"], json!("instance-1"));
    assert_eq!((epoch.links[0].trace_id.as_str(), epoch.links[0].span_id.as_str()), (SEGMENT_TRACE, SEGMENT_SPAN));
    assert_eq!(epoch.links[0].attributes["stepline.link.type"], json!("segment"));
    assert_eq!(epoch.events[0].name, "stepline.finding");
    assert_eq!(epoch.events[0].time_unix_nano, start + 1);
    assert_eq!(epoch.events[0].attributes["stepline.finding.kind"], json!("leak"));
    assert_eq!(segment.links[0].span_id, EPOCH_SPAN);
    assert_eq!(step.parent_span_id.as_deref(), Some(SEGMENT_SPAN));
    assert_eq!((step.start_unix_nano, step.end_unix_nano), (start + 123, start + SECOND + 456));
    assert_eq!((step.status_code, step.status_message.as_str()), (2, "out of memory"));

    // The same spans again, as after a lost answer: they are there once.
    send(backends, "traces", &traces(start));
    wait_for("the second copy in the file", ARRIVAL, || {
        (fs::read_to_string(backends.collector_files().traces).ok()?.lines().count() == 2).then_some(())
    });
    assert_eq!(backends.jaeger_trace(SEGMENT_TRACE).len(), 2);
    assert_eq!(backends.jaeger_trace("00000000000000000000000000000001").len(), 0);
}

fn check_points_and_staleness(backends: &Backends, start: u64) {
    let end = start + 20 * SECOND;
    let memory = wait_for("the GPU memory", ARRIVAL, || backends.prometheus_range_vector("hw_gpu_memory_usage_bytes[10m]", end).pop());
    let sent: Vec<(i64, f64)> = samples(start).map(|sample| (milliseconds(sample.time), sample.memory as f64)).collect();
    assert_eq!(memory.points, sent, "each sample with its own time");
    assert_eq!(memory.labels["job"], "wine/hand-made");
    assert_eq!(memory.labels["instance"], "instance-1");
    assert_eq!(memory.labels["hw_id"], "GPU-a");
    for label in ["stepline_run_id", "stepline_run_name", "stepline_rank", "host_name"] {
        assert!(memory.labels.contains_key(label), "{label} is promoted: {:?}", memory.labels);
    }

    // A point without a recorded value is stored as a mark of staleness, which ends the series at once
    // (without it, Prometheus shows the last value for five minutes more).
    let stale_at = start + STALE_SAMPLE * SAMPLE_INTERVAL;
    assert_eq!(backends.prometheus_query("stepline_epoch_current", stale_at - SAMPLE_INTERVAL)[0].points[0].1, 3.0);
    assert_eq!(backends.prometheus_query("stepline_epoch_current", stale_at).len(), 0);
    let epochs = &backends.prometheus_range_vector("stepline_epoch_current[10m]", end)[0];
    assert_eq!(epochs.points.len() as u64, SAMPLES - 1, "all but the mark itself");

    // The question of questions. The larger values before and after the epoch must not leak into the answer.
    let max_of_epoch_3 = "max_over_time((hw_gpu_memory_usage_bytes and on(job,instance) (stepline_epoch_current == 3))[30m:100ms])";
    assert_eq!(backends.prometheus_query(max_of_epoch_3, end)[0].points[0].1, EPOCH_3_MAXIMUM as f64);
    let count_in_epoch_3 = max_of_epoch_3.replace("max_over_time", "count_over_time");
    let in_epoch_3 = samples(start).filter(|sample| sample.epoch == Some(3)).count();
    assert_eq!(backends.prometheus_query(&count_in_epoch_3, end)[0].points[0].1, in_epoch_3 as f64);
}

fn check_histogram_and_exemplar(backends: &Backends, start: u64) {
    let end = start + 20 * SECOND;
    let exemplars = wait_for("an exemplar", ARRIVAL, || {
        let exemplars = backends.prometheus_exemplars("stepline_step_duration_seconds", start, end);
        (!exemplars.is_empty()).then_some(exemplars)
    });
    assert_eq!(exemplars.len(), 1);
    assert_eq!(exemplars[0].labels["span_id"], STEP_SPAN);
    assert_eq!(exemplars[0].value, 1.0);
    assert_eq!(exemplars[0].time_unix_ms, milliseconds(start + SECOND));
    assert_eq!(exemplars[0].series_labels["instance"], "instance-1");
    let step = backends.jaeger_trace(&exemplars[0].labels["trace_id"]);
    assert!(step.iter().any(|span| span.span_id == exemplars[0].labels["span_id"]), "the exemplar leads to a span");

    let histogram = &backends.prometheus_range_vector("stepline_step_duration_seconds[10m]", end)[0].histograms[0];
    assert_eq!(histogram.0, milliseconds(start + 10 * SECOND));
    assert_eq!((&histogram.1["count"], &histogram.1["sum"]), (&json!("3"), &json!("3.5")));
    let count = backends.prometheus_query("scalar(histogram_count(stepline_step_duration_seconds))", end);
    assert_eq!(count[0].points[0].1, 3.0);
}

fn check_files(backends: &Backends) {
    let files = backends.collector_files();
    let first_line = |path| -> Value {
        let text: String = fs::read_to_string(path).expect("a file of the collector");
        serde_json::from_str(text.lines().next().expect("a line")).expect("OTLP/JSON")
    };
    wait_for("the logs in their file", ARRIVAL, || files.logs.exists().then_some(()));
    let log = &first_line(files.logs)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(log["eventName"], "stepline.epoch.started");
    assert_eq!(log["spanId"], EPOCH_SPAN);
    let span = &first_line(files.traces)["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!((&span["traceId"], &span["spanId"]), (&json!(RUN_TRACE), &json!(EPOCH_SPAN)));
    let metric = &first_line(files.metrics)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
    assert_eq!(metric["sum"]["dataPoints"].as_array().map(Vec::len), Some(SAMPLES as usize));
}

fn wait_for_spans(backends: &Backends, start: u64, count: usize) -> Vec<JaegerSpan> {
    wait_for("the spans in Jaeger", ARRIVAL, || {
        let spans = backends.jaeger_traces(SERVICE, start - SECOND, now());
        (spans.len() >= count).then_some(spans)
    })
}

fn send(backends: &Backends, signal: &str, message: &Value) {
    let url = format!("{}/v1/{signal}", backends.otlp_http_endpoint());
    let mut response = backends.http.post(&url).send_json(message).expect("an answer of the collector");
    let body = response.body_mut().read_to_string().expect("the body of the collector's answer");
    assert_eq!((response.status().as_u16(), body.as_str()), (200, r#"{"partialSuccess":{}}"#));
}

const RUN_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const EPOCH_SPAN: &str = "b7ad6b7169203331";
const SEGMENT_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SEGMENT_SPAN: &str = "00f067aa0ba902b7";
const STEP_SPAN: &str = "53995c3f42cd8ad8";

const SAMPLES: u64 = 100;
/// At this sample no epoch is open.
const STALE_SAMPLE: u64 = 60;
const EPOCH_3_MAXIMUM: u64 = 7_000_000_059;

struct Sample {
    time: u64,
    memory: u64,
    epoch: Option<i64>,
}

/// Epoch 2 until sample 20, epoch 3 until 59, none at 60, epoch 4 after it; the epochs around 3 take more memory.
fn samples(start: u64) -> impl Iterator<Item = Sample> {
    (0..SAMPLES).map(move |index| {
        let (epoch, base) = match index {
            0..20 => (Some(2), 9_000_000_000),
            20..STALE_SAMPLE => (Some(3), 7_000_000_000),
            STALE_SAMPLE => (None, 9_000_000_000),
            _ => (Some(4), 8_000_000_000),
        };
        Sample { time: start + index * SAMPLE_INTERVAL, memory: base + index, epoch }
    })
}

fn traces(start: u64) -> Value {
    let end = (start + SECOND).to_string();
    json!({"resourceSpans": [{
        "resource": resource(),
        "scopeSpans": [{"scope": {"name": "stepline"}, "spans": [
            {
                "traceId": RUN_TRACE, "spanId": EPOCH_SPAN, "name": "train.epoch", "kind": 1,
                "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end,
                "attributes": [
                    {"key": "stepline.epoch.index", "value": {"intValue": "3"}},
                    {"key": "stepline.gpu.utilization.mean", "value": {"doubleValue": 0.5}},
                    {"key": "stepline.gpu.ids", "value": {"arrayValue": {"values": [{"stringValue": "GPU-a"}, {"stringValue": "GPU-b"}]}}},
                ],
                "links": [{"traceId": SEGMENT_TRACE, "spanId": SEGMENT_SPAN,
                    "attributes": [{"key": "stepline.link.type", "value": {"stringValue": "segment"}}]}],
                "events": [{"timeUnixNano": (start + 1).to_string(), "name": "stepline.finding",
                    "attributes": [{"key": "stepline.finding.kind", "value": {"stringValue": "leak"}}]}],
            },
            {
                "traceId": SEGMENT_TRACE, "spanId": SEGMENT_SPAN, "name": "train.segment", "kind": 1,
                "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + 2 * SECOND).to_string(),
                "links": [{"traceId": RUN_TRACE, "spanId": EPOCH_SPAN}],
            },
            {
                "traceId": SEGMENT_TRACE, "spanId": STEP_SPAN, "parentSpanId": SEGMENT_SPAN, "name": "train.step", "kind": 1,
                "startTimeUnixNano": (start + 123).to_string(), "endTimeUnixNano": (start + SECOND + 456).to_string(),
                "status": {"code": 2, "message": "out of memory"},
            },
        ]}],
    }]})
}

fn metrics(start: u64) -> Value {
    let memory: Vec<Value> = samples(start)
        .map(|sample| {
            json!({
                "startTimeUnixNano": start.to_string(), "timeUnixNano": sample.time.to_string(), "asInt": sample.memory.to_string(),
                "attributes": [{"key": "hw.id", "value": {"stringValue": "GPU-a"}}],
            })
        })
        .collect();
    let epochs: Vec<Value> = samples(start)
        .map(|sample| match sample.epoch {
            Some(epoch) => json!({"timeUnixNano": sample.time.to_string(), "asInt": epoch.to_string()}),
            // "No recorded value".
            None => json!({"timeUnixNano": sample.time.to_string(), "flags": 1}),
        })
        .collect();
    // Scale 0: bucket i holds (2^i, 2^(i+1)], so 0.5 is in bucket -2, 1.0 in -1, 2.0 in 0.
    let durations = json!({
        "startTimeUnixNano": start.to_string(), "timeUnixNano": (start + 10 * SECOND).to_string(),
        "count": "3", "sum": 3.5, "min": 0.5, "max": 2.0, "scale": 0, "zeroCount": "0",
        "positive": {"offset": -2, "bucketCounts": ["1", "1", "1"]},
        "exemplars": [{"timeUnixNano": (start + SECOND).to_string(), "asDouble": 1.0, "traceId": SEGMENT_TRACE, "spanId": STEP_SPAN}],
    });
    json!({"resourceMetrics": [{
        "resource": resource(),
        "scopeMetrics": [{"scope": {"name": "stepline"}, "metrics": [
            {"name": "hw.gpu.memory.usage", "unit": "By",
                "sum": {"aggregationTemporality": 2, "isMonotonic": false, "dataPoints": memory}},
            {"name": "stepline.epoch.current", "unit": "{epoch}", "gauge": {"dataPoints": epochs}},
            {"name": "stepline.step.duration", "unit": "s",
                "exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [durations]}},
        ]}],
    }]})
}

fn logs(start: u64) -> Value {
    json!({"resourceLogs": [{
        "resource": resource(),
        "scopeLogs": [{"scope": {"name": "stepline"}, "logRecords": [{
            "timeUnixNano": start.to_string(), "observedTimeUnixNano": start.to_string(), "severityNumber": 9,
            "eventName": "stepline.epoch.started", "traceId": RUN_TRACE, "spanId": EPOCH_SPAN,
        }]}],
    }]})
}

fn resource() -> Value {
    let attributes = [
        ("service.namespace", "wine"),
        ("service.name", SERVICE),
        ("service.instance.id", "instance-1"),
        ("stepline.run.id", "run-1"),
        ("stepline.run.name", "wine"),
        ("host.name", "host-1"),
    ];
    let mut attributes: Vec<Value> = attributes.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
    attributes.push(json!({"key": "stepline.rank", "value": {"intValue": "0"}}));
    json!({"attributes": attributes})
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos() as u64
}

fn milliseconds(unix_nano: u64) -> i64 {
    (unix_nano / 1_000_000) as i64
}
