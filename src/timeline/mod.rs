//! From the records of a journal to spans, metric points and log events. Pure: no I/O, no clock, no thread; the same records give
//! the same spans however they are cut into batches.
//!
//! [`Timeline::apply`] takes records in about the order of their times, [`Timeline::take`] gives what is ready,
//! [`Timeline::finish`] closes what is open. Inside, records are put into the order of their times (`order`), readings of devices
//! are kept for a while (`history`), what is open is filled (`frame`, `segment`), what has ended waits for the readings that follow
//! its end (`held`) and gets its aggregates (`correlate`, `aggregates`). Numbers become points on the way (`meters`,
//! `device_meters`, `lines`). Everything held is bounded: what does not fit is let go of as a span, never as a count.

mod aggregates;
mod correlate;
mod device_meters;
mod epochs;
mod frame;
mod held;
mod history;
mod keep;
mod lines;
mod meters;
mod names;
mod order;
mod phases;
mod readings;
mod segment;
mod steps;
mod summary;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

pub use summary::SummaryBuilder;

use self::frame::{ClosedEpoch, OpenEpoch, Run};
use self::held::{Known, Waiting};
use self::history::History;
use self::keep::Keeper;
use self::meters::Meters;
use self::names::Names;
use self::order::Order;
use self::phases::Phases;
use self::readings::DeviceFacts;
use self::segment::Segment;
use crate::model::{Event, GpuDevice, Identity, NameTable, Owner, Record, Scalar, Series, Span, StepSpans};

/// What a timeline has to know before the first record.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who wrote the journal: what ids are made of.
    pub identity: Identity,
    /// Which steps become spans.
    pub step_spans: StepSpans,
    /// Time between two readings of a device as configured, nanoseconds.
    pub sample_interval_ns: u64,
    /// The sampled devices, in the order of their numbers in the records. Readings of others are left out: they have no identity.
    pub devices: Vec<GpuDevice>,
}

/// What is ready to go out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emitted {
    /// Spans that have ended, with their aggregates.
    pub spans: Vec<Span>,
    /// Points since the last time; one entry for each metric and set of attributes.
    pub series: Vec<Series>,
    /// Log events since the last time.
    pub events: Vec<Event>,
}

/// Makes spans, points and events from the records of one journal.
#[derive(Debug)]
pub struct Timeline {
    settings: Settings,
    names: Names,
    order: Order,
    /// The newest time among the records that were handled.
    clock_ns: u64,
    run: Option<Run>,
    epochs: BTreeMap<u32, OpenEpoch>,
    closed_epochs: VecDeque<ClosedEpoch>,
    highest_epoch: u32,
    /// The open segments, by the epoch that their steps stand in.
    segments: BTreeMap<Option<u32>, Segment>,
    next_segment: u64,
    newest_step: Option<u64>,
    history: History,
    device_facts: DeviceFacts,
    keeper: Keeper,
    meters: Meters,
    phases: Phases,
    /// Numbers of steps and phases that have not ended yet.
    early_numbers: VecDeque<(Owner, Scalar, f64)>,
    waiting: Waiting,
    ready: Vec<Span>,
    events: Vec<Event>,
    finished: bool,
}

impl Timeline {
    /// An empty timeline.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let devices = settings.devices.len();
        Self {
            names: Names::default(),
            order: Order::default(),
            clock_ns: 0,
            run: None,
            epochs: BTreeMap::new(),
            closed_epochs: VecDeque::new(),
            highest_epoch: 0,
            segments: BTreeMap::new(),
            next_segment: 0,
            newest_step: None,
            history: History::new(devices, settings.sample_interval_ns),
            device_facts: DeviceFacts::new(devices),
            keeper: Keeper::new(settings.step_spans, devices),
            meters: Meters::default(),
            phases: Phases::default(),
            early_numbers: VecDeque::new(),
            waiting: Waiting::default(),
            ready: Vec::new(),
            events: Vec::new(),
            finished: false,
            settings,
        }
    }

    /// Says which devices the readings speak of, where that was not known at first. To be said once, before the first reading.
    pub fn set_devices(&mut self, devices: Vec<GpuDevice>) {
        self.history.set_devices(devices.len());
        self.device_facts = DeviceFacts::new(devices.len());
        self.keeper.set_devices(devices.len());
        self.settings.devices = devices;
    }

    /// Takes further records of the journal; `names` are the names as they are now.
    pub fn apply(&mut self, records: Vec<Record>, names: &NameTable) {
        self.names.update(names);
        for record in records {
            self.order.push(record);
            self.handle_due(0);
        }
    }

    /// How many spans [`take`](Self::take) would give at least: whoever calls it by a timer may want to call it earlier when they are many.
    #[must_use]
    pub fn ready_spans(&self) -> usize {
        self.ready.len()
    }

    /// What has become ready since the last time. Counters and histograms get a point each, stamped with the time until which all
    /// records are in.
    pub fn take(&mut self, now_ns: u64) -> Emitted {
        self.handle_due(now_ns);
        self.emit(false)
    }

    /// Closes what is still open at the time of the last record, as interrupted, and gives everything that is left. Nothing comes
    /// after it.
    pub fn finish(&mut self, now_ns: u64) -> Emitted {
        self.handle_due(now_ns);
        while let Some(record) = self.order.pop_any() {
            self.handle(record);
        }
        if !self.finished {
            self.finished = true;
            self.close_all();
        }
        self.release(true);
        self.emit(true)
    }

    fn emit(&mut self, last: bool) -> Emitted {
        Emitted {
            spans: std::mem::take(&mut self.ready),
            series: if self.run.is_some() { self.meters.take(self.clock_ns, last, &self.names) } else { Vec::new() },
            events: std::mem::take(&mut self.events),
        }
    }

    fn handle_due(&mut self, now_ns: u64) {
        while let Some(record) = self.order.pop(now_ns) {
            self.handle(record);
        }
    }

    fn handle(&mut self, record: Record) {
        if self.finished {
            return;
        }
        self.begin_run(match &record {
            Record::Step(step) => step.begin_ns.min(step.end_ns),
            Record::Phase(phase) => phase.begin_ns.min(phase.end_ns),
            other => other.time_ns(),
        });
        self.clock_ns = self.clock_ns.max(record.time_ns());
        match record {
            Record::RunBegan { .. } => {}
            Record::RunEnded { time_ns, status } => self.on_run_ended(time_ns, status),
            Record::EpochBegan { time_ns, ordinal, epoch } => self.on_epoch_began(time_ns, ordinal, epoch),
            Record::EpochEnded { time_ns, ordinal, status } => self.on_epoch_ended(time_ns, ordinal, status),
            Record::Step(step) => self.on_step(step),
            Record::Phase(phase) => self.on_phase(phase),
            Record::Scalar { time_ns, owner, scalar, value } => self.on_scalar(time_ns, owner, scalar, value),
            Record::Error { time_ns, owner, error_type } => self.on_error(time_ns, owner, error_type),
            Record::Gpu { time_ns, device, reading } => self.on_gpu(time_ns, device, &reading),
            Record::GpuSlow { time_ns, device, reading } => self.on_gpu_slow(time_ns, device, &reading),
            Record::GpuChanged { time_ns, device, event } => self.on_gpu_changed(time_ns, device, event),
            Record::Process { time_ns, reading } => self.on_process(time_ns, &reading),
            Record::Host { time_ns, reading } => self.on_host(time_ns, &reading),
            Record::Position { time_ns, step, phase } => self.on_position(time_ns, step, phase),
        }
        self.release(false);
    }

    fn release(&mut self, everything: bool) {
        let known =
            Known { identity: &self.settings.identity, devices: &self.settings.devices, history: &self.history, names: &self.names };
        self.waiting.release(self.clock_ns, everything, &known, &mut self.ready);
    }
}
