//! What is open: the run and its epochs, and what they gather until they end.

use serde::{Deserialize, Serialize};

use super::correlate::Folds;
use super::history::History;
use super::names::Names;
use super::segment::SegmentLinks;
use super::tally::{Tally, own_scalar};
use crate::model::{Attribute, EndStatus, Scalar, SpanEvent, SpanId, TraceId};

/// Events of one span: OpenTelemetry's default limit.
const MAX_EVENTS: usize = 128;

/// What the run and an epoch have in common.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) begin_ns: u64,
    /// Latest end of the spans and events inside that are already out: its own end may not be earlier.
    pub(super) reaches_ns: u64,
    pub(super) tally: Tally,
    pub(super) folds: Folds,
    pub(super) segments: SegmentLinks,
    #[serde(skip)]
    events: Vec<SpanEvent>,
    numbers: Vec<(Scalar, f64)>,
    /// Numbers of which it has been said that they were not finite.
    nonfinite_told: Vec<Scalar>,
    /// Steps kept for numbers that are not finite.
    pub(super) nonfinite_kept: u32,
}

impl Frame {
    pub(super) fn new(history: &History, begin_ns: u64) -> Self {
        Self {
            begin_ns,
            reaches_ns: begin_ns,
            tally: Tally::default(),
            folds: Folds::new(history, begin_ns),
            segments: SegmentLinks::default(),
            events: Vec::new(),
            numbers: Vec::new(),
            nonfinite_told: Vec::new(),
            nonfinite_kept: 0,
        }
    }

    pub(super) fn add_event(&mut self, event: SpanEvent) {
        if self.events.len() < MAX_EVENTS && event.time_ns >= self.begin_ns {
            self.reaches_ns = self.reaches_ns.max(event.time_ns);
            self.events.push(event);
        }
    }

    pub(super) fn take_events(&mut self) -> Vec<SpanEvent> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn set_number(&mut self, scalar: Scalar, value: f64) {
        match self.numbers.iter_mut().find(|(other, _)| *other == scalar) {
            Some((_, last)) => *last = value,
            None => self.numbers.push((scalar, value)),
        }
    }

    pub(super) fn add_numbers(&self, attributes: &mut Vec<Attribute>, names: &Names) {
        attributes.extend(self.numbers.iter().map(|(scalar, value)| own_scalar(*scalar, *value, names)));
    }

    /// Whether this is the first time that the number was not finite here.
    pub(super) fn tells_nonfinite(&mut self, scalar: Scalar) -> bool {
        let first = !self.nonfinite_told.contains(&scalar);
        if first {
            self.nonfinite_told.push(scalar);
        }
        first
    }
}

/// The run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) frame: Frame,
    /// Spans of this rank in the run's trace, the run's own counted.
    pub(super) spans: u32,
    pub(super) ended: Option<(u64, EndStatus)>,
    pub(super) epochs: u64,
}

/// An epoch that has not ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenEpoch {
    pub(super) frame: Frame,
    pub(super) ordinal: u32,
    pub(super) epoch: u64,
    pub(super) place: (TraceId, SpanId),
    /// Spans of the trace of its own that it is the root of, when the run's trace was full.
    pub(super) own_trace_spans: Option<u32>,
}

/// An epoch that has ended, remembered for what comes late.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ClosedEpoch {
    pub(super) ordinal: u32,
    pub(super) epoch: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Readings before this belong to it.
    pub(super) until_ns: u64,
    pub(super) place: (TraceId, SpanId),
    pub(super) in_run_trace: bool,
}
