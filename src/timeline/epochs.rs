//! The run and its epochs: begin, end, numbers and errors.

use super::Timeline;
use super::correlate::End;
use super::frame::{ClosedEpoch, Frame, OpenEpoch, Run};
use super::held::{HeldSpan, status};
use super::readings::add_run_devices;
use super::segment::{self, link, link_type};
use super::tally::seconds;
use crate::model::{Attribute, EndStatus, Event, Identity, Owner, Scalar, Severity, Span, SpanEvent, SpanId, TraceId};
use crate::semconv::{attributes as keys, events, spans};

/// Epochs open at once; with more, the oldest counts as interrupted.
const MAX_OPEN_EPOCHS: usize = 64;
/// Ended epochs remembered.
const MAX_CLOSED_EPOCHS: usize = 128;
/// Numbers of steps and phases that have not ended yet.
const MAX_EARLY_NUMBERS: usize = 512;

fn status_name(status: EndStatus) -> &'static str {
    match status {
        EndStatus::Finished => status::FINISHED,
        EndStatus::Failed => status::FAILED,
        EndStatus::Interrupted => status::INTERRUPTED,
    }
}

fn run_place(identity: &Identity) -> (TraceId, SpanId) {
    (identity.run_trace_id(), identity.run_span_id())
}

impl Timeline {
    pub(super) fn run_place(&self) -> (TraceId, SpanId) {
        run_place(&self.settings.identity)
    }

    /// The run begins with its first record.
    pub(super) fn begin_run(&mut self, begin_ns: u64) {
        if self.run.is_some() {
            return;
        }
        self.run = Some(Run { frame: Frame::new(&self.history, begin_ns), spans: 1, ended: None, epochs: 0 });
        self.meters.start(begin_ns);
        let identity = &self.settings.identity;
        let attributes =
            vec![Attribute::text(keys::RUN_NAME, identity.run_name.clone()), Attribute::int(keys::ATTEMPT, u64::from(identity.attempt))];
        let body = format!("run {} began", identity.run_name);
        self.tell(events::RUN_STARTED, begin_ns, Severity::Info, body, attributes, Some(self.run_place()));
    }

    pub(super) fn tell(
        &mut self,
        name: &'static str,
        time_ns: u64,
        severity: Severity,
        body: String,
        attributes: Vec<Attribute>,
        span: Option<(TraceId, SpanId)>,
    ) {
        self.events.push(Event { name: name.into(), time_ns, severity, body, attributes, span });
    }

    /// The run's span, for an event at that time, unless the run had ended then.
    pub(super) fn run_span_at(&self, time_ns: u64) -> Option<(TraceId, SpanId)> {
        let run = self.run.as_ref()?;
        let inside = time_ns >= run.frame.begin_ns && run.ended.is_none_or(|(end_ns, _)| time_ns <= end_ns);
        inside.then(|| self.run_place())
    }

    pub(super) fn on_run_ended(&mut self, time_ns: u64, status: EndStatus) {
        if self.run.as_ref().is_none_or(|run| run.ended.is_some()) {
            return;
        }
        self.close_epochs(time_ns);
        if let Some(run) = &mut self.run {
            let end_ns = time_ns.max(run.frame.reaches_ns);
            run.ended = Some((end_ns, status));
            run.frame.folds.catch_up(&self.history, end_ns);
        }
    }

    fn close_epochs(&mut self, time_ns: u64) {
        while let Some((ordinal, _)) = self.epochs.last_key_value() {
            self.on_epoch_ended(time_ns, *ordinal, EndStatus::Interrupted);
        }
        self.close_segment(None);
    }

    pub(super) fn on_epoch_began(&mut self, time_ns: u64, ordinal: u32, epoch: u64) {
        let known = self.epochs.contains_key(&ordinal) || self.closed_epochs.iter().any(|closed| closed.ordinal == ordinal);
        let long_gone = u64::from(ordinal) + MAX_OPEN_EPOCHS as u64 <= u64::from(self.highest_epoch);
        let Some(run) = self.run.as_mut().filter(|_| !known && !long_gone) else { return };
        self.highest_epoch = self.highest_epoch.max(ordinal);
        let begin_ns = time_ns.max(run.frame.begin_ns);
        let identity = &self.settings.identity;
        let span_id = identity.span_id("epoch", u64::from(ordinal));
        let in_run_trace = run.spans < segment::MAX_SPANS && run.ended.is_none();
        // The run's trace is full: the epoch is the root of a trace of its own.
        let trace_id = if in_run_trace { identity.run_trace_id() } else { identity.trace_id("run continuation", u64::from(ordinal)) };
        run.spans += u32::from(in_run_trace);
        run.epochs += 1;
        let place = (trace_id, span_id);
        let own_trace_spans = (!in_run_trace).then_some(1);
        let frame = Frame::new(&self.history, begin_ns);
        self.epochs.insert(ordinal, OpenEpoch { frame, ordinal, epoch, place, own_trace_spans });
        let attributes = vec![Attribute::int(keys::EPOCH_INDEX, epoch)];
        self.tell(events::EPOCH_STARTED, begin_ns, Severity::Info, format!("epoch {epoch} began"), attributes, Some(place));
        if self.epochs.len() > MAX_OPEN_EPOCHS
            && let Some((oldest, _)) = self.epochs.first_key_value()
        {
            self.on_epoch_ended(time_ns, *oldest, EndStatus::Interrupted);
        }
    }

    pub(super) fn on_epoch_ended(&mut self, time_ns: u64, ordinal: u32, status: EndStatus) {
        self.close_segment(Some(ordinal));
        let Some(mut open) = self.epochs.remove(&ordinal) else { return };
        let end_ns = time_ns.max(open.frame.begin_ns);
        let end = End::new(end_ns, status == EndStatus::Interrupted);
        open.frame.folds.catch_up(&self.history, end.until_ns());
        let in_run_trace = open.own_trace_spans.is_none();
        let identity = &self.settings.identity;
        let mut attributes = vec![Attribute::int(keys::EPOCH_INDEX, open.epoch), Attribute::text(keys::STATUS, status_name(status))];
        let mut links = Vec::new();
        if !in_run_trace {
            links.push(link(run_place(identity), link_type::RUN));
        }
        open.frame.tally.add_attributes(&mut attributes);
        open.frame.add_numbers(&mut attributes, &self.names);
        open.frame.segments.add_to(&mut links, &mut attributes, identity);
        let span = Span {
            trace_id: open.place.0,
            span_id: open.place.1,
            parent_span_id: in_run_trace.then(|| identity.run_span_id()),
            parent_is_remote: false,
            name: spans::EPOCH.into(),
            begin_ns: open.frame.begin_ns,
            end_ns: end_ns.max(open.frame.reaches_ns),
            attributes,
            events: open.frame.take_events(),
            links,
            error_type: None,
        };
        if let Some(run) = self.run.as_mut().filter(|_| in_run_trace) {
            run.frame.reaches_ns = run.frame.reaches_ns.max(span.end_ns);
        }
        if self.closed_epochs.len() >= MAX_CLOSED_EPOCHS {
            self.closed_epochs.pop_front();
        }
        self.closed_epochs.push_back(ClosedEpoch {
            ordinal,
            epoch: open.epoch,
            begin_ns: span.begin_ns,
            end_ns,
            until_ns: end.until_ns(),
            place: open.place,
            in_run_trace,
        });
        let failed = (status == EndStatus::Failed).then_some(Owner::Epoch(ordinal));
        self.waiting.push_span(HeldSpan { span, folds: open.frame.folds, end, tells_phase: true, failed });
    }

    /// The number of the epoch that was open at that time: of several the one that began last.
    pub(super) fn epoch_at(&self, time_ns: u64) -> Option<u64> {
        let open = self.epochs.values().map(|epoch| (epoch.frame.begin_ns, u64::MAX, epoch.ordinal, epoch.epoch));
        let closed = self.closed_epochs.iter().map(|epoch| (epoch.begin_ns, epoch.until_ns, epoch.ordinal, epoch.epoch));
        let at_time = open.chain(closed).filter(|(begin_ns, until_ns, ..)| *begin_ns <= time_ns && time_ns < *until_ns);
        at_time.max_by_key(|(begin_ns, _, ordinal, _)| (*begin_ns, *ordinal)).map(|(.., epoch)| epoch)
    }

    /// The epoch's frame if it is open, else the run's.
    pub(super) fn frame(&mut self, epoch: Option<u32>) -> Option<&mut Frame> {
        match epoch.and_then(|ordinal| self.epochs.get_mut(&ordinal)) {
            Some(open) => Some(&mut open.frame),
            None => self.run.as_mut().map(|run| &mut run.frame),
        }
    }

    pub(super) fn on_scalar(&mut self, time_ns: u64, owner: Owner, scalar: Scalar, value: f64) {
        self.meters.scalar(time_ns, self.names.one_scalar(scalar), value, &self.names);
        let epoch = match owner {
            Owner::Epoch(ordinal) => Some(ordinal),
            _ => None,
        };
        if !value.is_finite() {
            self.tell_nonfinite(time_ns, epoch, scalar, value, None);
        }
        match owner {
            Owner::Run | Owner::Epoch(_) => {
                let counts = scalar == Scalar::SAMPLES || scalar == Scalar::TOKENS;
                let names = &self.names;
                let scalar = names.one_scalar(scalar);
                if let Some(frame) = self.frame(epoch).filter(|_| !counts) {
                    frame.set_number(scalar, value);
                }
            }
            Owner::Step(ordinal) => {
                if let Some(step) = self.waiting.step(ordinal) {
                    step.record.scalars.push((scalar, value));
                } else if self.newest_step.is_none_or(|newest| ordinal > newest) {
                    self.remember_number(owner, scalar, value);
                }
            }
            Owner::Phase(_) => self.remember_number(owner, scalar, value),
        }
    }

    fn remember_number(&mut self, owner: Owner, scalar: Scalar, value: f64) {
        if self.early_numbers.len() >= MAX_EARLY_NUMBERS {
            self.early_numbers.pop_front();
        }
        self.early_numbers.push_back((owner, scalar, value));
    }

    /// The numbers that were told of something before it ended.
    pub(super) fn take_early_numbers(&mut self, owner: Owner) -> Vec<(Scalar, f64)> {
        let mut found = Vec::new();
        if !self.early_numbers.is_empty() {
            self.early_numbers.retain(|(other, scalar, value)| {
                let its = *other == owner;
                if its {
                    found.push((*scalar, *value));
                }
                !its
            });
        }
        found
    }

    /// Says that a number was not finite: once for each name and epoch. `step` is the span of a step that was kept.
    pub(super) fn tell_nonfinite(&mut self, time_ns: u64, epoch: Option<u32>, scalar: Scalar, value: f64, step: Option<(TraceId, SpanId)>) {
        let scalar = self.names.one_scalar(scalar);
        if !self.frame(epoch).is_some_and(|frame| frame.tells_nonfinite(scalar)) {
            return;
        }
        let name = self.names.scalar(scalar).to_owned();
        let body = format!("{name} is {value}");
        let attributes = vec![Attribute::text(keys::SCALAR_NAME, name), Attribute::text(keys::SCALAR_VALUE, value.to_string())];
        if step.is_none() {
            let event = SpanEvent { name: events::SCALAR_NONFINITE.into(), time_ns, attributes: attributes.clone() };
            if let Some(frame) = self.frame(epoch) {
                frame.add_event(event);
            }
        }
        let span = step.or_else(|| self.run_span_at(time_ns));
        self.tell(events::SCALAR_NONFINITE, time_ns, Severity::Warn, body, attributes, span);
    }

    pub(super) fn on_error(&mut self, time_ns: u64, owner: Owner, error_type: String) {
        let body = match owner {
            Owner::Run => format!("{error_type} in the run"),
            Owner::Epoch(_) => format!("{error_type} in an epoch"),
            Owner::Step(_) => format!("{error_type} in a step"),
            Owner::Phase(_) => format!("{error_type} in a phase"),
        };
        let attributes = vec![Attribute::text(keys::ERROR_TYPE, error_type.clone())];
        self.waiting.push_error(owner, error_type);
        let span = self.run_span_at(time_ns);
        self.tell(events::EXCEPTION, time_ns, Severity::Error, body, attributes, span);
    }

    /// Closes everything that is open, the run last.
    pub(super) fn close_all(&mut self) {
        if self.run.is_none() {
            return;
        }
        let clock_ns = self.clock_ns;
        self.close_epochs(clock_ns);
        self.close_phases();
        self.close_segment(None);
        self.release(true);
        let Some(mut run) = self.run.take() else { return };
        let (end_ns, status) = run.ended.unwrap_or((clock_ns.max(run.frame.reaches_ns), EndStatus::Interrupted));
        let end = End::new(end_ns, status == EndStatus::Interrupted);
        let identity = &self.settings.identity;
        let mut attributes = vec![Attribute::text(keys::STATUS, status_name(status))];
        let mut links = Vec::new();
        let has_own_trace = identity.run_trace_id() != identity.root_trace_id();
        if has_own_trace {
            links.push(link((identity.root_trace_id(), identity.root_span_id()), link_type::ROOT));
        }
        run.frame.tally.add_attributes(&mut attributes);
        run.frame.add_numbers(&mut attributes, &self.names);
        add_run_devices(&mut attributes, &self.settings.devices, &self.device_facts);
        let nonfinite = self.meters.nonfinite_count();
        if nonfinite > 0 {
            attributes.push(Attribute::int(keys::SCALARS_NONFINITE, nonfinite));
        }
        run.frame.segments.add_to(&mut links, &mut attributes, identity);
        let span = Span {
            trace_id: identity.run_trace_id(),
            span_id: identity.run_span_id(),
            parent_span_id: identity.is_child_of_root().then(|| identity.root_span_id()),
            parent_is_remote: identity.is_child_of_root(),
            name: spans::RUN.into(),
            begin_ns: run.frame.begin_ns,
            end_ns: end_ns.max(run.frame.reaches_ns),
            attributes,
            events: run.frame.take_events(),
            links,
            error_type: None,
        };
        let duration_s = seconds(end_ns - run.frame.begin_ns.min(end_ns));
        let steps = run.frame.tally.steps;
        let body = format!("{}: {} epochs, {steps} steps in {duration_s:.1} s", status_name(status), run.epochs);
        let mut told = vec![Attribute::text(keys::STATUS, status_name(status))];
        run.frame.tally.add_attributes(&mut told);
        let severity = if status == EndStatus::Failed { Severity::Error } else { Severity::Info };
        let place = self.run_place();
        self.tell(events::RUN_FINISHED, span.end_ns, severity, body, told, Some(place));
        let failed = (status == EndStatus::Failed).then_some(Owner::Run);
        self.waiting.push_span(HeldSpan { span, folds: std::mem::take(&mut run.frame.folds), end, tells_phase: true, failed });
        self.run = Some(run);
    }
}
