//! Readings of devices, process and host: into the history, and on as points.

use super::Timeline;
use super::aggregates::by_device;
use super::device_meters;
use crate::model::{
    Attribute, ExponentialHistogram, GpuDevice, GpuEvent, GpuReading, GpuSlowReading, HostReading, Phase, ProcessReading, Severity,
    SpanEvent, Value,
};
use crate::semconv::{attributes as keys, events};

/// What the run's span tells of its devices.
#[derive(Debug)]
pub(super) struct DeviceFacts {
    readings: Vec<u64>,
    last_ns: Vec<Option<u64>>,
    ever_lost: Vec<bool>,
    intervals: ExponentialHistogram,
}

impl DeviceFacts {
    pub(super) fn new(devices: usize) -> Self {
        Self {
            readings: vec![0; devices],
            last_ns: vec![None; devices],
            ever_lost: vec![false; devices],
            intervals: ExponentialHistogram::default(),
        }
    }

    fn read(&mut self, device: usize, time_ns: u64) {
        if let (Some(readings), Some(last_ns)) = (self.readings.get_mut(device), self.last_ns.get_mut(device)) {
            *readings += 1;
            if let Some(last_ns) = last_ns.replace(time_ns) {
                self.intervals.record(super::tally::seconds(time_ns.saturating_sub(last_ns)));
            }
        }
    }

    fn lost(&mut self, device: usize) {
        if let (Some(lost), Some(last_ns)) = (self.ever_lost.get_mut(device), self.last_ns.get_mut(device)) {
            *lost = true;
            *last_ns = None;
        }
    }
}

/// The devices that gave readings, with what is known of them for the whole run.
pub(super) fn add_run_devices(attributes: &mut Vec<Attribute>, devices: &[GpuDevice], facts: &DeviceFacts) {
    let read = || devices.iter().zip(&facts.readings).filter(|(_, readings)| **readings > 0);
    let lost = devices.iter().zip(&facts.ever_lost).filter(|(_, lost)| **lost).map(|(device, _)| device.id.clone());
    let lost: Vec<String> = lost.collect();
    if !lost.is_empty() {
        attributes.push(Attribute { key: keys::GPU_LOST_IDS.into(), value: Value::Texts(lost) });
    }
    if read().next().is_none() {
        return;
    }
    if devices.len() == 1 {
        // With several devices the ids stand beside the arrays anyway, and so do the numbers of readings.
        let ids = read().map(|(device, _)| device.id.clone()).collect();
        attributes.push(Attribute { key: keys::GPU_IDS.into(), value: Value::Texts(ids) });
    }
    let indices = read().map(|(device, _)| i64::from(device.index)).collect();
    attributes.push(Attribute { key: keys::GPU_INDICES.into(), value: Value::I64s(indices) });
    let names = read().map(|(device, _)| device.name.clone()).collect();
    attributes.push(Attribute { key: keys::GPU_NAMES.into(), value: Value::Texts(names) });
    let limits: Vec<i64> = read().filter_map(|(device, _)| i64::try_from(device.memory_limit_bytes?).ok()).collect();
    if limits.len() == read().count() {
        attributes.push(by_device(keys::GPU_MEMORY_LIMIT, Value::I64s(limits)));
    }
    if let Some(interval_s) = facts.intervals.quantile(0.5) {
        attributes.push(Attribute::number(keys::GPU_SAMPLE_INTERVAL, interval_s));
    }
}

impl Timeline {
    pub(super) fn on_gpu(&mut self, time_ns: u64, number: u8, reading: &GpuReading) {
        let device = usize::from(number);
        if device >= self.settings.devices.len() {
            return;
        }
        self.make_room();
        if !self.history.push(device, time_ns, reading) {
            return;
        }
        if self.run.as_ref().is_some_and(|run| run.ended.is_none()) {
            self.device_facts.read(device, time_ns);
        }
        if let Some(bytes) = reading.memory_used_bytes {
            self.keeper.memory(device, time_ns, bytes);
        }
        device_meters::gpu(&mut self.meters.lines, &self.settings.devices[device], number, time_ns, reading);
        // The first living device gives the beat; of the others only what tells another epoch.
        let leads = self.history.devices().iter().take(device).all(|other| !other.is_alive());
        self.meters.epoch_current(time_ns, self.epoch_at(time_ns), leads);
        self.close_old_segments(time_ns);
    }

    /// Before readings are given up, those who are still open take them in.
    fn make_room(&mut self) {
        let Some(evicted_ns) = self.history.due_for_eviction() else { return };
        let until_ns = evicted_ns.saturating_add(1);
        // A segment without a step for so long cannot go on: it would miss the readings since its last one.
        let idle: Vec<_> = self.segments.iter().filter(|(_, segment)| segment.end_ns < until_ns).map(|(epoch, _)| *epoch).collect();
        idle.into_iter().for_each(|epoch| self.close_segment(epoch));
        for segment in self.segments.values_mut() {
            segment.folds.catch_up(&self.history, until_ns);
        }
        for open in self.epochs.values_mut() {
            open.frame.folds.catch_up(&self.history, until_ns);
        }
        if let Some(run) = &mut self.run {
            let end_ns = run.ended.map_or(u64::MAX, |(end_ns, _)| end_ns);
            run.frame.folds.catch_up(&self.history, until_ns.min(end_ns));
        }
        self.history.evict();
    }

    pub(super) fn on_gpu_slow(&mut self, time_ns: u64, number: u8, reading: &GpuSlowReading) {
        if let Some(device) = self.settings.devices.get(usize::from(number)) {
            device_meters::gpu_slow(&mut self.meters.lines, device, number, time_ns, reading);
        }
    }

    pub(super) fn on_gpu_changed(&mut self, time_ns: u64, number: u8, event: GpuEvent) {
        let Some(device) = self.settings.devices.get(usize::from(number)) else { return };
        let attributes = vec![Attribute::text(keys::HW_ID, device.id.clone())];
        let lost = event == GpuEvent::Lost;
        let (name, severity, what) = match event {
            GpuEvent::Lost => (events::GPU_LOST, Severity::Error, "stopped answering"),
            GpuEvent::Returned => (events::GPU_RETURNED, Severity::Info, "answers again"),
        };
        let body = format!("gpu {} ({}) {what}", device.index, device.id);
        if lost {
            device_meters::gpu_lost(&mut self.meters.lines, device, number, time_ns);
            self.device_facts.lost(usize::from(number));
        }
        self.history.break_at(usize::from(number), lost);
        let event = SpanEvent { name: name.into(), time_ns, attributes: attributes.clone() };
        for open in self.epochs.values_mut() {
            open.frame.add_event(event.clone());
        }
        let span = self.run_span_at(time_ns);
        if let Some(run) = self.run.as_mut().filter(|run| run.ended.is_none()) {
            run.frame.add_event(event);
        }
        self.tell(name, time_ns, severity, body, attributes, span);
    }

    pub(super) fn on_process(&mut self, time_ns: u64, reading: &ProcessReading) {
        self.make_room();
        self.history.push_process(time_ns, reading);
        device_meters::process(&mut self.meters.lines, time_ns, reading);
    }

    pub(super) fn on_host(&mut self, time_ns: u64, reading: &HostReading) {
        device_meters::host(&mut self.meters.lines, time_ns, reading);
    }

    pub(super) fn on_position(&mut self, time_ns: u64, step: Option<u64>, phase: Option<Phase>) {
        let phase = phase.map(|phase| self.names.one_phase(phase));
        self.meters.position(time_ns, step, phase, &self.names);
        if !self.history.has_readings() {
            self.meters.epoch_current(time_ns, self.epoch_at(time_ns), true);
        }
        self.close_old_segments(time_ns);
    }
}
