//! Finished spans wait here until the readings that follow their end are in, then get their aggregates and go out.

use std::collections::VecDeque;

use super::aggregates::{add_device, add_devices, add_process};
use super::correlate::{Aggregate, End, Folds, look_up, look_up_device};
use super::history::History;
use super::keep::Reason;
use super::names::Names;
use super::tally::add_step_scalars;
use crate::model::{Attribute, GpuDevice, Identity, Owner, PhaseRecord, Span, SpanEvent, SpanId, StepRecord, TraceId};
use crate::semconv::{attributes as keys, events, spans};

/// Spans that wait at most; with more, the oldest go out with what is known of them.
const MAX_SPANS_HELD: usize = 4096;
/// How long an error may come after the end of what failed.
const ERROR_PATIENCE_NS: u64 = 1_000_000_000;
/// Errors remembered.
const MAX_ERRORS: usize = 256;
/// `error.type` of what failed without saying how.
const UNKNOWN_ERROR: &str = "_OTHER";
/// Phases of other threads that a step's span takes.
const MAX_EXTRA_PHASES: usize = 64;

/// Value of `stepline.status` of a span.
pub(super) mod status {
    pub(in crate::timeline) const FINISHED: &str = "finished";
    pub(in crate::timeline) const FAILED: &str = "failed";
    pub(in crate::timeline) const INTERRUPTED: &str = "interrupted";
}

/// Number of a phase among all phases within steps: a step has at most 256.
const PHASES_PER_STEP: u64 = 4096;

/// A span other than a step's, complete but for its aggregates.
#[derive(Debug)]
pub(super) struct HeldSpan {
    pub(super) span: Span,
    pub(super) folds: Folds,
    /// The end of the interval that the aggregates speak of.
    pub(super) end: End,
    /// Whether the phase of the memory peak is told.
    pub(super) tells_phase: bool,
    /// Whose error explains it, if it failed.
    pub(super) failed: Option<Owner>,
}

/// A step whose span was kept.
#[derive(Debug)]
pub(super) struct HeldStep {
    pub(super) record: StepRecord,
    pub(super) reason: Reason,
    pub(super) trace_id: TraceId,
    pub(super) segment_span_id: SpanId,
    pub(super) segment: u64,
    pub(super) segment_begin_ns: u64,
    pub(super) epoch: Option<u64>,
    /// Phases of other threads: those that hold others come before them.
    pub(super) extra: Vec<PhaseRecord>,
}

#[derive(Debug)]
enum Held {
    Step(Box<HeldStep>),
    Span(Box<HeldSpan>),
}

impl Held {
    fn end_ns(&self) -> u64 {
        match self {
            Self::Step(step) => step.record.end_ns,
            Self::Span(span) => span.end.time_ns,
        }
    }

    fn failed(&self) -> Option<Owner> {
        match self {
            Self::Step(step) => step.record.failed.then_some(Owner::Step(step.record.ordinal)),
            Self::Span(span) => span.failed,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Step(step) => 1 + step.record.phases.len() + step.extra.len(),
            Self::Span(_) => 1,
        }
    }
}

/// What spans are completed with.
pub(super) struct Known<'a> {
    pub(super) identity: &'a Identity,
    pub(super) devices: &'a [GpuDevice],
    pub(super) history: &'a History,
    pub(super) names: &'a Names,
}

/// The spans that wait, and the errors that explain them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    held: VecDeque<Held>,
    spans: usize,
    errors: VecDeque<(Owner, String)>,
}

impl Waiting {
    /// Spans that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.spans
    }

    pub(super) fn push_span(&mut self, span: HeldSpan) {
        self.spans += 1;
        self.held.push_back(Held::Span(Box::new(span)));
    }

    pub(super) fn push_step(&mut self, step: HeldStep) {
        let step = Held::Step(Box::new(step));
        self.spans += step.count();
        self.held.push_back(step);
    }

    /// The step with that ordinal, if it waits and can take another phase of another thread.
    pub(super) fn step(&mut self, ordinal: u64) -> Option<&mut HeldStep> {
        let mut recent = self.held.iter_mut().rev().take(256);
        recent.find_map(|held| match held {
            Held::Step(step) if step.record.ordinal == ordinal && step.extra.len() < MAX_EXTRA_PHASES => Some(&mut **step),
            _ => None,
        })
    }

    /// Adds phases of other threads to a step that waits.
    pub(super) fn add_phases(&mut self, ordinal: u64, phases: Vec<PhaseRecord>) {
        let count = phases.len();
        if let Some(step) = self.step(ordinal) {
            step.extra.extend(phases);
            self.spans += count;
        }
    }

    pub(super) fn push_error(&mut self, owner: Owner, error_type: String) {
        if self.errors.len() >= MAX_ERRORS {
            self.errors.pop_front();
        }
        self.errors.push_back((owner, error_type));
    }

    /// The error of an owner: the last one told.
    pub(super) fn error(&self, owner: Owner) -> Option<&str> {
        self.errors.iter().rev().find(|(other, _)| *other == owner).map(|(_, error_type)| error_type.as_str())
    }

    pub(super) fn error_type(&self, owner: Owner) -> String {
        self.error(owner).unwrap_or(UNKNOWN_ERROR).to_owned()
    }

    /// Completes the spans of which all is known; `everything`: also those of which not.
    pub(super) fn release(&mut self, clock_ns: u64, everything: bool, known: &Known<'_>, out: &mut Vec<Span>) {
        while let Some(first) = self.held.front() {
            let crowded = self.spans > MAX_SPANS_HELD;
            if !(everything || crowded || self.is_ready(first, clock_ns, known.history)) {
                return;
            }
            let Some(first) = self.held.pop_front() else { return };
            self.spans -= first.count();
            match first {
                Held::Span(span) => out.push(self.complete_span(*span, known)),
                Held::Step(step) => self.complete_step(*step, known, out),
            }
        }
    }

    fn is_ready(&self, held: &Held, clock_ns: u64, history: &History) -> bool {
        let end_ns = held.end_ns();
        let read = history.has_passed(end_ns) || clock_ns >= end_ns.saturating_add(history.longest_gap_ns());
        let explained = match held.failed() {
            Some(owner) => self.error(owner).is_some() || clock_ns >= end_ns.saturating_add(ERROR_PATIENCE_NS),
            None => true,
        };
        read && explained
    }

    fn complete_span(&self, held: HeldSpan, known: &Known<'_>) -> Span {
        let HeldSpan { mut span, folds, end, tells_phase, failed } = held;
        let (devices, process) = folds.finish(known.history, end);
        add_devices(&mut span.attributes, known.devices, &devices);
        if tells_phase && let Some(phase) = peak_phase(&devices) {
            span.attributes.push(Attribute::text(keys::GPU_MEMORY_USAGE_MAX_PHASE, known.names.phase(phase)));
        }
        add_process(&mut span.attributes, process);
        span.error_type = failed.map(|owner| self.error_type(owner));
        span
    }

    fn complete_step(&self, step: HeldStep, known: &Known<'_>, out: &mut Vec<Span>) {
        let span = self.step_span(&step, known);
        let mut around: Vec<(SpanId, u64, u64)> = Vec::with_capacity(step.record.phases.len());
        let step_place = (span.span_id, span.begin_ns, span.end_ns);
        out.reserve(1 + step.record.phases.len() + step.extra.len());
        out.push(span);
        for (place, interval) in step.record.phases.iter().enumerate() {
            let number = step.record.ordinal.wrapping_mul(PHASES_PER_STEP).wrapping_add(place as u64);
            let span_id = known.identity.span_id("step phase", number);
            let parent = interval.parent.and_then(|parent| around.get(usize::from(parent))).copied().unwrap_or(step_place);
            let mut attributes = Vec::with_capacity(if known.history.has_readings() { 8 } else { 1 });
            attributes.push(Attribute::text(keys::PHASE_NAME, known.names.phase(interval.phase)));
            add_aggregates(&mut attributes, interval.begin_ns, End::new(interval.end_ns, step.record.interrupted), known);
            let name = known.names.span(interval.phase);
            let span = child(step.trace_id, span_id, parent, name, (interval.begin_ns, interval.end_ns), attributes);
            around.push((span_id, span.begin_ns, span.end_ns));
            out.push(span);
        }
        let mut extra: Vec<(u64, SpanId, u64, u64)> = Vec::new();
        for phase in &step.extra {
            let holder = match phase.owner {
                Owner::Phase(ordinal) => extra.iter().find(|(other, ..)| *other == ordinal).map(|(_, id, begin, end)| (*id, *begin, *end)),
                _ => None,
            };
            let mut attributes = phase_attributes(phase, known.names);
            add_aggregates(&mut attributes, phase.begin_ns, End::new(phase.end_ns, phase.interrupted), known);
            let span_id = known.identity.span_id("phase", phase.ordinal);
            let times = (phase.begin_ns, phase.end_ns);
            let mut span = child(step.trace_id, span_id, holder.unwrap_or(step_place), known.names.span(phase.phase), times, attributes);
            span.error_type = phase.failed.then(|| self.error_type(Owner::Phase(phase.ordinal)));
            extra.push((phase.ordinal, span_id, span.begin_ns, span.end_ns));
            out.push(span);
        }
    }

    fn step_span(&self, step: &HeldStep, known: &Known<'_>) -> Span {
        let record = &step.record;
        let mut attributes = Vec::with_capacity(13 + record.scalars.len());
        attributes.push(Attribute::int(keys::STEP_INDEX, record.step));
        if let Some(epoch) = step.epoch {
            attributes.push(Attribute::int(keys::EPOCH_INDEX, epoch));
        }
        attributes.push(Attribute::int(keys::SEGMENT_INDEX, step.segment));
        attributes.push(Attribute::text(keys::STEP_KEPT_FOR, step.reason.name()));
        if record.micro_steps > 0 {
            attributes.push(Attribute::int(keys::STEP_MICRO_STEPS, u64::from(record.micro_steps)));
        }
        attributes.extend(status_of(record.failed, record.interrupted));
        add_step_scalars(&mut attributes, &record.scalars, known.names);
        add_aggregates(&mut attributes, record.begin_ns, End::new(record.end_ns, record.interrupted), known);
        let begin_ns = record.begin_ns.max(step.segment_begin_ns);
        let parent = (step.segment_span_id, begin_ns, u64::MAX);
        let span_id = known.identity.span_id("step", record.ordinal);
        let mut span = child(step.trace_id, span_id, parent, spans::STEP, (record.begin_ns, record.end_ns), attributes);
        for (scalar, value) in record.scalars.iter().filter(|(_, value)| !value.is_finite()) {
            span.events.push(SpanEvent {
                name: events::SCALAR_NONFINITE.into(),
                time_ns: span.end_ns,
                attributes: vec![
                    Attribute::text(keys::SCALAR_NAME, known.names.scalar(*scalar).to_owned()),
                    Attribute::text(keys::SCALAR_VALUE, value.to_string()),
                ],
            });
        }
        span.error_type = record.failed.then(|| self.error_type(Owner::Step(record.ordinal)));
        span
    }
}

/// The phase of the device with the most memory.
fn peak_phase(devices: &[Option<Aggregate>]) -> Option<crate::model::Phase> {
    let peaks = devices.iter().flatten().filter_map(|device| device.memory_max);
    // The first of equals: `max_by_key` would take the last.
    peaks.reduce(|most, peak| if peak.bytes > most.bytes { peak } else { most })?.phase
}

fn add_aggregates(attributes: &mut Vec<Attribute>, begin_ns: u64, end: End, known: &Known<'_>) {
    if !known.history.has_readings() {
        return;
    }
    if let [device] = known.history.devices() {
        add_device(attributes, look_up_device(device, begin_ns, end, known.history.longest_gap_ns()).as_ref());
    } else {
        add_devices(attributes, known.devices, &look_up(known.history, begin_ns, end));
    }
}

/// The status, told only where it is not that all went well.
pub(super) fn status_of(failed: bool, interrupted: bool) -> Option<Attribute> {
    let status = match (failed, interrupted) {
        (true, _) => status::FAILED,
        (false, true) => status::INTERRUPTED,
        (false, false) => return None,
    };
    Some(Attribute::text(keys::STATUS, status))
}

pub(super) fn phase_attributes(phase: &PhaseRecord, names: &Names) -> Vec<Attribute> {
    let mut attributes = vec![Attribute::text(keys::PHASE_NAME, names.phase(phase.phase))];
    attributes.extend(status_of(phase.failed, phase.interrupted));
    attributes
}

/// A span within another one, whose time it does not leave.
pub(super) fn child(
    trace_id: TraceId,
    span_id: SpanId,
    (parent_span_id, parent_begin_ns, parent_end_ns): (SpanId, u64, u64),
    name: &'static str,
    (begin_ns, end_ns): (u64, u64),
    attributes: Vec<Attribute>,
) -> Span {
    let begin_ns = begin_ns.min(parent_end_ns).max(parent_begin_ns);
    Span {
        trace_id,
        span_id,
        parent_span_id: Some(parent_span_id),
        parent_is_remote: false,
        name: name.into(),
        begin_ns,
        end_ns: end_ns.min(parent_end_ns).max(begin_ns),
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        error_type: None,
    }
}
