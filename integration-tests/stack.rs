//! The whole way, with the real collector, Jaeger and Prometheus: which epoch ate the memory, and in which phase?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value as Json;
use stepline::model::{Number, Points, Span};
use stepline::otlp::file::read_directory;
use stepline::semconv::{attributes as keys, metrics, spans as names};

use crate::support::backends::jaeger::JaegerSpan;
use crate::support::backends::{Backends, wait_for};
use crate::support::invariants;
use crate::support::trainee::{Finished, Trainee};

const SPIKE_EPOCH: u64 = 2;
const SPIKE_BYTES: f64 = 256.0 * 1024.0 * 1024.0;
/// How long the servers may take to show what they have accepted.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn over_http_protobuf() {
    let Some(backends) = Backends::require("stack::over_http_protobuf") else { return };
    let run = spiky_run("stack-http", "http/protobuf", &backends.otlp_http_endpoint()).run();
    answers_the_question(&backends, &run, "stack-http");
}

#[test]
fn over_grpc() {
    let Some(backends) = Backends::require("stack::over_grpc") else { return };
    let run = spiky_run("stack-grpc", "grpc", &backends.otlp_grpc_endpoint()).run();
    answers_the_question(&backends, &run, "stack-grpc");
}

/// The collector is away for 20 s in the middle of a training: nothing is missing afterwards.
#[test]
fn a_collector_that_is_away_for_20_s_loses_nothing() {
    let Some(mut backends) = Backends::require("stack::outage") else { return };
    let service = "stack-outage";
    let run = Trainee::new(&["epochs=6", "steps=200", "phase_ms=10"])
        .env("OTEL_SERVICE_NAME", service)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", backends.otlp_http_endpoint())
        // Points must arrive in their order: what is sent late is within Prometheus's out-of-order window.
        .env("STEPLINE_SHUTDOWN_TIMEOUT", "30000");
    let running = run.start();
    wait_for("the first spans in Jaeger", PATIENCE, || some_spans(&backends, service));
    backends.stop_collector();
    // The outage itself: what is tested is that it may last.
    std::thread::sleep(Duration::from_secs(20));
    backends.start_collector();
    let run = running.wait();
    assert!(run.succeeded, "{}", run.stderr);
    let ledger = run.ledger();
    assert_eq!((ledger.spans.1, ledger.points.1, ledger.events.1), (0, 0, 0), "{:?}", run.reasons());
    let failures = run.stderr.lines().filter(|line| line.contains("stepline:")).count();
    assert!(failures <= 6, "a line when a signal's delivery begins to fail and one when it recovers, not more:\n{}", run.stderr);

    let expected: BTreeSet<String> = run.spans().iter().map(span_id).collect();
    wait_for("all spans in Jaeger", PATIENCE, || {
        let arrived: BTreeSet<String> = all_spans(&backends, service).into_iter().map(|span| span.span_id).collect();
        (arrived == expected).then_some(())
    });
    every_reading_is_in_prometheus(&backends, &run);
    invariants::otlpcheck(&run.files()).require();
}

fn spiky_run(service: &str, protocol: &str, endpoint: &str) -> Trainee {
    let spike = format!("spike_epoch={SPIKE_EPOCH}");
    Trainee::new(&["epochs=4", "steps=60", "phase_ms=6", &spike, "spike_mib=256", "spike_ms=1000"])
        .env("OTEL_SERVICE_NAME", service)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
}

fn answers_the_question(backends: &Backends, run: &Finished, service: &str) {
    assert!(run.succeeded, "{}", run.stderr);
    assert!(run.journal_is_gone());
    let spans = run.spans();
    let ledger = run.ledger();
    assert_eq!(ledger.spans, (spans.len() as u64, 0), "{:?}", run.reasons());
    assert_eq!((ledger.points.1, ledger.events.1, ledger.journal_dropped), (0, 0, 0), "{:?}", run.reasons());

    // In the terminal.
    assert!(run.stderr.contains("▲ 2"), "{}", run.stderr);
    assert!(run.stderr.contains("epoch 2, in validation"), "{}", run.stderr);

    // In files.
    assert_eq!(invariants::check(&run.files()), Vec::<String>::new());
    invariants::otlpcheck(&run.files()).require();

    in_jaeger(backends, &spans, service);
    every_reading_is_in_prometheus(backends, run);
    the_query_gives_the_spans_maximum(backends, run, &spans);
    exemplars_lead_to_spans(backends, &spans);
    the_collectors_files_hold_the_same(backends, run, &spans);
}

fn in_jaeger(backends: &Backends, ours: &[Span], service: &str) {
    let expected: BTreeSet<String> = ours.iter().map(span_id).collect();
    let spans = wait_for("all spans in Jaeger", PATIENCE, || {
        let spans = all_spans(backends, service);
        let arrived: BTreeSet<String> = spans.iter().map(|span| span.span_id.clone()).collect();
        (arrived == expected).then_some(spans)
    });
    let by_id: BTreeMap<(&str, &str), &JaegerSpan> =
        spans.iter().map(|span| ((span.trace_id.as_str(), span.span_id.as_str()), span)).collect();
    for span in &spans {
        if let Some(parent) = &span.parent_span_id {
            let parent = by_id.get(&(span.trace_id.as_str(), parent.as_str())).unwrap_or_else(|| panic!("{} has no parent", span.name));
            assert!(parent.start_unix_nano <= span.start_unix_nano && span.end_unix_nano <= parent.end_unix_nano, "{}", span.name);
        }
    }
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let [run] = named(names::RUN)[..] else { panic!("one run") };
    let epochs = named(names::EPOCH);
    assert_eq!(epochs.len(), 4);
    assert!(epochs.iter().all(|epoch| epoch.parent_span_id.as_deref() == Some(&run.span_id)));

    // From an epoch to its steps and back.
    for epoch in &epochs {
        let segment = epoch.links.iter().find_map(|link| by_id.get(&(link.trace_id.as_str(), link.span_id.as_str())));
        let segment = segment.unwrap_or_else(|| panic!("an epoch is linked to its segments: {:?}", epoch.links));
        assert_eq!(segment.name, names::SEGMENT);
        assert!(segment.links.iter().any(|link| link.span_id == epoch.span_id), "a segment is linked to its epoch");
        assert!(spans.iter().any(|span| span.name == names::STEP && span.parent_span_id.as_deref() == Some(&segment.span_id)));
    }

    // Which epoch, and in which phase?
    let memory = |span: &JaegerSpan| span.attributes[keys::GPU_MEMORY_USAGE_MAX].as_f64().expect("a number");
    let number = |span: &JaegerSpan| span.attributes[keys::EPOCH_INDEX].as_u64().expect("a number");
    let spike = epochs.iter().max_by(|a, b| memory(a).total_cmp(&memory(b))).expect("epochs");
    assert_eq!(number(spike), SPIKE_EPOCH);
    let others = epochs.iter().filter(|epoch| number(epoch) != SPIKE_EPOCH).map(|epoch| memory(epoch)).fold(0.0, f64::max);
    assert!(memory(spike) - others > SPIKE_BYTES * 0.9, "{} and {others}", memory(spike));
    assert_eq!(spike.attributes[keys::GPU_MEMORY_USAGE_MAX_PHASE], Json::from("validation"));
}

/// As many points as readings were taken, at the times of the readings.
fn every_reading_is_in_prometheus(backends: &Backends, run: &Finished) {
    let [ours] = &run.series(metrics::GPU_MEMORY_USAGE.name)[..] else { panic!("one device") };
    let Points::Numbers(ours) = &ours.points else { panic!("numbers") };
    let expected: Vec<(i64, f64)> = ours
        .iter()
        .filter_map(|point| match point.value {
            Number::I64(value) => Some(((point.time_ns / 1_000_000) as i64, value as f64)),
            Number::F64(_) | Number::Absent => None,
        })
        .collect();
    assert!(expected.len() > 20, "{} readings", expected.len());
    let end_ns = ours.last().expect("points").time_ns + 1_000_000_000;
    let selector = format!("hw_gpu_memory_usage_bytes{{instance={:?}}}[1h]", instance(run));
    wait_for("every reading in Prometheus", PATIENCE, || {
        let series = backends.prometheus_range_vector(&selector, end_ns);
        (series.len() == 1 && series[0].points == expected).then_some(())
    });
}

/// "The most memory during epoch N" is the same number in PromQL and on the span.
fn the_query_gives_the_spans_maximum(backends: &Backends, run: &Finished, spans: &[Span]) {
    let instance = instance(run);
    let end_ns = spans.iter().map(|span| span.end_ns).max().expect("spans") + 1_000_000_000;
    for epoch in spans.iter().filter(|span| span.name == names::EPOCH) {
        let number = epoch.number(keys::EPOCH_INDEX).expect("a number");
        let query = format!(
            "max_over_time((hw_gpu_memory_usage_bytes{{instance={instance:?}}} and on(job, instance) (stepline_epoch_current == {number}))[10m:20ms])"
        );
        let answer = backends.prometheus_query(&query, end_ns);
        assert_eq!(answer.len(), 1, "{query}");
        assert_eq!(answer[0].points[0].1, epoch.number(keys::GPU_MEMORY_USAGE_MAX).expect("a maximum"), "epoch {number}");
    }
}

fn exemplars_lead_to_spans(backends: &Backends, spans: &[Span]) {
    let begin_ns = spans.iter().map(|span| span.begin_ns).min().expect("spans") - 1_000_000_000;
    let end_ns = spans.iter().map(|span| span.end_ns).max().expect("spans") + 10_000_000_000;
    let exemplars = backends.prometheus_exemplars("stepline_step_duration_seconds", begin_ns, end_ns);
    assert!(!exemplars.is_empty());
    for exemplar in &exemplars {
        let trace = backends.jaeger_trace(&exemplar.labels["trace_id"]);
        let step = trace.iter().find(|span| span.span_id == exemplar.labels["span_id"]).expect("the exemplar's span is in Jaeger");
        assert_eq!(step.name, names::STEP);
    }
}

fn the_collectors_files_hold_the_same(backends: &Backends, run: &Finished, spans: &[Span]) {
    let files = backends.collector_files();
    let directory = files.traces.parent().expect("a directory");
    let expected: BTreeSet<String> = spans.iter().map(span_id).collect();
    wait_for("all spans in the collector's files", PATIENCE, || {
        let theirs: BTreeSet<String> = read_directory(directory)
            .ok()?
            .spans()
            .filter(|group| group.resource.iter().any(|attribute| format!("{:?}", attribute.value).contains(&instance(run))))
            .flat_map(|group| group.spans)
            .map(|span| span_id(&span))
            .collect();
        (theirs == expected).then_some(())
    });
    let paths = vec![files.traces.clone(), files.metrics.clone(), files.logs.clone()];
    assert_eq!(invariants::check(&paths), Vec::<String>::new());
    invariants::otlpcheck(&paths).require();
}

fn span_id(span: &Span) -> String {
    format!("{:?}", span.span_id)
}

fn all_spans(backends: &Backends, service: &str) -> Vec<JaegerSpan> {
    let now_ns = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
    backends.jaeger_traces(service, now_ns - 3_600_000_000_000, now_ns + 60_000_000_000)
}

fn some_spans(backends: &Backends, service: &str) -> Option<()> {
    (!all_spans(backends, service).is_empty()).then_some(())
}

/// `service.instance.id` of the run.
fn instance(run: &Finished) -> String {
    let group = read_directory(&run.run_directory()).expect("files").spans().next().expect("spans");
    let attribute = group.resource.iter().find(|attribute| attribute.key == keys::SERVICE_INSTANCE_ID).expect("an instance id");
    match &attribute.value {
        stepline::model::Value::Text(text) => text.clone().into_owned(),
        other => panic!("{other:?}"),
    }
}
