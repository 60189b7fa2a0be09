//! Free-standing phases: of the run, of epochs, of other phases, and of other threads within a step.

use std::collections::VecDeque;

use super::Timeline;
use super::correlate::{End, Folds};
use super::held::{HeldSpan, child, phase_attributes};
use super::segment::MAX_SPANS;
use super::tally::own_scalar;
use crate::model::{Owner, PhaseRecord, SpanId, TraceId};

/// Phases waiting for the phase around them to end; with more, the oldest goes to the run.
const MAX_NESTED: usize = 1024;
/// Phases of other threads waiting for their step to end.
const MAX_OF_STEPS: usize = 256;
/// Phases remembered for what is inside of them and comes late.
const MAX_PLACED: usize = 256;

/// Phases that are on their way to their place.
#[derive(Debug, Default)]
pub(super) struct Phases {
    nested: VecDeque<PhaseRecord>,
    of_steps: VecDeque<PhaseRecord>,
    placed: VecDeque<(u64, Option<Home>)>,
}

/// A span that phases can be children of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    trace_id: TraceId,
    span_id: SpanId,
    begin_ns: u64,
    end_ns: u64,
    epoch: Option<u32>,
    trace: Trace,
}

/// Whose trace a span stands in: where it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    Run,
    Epoch(u32),
    Segment(u64),
}

impl Phases {
    /// The phases of other threads that belong to a step, with those inside of them, outer ones first.
    pub(super) fn take_of_step(&mut self, ordinal: u64) -> Vec<PhaseRecord> {
        if self.of_steps.is_empty() {
            return Vec::new();
        }
        let mut found = take_where(&mut self.of_steps, |phase| phase.owner == Owner::Step(ordinal));
        let mut place = 0;
        while let Some(outer) = found.get(place).map(|phase| phase.ordinal) {
            found.extend(self.take_inside(outer));
            self.remember(outer, None);
            place += 1;
        }
        found
    }

    /// The waiting phases right inside of a phase.
    fn take_inside(&mut self, ordinal: u64) -> Vec<PhaseRecord> {
        take_where(&mut self.nested, |phase| phase.owner == Owner::Phase(ordinal))
    }

    fn remember(&mut self, ordinal: u64, home: Option<Home>) {
        if self.placed.len() >= MAX_PLACED {
            self.placed.pop_front();
        }
        self.placed.push_back((ordinal, home));
    }

    fn placed(&self, ordinal: u64) -> Option<&Option<Home>> {
        self.placed.iter().rev().find(|(other, _)| *other == ordinal).map(|(_, home)| home)
    }
}

fn take_where(phases: &mut VecDeque<PhaseRecord>, wanted: impl Fn(&PhaseRecord) -> bool) -> Vec<PhaseRecord> {
    if !phases.iter().any(&wanted) {
        return Vec::new();
    }
    let (found, rest) = std::mem::take(phases).into_iter().partition::<VecDeque<_>, _>(|phase| wanted(phase));
    *phases = rest;
    found.into()
}

impl Timeline {
    pub(super) fn on_phase(&mut self, mut phase: PhaseRecord) {
        phase.end_ns = phase.end_ns.max(phase.begin_ns);
        self.meters.phase(self.names.one_phase(phase.phase), phase.end_ns - phase.begin_ns);
        match phase.owner {
            Owner::Step(ordinal) => self.on_phase_of_step(phase, ordinal),
            Owner::Phase(outer) => match self.phases.placed(outer) {
                Some(Some(home)) => {
                    let home = *home;
                    self.place(phase, Some(home));
                }
                // What it is inside of was let go, or is part of a step that has gone out.
                Some(None) => self.phases.remember(phase.ordinal, None),
                None => {
                    self.history.tag(phase.phase, phase.begin_ns, phase.end_ns);
                    self.phases.nested.push_back(phase);
                    if self.phases.nested.len() > MAX_NESTED
                        && let Some(oldest) = self.phases.nested.pop_front()
                    {
                        self.place(oldest, None);
                    }
                }
            },
            Owner::Run | Owner::Epoch(_) => self.place(phase, None),
        }
    }

    /// A phase of another thread becomes a child of its step, if that is kept; it is no phase that the training was in.
    fn on_phase_of_step(&mut self, phase: PhaseRecord, ordinal: u64) {
        if self.newest_step.is_none_or(|newest| ordinal > newest) {
            self.phases.of_steps.push_back(phase);
            if self.phases.of_steps.len() > MAX_OF_STEPS
                && let Some(oldest) = self.phases.of_steps.pop_front()
            {
                self.phases.take_inside(oldest.ordinal);
                self.phases.remember(oldest.ordinal, None);
            }
            return;
        }
        self.phases.of_steps.push_back(phase);
        let found = self.phases.take_of_step(ordinal);
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        let Some(segment) = self.waiting.step(ordinal).map(|step| step.segment) else { return };
        let segment = self.segments.values_mut().find(|open| open.index == segment);
        if let Some(segment) = segment.filter(|segment| segment.spans.saturating_add(count) <= MAX_SPANS) {
            segment.spans += count;
            self.waiting.add_phases(ordinal, found);
        }
    }

    /// Makes spans of a phase and of the waiting ones inside of it.
    fn place(&mut self, phase: PhaseRecord, home: Option<Home>) {
        let mut todo = vec![(phase, home)];
        while let Some((phase, home)) = todo.pop() {
            let ordinal = phase.ordinal;
            let home = home.unwrap_or_else(|| self.home_of(&phase));
            let own = self.place_one(phase, home);
            self.phases.remember(ordinal, Some(own));
            todo.extend(self.phases.take_inside(ordinal).into_iter().rev().map(|inner| (inner, Some(own))));
        }
    }

    /// What a phase of an epoch or of the run is a child of.
    fn home_of(&self, phase: &PhaseRecord) -> Home {
        let (run_trace_id, run_span_id) = self.run_place();
        let begin_ns = self.run.as_ref().map_or(0, |run| run.frame.begin_ns);
        let end_ns = self.run.as_ref().and_then(|run| run.ended).map_or(u64::MAX, |(end_ns, _)| end_ns);
        let run = Home { trace_id: run_trace_id, span_id: run_span_id, begin_ns, end_ns, epoch: None, trace: Trace::Run };
        let Owner::Epoch(ordinal) = phase.owner else { return run };
        let trace = |in_run_trace| if in_run_trace { Trace::Run } else { Trace::Epoch(ordinal) };
        if let Some(open) = self.epochs.get(&ordinal) {
            let (trace_id, span_id) = open.place;
            let trace = trace(open.own_trace_spans.is_none());
            return Home { trace_id, span_id, begin_ns: open.frame.begin_ns, end_ns: u64::MAX, epoch: Some(ordinal), trace };
        }
        match self.closed_epochs.iter().find(|closed| closed.ordinal == ordinal && phase.begin_ns < closed.end_ns) {
            Some(closed) => {
                let (trace_id, span_id) = closed.place;
                let trace = trace(closed.in_run_trace);
                Home { trace_id, span_id, begin_ns: closed.begin_ns, end_ns: closed.end_ns, epoch: None, trace }
            }
            None => run,
        }
    }

    /// Counts a span in its trace, if that is not full.
    fn has_room(&mut self, trace: Trace) -> bool {
        let spans = match trace {
            Trace::Run => self.run.as_mut().map(|run| &mut run.spans),
            Trace::Epoch(ordinal) => self.epochs.get_mut(&ordinal).and_then(|open| open.own_trace_spans.as_mut()),
            Trace::Segment(index) => self.segments.values_mut().find(|segment| segment.index == index).map(|segment| &mut segment.spans),
        };
        match spans.filter(|spans| **spans < MAX_SPANS) {
            Some(spans) => {
                *spans += 1;
                true
            }
            None => false,
        }
    }

    fn place_one(&mut self, phase: PhaseRecord, mut home: Home) -> Home {
        if !self.has_room(home.trace) {
            // The trace is full: the phase is detail, like the steps, and goes where they go.
            let epoch = home.epoch.filter(|ordinal| self.epochs.contains_key(ordinal));
            let segment = self.segment_for(epoch, phase.begin_ns, phase.end_ns, 1);
            let (trace_id, span_id) = segment.place;
            let trace = Trace::Segment(segment.index);
            home = Home { trace_id, span_id, begin_ns: segment.begin_ns, end_ns: u64::MAX, epoch: home.epoch, trace };
        }
        self.history.tag(phase.phase, phase.begin_ns, phase.end_ns);
        let mut attributes = phase_attributes(&phase, &self.names);
        for (scalar, value) in self.take_early_numbers(Owner::Phase(phase.ordinal)) {
            let number = own_scalar(self.names.one_scalar(scalar), value, &self.names);
            attributes.retain(|other| other.key != number.key);
            attributes.push(number);
        }
        let span_id = self.settings.identity.span_id("phase", phase.ordinal);
        let parent = (home.span_id, home.begin_ns, home.end_ns);
        let times = (phase.begin_ns, phase.end_ns);
        let span = child(home.trace_id, span_id, parent, self.names.span(phase.phase), times, attributes);
        let own = Home { span_id, begin_ns: span.begin_ns, end_ns: span.end_ns, ..home };
        if let Some(open) =
            home.epoch.filter(|_| !matches!(home.trace, Trace::Segment(_))).and_then(|ordinal| self.epochs.get_mut(&ordinal))
        {
            open.frame.reaches_ns = open.frame.reaches_ns.max(span.end_ns);
        }
        if let Some(run) = self.run.as_mut().filter(|_| home.trace == Trace::Run) {
            run.frame.reaches_ns = run.frame.reaches_ns.max(span.end_ns);
        }
        let mut folds = Folds::new(&self.history, phase.begin_ns);
        let end = End::new(phase.end_ns, phase.interrupted);
        folds.catch_up(&self.history, end.until_ns());
        let failed = phase.failed.then_some(Owner::Phase(phase.ordinal));
        self.waiting.push_span(HeldSpan { span, folds, end, tells_phase: false, failed });
        own
    }

    /// Phases whose outer phase never came belong to the run.
    pub(super) fn close_phases(&mut self) {
        while let Some(phase) = self.phases.nested.pop_front() {
            self.place(phase, None);
        }
    }
}
