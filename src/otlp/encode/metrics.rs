//! Metric points.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, DataPointFlags, Exemplar as OtlpExemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, Sum, exemplar, number_data_point,
};

use super::value::key_values;
use crate::model::{Exemplar, HistogramPoint, Number, NumberPoint, Points, Series};
use crate::semconv::{self, Kind};

/// One `Metric` a name, in the order in which the names first appear.
pub(super) fn metrics(series: &[Series]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    // The shape of the points is part of the key: a `Metric` holds one shape only.
    let mut places: HashMap<(&str, bool), usize> = HashMap::new();
    for one in series {
        let is_histogram = match &one.points {
            Points::Numbers(points) if points.is_empty() => continue,
            Points::Histograms(points) if points.is_empty() => continue,
            Points::Numbers(_) => false,
            Points::Histograms(_) => true,
        };
        let place = *places.entry((&one.metric, is_histogram)).or_insert_with(|| {
            metrics.push(empty_metric(&one.metric, is_histogram));
            metrics.len() - 1
        });
        add_points(&mut metrics[place], one);
    }
    metrics
}

/// A metric as `semconv` defines it, without points. A name that `semconv` does not know is sent as a gauge rather than lost; the
/// tests' invariant checks find it.
fn empty_metric(name: &str, is_histogram: bool) -> Metric {
    let definition = semconv::find_metric(name);
    let cumulative = AggregationTemporality::Cumulative.into();
    let sum = |is_monotonic| Data::Sum(Sum { data_points: Vec::new(), aggregation_temporality: cumulative, is_monotonic });
    let data = match definition.map(|definition| definition.kind) {
        _ if is_histogram => {
            Data::ExponentialHistogram(ExponentialHistogram { data_points: Vec::new(), aggregation_temporality: cumulative })
        }
        Some(Kind::Counter) => sum(true),
        Some(Kind::UpDownCounter) => sum(false),
        Some(Kind::Gauge | Kind::Histogram) | None => Data::Gauge(Gauge::default()),
    };
    Metric {
        name: name.to_owned(),
        description: definition.map_or_else(String::new, |definition| definition.description.to_owned()),
        unit: definition.map_or_else(String::new, |definition| definition.unit.to_owned()),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn add_points(metric: &mut Metric, series: &Series) {
    let attributes = key_values(&series.attributes);
    match (&mut metric.data, &series.points) {
        (Some(Data::Gauge(gauge)), Points::Numbers(points)) => {
            // A gauge holds at its time only: a start would say nothing.
            gauge.data_points.extend(points.iter().map(|point| NumberDataPoint { start_time_unix_nano: 0, ..number(point, &attributes) }));
        }
        (Some(Data::Sum(sum)), Points::Numbers(points)) => sum.data_points.extend(points.iter().map(|point| number(point, &attributes))),
        (Some(Data::ExponentialHistogram(data)), Points::Histograms(points)) => {
            data.data_points.extend(points.iter().map(|point| histogram(point, &attributes)));
        }
        // `metrics` looks a metric up by the shape of the points that it holds.
        _ => {}
    }
}

fn number(point: &NumberPoint, attributes: &[KeyValue]) -> NumberDataPoint {
    let value = match point.value {
        Number::I64(value) => Some(number_data_point::Value::AsInt(value)),
        Number::F64(value) if value.is_finite() => Some(number_data_point::Value::AsDouble(value)),
        // Not a number: there is no value, and saying so is the only true thing to say.
        Number::F64(_) | Number::Absent => None,
    };
    NumberDataPoint {
        attributes: attributes.to_vec(),
        start_time_unix_nano: point.start_ns,
        time_unix_nano: point.time_ns,
        exemplars: Vec::new(),
        flags: if value.is_none() { DataPointFlags::NoRecordedValueMask as u32 } else { 0 },
        value,
    }
}

fn histogram(point: &HistogramPoint, attributes: &[KeyValue]) -> ExponentialHistogramDataPoint {
    let histogram = &point.histogram;
    let bucket_counts: Vec<u64> = histogram.bucket_counts().collect();
    let offset = if bucket_counts.is_empty() { 0 } else { histogram.offset() };
    ExponentialHistogramDataPoint {
        attributes: attributes.to_vec(),
        start_time_unix_nano: point.start_ns,
        time_unix_nano: point.time_ns,
        count: histogram.count(),
        sum: Some(histogram.sum()),
        scale: histogram.scale(),
        zero_count: histogram.zero_count(),
        positive: Some(Buckets { offset, bucket_counts }),
        negative: None,
        flags: 0,
        exemplars: point.exemplars.iter().map(exemplar).collect(),
        min: histogram.min(),
        max: histogram.max(),
        zero_threshold: 0.0,
    }
}

fn exemplar(exemplar: &Exemplar) -> OtlpExemplar {
    OtlpExemplar {
        filtered_attributes: Vec::new(),
        time_unix_nano: exemplar.time_ns,
        span_id: exemplar.span_id.0.to_vec(),
        trace_id: exemplar.trace_id.0.to_vec(),
        value: Some(exemplar::Value::AsDouble(exemplar.value)),
    }
}
