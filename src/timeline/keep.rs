//! Which steps get a span of their own. Decided when a step has ended, from the records alone.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::{ExponentialHistogram, StepRecord, StepSpans};

/// The first steps of an epoch: they differ (compilation, cold caches), and show at once that all is well.
const FIRST_STEPS: u64 = 3;
/// Time from one kept step to the next where none stands out.
const PERIOD_NS: u64 = 10_000_000_000;
/// How many steps make the usual duration known.
const STEPS_BEFORE_SLOW: u64 = 30;
/// How far above the 95th percentile a step is slow.
const SLOW_FACTOR: f64 = 1.5;
/// At most one step in so many is kept for being slow.
const SLOW_SHARE: u64 = 10;
/// How far above the maximum so far the memory must be to be a new peak.
const PEAK_FACTOR: f64 = 1.01;
/// Steps of an epoch kept for numbers that are not finite; a loss that stays NaN would keep all.
const MAX_NONFINITE: u32 = 100;
/// The percentile is looked up anew after so many steps.
const STEPS_PER_PERCENTILE: u64 = 16;
/// Memory peaks waiting for the end of the step that they lie in.
const MAX_PEAKS: usize = 64;

/// Why a step was kept, the most telling reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    Failed,
    Interrupted,
    Nonfinite,
    MemoryPeak,
    Slow,
    Asked,
    First,
    Periodic,
    Every,
    All,
}

impl Reason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Nonfinite => "nonfinite",
            Self::MemoryPeak => "memory_peak",
            Self::Slow => "slow",
            Self::Asked => "asked",
            Self::First => "first",
            Self::Periodic => "periodic",
            Self::Every => "every",
            Self::All => "all",
        }
    }
}

/// What the decision about a step needs to know of what it stands in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    /// Steps before it in its epoch; without epochs, in its segment.
    pub(super) steps_before: u64,
    /// Steps of its epoch that were kept for numbers that are not finite.
    pub(super) nonfinite_before: u32,
}

/// Decides, and remembers what it needs for that.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Keeper {
    policy: StepSpans,
    steps: u64,
    slow: u64,
    slow_above_s: Option<f64>,
    last_kept_ns: u64,
    /// The most memory of each device so far, bytes.
    memory_max: Vec<u64>,
    /// Times of readings with a new maximum.
    peaks: VecDeque<u64>,
}

impl Keeper {
    pub(super) fn new(policy: StepSpans, devices: usize) -> Self {
        Self { policy, steps: 0, slow: 0, slow_above_s: None, last_kept_ns: 0, memory_max: vec![0; devices], peaks: VecDeque::new() }
    }

    /// Makes room for that many devices.
    pub(super) fn set_devices(&mut self, devices: usize) {
        self.memory_max.resize(devices, 0);
    }

    /// A device's memory was read.
    pub(super) fn memory(&mut self, device: usize, time_ns: u64, bytes: u64) {
        let Some(max) = self.memory_max.get_mut(device) else { return };
        if *max > 0 && bytes as f64 > *max as f64 * PEAK_FACTOR {
            if self.peaks.len() >= MAX_PEAKS {
                self.peaks.pop_front();
            }
            self.peaks.push_back(time_ns);
        }
        *max = bytes.max(*max);
    }

    /// Why a step that has ended is to be kept, if it is. `durations` are those of the run's steps before it.
    pub(super) fn decide(&mut self, step: &StepRecord, around: Surroundings, durations: &ExponentialHistogram) -> Option<Reason> {
        if self.steps >= STEPS_BEFORE_SLOW && self.steps.is_multiple_of(STEPS_PER_PERCENTILE) || self.steps == STEPS_BEFORE_SLOW {
            self.slow_above_s = durations.quantile(0.95).map(|p95| p95 * SLOW_FACTOR);
        }
        self.steps += 1;
        while self.peaks.front().is_some_and(|peak_ns| *peak_ns < step.begin_ns) {
            self.peaks.pop_front();
        }
        let has_peak = self.peaks.front().is_some_and(|peak_ns| *peak_ns < step.end_ns);
        let reason = self.reason(step, around, has_peak)?;
        if reason == Reason::Slow {
            self.slow += 1;
        }
        self.last_kept_ns = self.last_kept_ns.max(step.end_ns);
        Some(reason)
    }

    fn reason(&self, step: &StepRecord, around: Surroundings, has_peak: bool) -> Option<Reason> {
        let must = if step.failed {
            Some(Reason::Failed)
        } else if step.interrupted {
            Some(Reason::Interrupted)
        } else if step.scalars.iter().any(|(_, value)| !value.is_finite()) && around.nonfinite_before < MAX_NONFINITE {
            Some(Reason::Nonfinite)
        } else {
            None
        };
        let asked = step.keep.then_some(Reason::Asked);
        match self.policy {
            StepSpans::None => None,
            StepSpans::All => must.or(Some(Reason::All)),
            StepSpans::Every(n) => must.or(asked).or(step.ordinal.is_multiple_of(n.max(1)).then_some(Reason::Every)),
            StepSpans::Auto => must
                .or(has_peak.then_some(Reason::MemoryPeak))
                .or(self.is_slow(step).then_some(Reason::Slow))
                .or(asked)
                .or((around.steps_before < FIRST_STEPS).then_some(Reason::First))
                .or((step.end_ns.saturating_sub(self.last_kept_ns) >= PERIOD_NS).then_some(Reason::Periodic)),
        }
    }

    fn is_slow(&self, step: &StepRecord) -> bool {
        let duration_s = (step.end_ns - step.begin_ns) as f64 / 1e9;
        self.slow_above_s.is_some_and(|limit_s| duration_s > limit_s) && (self.slow + 1) * SLOW_SHARE <= self.steps
    }
}
