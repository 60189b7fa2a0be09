use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;

use super::*;
use crate::model::{Attribute, Event, Link, Number, NumberPoint, Points, Series, Severity, Span, SpanEvent, SpanId, TraceId, Value};
use crate::otlp::encode::Encoder;
use crate::otlp::file::{FileSink, spans};
use crate::semconv::attributes as names;

fn span(number: u64) -> Span {
    Span {
        trace_id: TraceId([1; 16]),
        span_id: SpanId((number + 1).to_be_bytes()),
        parent_span_id: Some(SpanId([9; 8])),
        parent_is_remote: number.is_multiple_of(2),
        name: "train.step".into(),
        begin_ns: number,
        end_ns: number + 5,
        attributes: vec![
            Attribute::int(names::STEP_INDEX, number),
            Attribute::number(names::STEP_LOSS, 0.5),
            Attribute::flag("stepline.test", true),
            Attribute { key: names::GPU_IDS.into(), value: Value::Texts(vec!["GPU-1".into()]) },
            Attribute { key: "stepline.test.counts".into(), value: Value::I64s(vec![1, 2]) },
            Attribute { key: "stepline.test.shares".into(), value: Value::F64s(vec![0.5]) },
        ],
        events: vec![SpanEvent {
            name: "stepline.gpu.lost".into(),
            time_ns: number + 1,
            attributes: vec![Attribute::text(names::HW_ID, "GPU-1")],
        }],
        links: vec![Link { trace_id: TraceId([2; 16]), span_id: SpanId([3; 8]), attributes: Vec::new() }],
        error_type: number.is_multiple_of(3).then(|| "panic".to_owned()),
    }
}

fn resource() -> Vec<Attribute> {
    vec![Attribute::text(names::SERVICE_NAME, "wine")]
}

fn read_spans(directory: &Path) -> (Vec<Span>, u64) {
    let mut requests = read_directory(directory).unwrap().spans();
    let mut read = Vec::new();
    for group in requests.by_ref() {
        assert_eq!(group.resource, resource());
        read.extend(group.spans);
    }
    (read, requests.skipped_lines())
}

#[test]
fn reads_back_what_was_written_in_order_over_all_rotations() {
    let directory = tempfile::tempdir().unwrap();
    let encoder = Encoder::new(&resource());
    let mut sink = FileSink::new(directory.path()).max_file_bytes(4000);
    let written: Vec<Span> = (0..60).map(span).collect();
    for part in written.chunks(2) {
        sink.write_spans(&encoder, part).unwrap();
    }
    sink.write_spans(&encoder, &[]).unwrap();
    let files = read_directory(directory.path()).unwrap();
    assert!(files.files(Signal::Traces).len() > 10, "so many that 10 comes after 9");
    assert_eq!(read_spans(directory.path()), (written, 0));
}

#[test]
fn reads_the_other_signals() {
    let directory = tempfile::tempdir().unwrap();
    let encoder = Encoder::new(&resource());
    let mut sink = FileSink::new(directory.path());
    let points = Points::Numbers(vec![NumberPoint { time_ns: 2, start_ns: 1, value: Number::I64(7) }]);
    let series = Series { metric: "stepline.steps".into(), attributes: Vec::new(), points };
    let metrics = encoder.metrics(std::slice::from_ref(&series));
    let event = Event {
        name: "stepline.run.started".into(),
        time_ns: 5,
        severity: Severity::Info,
        body: "began".into(),
        attributes: Vec::new(),
        span: None,
    };
    let logs = encoder.logs(&[event]);
    sink.write(&metrics).unwrap();
    sink.write(&logs).unwrap();
    let files = read_directory(directory.path()).unwrap();
    assert_eq!(files.requests::<ExportMetricsServiceRequest>().collect::<Vec<_>>(), [metrics]);
    let groups: Vec<_> = files.series().collect();
    assert_eq!((groups.len(), groups[0].points, &groups[0].resource, &groups[0].series), (1, 1, &resource(), &vec![series]));
    assert_eq!(files.requests::<ExportLogsServiceRequest>().collect::<Vec<_>>(), [logs]);
    assert!(files.files(Signal::Traces).is_empty() && !files.is_empty() && files.modified().is_some());
}

#[test]
fn skips_and_counts_what_is_no_request() {
    let directory = tempfile::tempdir().unwrap();
    let encoder = Encoder::new(&resource());
    let mut good = Vec::new();
    encoder.traces(vec![span(1)]).write_json(&mut good);
    let mut file = Vec::new();
    for line in [&b"{\"resourceSp"[..], &good, b"", b"[]", b"\xff\xfe", b"{\"resourceLogs\":[]}", &good, &good[..good.len() / 2]] {
        file.extend_from_slice(line);
        file.push(b'\n');
    }
    file.pop();
    fs::write(directory.path().join("traces.jsonl"), file).unwrap();
    // A file that cannot be read keeps nobody from reading the others.
    fs::create_dir(directory.path().join("traces.3.jsonl")).unwrap();
    assert_eq!(read_spans(directory.path()), (vec![span(1), span(1)], 5));
    let mut requests = read_directory(directory.path()).unwrap().requests::<ExportTraceServiceRequest>();
    assert_eq!(requests.by_ref().count(), 2);
    assert!(requests.problems()[0].to_string().contains("traces.3.jsonl: no regular file"), "{}", requests.problems()[0]);
}

#[test]
fn says_which_directory_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    assert!(read_directory(directory.path()).unwrap().is_empty());
    let error = read_directory(&directory.path().join("missing")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.contains("missing"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_the_end(bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n'), 1 => Just(b'{')], 0..300)) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("traces.jsonl"), &bytes).unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        prop_assert_eq!(read_spans(directory.path()), (Vec::new(), lines as u64));
    }

    #[test]
    fn a_line_changed_anywhere_hurts_no_other_line(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = FileSink::new(directory.path());
        let encoder = Encoder::new(&resource());
        (1..=3).for_each(|number| sink.write(&encoder.traces(vec![span(number)])).unwrap());
        let path = directory.path().join("traces.jsonl");
        let mut file = fs::read(&path).unwrap();
        let lines: Vec<usize> = file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        let place = lines[0] + place.index(lines[1] - 1);
        file[place] = byte;
        fs::write(&path, file).unwrap();
        let mut requests = read_directory(directory.path()).unwrap().requests::<ExportTraceServiceRequest>();
        let read: Vec<Span> = requests.by_ref().flat_map(spans).flat_map(|group| group.spans).collect();
        prop_assert_eq!((read.first(), read.last()), (Some(&span(1)), Some(&span(3))));
    }
}
