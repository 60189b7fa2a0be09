//! Do the checks find what they are there for? One fault of each kind is planted in a good capture.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, Metric, NumberDataPoint};
use opentelemetry_proto::tonic::trace::v1::{Span as OtlpSpan, Status};
use stepline::model::{
    Attribute, Event, Exemplar, ExponentialHistogram, HistogramPoint, Link, Number, NumberPoint, Points, Series, Severity, Span, SpanEvent,
    SpanId, TraceId,
};
use stepline::otlp::encode::Encoder;
use stepline::otlp::file::FileSink;
use stepline::semconv::{attributes as names, events, metrics as known, spans as span_names};

use super::{Capture, OtlpcheckOutcome, check, files_of, otlpcheck};

const BEGIN_NS: u64 = 1_760_000_000_000_000_000;

fn resource() -> Vec<Attribute> {
    vec![
        Attribute::text(names::SERVICE_NAME, "wine"),
        Attribute::text(names::SERVICE_INSTANCE_ID, "9c5b94b1-35ad-49bb-b118-8e8fc24abf80"),
        Attribute::int(names::PROCESS_PID, 7),
        Attribute::text(names::PROCESS_CREATION_TIME, "2025-10-09T08:53:20Z"),
    ]
}

fn span(name: &'static str, id: u8, parent: Option<u8>) -> Span {
    let edge = u64::from(id);
    Span {
        trace_id: TraceId([1; 16]),
        span_id: SpanId([id; 8]),
        parent_span_id: parent.map(|id| SpanId([id; 8])),
        parent_is_remote: false,
        name: name.into(),
        begin_ns: BEGIN_NS + edge,
        end_ns: BEGIN_NS + 1_000_000_000 - edge,
        attributes: vec![Attribute::int(names::EPOCH_INDEX, 3)],
        events: vec![SpanEvent {
            name: events::GPU_LOST.into(),
            time_ns: BEGIN_NS + 100,
            attributes: vec![Attribute::text(names::HW_ID, "GPU-1")],
        }],
        links: Vec::new(),
        error_type: None,
    }
}

fn series(metric: &'static str, attributes: Vec<Attribute>, start_ns: u64, values: [Number; 2]) -> Series {
    let point = |(place, value): (usize, Number)| NumberPoint { time_ns: BEGIN_NS + 10 + place as u64, start_ns, value };
    Series { metric: metric.into(), attributes, points: Points::Numbers(values.into_iter().enumerate().map(point).collect()) }
}

fn good_spans() -> Vec<Span> {
    let mut epoch = span(span_names::EPOCH, 2, Some(1));
    epoch.links.push(Link { trace_id: TraceId([1; 16]), span_id: SpanId([3; 8]), attributes: Vec::new() });
    let mut step = span(span_names::STEP, 3, Some(2));
    step.error_type = Some("panic".to_owned());
    vec![span(span_names::RUN, 1, None), epoch, step]
}

fn good_series() -> Vec<Series> {
    let id = || Attribute::text(names::HW_ID, "GPU-1");
    let mut durations = ExponentialHistogram::default();
    [0.25, 0.5, 0.5].into_iter().for_each(|seconds| durations.record(seconds));
    let exemplar = Exemplar { time_ns: BEGIN_NS + 10, value: 0.25, trace_id: TraceId([1; 16]), span_id: SpanId([3; 8]) };
    let histogram = HistogramPoint { time_ns: BEGIN_NS + 20, start_ns: BEGIN_NS, histogram: durations, exemplars: vec![exemplar] };
    vec![
        series(known::GPU_UTILIZATION.name, vec![id()], 0, [Number::F64(0.5), Number::Absent]),
        series(known::GPU_MEMORY_USAGE.name, vec![id()], BEGIN_NS, [Number::I64(9), Number::I64(8)]),
        series(known::ENERGY.name, vec![id(), Attribute::text(names::HW_TYPE, "gpu")], BEGIN_NS, [Number::F64(1.0), Number::F64(2.5)]),
        series(known::STEPS.name, Vec::new(), BEGIN_NS, [Number::I64(1), Number::I64(1)]),
        Series { metric: known::STEP_DURATION.name.into(), attributes: Vec::new(), points: Points::Histograms(vec![histogram]) },
    ]
}

fn good_event() -> Event {
    Event {
        name: events::RUN_STARTED.into(),
        time_ns: BEGIN_NS + 5,
        severity: Severity::Info,
        body: "run wine began".to_owned(),
        attributes: vec![Attribute::text(names::RUN_NAME, "wine")],
        span: Some((TraceId([1; 16]), SpanId([1; 8]))),
    }
}

fn good() -> Capture {
    let encoder = Encoder::new(&resource());
    Capture {
        traces: vec![encoder.traces(good_spans())],
        metrics: vec![encoder.metrics(&good_series())],
        logs: vec![encoder.logs(&[good_event()])],
    }
}

/// The fault must be found, and nothing must be found without it.
#[track_caller]
fn finds(expected: &str, plant: impl FnOnce(&mut Capture)) {
    let mut capture = good();
    assert_eq!(capture.check(), Vec::<String>::new());
    plant(&mut capture);
    let found = capture.check();
    assert!(found.iter().any(|fault| fault.contains(expected)), "{expected:?} is not among {found:#?}");
}

fn in_span(change: impl FnOnce(&mut OtlpSpan)) -> impl FnOnce(&mut Capture) {
    |capture| change(&mut capture.traces[0].resource_spans[0].scope_spans[0].spans[2])
}

fn in_metric(name: &'static str, change: impl FnOnce(&mut Metric)) -> impl FnOnce(&mut Capture) {
    move |capture| {
        let metrics = &mut capture.metrics[0].resource_metrics[0].scope_metrics[0].metrics;
        change(metrics.iter_mut().find(|metric| metric.name == name).unwrap());
    }
}

fn in_point(name: &'static str, place: usize, change: impl FnOnce(&mut NumberDataPoint)) -> impl FnOnce(&mut Capture) {
    in_metric(name, move |metric| match metric.data.as_mut().unwrap() {
        Data::Gauge(gauge) => change(&mut gauge.data_points[place]),
        Data::Sum(sum) => change(&mut sum.data_points[place]),
        _ => panic!("a metric of numbers"),
    })
}

fn in_histogram(change: impl FnOnce(&mut ExponentialHistogramDataPoint)) -> impl FnOnce(&mut Capture) {
    in_metric("stepline.step.duration", |metric| match metric.data.as_mut().unwrap() {
        Data::ExponentialHistogram(histogram) => change(&mut histogram.data_points[0]),
        _ => panic!("a histogram"),
    })
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), key_strindex: 0 }
}

fn word(key: &str) -> KeyValue {
    pair(key, Any::StringValue("x".to_owned()))
}

#[test]
fn faults_of_the_resource_are_found() {
    let with = |change: fn(&mut Vec<KeyValue>)| {
        move |capture: &mut Capture| change(&mut capture.logs[0].resource_logs[0].resource.as_mut().unwrap().attributes)
    };
    finds("2 different ones", with(|attributes| attributes.push(word("host.name"))));
    finds("has no service.instance.id", with(|attributes| attributes.retain(|pair| pair.key != "service.instance.id")));
    finds("has no service.name", with(|attributes| attributes.retain(|pair| pair.key != "service.name")));
    finds("no process.creation.time", with(|attributes| attributes.retain(|pair| pair.key != "process.creation.time")));
    finds("resource: missing", |capture| capture.logs[0].resource_logs[0].resource = None);
    finds("nothing at all", |capture| *capture = Capture::default());
}

#[test]
fn faults_of_spans_are_found() {
    finds("its id stands twice", in_span(|span| span.span_id = vec![1; 8]));
    finds("are no ids", in_span(|span| span.trace_id = vec![0; 16]));
    finds("are no ids", in_span(|span| span.span_id = vec![1; 7]));
    finds("is not in its trace", in_span(|span| span.parent_span_id = vec![8; 8]));
    finds("cannot be its parent", in_span(|span| span.parent_span_id = span.span_id.clone()));
    finds("second root", in_span(|span| span.parent_span_id.clear()));
    finds("outside of its parent's time by 3 ns", in_span(|span| span.end_time_unix_nano += 4));
    finds("outside of its parent's time by 1 ns", in_span(|span| span.start_time_unix_nano -= 2));
    finds("ends before it begins", in_span(|span| span.end_time_unix_nano = span.start_time_unix_nano - 1));
    finds("not between 2015 and now", in_span(|span| span.start_time_unix_nano /= 1000));
    finds("has no name", in_span(|span| span.name.clear()));
    finds("of kind 2", in_span(|span| span.kind = 2));
    finds("has the flags 0x1", in_span(|span| span.flags = 1));
    finds("says that it is OK", in_span(|span| span.status = Some(Status { code: 1, message: String::new() })));
    finds("without error.type", in_span(|span| span.attributes.retain(|pair| pair.key != "error.type")));
    finds("without error.type", in_span(|span| span.status = None));
    finds("event stepline.gpu.lost: is outside", in_span(|span| span.events[0].time_unix_nano -= 1000));
    finds("stands twice", in_span(|span| span.attributes.extend([word("a"), word("a")])));
    finds("has no value", in_span(|span| span.attributes.push(KeyValue { key: "a".to_owned(), ..KeyValue::default() })));
    finds("is no finite number", in_span(|span| span.attributes.push(pair("a", Any::DoubleValue(f64::NAN)))));
    finds("links to the span", |capture| capture.traces[0].resource_spans[0].scope_spans[0].spans[1].links[0].span_id = vec![8; 8]);
    finds("links to itself", |capture| capture.traces[0].resource_spans[0].scope_spans[0].spans[1].links[0].span_id = vec![2; 8]);
}

#[test]
fn a_parent_in_another_process_is_no_fault() {
    let mut capture = good();
    let root = &mut capture.traces[0].resource_spans[0].scope_spans[0].spans[0];
    (root.parent_span_id, root.flags) = (vec![8; 8], 0x301);
    assert_eq!(capture.check(), Vec::<String>::new());
}

#[test]
fn faults_of_metrics_are_found() {
    finds("semconv does not know", in_metric("stepline.steps", |metric| metric.name = "stepline.surprise".to_owned()));
    finds("has the unit \"%\"", in_metric("hw.gpu.utilization", |metric| metric.unit = "%".to_owned()));
    finds("another description", in_metric("hw.gpu.utilization", |metric| metric.description.clear()));
    finds(
        "kind Some(UpDownCounter) instead of Counter",
        in_metric("hw.energy", |metric| {
            let Some(Data::Sum(sum)) = &mut metric.data else { panic!("a sum") };
            sum.is_monotonic = false;
        }),
    );
    finds(
        "is not cumulative",
        in_metric("hw.energy", |metric| {
            let Some(Data::Sum(sum)) = &mut metric.data else { panic!("a sum") };
            sum.aggregation_temporality = 1;
        }),
    );
    finds("stands twice in one request", |capture| {
        let metrics = &mut capture.metrics[0].resource_metrics[0].scope_metrics[0].metrics;
        metrics.push(metrics[0].clone());
    });
}

#[test]
fn faults_of_points_are_found() {
    finds("at its time", in_point("stepline.steps", 1, |point| point.time_unix_nano -= 1));
    finds("5 ns before", in_point("stepline.steps", 1, |point| point.time_unix_nano -= 6));
    finds("fell from 1 to 0", in_point("stepline.steps", 1, |point| point.value = Some(NumberValue::AsInt(0))));
    finds("fell from 2.5 to 1", |capture| {
        // Over two requests, as in a real capture.
        let mut later = capture.metrics[0].clone();
        let metrics = &mut later.resource_metrics[0].scope_metrics[0].metrics;
        metrics.retain(|metric| metric.name == "hw.energy");
        let Some(Data::Sum(sum)) = &mut metrics[0].data else { panic!("a sum") };
        sum.data_points.truncate(1);
        sum.data_points[0].time_unix_nano += 100;
        capture.metrics.push(later);
    });
    finds("starts within", in_point("stepline.steps", 1, |point| point.start_time_unix_nano += 5));
    finds("starts after its time", in_point("stepline.steps", 1, |point| point.start_time_unix_nano += 1000));
    finds("a sum without one", in_point("stepline.steps", 1, |point| point.start_time_unix_nano = 0));
    finds("a gauge with a start", in_point("hw.gpu.utilization", 0, |point| point.start_time_unix_nano = BEGIN_NS));
    finds("counts below 0", in_point("stepline.steps", 0, |point| point.value = Some(NumberValue::AsInt(-1))));
    finds("is no finite number", in_point("hw.gpu.utilization", 0, |point| point.value = Some(NumberValue::AsDouble(f64::NAN))));
    finds("is no share of 1", in_point("hw.gpu.utilization", 0, |point| point.value = Some(NumberValue::AsDouble(61.0))));
    finds("without saying so", in_point("hw.gpu.utilization", 0, |point| point.value = None));
    finds("beside saying so", in_point("hw.gpu.utilization", 0, |point| point.flags = 1));
    finds("bytes in fractions", in_point("hw.gpu.memory.usage", 0, |point| point.value = Some(NumberValue::AsDouble(9.0))));
    finds("lacks hw.id", in_point("hw.gpu.memory.usage", 0, |point| point.attributes.clear()));
    finds("lacks hw.type", in_point("hw.energy", 0, |point| point.attributes.retain(|pair| pair.key != "hw.type")));
    finds("hw.type other than gpu", in_point("hw.energy", 0, |point| point.attributes[1] = word("hw.type")));
    finds("has hw.type, which", in_point("hw.gpu.memory.usage", 0, |point| point.attributes.push(word("hw.type"))));
    finds("has stepline.rank, which", in_point("hw.gpu.memory.usage", 0, |point| point.attributes.push(word("stepline.rank"))));
    finds("makes a series of each", in_point("stepline.steps", 0, |point| point.attributes.push(word("stepline.step.index"))));
}

#[test]
fn faults_of_histograms_are_found() {
    finds("counts 4 but holds 3", in_histogram(|point| point.count += 1));
    finds("has the scale 21", in_histogram(|point| point.scale = 21));
    finds("without a minimum", in_histogram(|point| (point.min, point.max) = (None, None)));
    finds("cannot make", in_histogram(|point| point.sum = Some(9.0)));
    finds("has no sum", in_histogram(|point| point.sum = None));
    finds("has no start", in_histogram(|point| point.start_time_unix_nano = 0));
    finds("which was not exported", in_histogram(|point| point.exemplars[0].span_id = vec![8; 8]));
    finds("outside of its time", in_histogram(|point| point.exemplars[0].time_unix_nano -= 100));
    finds("none of its values", in_histogram(|point| point.exemplars[0].value = None));
}

#[test]
fn faults_of_logs_are_found() {
    let in_log = |change: fn(&mut opentelemetry_proto::tonic::logs::v1::LogRecord)| {
        move |capture: &mut Capture| change(&mut capture.logs[0].resource_logs[0].scope_logs[0].log_records[0])
    };
    finds("has no event name", in_log(|record| record.event_name.clear()));
    finds("has no severity", in_log(|record| record.severity_number = 0));
    finds("not between 2015 and now", in_log(|record| record.observed_time_unix_nano = 0));
    finds("belongs to the span", in_log(|record| record.span_id = vec![8; 8]));
}

#[test]
fn files_are_read_and_pass_both_checks() {
    let directory = tempfile::tempdir().unwrap();
    let encoder = Encoder::new(&resource());
    let mut sink = FileSink::new(directory.path());
    sink.write(&encoder.traces(good_spans())).unwrap();
    sink.write(&encoder.metrics(&good_series())).unwrap();
    sink.write(&encoder.logs(&[good_event()])).unwrap();
    let files = files_of(directory.path());
    assert_eq!(files.len(), 3);
    assert_eq!(check(&files), Vec::<String>::new());
    otlpcheck(&files).require();

    std::fs::write(&files[2], "{\"resourceLogs\":3}\nwhat\n{").unwrap();
    let found = check(&files);
    for expected in ["logs.jsonl:1: cannot be read", "logs.jsonl:2: no OTLP/JSON request", "the last line has no end"] {
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected:?} is not among {found:#?}");
    }
    assert!(check(&["missing.jsonl".into()])[0].contains("cannot be read"));
    assert_ne!(otlpcheck(&files), OtlpcheckOutcome::Passed);
}
