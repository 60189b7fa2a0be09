use super::*;
use crate::model::{Number, NumberPoint, Points, Series, Span};
use crate::otlp::encode::Encoder;
use crate::otlp::file::FileSink;
use crate::semconv::spans as span_names;

fn resource(instance: &'static str, attempt: u64) -> Vec<Attribute> {
    vec![
        Attribute::text(names::SERVICE_NAME, "wine"),
        Attribute::text(names::SERVICE_INSTANCE_ID, instance),
        Attribute::text(names::RUN_ID, "run-1"),
        Attribute::text(names::RUN_NAME, "wine"),
        Attribute::int(names::ATTEMPT, attempt),
        Attribute::int(names::RANK, 0),
    ]
}

fn span(id: u8) -> Span {
    Span {
        trace_id: TraceId([1; 16]),
        span_id: SpanId([id; 8]),
        parent_span_id: None,
        parent_is_remote: false,
        name: span_names::EPOCH.into(),
        begin_ns: 1_000_000_000,
        end_ns: 3_000_000_000,
        attributes: vec![Attribute::int(names::EPOCH_INDEX, u64::from(id)), Attribute::int(names::STEP_COUNT, 5)],
        events: Vec::new(),
        links: Vec::new(),
        error_type: None,
    }
}

fn dropped(count: i64) -> Series {
    let points = (1..=2).map(|time_ns| NumberPoint { time_ns, start_ns: 1, value: Number::I64(count) }).collect();
    Series { metric: metrics::JOURNAL_DROPPED.name.into(), attributes: Vec::new(), points: Points::Numbers(points) }
}

#[test]
fn reads_one_run() {
    let directory = tempfile::tempdir().unwrap();
    let encoder = Encoder::new(&resource("1", 0));
    let mut sink = FileSink::new(directory.path());
    sink.write(&encoder.traces(vec![span(1), span(2)])).unwrap();
    // Exported a second time by recovery.
    sink.write(&encoder.traces(vec![span(2)])).unwrap();
    sink.write(&encoder.metrics(&[dropped(3)])).unwrap();
    let report = from_directory(directory.path()).unwrap();
    assert_eq!((report.spans, report.points, report.dropped), (2, 2, Some(3)));
    assert_eq!((report.summary.run_id.as_str(), report.summary.run_name.as_str()), ("run-1", "wine"));
    assert_eq!(report.directory.as_deref(), Some(directory.path()));
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let json: serde_json::Value = serde_json::from_str(&super::super::json::render(&report)).unwrap();
    assert_eq!((&json["spans"], &json["summary"]["run_id"], &json["outcome"]), (&2.into(), &"run-1".into(), &serde_json::Value::Null));
}

#[test]
fn shows_the_newest_attempt_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = FileSink::new(directory.path());
    sink.write(&Encoder::new(&resource("1", 0)).traces(vec![span(1)])).unwrap();
    sink.write(&Encoder::new(&resource("2", 1)).traces(vec![span(2), span(3)])).unwrap();
    fs::write(directory.path().join("metrics.jsonl"), "torn").unwrap();
    let report = from_directory(directory.path()).unwrap();
    assert_eq!((report.spans, report.summary.attempt), (2, 1));
    assert_eq!(report.notes, ["1 line could not be read and is left out", "2 processes wrote these files; this is rank 0 of attempt 1"]);
    assert_eq!(report.dropped, None, "nobody said that nothing was");
}

#[test]
fn takes_the_newest_of_several_runs_and_says_so() {
    let parent = tempfile::tempdir().unwrap();
    for name in ["old", "new"] {
        FileSink::new(parent.path().join(name)).write(&Encoder::new(&resource("1", 0)).traces(vec![span(1)])).unwrap();
    }
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(1000);
    fs::File::options().append(true).open(parent.path().join("old/traces.jsonl")).unwrap().set_modified(past).unwrap();
    fs::create_dir(parent.path().join("empty")).unwrap();
    let report = from_directory(parent.path()).unwrap();
    assert_eq!(report.directory, Some(parent.path().join("new")));
    assert_eq!(report.notes, [format!("new is the newest of 2 runs in {}", parent.path().display())]);
}

#[test]
fn says_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    let error = from_directory(empty.path()).unwrap_err();
    assert!(matches!(error, ReportError::NoRun { .. }) && error.to_string().contains("stepline-runs"), "{error}");
    let error = from_directory(&empty.path().join("missing")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

#[test]
fn a_run_that_has_just_ended_is_told_alike() {
    let mut resource = resource("1", 2);
    resource.push(Attribute::text(names::GPU_SIMULATED, "mirror"));
    let outcome = crate::model::Outcome { directory: Some("stepline-runs/wine".into()), ..Default::default() };
    let summary = RunSummary { devices: vec![crate::model::DeviceSummary::default()], ..RunSummary::default() };
    let report = Report::of_run(summary, &resource, &outcome, 3, 4);
    assert_eq!((report.summary.run_name.as_str(), report.summary.attempt), ("wine", 2));
    let text = super::super::text::render(&report, super::super::text::Style::default());
    assert!(text.contains("gpu 0     simulated, mirrors this process · 0 readings"), "{text}");
    assert!(text.contains("stepline-runs/wine/  3 spans, 4 points, nothing dropped"), "{text}");
}
