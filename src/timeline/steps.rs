//! Steps: counted, perhaps kept, put into segments.

use super::Timeline;
use super::correlate::{End, Folds};
use super::held::{HeldSpan, HeldStep};
use super::keep::{Reason, Surroundings};
use super::segment::{MAX_DURATION_NS, Segment, link, link_type};
use super::tally::{StepTimes, Tally};
use crate::model::{Attribute, Exemplar, Owner, Span, StepRecord};
use crate::semconv::{attributes as keys, spans};

impl Timeline {
    pub(super) fn on_step(&mut self, mut step: StepRecord) {
        step.end_ns = step.end_ns.max(step.begin_ns);
        // A step of an epoch that is not open belongs to the run.
        let epoch = step.epoch.filter(|ordinal| self.epochs.contains_key(ordinal));
        self.newest_step = self.newest_step.max(Some(step.ordinal));
        let times = StepTimes::of(&step);
        self.count_step(&step, times);
        step.scalars.extend(self.take_early_numbers(Owner::Step(step.ordinal)));

        self.close_segment_if(epoch, |segment| step.end_ns.saturating_sub(segment.begin_ns) > MAX_DURATION_NS);
        let extra = self.phases.take_of_step(step.ordinal);
        let reason = self.keep_reason(&step, epoch);
        let spans = if reason.is_some() { 1 + step.phases.len() + extra.len() } else { 0 };
        let segment = self.segment_for(epoch, step.begin_ns, step.end_ns, u32::try_from(spans).unwrap_or(u32::MAX));
        let (trace_id, segment_span_id) = segment.place;
        for tally in [
            epoch.and_then(|ordinal| self.epochs.get_mut(&ordinal)).map(|open| &mut open.frame.tally),
            self.run.as_mut().map(|run| &mut run.frame.tally),
            self.segments.get_mut(&epoch).map(|segment| &mut segment.tally),
        ]
        .into_iter()
        .flatten()
        {
            tally.add(times);
        }
        let span_id = self.settings.identity.span_id("step", step.ordinal);
        let kept = reason.map(|_| (trace_id, span_id)).filter(|_| step.end_ns >= segment.begin_ns);
        for place in 0..step.scalars.len() {
            let (scalar, value) = step.scalars[place];
            if !value.is_finite() {
                self.tell_nonfinite(step.end_ns, epoch, scalar, value, kept);
            }
        }
        let Some(reason) = reason else { return };
        if kept.is_some() {
            let value = super::tally::seconds(times.duration_ns);
            self.meters.exemplar(Exemplar { time_ns: step.end_ns, value, trace_id, span_id });
        }
        self.waiting.push_step(HeldStep {
            reason,
            trace_id,
            segment_span_id,
            segment: segment.index,
            segment_begin_ns: segment.begin_ns,
            epoch: epoch.and_then(|ordinal| self.epochs.get(&ordinal)).map(|open| open.epoch),
            extra,
            record: step,
        });
    }

    /// What is counted of every step, kept or not.
    fn count_step(&mut self, step: &StepRecord, times: StepTimes) {
        self.meters.step(times.duration_ns);
        let tags = self.history.has_since(step.begin_ns);
        for interval in &step.phases {
            let phase = self.names.one_phase(interval.phase);
            self.meters.phase(phase, interval.end_ns.saturating_sub(interval.begin_ns));
            if tags {
                self.history.tag(interval.phase, interval.begin_ns.max(step.begin_ns), interval.end_ns.min(step.end_ns));
            }
        }
        for (scalar, value) in &step.scalars {
            self.meters.scalar(step.end_ns, self.names.one_scalar(*scalar), *value, &self.names);
        }
    }

    fn keep_reason(&mut self, step: &StepRecord, epoch: Option<u32>) -> Option<Reason> {
        let in_epoch = epoch.and_then(|ordinal| self.epochs.get(&ordinal));
        let steps_before = match in_epoch {
            Some(open) => open.frame.tally.steps,
            None => self.segments.get(&None).map_or(0, |segment| segment.tally.steps),
        };
        let nonfinite_before = self.frame(epoch).map_or(0, |frame| frame.nonfinite_kept);
        let around = Surroundings { steps_before, nonfinite_before };
        let reason = self.keeper.decide(step, around, self.meters.step_durations());
        if reason == Some(Reason::Nonfinite)
            && let Some(frame) = self.frame(epoch)
        {
            frame.nonfinite_kept += 1;
        }
        reason
    }

    /// The open segment of an epoch (or of the run) with room for something that takes so many spans; begins one where there is none.
    pub(super) fn segment_for(&mut self, epoch: Option<u32>, begin_ns: u64, end_ns: u64, spans: u32) -> SegmentPlace {
        self.close_segment_if(epoch, |segment| !segment.has_room(end_ns, spans));
        if !self.segments.contains_key(&epoch) {
            let index = self.next_segment;
            self.next_segment += 1;
            if let Some(frame) = self.frame(epoch) {
                frame.segments.push(index);
            }
            let folds = Folds::new(&self.history, begin_ns);
            self.segments.insert(epoch, Segment { index, begin_ns, end_ns, spans: 0, tally: Tally::default(), folds });
        }
        let (mut index, mut segment_begin_ns) = (0, begin_ns);
        if let Some(segment) = self.segments.get_mut(&epoch) {
            segment.end_ns = segment.end_ns.max(end_ns);
            segment.spans += spans;
            index = segment.index;
            segment_begin_ns = segment.begin_ns;
        }
        let place = Segment::place(index, &self.settings.identity);
        SegmentPlace { index, begin_ns: segment_begin_ns, place }
    }

    pub(super) fn close_segment_if(&mut self, epoch: Option<u32>, over: impl Fn(&Segment) -> bool) {
        if self.segments.get(&epoch).is_some_and(over) {
            self.close_segment(epoch);
        }
    }

    pub(super) fn close_segment(&mut self, epoch: Option<u32>) {
        let Some(mut segment) = self.segments.remove(&epoch) else { return };
        segment.folds.catch_up(&self.history, segment.end_ns);
        let identity = &self.settings.identity;
        let (trace_id, span_id) = Segment::place(segment.index, identity);
        let mut attributes = vec![Attribute::int(keys::SEGMENT_INDEX, segment.index)];
        let open = epoch.and_then(|ordinal| self.epochs.get(&ordinal));
        let mut links = vec![match open {
            Some(open) => link(open.place, link_type::EPOCH),
            None => link(self.run_place(), link_type::RUN),
        }];
        attributes.extend(open.map(|open| Attribute::int(keys::EPOCH_INDEX, open.epoch)));
        if let Some(previous) = segment.index.checked_sub(1) {
            links.push(link(Segment::place(previous, identity), link_type::PREVIOUS_SEGMENT));
        }
        segment.tally.add_attributes(&mut attributes);
        let span = Span {
            trace_id,
            span_id,
            parent_span_id: None,
            parent_is_remote: false,
            name: spans::SEGMENT.into(),
            begin_ns: segment.begin_ns,
            end_ns: segment.end_ns,
            attributes,
            events: Vec::new(),
            links,
            error_type: None,
        };
        let end = End::new(segment.end_ns, false);
        self.waiting.push_span(HeldSpan { span, folds: segment.folds, end, tells_phase: false, failed: None });
    }

    /// Segments that have lasted long enough end without waiting for a further step, so that they are seen.
    pub(super) fn close_old_segments(&mut self, time_ns: u64) {
        let old = |segment: &Segment| time_ns.saturating_sub(segment.begin_ns) > MAX_DURATION_NS;
        let due: Vec<_> = self.segments.iter().filter(|(_, segment)| old(segment)).map(|(epoch, _)| *epoch).collect();
        due.into_iter().for_each(|epoch| self.close_segment(epoch));
    }
}

/// Where a segment's children hang.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentPlace {
    pub(super) index: u64,
    pub(super) begin_ns: u64,
    pub(super) place: (crate::model::TraceId, crate::model::SpanId),
}
