//! Series of points being collected: times strictly increase, starts and values agree.

use std::collections::HashMap;

use crate::model::{Attribute, Number, NumberPoint, Points, Series};
use crate::semconv::{Kind, Metric};

/// Tells the series of one metric apart: the number of a device, a phase or a scalar, and which of several of it.
pub(super) type Key = (u8, u8);

/// One series.
#[derive(Debug)]
struct Line {
    metric: &'static str,
    kind: Kind,
    attributes: Vec<Attribute>,
    points: Vec<NumberPoint>,
    last_ns: u64,
    /// Of a counter of somebody else's: since when it is watched, and what it was then.
    base: Option<(u64, f64, Number)>,
    device: Option<u8>,
    absent: bool,
}

/// All series of numbers.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    places: HashMap<(&'static str, Key), usize>,
    /// Begin of what this process counts.
    start_ns: u64,
}

impl Lines {
    pub(super) fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    fn line(&mut self, metric: Metric, key: Key, device: Option<u8>, attributes: impl FnOnce() -> Vec<Attribute>) -> &mut Line {
        let next = self.lines.len();
        let place = *self.places.entry((metric.name, key)).or_insert(next);
        if place == next {
            self.lines.push(Line {
                metric: metric.name,
                kind: metric.kind,
                attributes: attributes(),
                points: Vec::new(),
                last_ns: 0,
                base: None,
                device,
                absent: false,
            });
        }
        &mut self.lines[place]
    }

    /// A value at a time. A point that is not newer than the last of its series is not taken.
    pub(super) fn push(&mut self, metric: Metric, key: Key, time_ns: u64, value: Number, attributes: impl FnOnce() -> Vec<Attribute>) {
        self.push_of(metric, key, None, time_ns, value, attributes);
    }

    /// A value of a device at a time: its series end when it is lost.
    pub(super) fn push_of(
        &mut self,
        metric: Metric,
        key: Key,
        device: Option<u8>,
        time_ns: u64,
        value: Number,
        attributes: impl FnOnce() -> Vec<Attribute>,
    ) {
        if matches!(value, Number::F64(number) if !number.is_finite()) {
            return;
        }
        let start_ns = if metric.kind == Kind::Gauge { 0 } else { self.start_ns };
        if time_ns < start_ns {
            return;
        }
        self.line(metric, key, device, attributes).add(time_ns, start_ns, value);
    }

    /// The reading of a counter that somebody else keeps. What it had counted before it was first read is not ours to report: the
    /// series starts at 0 then, and again when the counter falls.
    pub(super) fn push_counter(
        &mut self,
        metric: Metric,
        key: Key,
        device: Option<u8>,
        time_ns: u64,
        raw: Number,
        attributes: impl FnOnce() -> Vec<Attribute>,
    ) {
        let read = match raw {
            Number::I64(value) => value as f64,
            Number::F64(value) if value.is_finite() => value,
            _ => return,
        };
        let run_start_ns = self.start_ns;
        let line = self.line(metric, key, device, attributes);
        if time_ns <= line.last_ns || time_ns < run_start_ns {
            return;
        }
        let fell = line.base.is_some_and(|(_, last, _)| read < last);
        let (start_ns, first) = line.base.filter(|_| !fell).map_or((time_ns, raw), |(start_ns, _, first)| (start_ns, first));
        line.base = Some((start_ns, read, first));
        let value = match (raw, first) {
            (Number::I64(now), Number::I64(then)) => Number::I64(now.saturating_sub(then)),
            (Number::F64(now), Number::F64(then)) => Number::F64((now - then).max(0.0)),
            _ => return,
        };
        line.add(time_ns, start_ns, value);
    }

    /// A device's series end here.
    pub(super) fn end_device(&mut self, device: u8, time_ns: u64) {
        let start_ns = self.start_ns;
        for line in self.lines.iter_mut().filter(|line| line.device == Some(device) && !line.absent) {
            let start_ns = match line.kind {
                Kind::Gauge => 0,
                _ => line.base.map_or(start_ns, |(start_ns, ..)| start_ns),
            };
            let time_ns = time_ns.max(line.last_ns.saturating_add(1));
            line.add(time_ns, start_ns, Number::Absent);
        }
    }

    /// The points collected since the last time.
    pub(super) fn take(&mut self) -> Vec<Series> {
        let filled = self.lines.iter_mut().filter(|line| !line.points.is_empty());
        let series = filled.map(|line| Series {
            metric: line.metric.into(),
            attributes: line.attributes.clone(),
            points: Points::Numbers(std::mem::take(&mut line.points)),
        });
        series.collect()
    }
}

impl Line {
    fn add(&mut self, time_ns: u64, start_ns: u64, value: Number) {
        if time_ns > self.last_ns {
            self.last_ns = time_ns;
            self.absent = value == Number::Absent;
            self.points.push(NumberPoint { time_ns, start_ns, value });
        }
    }
}
