//! What the steps of a run, an epoch or a segment add up to.

use serde::{Deserialize, Serialize};

use super::names::Names;
use crate::model::{Attribute, ExponentialHistogram, Phase, Scalar, StepRecord};
use crate::semconv::attributes as keys;

/// Counts steps and their times.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) steps: u64,
    durations: ExponentialHistogram,
    duration_ns: u64,
    data_wait_ns: Option<u64>,
}

/// How long a step took and how much of it was waiting for data, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepTimes {
    pub(super) duration_ns: u64,
    pub(super) data_wait_ns: Option<u64>,
}

impl StepTimes {
    pub(super) fn of(step: &StepRecord) -> Self {
        let mut data_wait_ns = None;
        for interval in step.phases.iter().filter(|interval| interval.phase == Phase::DATA_WAIT) {
            // Waiting inside of waiting is not waiting twice.
            let around = interval.parent.and_then(|parent| step.phases.get(usize::from(parent)));
            if around.is_none_or(|around| around.phase != Phase::DATA_WAIT) {
                let begin_ns = interval.begin_ns.clamp(step.begin_ns, step.end_ns);
                let end_ns = interval.end_ns.clamp(begin_ns, step.end_ns);
                *data_wait_ns.get_or_insert(0) += end_ns - begin_ns;
            }
        }
        Self { duration_ns: step.end_ns - step.begin_ns, data_wait_ns }
    }
}

impl Tally {
    pub(super) fn add(&mut self, times: StepTimes) {
        self.steps += 1;
        self.durations.record(seconds(times.duration_ns));
        self.duration_ns = self.duration_ns.saturating_add(times.duration_ns);
        if let Some(waited_ns) = times.data_wait_ns {
            self.data_wait_ns = Some(self.data_wait_ns.unwrap_or(0).saturating_add(waited_ns));
        }
    }

    pub(super) fn add_attributes(&self, attributes: &mut Vec<Attribute>) {
        attributes.push(Attribute::int(keys::STEP_COUNT, self.steps));
        if let Some(p50) = self.durations.quantile(0.5) {
            attributes.push(Attribute::number(keys::STEP_DURATION_P50, p50));
        }
        if let Some(p95) = self.durations.quantile(0.95) {
            attributes.push(Attribute::number(keys::STEP_DURATION_P95, p95));
        }
        if let Some(waited_ns) = self.data_wait_ns
            && self.duration_ns > 0
        {
            let ratio = waited_ns as f64 / self.duration_ns as f64;
            attributes.push(Attribute::number(keys::DATA_WAIT_RATIO, ratio.min(1.0)));
        }
    }
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Adds recorded numbers to the attributes of their step. The last value of a name holds; samples and tokens add up.
pub(super) fn add_step_scalars(attributes: &mut Vec<Attribute>, scalars: &[(Scalar, f64)], names: &Names) {
    let sum = |wanted: Scalar| {
        let mut values = scalars.iter().filter(|(scalar, value)| *scalar == wanted && value.is_finite()).peekable();
        values.peek().is_some().then(|| values.map(|(_, value)| value.max(0.0)).sum::<f64>())
    };
    for (place, (scalar, value)) in scalars.iter().enumerate() {
        if scalars[place + 1..].iter().any(|(later, _)| later == scalar) {
            continue;
        }
        attributes.push(match *scalar {
            Scalar::LOSS => Attribute::number(keys::STEP_LOSS, *value),
            Scalar::LEARNING_RATE => Attribute::number(keys::STEP_LEARNING_RATE, *value),
            Scalar::GRAD_NORM => Attribute::number(keys::STEP_GRAD_NORM, *value),
            Scalar::SAMPLES | Scalar::TOKENS => {
                let key = if *scalar == Scalar::SAMPLES { keys::STEP_SAMPLES } else { keys::STEP_TOKENS };
                match sum(*scalar) {
                    Some(sum) => Attribute::int(key, sum.round() as u64),
                    None => Attribute::number(key, *value),
                }
            }
            Scalar::ALLOCATOR_PEAK if value.is_finite() => Attribute::int(keys::ALLOCATOR_PEAK, value.max(0.0) as u64),
            Scalar::ALLOCATOR_PEAK => Attribute::number(keys::ALLOCATOR_PEAK, *value),
            own => own_scalar(own, *value, names),
        });
    }
}

/// A number under its name, below the prefix that all of them share.
pub(super) fn own_scalar(scalar: Scalar, value: f64, names: &Names) -> Attribute {
    let mut attribute = Attribute::number(keys::SPAN_SCALAR_PREFIX, value);
    attribute.key = format!("{}{}", keys::SPAN_SCALAR_PREFIX, names.scalar(scalar)).into();
    attribute
}
