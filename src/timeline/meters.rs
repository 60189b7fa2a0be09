//! What the training does as metric points: counters, histograms and gauges, and where the training stood at each reading.

use std::collections::BTreeMap;

use super::lines::Lines;
use super::names::Names;
use super::tally::seconds;
use crate::model::{Attribute, Exemplar, ExponentialHistogram, HistogramPoint, Number, Phase, Points, Scalar, Series};
use crate::semconv::{Metric, attributes as keys, metrics};

/// Exemplars of one point.
const MAX_EXEMPLARS: usize = 4;
/// Gauges that come with each step get one point in so long.
const GAUGE_PERIOD_NS: u64 = 1_000_000_000;

/// Collects the training's own points. The lines also take those of the devices.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) lines: Lines,
    start_ns: u64,
    stamped_ns: u64,
    counted_since_stamp: bool,
    steps: u64,
    samples: Option<f64>,
    tokens: Option<f64>,
    nonfinite: BTreeMap<Scalar, u64>,
    step_durations: ExponentialHistogram,
    exemplars: Vec<Exemplar>,
    phase_durations: BTreeMap<Phase, ExponentialHistogram>,
    /// The last value of each gauge that may still be followed by another one of the same second.
    gauges: BTreeMap<Scalar, (u64, f64)>,
    epoch: Option<u64>,
    phases_seen: BTreeMap<Phase, ()>,
}

impl Meters {
    /// The run began: what counters count from.
    pub(super) fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.stamped_ns = start_ns;
        self.lines.start(start_ns);
    }

    pub(super) fn step(&mut self, duration_ns: u64) {
        self.counted_since_stamp = true;
        self.steps += 1;
        self.step_durations.record(seconds(duration_ns));
    }

    pub(super) fn step_durations(&self) -> &ExponentialHistogram {
        &self.step_durations
    }

    pub(super) fn nonfinite_count(&self) -> u64 {
        self.nonfinite.values().sum()
    }

    pub(super) fn phase(&mut self, phase: Phase, duration_ns: u64) {
        self.counted_since_stamp = true;
        self.phase_durations.entry(phase).or_default().record(seconds(duration_ns));
    }

    /// A step whose span is exported: the longest since the last point are pointed to.
    pub(super) fn exemplar(&mut self, exemplar: Exemplar) {
        if self.exemplars.len() < MAX_EXEMPLARS {
            self.exemplars.push(exemplar);
        } else if let Some(shortest) = self.exemplars.iter_mut().min_by(|a, b| a.value.total_cmp(&b.value))
            && shortest.value < exemplar.value
        {
            *shortest = exemplar;
        }
    }

    /// A number was recorded.
    pub(super) fn scalar(&mut self, time_ns: u64, scalar: Scalar, value: f64, names: &Names) {
        if !value.is_finite() {
            self.counted_since_stamp = true;
            *self.nonfinite.entry(scalar).or_insert(0) += 1;
            return;
        }
        if scalar == Scalar::SAMPLES || scalar == Scalar::TOKENS {
            self.counted_since_stamp = true;
            let total = if scalar == Scalar::SAMPLES { &mut self.samples } else { &mut self.tokens };
            *total = Some(total.unwrap_or(0.0) + value.max(0.0));
            return;
        }
        match self.gauges.insert(scalar, (time_ns, value)) {
            Some((before_ns, before)) if before_ns / GAUGE_PERIOD_NS < time_ns / GAUGE_PERIOD_NS => {
                self.push_gauge(before_ns, scalar, before, names);
            }
            Some((before_ns, before)) if before_ns > time_ns => {
                self.gauges.insert(scalar, (before_ns, before));
            }
            _ => {}
        }
    }

    fn push_gauge(&mut self, time_ns: u64, scalar: Scalar, value: f64, names: &Names) {
        let (metric, bytes) = match scalar {
            Scalar::LOSS => (metrics::LOSS, false),
            Scalar::LEARNING_RATE => (metrics::LEARNING_RATE, false),
            Scalar::GRAD_NORM => (metrics::GRAD_NORM, false),
            Scalar::ALLOCATOR_ALLOCATED => (metrics::ALLOCATOR_MEMORY_ALLOCATED, true),
            Scalar::ALLOCATOR_RESERVED => (metrics::ALLOCATOR_MEMORY_RESERVED, true),
            Scalar::ALLOCATOR_PEAK => (metrics::ALLOCATOR_MEMORY_PEAK, true),
            _ => (metrics::SCALAR, false),
        };
        let named = metric == metrics::SCALAR;
        let attributes = || if named { vec![Attribute::text(keys::SCALAR_NAME, names.scalar(scalar).to_owned())] } else { Vec::new() };
        let value = if bytes { Number::I64(value as i64) } else { Number::F64(value) };
        self.lines.push(metric, (scalar.0, 0), time_ns, value, attributes);
    }

    /// The epoch that was open at a reading.
    pub(super) fn epoch_current(&mut self, time_ns: u64, epoch: Option<u64>, always: bool) {
        if epoch != self.epoch || always && epoch.is_some() {
            let value = epoch.map_or(Number::Absent, |epoch| Number::I64(i64::try_from(epoch).unwrap_or(i64::MAX)));
            self.lines.push(metrics::EPOCH_CURRENT, (0, 0), time_ns, value, Vec::new);
            self.epoch = epoch;
        }
    }

    /// Where the training stood when the sampler looked.
    pub(super) fn position(&mut self, time_ns: u64, step: Option<u64>, phase: Option<Phase>, names: &Names) {
        if let Some(step) = step {
            let step = Number::I64(i64::try_from(step).unwrap_or(i64::MAX));
            self.lines.push(metrics::STEP_CURRENT, (0, 0), time_ns, step, Vec::new);
        }
        if let Some(phase) = phase {
            self.phases_seen.insert(phase, ());
        }
        for seen in self.phases_seen.keys() {
            let value = Number::I64(i64::from(phase == Some(*seen)));
            let attributes = || vec![Attribute::text(keys::PHASE_NAME, names.phase(*seen))];
            self.lines.push(metrics::PHASE_STATE, (seen.0, 0), time_ns, value, attributes);
        }
    }

    /// The points since the last time. What counts is stamped with `clock_ns`, the time until which all records are in.
    pub(super) fn take(&mut self, clock_ns: u64, last: bool, names: &Names) -> Vec<Series> {
        let over = |time_ns: u64| last || time_ns / GAUGE_PERIOD_NS < clock_ns / GAUGE_PERIOD_NS;
        let due: Vec<_> = self.gauges.iter().filter(|(_, (time_ns, _))| over(*time_ns)).map(|(scalar, last)| (*scalar, *last)).collect();
        for (scalar, (time_ns, value)) in due {
            self.gauges.remove(&scalar);
            self.push_gauge(time_ns, scalar, value, names);
        }
        let mut histograms = Vec::new();
        if clock_ns > self.stamped_ns || self.counted_since_stamp {
            self.stamped_ns = clock_ns.max(self.stamped_ns.saturating_add(1));
            self.counted_since_stamp = false;
            self.stamp_counters(names);
            histograms = self.histograms(names);
        }
        let mut series = self.lines.take();
        series.append(&mut histograms);
        series
    }

    fn stamp_counters(&mut self, names: &Names) {
        let time_ns = self.stamped_ns;
        let totals = [
            (metrics::STEPS, (self.steps > 0).then_some(self.steps as f64)),
            (metrics::SAMPLES, self.samples),
            (metrics::TOKENS, self.tokens),
        ];
        for (metric, total) in totals {
            if let Some(total) = total {
                self.lines.push(metric, (0, 0), time_ns, Number::I64(total.round() as i64), Vec::new);
            }
        }
        for (scalar, count) in &self.nonfinite {
            let attributes = || vec![Attribute::text(keys::SCALAR_NAME, names.scalar(*scalar).to_owned())];
            self.lines.push(metrics::SCALARS_NONFINITE, (scalar.0, 0), time_ns, Number::I64(*count as i64), attributes);
        }
    }

    fn histograms(&mut self, names: &Names) -> Vec<Series> {
        let (time_ns, start_ns) = (self.stamped_ns, self.start_ns);
        let series = |metric: Metric, attributes, histogram: &ExponentialHistogram, exemplars| Series {
            metric: metric.name.into(),
            attributes,
            points: Points::Histograms(vec![HistogramPoint { time_ns, start_ns, histogram: histogram.clone(), exemplars }]),
        };
        let mut all = Vec::new();
        if self.step_durations.count() > 0 {
            let exemplars = std::mem::take(&mut self.exemplars);
            all.push(series(metrics::STEP_DURATION, Vec::new(), &self.step_durations, exemplars));
        }
        for (phase, histogram) in &self.phase_durations {
            let attributes = vec![Attribute::text(keys::PHASE_NAME, names.phase(*phase))];
            all.push(series(metrics::PHASE_DURATION, attributes, histogram, Vec::new()));
        }
        all
    }
}
