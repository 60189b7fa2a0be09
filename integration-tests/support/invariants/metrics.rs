//! What must hold of metrics.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, ExponentialHistogramDataPoint, Metric, NumberDataPoint, exemplar};
use stepline::semconv::{self, Kind};

use super::{Faults, Spans, check_attributes, check_time, has_text, identity};

/// The point was left without a value on purpose.
const NO_RECORDED_VALUE: u32 = 1;
/// Attributes that would make a series of each step or epoch.
const NEVER_LABELS: [&str; 3] = ["stepline.step.index", "stepline.epoch.index", "stepline.segment.index"];

/// What the last point of a series was.
struct Last {
    start_ns: u64,
    time_ns: u64,
    total: Option<f64>,
}

pub(super) fn check(requests: &[ExportMetricsServiceRequest], spans: &Spans, faults: &mut Faults) {
    let mut series: HashMap<String, Last> = HashMap::new();
    for request in requests {
        let mut names = std::collections::HashSet::new();
        for metric in request.resource_metrics.iter().flat_map(|group| &group.scope_metrics).flat_map(|scope| &scope.metrics) {
            if !names.insert(&metric.name) {
                faults.add(&metric.name, "stands twice in one request");
            }
            check_metric(metric, &mut series, spans, faults);
        }
    }
}

fn check_metric(metric: &Metric, series: &mut HashMap<String, Last>, spans: &Spans, faults: &mut Faults) {
    let name = &metric.name;
    let Some(definition) = semconv::find_metric(name) else {
        faults.add(name, "is a name that semconv does not know");
        return;
    };
    if metric.unit != definition.unit {
        faults.add(name, format!("has the unit {:?} instead of {:?}", metric.unit, definition.unit));
    }
    if metric.description != definition.description {
        faults.add(name, "has another description than semconv");
    }
    let cumulative = AggregationTemporality::Cumulative as i32;
    let (kind, is_cumulative) = match &metric.data {
        Some(Data::Gauge(_)) => (Some(Kind::Gauge), true),
        Some(Data::Sum(sum)) => {
            (Some(if sum.is_monotonic { Kind::Counter } else { Kind::UpDownCounter }), sum.aggregation_temporality == cumulative)
        }
        Some(Data::ExponentialHistogram(data)) => (Some(Kind::Histogram), data.aggregation_temporality == cumulative),
        _ => (None, true),
    };
    if kind != Some(definition.kind) {
        faults.add(name, format!("is of the kind {kind:?} instead of {:?}", definition.kind));
    }
    if !is_cumulative {
        faults.add(name, "is not cumulative");
    }
    match &metric.data {
        Some(Data::Gauge(gauge)) => {
            gauge.data_points.iter().for_each(|point| check_number(definition, point, series, faults));
        }
        Some(Data::Sum(sum)) => sum.data_points.iter().for_each(|point| check_number(definition, point, series, faults)),
        Some(Data::ExponentialHistogram(data)) => {
            data.data_points.iter().for_each(|point| check_histogram(definition, point, series, spans, faults));
        }
        _ => {}
    }
}

fn check_number(definition: &semconv::Metric, point: &NumberDataPoint, series: &mut HashMap<String, Last>, faults: &mut Faults) {
    let place = format!("{} {{{}}} @{}", definition.name, identity(&point.attributes), point.time_unix_nano);
    check_point(definition, &place, &point.attributes, faults);
    let is_absent = point.flags & NO_RECORDED_VALUE != 0;
    let value = match point.value {
        Some(NumberValue::AsInt(value)) => Some(value as f64),
        Some(NumberValue::AsDouble(value)) => Some(value),
        None => None,
    };
    if value.is_some() == is_absent {
        faults.add(&place, "has no value without saying so, or a value beside saying so");
    }
    if value.is_some_and(|value| !value.is_finite()) {
        faults.add(&place, "is no finite number");
    }
    if definition.unit == "By" && matches!(point.value, Some(NumberValue::AsDouble(_))) {
        faults.add(&place, "counts bytes in fractions");
    }
    let is_share = definition.kind == Kind::Gauge && (definition.name.ends_with("utilization") || definition.name.ends_with("ratio"));
    if is_share && value.is_some_and(|value| !(-1e-9..=1.0 + 1e-9).contains(&value)) {
        faults.add(&place, format!("{value:?} is no share of 1"));
    }
    if definition.kind == Kind::Counter && value.is_some_and(|value| value < 0.0) {
        faults.add(&place, "counts below 0");
    }
    if (definition.kind == Kind::Gauge) != (point.start_time_unix_nano == 0) {
        faults.add(&place, "is a gauge with a start, or a sum without one");
    }
    let total = value.filter(|_| definition.kind == Kind::Counter);
    check_order(&place, &point.attributes, definition.name, (point.start_time_unix_nano, point.time_unix_nano, total), series, faults);
}

fn check_histogram(
    definition: &semconv::Metric,
    point: &ExponentialHistogramDataPoint,
    series: &mut HashMap<String, Last>,
    spans: &Spans,
    faults: &mut Faults,
) {
    let place = format!("{} {{{}}} @{}", definition.name, identity(&point.attributes), point.time_unix_nano);
    check_point(definition, &place, &point.attributes, faults);
    let buckets = |buckets: &Option<_>| {
        buckets.as_ref().map_or(0, |buckets: &opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets| {
            buckets.bucket_counts.iter().sum::<u64>()
        })
    };
    let in_buckets = point.zero_count + buckets(&point.positive) + buckets(&point.negative);
    if in_buckets != point.count {
        faults.add(&place, format!("counts {} but holds {in_buckets}", point.count));
    }
    if !(-10..=20).contains(&point.scale) {
        faults.add(&place, format!("has the scale {}", point.scale));
    }
    if (point.count == 0) != (point.min.is_none() && point.max.is_none()) {
        faults.add(&place, "has values without a minimum and maximum, or the reverse");
    }
    match (point.sum, point.min, point.max) {
        (Some(sum), Some(min), Some(max)) => {
            let (count, slack) = (point.count as f64, 1e-9 * point.count as f64 * max.abs());
            if !(sum.is_finite() && min <= max && count * min - slack <= sum && sum <= count * max + slack) {
                faults.add(&place, format!("{count} values from {min} to {max} cannot make {sum}"));
            }
        }
        (None, ..) => faults.add(&place, "has no sum"),
        _ => {}
    }
    if point.start_time_unix_nano == 0 {
        faults.add(&place, "has no start");
    }
    for exemplar in &point.exemplars {
        spans.expect(&place, "has an exemplar of", &exemplar.trace_id, &exemplar.span_id, faults);
        if !(point.start_time_unix_nano..=point.time_unix_nano).contains(&exemplar.time_unix_nano) {
            faults.add(&place, "has an exemplar from outside of its time");
        }
        let within = |value: f64| point.min.is_some_and(|min| min <= value) && point.max.is_some_and(|max| value <= max);
        if !matches!(exemplar.value, Some(exemplar::Value::AsDouble(value)) if within(value)) {
            faults.add(&place, "has an exemplar that is none of its values");
        }
    }
    let order = (point.start_time_unix_nano, point.time_unix_nano, Some(point.count as f64));
    check_order(&place, &point.attributes, definition.name, order, series, faults);
}

/// Within a series, times strictly rise, and what counts from the same start never falls.
fn check_order(
    place: &str,
    attributes: &[KeyValue],
    name: &str,
    (start_ns, time_ns, total): (u64, u64, Option<f64>),
    series: &mut HashMap<String, Last>,
    faults: &mut Faults,
) {
    check_time(place, time_ns, faults);
    if start_ns != 0 {
        check_time(place, start_ns, faults);
    }
    if start_ns > time_ns {
        faults.add(place, "starts after its time");
    }
    let key = format!("{name} {}", identity(attributes));
    if let Some(last) = series.get(&key) {
        if time_ns <= last.time_ns {
            faults.add(place, format!("is {} ns before the point before it, or at its time", last.time_ns - time_ns));
        }
        if start_ns < last.start_ns || start_ns > last.start_ns && start_ns < last.time_ns {
            faults.add(place, "starts within what was counted before");
        }
        if let (true, Some(before), Some(total)) = (start_ns == last.start_ns, last.total, total)
            && total < before
        {
            faults.add(place, format!("fell from {before} to {total} without a new start"));
        }
    }
    // A point without a value does not make one forget the last total.
    let total = total.or_else(|| series.get(&key).filter(|last| last.start_ns == start_ns).and_then(|last| last.total));
    series.insert(key, Last { start_ns, time_ns, total });
}

/// The attributes that the definitions of hw.* and process.* require and allow.
fn check_point(definition: &semconv::Metric, place: &str, attributes: &[KeyValue], faults: &mut Faults) {
    check_attributes(place, attributes, faults);
    for key in NEVER_LABELS {
        if attributes.iter().any(|pair| pair.key == key) {
            faults.add(place, format!("{key} makes a series of each step or epoch"));
        }
    }
    let Some((required, allowed)) = official_attributes(definition.name) else { return };
    for key in required {
        if !has_text(attributes, key) {
            faults.add(place, format!("lacks {key}, which its definition requires"));
        }
    }
    for pair in attributes {
        if !required.contains(&pair.key.as_str()) && !allowed.contains(&pair.key.as_str()) {
            faults.add(place, format!("has {}, which its definition does not list", pair.key));
        }
    }
    if required.contains(&"hw.type") && super::text(attributes, "hw.type").is_some_and(|kind| kind != semconv::HW_TYPE_GPU) {
        faults.add(place, "is of a hw.type other than gpu");
    }
}

/// Required and allowed attributes of an official metric (semantic conventions 1.44); `None` for our own.
fn official_attributes(name: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    const GPU: &[&str] = &["hw.name", "hw.parent", "hw.vendor", "hw.model", "hw.serial_number", "hw.driver_version", "hw.firmware_version"];
    const COMMON: &[&str] = &["hw.name", "hw.parent"];
    Some(match name {
        "hw.gpu.io" => (&["hw.id", "network.io.direction"], GPU),
        _ if name.starts_with("hw.gpu.") => (&["hw.id"], GPU),
        "hw.errors" => (&["hw.id", "hw.type"], &["hw.name", "hw.parent", "error.type"]),
        "hw.status" => (&["hw.id", "hw.type", "hw.state"], COMMON),
        "hw.fan.speed_ratio" => (&["hw.id"], &["hw.name", "hw.parent", "hw.sensor_location"]),
        "hw.temperature" => (&["hw.id", "hw.type"], &["hw.name", "hw.parent", "hw.sensor_location"]),
        _ if name.starts_with("hw.") => (&["hw.id", "hw.type"], COMMON),
        "process.cpu.time" => (&["cpu.mode"], &[]),
        "process.disk.io" => (&["disk.io.direction"], &[]),
        _ if name.starts_with("process.") => (&[], &[]),
        _ => return None,
    })
}
