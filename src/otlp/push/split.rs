//! Requests cut in two, where one would be larger than servers take. Order stays; resource and scope are in both parts.

use std::mem;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use crate::otlp::encode::{Request, points};

/// A request that can be cut.
pub(super) trait Split: Request {
    /// Keeps the first `count` items and gives back the rest, both in order.
    fn split_off(&mut self, count: usize) -> Self;
}

/// Something that holds items: a list is cut through its members.
trait Part: Sized {
    fn items(&self) -> usize;
    /// Keeps the first `count` items, fewer than it has and more than none, and gives back the rest.
    fn cut(&mut self, count: usize) -> Self;
}

impl<T: Part> Part for Vec<T> {
    fn items(&self) -> usize {
        self.iter().map(Part::items).sum()
    }

    fn cut(&mut self, count: usize) -> Self {
        let mut left = count;
        for place in 0..self.len() {
            let items = self[place].items();
            if left >= items {
                left -= items;
                continue;
            }
            if left == 0 {
                return self.split_off(place);
            }
            let half = self[place].cut(left);
            let mut rest = vec![half];
            rest.extend(self.drain(place + 1..));
            return rest;
        }
        Vec::new()
    }
}

macro_rules! one_item {
    ($item:ty) => {
        impl Part for $item {
            fn items(&self) -> usize {
                1
            }

            /// Never asked: one item has no part.
            fn cut(&mut self, _count: usize) -> Self {
                Self::default()
            }
        }
    };
}

one_item!(Span);
one_item!(LogRecord);

/// A group with a heading (resource or scope) that both parts need.
macro_rules! group {
    ($group:ident, $heading:ident, $members:ident) => {
        impl Part for $group {
            fn items(&self) -> usize {
                self.$members.items()
            }

            fn cut(&mut self, count: usize) -> Self {
                let $members = self.$members.cut(count);
                Self { $heading: self.$heading.clone(), $members, schema_url: self.schema_url.clone(), ..Self::default() }
            }
        }
    };
}

#[allow(clippy::needless_update)]
mod groups {
    use super::*;

    group!(ResourceSpans, resource, scope_spans);
    group!(ScopeSpans, scope, spans);
    group!(ResourceMetrics, resource, scope_metrics);
    group!(ScopeMetrics, scope, metrics);
    group!(ResourceLogs, resource, scope_logs);
    group!(ScopeLogs, scope, log_records);
}

impl Part for Metric {
    fn items(&self) -> usize {
        points(self)
    }

    fn cut(&mut self, count: usize) -> Self {
        let mut rest = Self { data: None, metadata: self.metadata.clone(), ..Self::default() };
        rest.name.clone_from(&self.name);
        rest.description.clone_from(&self.description);
        rest.unit.clone_from(&self.unit);
        rest.data = self.data.as_mut().map(|data| match data {
            Data::Gauge(data) => {
                let points = data.data_points.split_off(count);
                Data::Gauge(with_points(data, |data| &mut data.data_points, points))
            }
            Data::Sum(data) => {
                let points = data.data_points.split_off(count);
                Data::Sum(with_points(data, |data| &mut data.data_points, points))
            }
            Data::Histogram(data) => {
                let points = data.data_points.split_off(count);
                Data::Histogram(with_points(data, |data| &mut data.data_points, points))
            }
            Data::ExponentialHistogram(data) => {
                let points = data.data_points.split_off(count);
                Data::ExponentialHistogram(with_points(data, |data| &mut data.data_points, points))
            }
            Data::Summary(data) => {
                let points = data.data_points.split_off(count);
                Data::Summary(with_points(data, |data| &mut data.data_points, points))
            }
        });
        rest
    }
}

/// The same data with other points, without copying the ones that stay.
fn with_points<D: Clone, P>(data: &mut D, of: impl Fn(&mut D) -> &mut Vec<P>, points: Vec<P>) -> D {
    let stay = mem::take(of(data));
    let mut rest = data.clone();
    *of(data) = stay;
    *of(&mut rest) = points;
    rest
}

macro_rules! request {
    ($request:ident, $groups:ident) => {
        impl Split for $request {
            fn split_off(&mut self, count: usize) -> Self {
                Self { $groups: self.$groups.cut(count) }
            }
        }
    };
}

request!(ExportTraceServiceRequest, resource_spans);
request!(ExportMetricsServiceRequest, resource_metrics);
request!(ExportLogsServiceRequest, resource_logs);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
    use opentelemetry_proto::tonic::metrics::v1::{Gauge, NumberDataPoint};
    use proptest::prelude::*;

    use super::*;

    /// A request whose groups have these numbers of points in their metrics; the points' times count up.
    fn request(groups: &[Vec<Vec<usize>>]) -> ExportMetricsServiceRequest {
        let mut time = 0;
        let mut metric = |count: &usize| {
            let data_points = (0..*count).map(|_| {
                time += 1;
                NumberDataPoint { time_unix_nano: time, ..NumberDataPoint::default() }
            });
            let data = Some(Data::Gauge(Gauge { data_points: data_points.collect() }));
            Metric { name: "m".to_owned(), data, ..Metric::default() }
        };
        let mut scope = |metrics: &Vec<usize>| ScopeMetrics {
            scope: Some(InstrumentationScope::default()),
            metrics: metrics.iter().map(&mut metric).collect(),
            schema_url: "s".to_owned(),
        };
        ExportMetricsServiceRequest {
            resource_metrics: groups
                .iter()
                .map(|scopes| ResourceMetrics { scope_metrics: scopes.iter().map(&mut scope).collect(), ..ResourceMetrics::default() })
                .collect(),
        }
    }

    fn times(request: &ExportMetricsServiceRequest) -> Vec<u64> {
        let scopes = request.resource_metrics.iter().flat_map(|group| &group.scope_metrics);
        scopes
            .flat_map(|scope| {
                assert_eq!(scope.schema_url, "s");
                assert!(scope.scope.is_some());
                &scope.metrics
            })
            .flat_map(|metric| match &metric.data {
                Some(Data::Gauge(gauge)) if metric.name == "m" => gauge.data_points.iter().map(|point| point.time_unix_nano),
                _ => panic!("another metric"),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn both_parts_in_order_are_the_whole(
            groups in prop::collection::vec(prop::collection::vec(prop::collection::vec(0_usize..5, 0..4), 0..4), 0..4),
            share in 0.0_f64..1.0,
        ) {
            let mut first = request(&groups);
            let whole = times(&first);
            let count = (whole.len() as f64 * share) as usize;
            let rest = Split::split_off(&mut first, count);
            prop_assert_eq!(times(&first).len(), count);
            prop_assert_eq!([times(&first), times(&rest)].concat(), whole);
        }
    }

    #[test]
    fn spans_and_log_events_too() {
        let spans = vec![Span { name: "a".to_owned(), ..Span::default() }, Span { name: "b".to_owned(), ..Span::default() }];
        let scope = ScopeSpans { spans, ..ScopeSpans::default() };
        let mut request =
            ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }] };
        let rest = Split::split_off(&mut request, 1);
        assert_eq!((request.items(), rest.items()), (1, 1));
        assert_eq!(rest.resource_spans[0].scope_spans[0].spans[0].name, "b");
    }
}
