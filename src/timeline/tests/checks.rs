//! What must hold of everything that a timeline emits, whatever the records were.

use std::collections::{HashMap, HashSet};

use crate::model::{Attribute, Event, Identity, Number, NumberPoint, Points, Series, Span, SpanId, TraceId, Value};
use crate::semconv::{Kind, find_metric, spans};
use crate::timeline::Emitted;

/// All that came out of one timeline, in order.
pub(super) fn joined(parts: Vec<Emitted>) -> Emitted {
    let mut all = Emitted::default();
    for part in parts {
        all.spans.extend(part.spans);
        all.series.extend(part.series);
        all.events.extend(part.events);
    }
    all
}

pub(super) fn check(all: &Emitted, identity: &Identity) {
    check_spans(&all.spans, identity);
    check_series(&all.series, &all.spans);
    check_events(&all.events, &all.spans);
}

fn check_attributes(attributes: &[Attribute]) {
    let keys: HashSet<&str> = attributes.iter().map(|attribute| attribute.key.as_ref()).collect();
    assert_eq!(keys.len(), attributes.len(), "twice the same attribute in {attributes:?}");
    for attribute in attributes {
        let finite = match &attribute.value {
            Value::F64(number) => number.is_finite(),
            Value::F64s(numbers) => numbers.iter().all(|number| number.is_finite()),
            _ => true,
        };
        assert!(finite, "{attribute:?}");
    }
}

fn check_spans(all: &[Span], identity: &Identity) {
    let by_id: HashMap<(TraceId, SpanId), &Span> = all.iter().map(|span| ((span.trace_id, span.span_id), span)).collect();
    assert_eq!(by_id.len(), all.len(), "twice the same id");
    let ids: HashSet<SpanId> = all.iter().map(|span| span.span_id).collect();
    assert_eq!(ids.len(), all.len(), "twice the same span id");
    let mut per_trace: HashMap<TraceId, usize> = HashMap::new();
    let mut roots: HashMap<TraceId, usize> = HashMap::new();
    for span in all {
        check_attributes(&span.attributes);
        assert!(span.begin_ns <= span.end_ns, "{span:?}");
        *per_trace.entry(span.trace_id).or_default() += 1;
        match span.parent_span_id {
            None => *roots.entry(span.trace_id).or_default() += 1,
            Some(_) if span.parent_is_remote => assert_eq!(span.name, spans::RUN),
            Some(parent) => {
                let parent = by_id.get(&(span.trace_id, parent)).unwrap_or_else(|| panic!("no parent of {span:?}"));
                assert!(parent.begin_ns <= span.begin_ns && span.end_ns <= parent.end_ns, "{span:?} not inside {parent:?}");
            }
        }
        assert!(span.links.len() <= 128 && span.events.len() <= 128);
        for link in &span.links {
            let to = (link.trace_id, link.span_id);
            let root_of_all = to == (identity.root_trace_id(), identity.root_span_id());
            assert!(root_of_all || by_id.contains_key(&to), "link to nowhere in {span:?}");
            assert_ne!(to, (span.trace_id, span.span_id));
        }
        for event in &span.events {
            check_attributes(&event.attributes);
            assert!(span.begin_ns <= event.time_ns && event.time_ns <= span.end_ns, "{event:?} outside of {span:?}");
        }
    }
    assert!(roots.values().all(|count| *count == 1), "several roots");
    assert!(per_trace.values().all(|count| *count <= 1001), "{:?}", per_trace.values().max());
}

fn check_series(all: &[Series], spans: &[Span]) {
    let by_id: HashMap<(TraceId, SpanId), &Span> = spans.iter().map(|span| ((span.trace_id, span.span_id), span)).collect();
    let mut numbers: HashMap<String, Vec<NumberPoint>> = HashMap::new();
    let mut histograms: HashMap<String, (u64, u64)> = HashMap::new();
    for series in all {
        let metric = find_metric(&series.metric).unwrap_or_else(|| panic!("{} is not in semconv", series.metric));
        check_attributes(&series.attributes);
        let key = format!("{} {:?}", series.metric, series.attributes);
        match &series.points {
            Points::Numbers(points) => {
                assert!(!points.is_empty() && metric.kind != Kind::Histogram);
                assert!(points.iter().all(|point| (point.start_ns == 0) == (metric.kind == Kind::Gauge)), "{key}");
                numbers.entry(key).or_default().extend(points);
            }
            Points::Histograms(points) => {
                for point in points {
                    let last = histograms.insert(key.clone(), (point.time_ns, point.histogram.count()));
                    assert!(last.is_none_or(|(time_ns, count)| time_ns < point.time_ns && count <= point.histogram.count()), "{key}");
                    assert!(point.start_ns <= point.time_ns && metric.kind == Kind::Histogram);
                    for exemplar in &point.exemplars {
                        let span = by_id.get(&(exemplar.trace_id, exemplar.span_id)).expect("exemplar of a span that is not exported");
                        assert!(span.begin_ns <= exemplar.time_ns && exemplar.time_ns <= span.end_ns);
                        assert!(point.start_ns <= exemplar.time_ns && exemplar.time_ns <= point.time_ns);
                        let (min, max) = (point.histogram.min().unwrap(), point.histogram.max().unwrap());
                        assert!(min <= exemplar.value && exemplar.value <= max);
                    }
                }
            }
        }
    }
    for (key, points) in numbers {
        let kind = find_metric(key.split(' ').next().unwrap()).unwrap().kind;
        let is_float = |point: &NumberPoint| match point.value {
            Number::F64(value) => {
                assert!(value.is_finite(), "{key}");
                Some(true)
            }
            Number::I64(_) => Some(false),
            Number::Absent => None,
        };
        let types: HashSet<bool> = points.iter().filter_map(is_float).collect();
        assert!(types.len() <= 1, "{key} changes its type");
        for pair in points.windows(2) {
            assert!(pair[0].time_ns < pair[1].time_ns, "{key}: {pair:?}");
            assert!(pair[0].start_ns == pair[1].start_ns || pair[0].time_ns <= pair[1].start_ns, "{key}: {pair:?}");
            let same_count = pair[0].start_ns == pair[1].start_ns && pair.iter().all(|point| point.value != Number::Absent);
            if kind == Kind::Counter && same_count {
                assert!(value(&pair[0]) <= value(&pair[1]), "{key}: {pair:?}");
            }
        }
        assert!(points.iter().all(|point| point.start_ns <= point.time_ns), "{key}");
        assert!(kind != Kind::Counter || points.iter().all(|point| value(point) >= 0.0), "{key}");
    }
}

pub(super) fn value(point: &NumberPoint) -> f64 {
    match point.value {
        Number::I64(value) => value as f64,
        Number::F64(value) => value,
        Number::Absent => f64::INFINITY,
    }
}

fn check_events(all: &[Event], spans: &[Span]) {
    let by_id: HashMap<(TraceId, SpanId), &Span> = spans.iter().map(|span| ((span.trace_id, span.span_id), span)).collect();
    for event in all {
        check_attributes(&event.attributes);
        if let Some(place) = event.span {
            let span = by_id.get(&place).unwrap_or_else(|| panic!("{event:?} of a span that is not exported"));
            assert!(span.begin_ns <= event.time_ns && event.time_ns <= span.end_ns, "{event:?} outside of {span:?}");
        }
    }
}

/// All points of a metric, in order, with the text of their attributes.
pub(super) fn points(all: &Emitted, metric: &str) -> Vec<(Vec<Attribute>, NumberPoint)> {
    let of_metric = all.series.iter().filter(|series| series.metric == metric);
    let pairs = of_metric.flat_map(|series| match &series.points {
        Points::Numbers(points) => points.iter().map(|point| (series.attributes.clone(), *point)).collect(),
        Points::Histograms(_) => Vec::new(),
    });
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by_cached_key(|(attributes, point)| (format!("{attributes:?}"), point.time_ns));
    pairs
}

/// The last value of a counter, all its series together.
pub(super) fn total(all: &Emitted, metric: &str) -> f64 {
    let mut last: HashMap<String, f64> = HashMap::new();
    for (attributes, point) in points(all, metric) {
        last.insert(format!("{attributes:?}"), value(&point));
    }
    last.values().sum()
}

/// The spans of that name.
pub(super) fn all<'a>(emitted: &'a Emitted, name: &str) -> Vec<&'a Span> {
    emitted.spans.iter().filter(|span| span.name == name).collect()
}

/// The only span of that name.
pub(super) fn one<'a>(emitted: &'a Emitted, name: &str) -> &'a Span {
    let found = all(emitted, name);
    assert_eq!(found.len(), 1, "{name}");
    found[0]
}

/// What the links of a span mean.
pub(super) fn link_types(span: &Span) -> Vec<&str> {
    let types = span.links.iter().map(|link| match &link.attributes[0].value {
        Value::Text(text) => text.as_ref(),
        _ => "",
    });
    types.collect()
}
