use std::borrow::Cow;
use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::model::{
    Exemplar, ExponentialHistogram, HistogramPoint, Link, Number, NumberPoint, Points, Severity, SpanEvent, SpanId, TraceId, Value,
};
use crate::semconv::{Kind, attributes as names, metrics as known};

fn encoder() -> Encoder {
    Encoder::new(&[Attribute::text(names::SERVICE_NAME, "wine"), Attribute::text(names::SERVICE_INSTANCE_ID, "1")])
}

fn bare_span(error_type: Option<&str>) -> Span {
    Span {
        trace_id: TraceId([1; 16]),
        span_id: SpanId([2; 8]),
        parent_span_id: None,
        parent_is_remote: false,
        name: Cow::Borrowed("train.run"),
        begin_ns: 1_700_000_000_000_000_000,
        end_ns: 1_700_000_001_000_000_000,
        attributes: Vec::new(),
        events: Vec::new(),
        links: Vec::new(),
        error_type: error_type.map(str::to_owned),
    }
}

fn series(metric: &'static str, points: Points) -> Series {
    Series { metric: metric.into(), attributes: vec![Attribute::text(names::HW_ID, "GPU-1")], points }
}

fn numbers(values: &[Number]) -> Points {
    let point = |(index, value): (usize, &Number)| NumberPoint { time_ns: 1000 + index as u64, start_ns: 7, value: *value };
    Points::Numbers(values.iter().enumerate().map(point).collect())
}

fn json<R: Request>(request: &R) -> String {
    let mut out = Vec::new();
    request.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

/// Reads the request back from protobuf and from JSON.
fn assert_round_trip<R: Request + PartialEq + std::fmt::Debug>(request: &R) {
    let bytes = request.encode_to_vec();
    assert_eq!(R::decode(bytes.as_slice()).unwrap(), *request);
    let line = json(request);
    assert!(!line.contains('\n') && !line.contains("null"), "{line}");
    assert_eq!(serde_json::from_str::<R>(&line).unwrap(), *request, "{line}");
}

#[test]
fn a_span_is_internal_sampled_and_of_no_status() {
    let request = encoder().traces(vec![bare_span(None), Span { parent_is_remote: true, ..bare_span(None) }]);
    let scope = &request.resource_spans[0].scope_spans[0];
    assert_eq!((scope.schema_url.as_str(), request.items()), (semconv::SCHEMA_URL, 2));
    let [local, remote] = &scope.spans[..] else { panic!("two spans") };
    assert_eq!((local.kind(), local.status.as_ref(), local.flags), (SpanKind::Internal, None, 0x101));
    assert_eq!(remote.flags, 0x301);
}

#[test]
fn a_failed_span_has_an_error_status_and_one_error_type() {
    let mut twice = bare_span(Some("panic"));
    twice.attributes.push(Attribute::text(names::ERROR_TYPE, "panic"));
    for span in encoder().traces(vec![bare_span(Some("panic")), twice]).resource_spans.remove(0).scope_spans.remove(0).spans {
        assert_eq!(span.status.map(|status| status.code()), Some(StatusCode::Error));
        assert_eq!(span.attributes.len(), 1);
        assert_eq!(span.attributes[0].value, Some(value::text("panic")));
    }
}

#[test]
fn all_series_of_a_metric_stand_in_one_metric() {
    let all = [
        series(known::GPU_MEMORY_USAGE.name, numbers(&[Number::I64(1), Number::I64(2)])),
        series(known::STEPS.name, numbers(&[Number::I64(3)])),
        series(known::GPU_MEMORY_USAGE.name, numbers(&[Number::I64(4)])),
        series(known::LOSS.name, numbers(&[])),
    ];
    let request = encoder().metrics(&all);
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>(), ["hw.gpu.memory.usage", "stepline.steps"]);
    assert_eq!((points(&metrics[0]), request.items()), (3, 4));
    let Some(Data::Sum(usage)) = &metrics[0].data else { panic!("a sum") };
    let Some(Data::Sum(steps)) = &metrics[1].data else { panic!("a sum") };
    assert_eq!((usage.is_monotonic, usage.aggregation_temporality, metrics[0].unit.as_str()), (false, 2, "By"));
    assert!(steps.is_monotonic);
    assert_eq!(usage.data_points[0].start_time_unix_nano, 7);
    assert_eq!(usage.data_points[0].value, Some(number_data_point::Value::AsInt(1)));
}

#[test]
fn a_gauge_has_no_start_and_an_absent_value_is_said_to_be_absent() {
    let values = [Number::F64(0.5), Number::Absent, Number::F64(f64::NAN)];
    let request = encoder().metrics(&[series(known::GPU_UTILIZATION.name, numbers(&values))]);
    let Some(Data::Gauge(gauge)) = &request.resource_metrics[0].scope_metrics[0].metrics[0].data else { panic!("a gauge") };
    assert!(gauge.data_points.iter().all(|point| point.start_time_unix_nano == 0));
    assert_eq!(
        gauge.data_points.iter().map(|point| (point.flags, point.value.is_some())).collect::<Vec<_>>(),
        [(0, true), (1, false), (1, false)]
    );
    assert_round_trip(&request);
}

#[test]
fn a_name_that_nobody_defined_is_not_lost() {
    let request = encoder().metrics(&[series("stepline.surprise", numbers(&[Number::I64(1)]))]);
    assert_eq!(request.items(), 1);
}

#[test]
fn nothing_makes_an_empty_request() {
    assert_eq!(encoder().traces(Vec::new()), ExportTraceServiceRequest::default());
    assert_eq!(encoder().metrics(&[series(known::LOSS.name, numbers(&[]))]), ExportMetricsServiceRequest::default());
    assert_eq!(encoder().logs(&[]), ExportLogsServiceRequest::default());
}

#[test]
fn the_json_of_a_span_says_no_more_than_the_span() {
    let mut span = bare_span(Some("panic"));
    span.attributes = vec![Attribute::int(names::EPOCH_INDEX, 0), Attribute::text(names::RUN_NAME, "a\"b\n")];
    insta::assert_snapshot!(json(&Encoder::new(&[]).traces(vec![span])).replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r#"{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"stepline","version":"VERSION"},"spans":[{"traceId":"01010101010101010101010101010101","spanId":"0202020202020202","flags":257,"name":"train.run","kind":1,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","attributes":[{"key":"stepline.epoch.index","value":{"intValue":"0"}},{"key":"stepline.run.name","value":{"stringValue":"a\"b\n"}},{"key":"error.type","value":{"stringValue":"panic"}}],"status":{"code":2}}],"schemaUrl":"https://opentelemetry.io/schemas/1.44.0"}],"schemaUrl":"https://opentelemetry.io/schemas/1.44.0"}]}"#);
}

#[test]
fn numbers_that_are_not_finite_become_text_within_one_type() {
    let attribute = |value| Attribute { key: "stepline.test".into(), value };
    let pairs = value::key_values(&[attribute(Value::F64(f64::INFINITY)), attribute(Value::F64s(vec![1.0, f64::NAN]))]);
    assert_eq!(pairs[0].value, Some(value::text("inf")));
    let Some(Any::ArrayValue(array)) = pairs[1].value.clone().and_then(|value| value.value) else { panic!("an array") };
    assert_eq!(array.values, [value::text("1"), value::text("NaN")]);
}

/// Prints what encoding costs. `cargo test --release --lib otlp::encode -- --ignored --nocapture`.
#[test]
#[cfg(unix)]
#[ignore = "a measurement: run it in release"]
#[allow(clippy::print_stdout)]
fn cost_of_a_hundred_thousand_spans() {
    let span = |index: u64| {
        let mut span = bare_span(None);
        span.span_id = SpanId((index + 1).to_be_bytes());
        span.parent_span_id = Some(SpanId([9; 8]));
        span.attributes = vec![
            Attribute::int(names::EPOCH_INDEX, 3),
            Attribute::int(names::STEP_INDEX, index),
            Attribute::number(names::STEP_LOSS, 0.25),
            Attribute::text(names::STEP_KEPT_FOR, "first"),
            Attribute::int(names::GPU_MEMORY_USAGE_MAX, 688 << 20),
        ];
        span
    };
    for batch in [100_000, 2_000, 2_000, 2_000] {
        let mut batches: Vec<Vec<Span>> = Vec::new();
        for first in (0..100_000).step_by(batch) {
            batches.push((first..first + batch as u64).map(span).collect());
        }
        let encoder = encoder();
        let (mut bytes, mut buffer) = (0, Vec::new());
        let begin = cpu_time();
        for spans in batches {
            buffer.clear();
            encoder.traces(spans).encode(&mut buffer).unwrap();
            bytes += buffer.len();
        }
        let by_prost = cpu_time() - begin;
        let mut spans: Vec<Span> = (0..100_000).map(span).collect();
        let begin = cpu_time();
        for batch in spans.chunks(batch) {
            buffer.clear();
            encoder.write_traces(batch, &mut buffer);
            bytes -= buffer.len();
        }
        let wire = cpu_time() - begin;
        assert_eq!(bytes, 0);
        let begin = cpu_time();
        let mut line_bytes = 0;
        for batch in spans.chunks(batch) {
            buffer.clear();
            encoder.write_traces_json(batch, &mut buffer);
            line_bytes += buffer.len();
        }
        let straight = cpu_time() - begin;
        let request = encoder.traces(std::mem::take(&mut spans));
        let begin = cpu_time();
        buffer.clear();
        request.write_json(&mut buffer);
        let json = cpu_time() - begin;
        println!(
            "100000 spans, {batch} a request: protobuf {wire:.1?}, through messages {by_prost:.1?}, JSON {straight:.1?} ({line_bytes} bytes), of messages {json:.1?}"
        );
    }
}

/// Time that this thread has had a processor.
#[cfg(unix)]
#[allow(unsafe_code)]
fn cpu_time() -> std::time::Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the type that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Numbers that serde_json reads back exactly without its feature `float_roundtrip`; others may differ in the last bit.
fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![8 => any::<i32>().prop_map(|eighths| f64::from(eighths) / 8.0), 1 => Just(f64::NAN), 1 => Just(f64::NEG_INFINITY)]
}

fn any_duration() -> impl Strategy<Value = f64> {
    (0..1_000_000_i32).prop_map(|eighths| f64::from(eighths) / 8.0)
}

fn any_attribute() -> impl Strategy<Value = Attribute> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::I64),
        any_float().prop_map(Value::F64),
        ".{0,12}".prop_map(|text| Value::Text(text.into())),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Value::I64s),
        prop::collection::vec(any_float(), 0..3).prop_map(Value::F64s),
        prop::collection::vec(".{0,5}", 0..3).prop_map(Value::Texts),
    ];
    ("[a-z.]{1,8}", value).prop_map(|(key, value)| Attribute { key: key.into(), value })
}

fn any_attributes() -> impl Strategy<Value = Vec<Attribute>> {
    prop::collection::vec(any_attribute(), 0..4)
}

fn any_ids() -> impl Strategy<Value = (TraceId, SpanId)> {
    (any::<[u8; 16]>(), any::<[u8; 8]>()).prop_map(|(trace, span)| (TraceId(trace), SpanId(span)))
}

prop_compose! {
    fn any_span()(
        (trace_id, span_id) in any_ids(),
        parent in prop::option::of(any::<[u8; 8]>()),
        parent_is_remote in any::<bool>(),
        (name, begin_ns, length) in (".{0,8}", any::<u64>(), any::<u32>()),
        attributes in any_attributes(),
        events in prop::collection::vec((".{0,8}", any::<u64>(), any_attributes()), 0..3),
        links in prop::collection::vec((any_ids(), any_attributes()), 0..3),
        error_type in prop::option::of("[a-z]{1,5}"),
    ) -> Span {
        Span {
            trace_id, span_id, parent_span_id: parent.map(SpanId), parent_is_remote, name: name.into(),
            begin_ns, end_ns: begin_ns.saturating_add(length.into()), attributes,
            events: events.into_iter().map(|(name, time_ns, attributes)| SpanEvent { name: name.into(), time_ns, attributes }).collect(),
            links: links.into_iter().map(|((trace_id, span_id), attributes)| Link { trace_id, span_id, attributes }).collect(),
            error_type,
        }
    }
}

fn any_number() -> impl Strategy<Value = Number> {
    prop_oneof![any::<i64>().prop_map(Number::I64), any_float().prop_map(Number::F64), Just(Number::Absent)]
}

prop_compose! {
    fn any_series()(
        definition in prop::sample::select(known::ALL),
        attributes in any_attributes(),
        values in prop::collection::vec((any::<u64>(), any_number()), 0..4),
        durations in prop::collection::vec(any_duration(), 0..40),
        exemplars in prop::collection::vec((any_ids(), any::<u64>(), any_duration()), 0..3),
    ) -> Series {
        let points = if definition.kind == Kind::Histogram {
            let mut histogram = ExponentialHistogram::default();
            durations.iter().for_each(|duration| histogram.record(*duration));
            let exemplars = exemplars.into_iter()
                .map(|((trace_id, span_id), time_ns, value)| Exemplar { time_ns, value, trace_id, span_id }).collect();
            Points::Histograms(vec![HistogramPoint { time_ns: 9, start_ns: 1, histogram, exemplars }])
        } else {
            Points::Numbers(values.into_iter().map(|(time_ns, value)| NumberPoint { time_ns, start_ns: 1, value }).collect())
        };
        Series { metric: definition.name.into(), attributes, points }
    }
}

proptest! {
    #[test]
    fn spans_survive_the_wire(spans in prop::collection::vec(any_span(), 0..5)) {
        let count = spans.len();
        let mut wire = Vec::new();
        encoder().write_traces(&spans, &mut wire);
        let mut line = Vec::new();
        encoder().write_traces_json(&spans, &mut line);
        let request = encoder().traces(spans);
        if count > 0 {
            prop_assert_eq!(String::from_utf8(line).unwrap(), json(&request));
        }
        prop_assert_eq!(wire.len(), request.encoded_len(), "as short as prost's");
        prop_assert_eq!(&ExportTraceServiceRequest::decode(wire.as_slice()).unwrap(), &request);
        prop_assert_eq!(items(&request), count);
        assert_round_trip(&request);
    }

    #[test]
    fn json_holds_all_digits_of_a_number(value in prop::num::f64::NORMAL) {
        let request = encoder().metrics(&[series(known::LOSS.name, numbers(&[Number::F64(value)]))]);
        let line = json(&request);
        let text = line.split("\"asDouble\":").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
        prop_assert_eq!(text.parse::<f64>().unwrap(), value);
    }

    #[test]
    fn points_survive_the_wire(all in prop::collection::vec(any_series(), 0..6)) {
        let request = encoder().metrics(&all);
        let count: usize = all.iter().map(|one| match &one.points { Points::Numbers(points) => points.len(), Points::Histograms(points) => points.len() }).sum();
        prop_assert_eq!(items(&request), count);
        assert_round_trip(&request);
        // One `Metric` a name, of the kind and unit that `semconv` gives.
        let mut seen = BTreeMap::new();
        for metric in request.resource_metrics.iter().flat_map(|group| &group.scope_metrics).flat_map(|scope| &scope.metrics) {
            let definition = semconv::find_metric(&metric.name).unwrap();
            let fits = match (&metric.data, definition.kind) {
                (Some(Data::Gauge(_)), Kind::Gauge) | (Some(Data::ExponentialHistogram(_)), Kind::Histogram) => true,
                (Some(Data::Sum(sum)), Kind::Counter) => sum.is_monotonic,
                (Some(Data::Sum(sum)), Kind::UpDownCounter) => !sum.is_monotonic,
                _ => false,
            };
            prop_assert!(fits && metric.unit == definition.unit, "{:?}", metric);
            prop_assert!(seen.insert(metric.name.clone(), ()).is_none());
        }
    }

    #[test]
    fn events_survive_the_wire(
        (name, time_ns, body) in ("[a-z.]{1,8}", any::<u64>(), ".{0,12}"), attributes in any_attributes(), span in prop::option::of(any_ids()),
        severity in prop::sample::select(&[Severity::Info, Severity::Warn, Severity::Error][..]),
    ) {
        let event = Event { name: Cow::Owned(name), time_ns, severity, body, attributes, span };
        let request = encoder().logs(&[event.clone(), event]);
        prop_assert_eq!(items(&request), 2);
        assert_round_trip(&request);
    }
}
