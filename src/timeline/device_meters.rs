//! Readings of devices, process and host as metric points, each at the time of its reading.

use super::lines::Lines;
use crate::model::{Attribute, GpuDevice, GpuReading, GpuSlowReading, HostReading, Number, ProcessReading};
use crate::semconv::{HW_TYPE_GPU, Metric, attributes as keys, metrics};

/// The attributes that a metric of a device has.
#[derive(Clone, Copy)]
enum Family {
    /// `hw.gpu.*`: the conventions list name and vendor, not the type.
    Gpu,
    /// `hw.energy` and its like: the conventions require the type.
    Typed,
    /// `hw.fan.*`: the conventions list neither type nor vendor.
    Untyped,
    /// Our own: the id is enough to join.
    Own,
}

fn whole(value: u64) -> Number {
    Number::I64(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A share of 1; what lies outside is no share.
fn share(value: Option<f64>) -> Option<Number> {
    value.filter(|share| (0.0..=1.0).contains(share)).map(Number::F64)
}

/// One device's points go through here.
struct Device<'a> {
    lines: &'a mut Lines,
    device: &'a GpuDevice,
    number: u8,
    time_ns: u64,
}

impl Device<'_> {
    fn attributes(device: &GpuDevice, family: Family, more: Option<(&'static str, &'static str)>) -> Vec<Attribute> {
        let mut attributes = vec![Attribute::text(keys::HW_ID, device.id.clone())];
        if !matches!(family, Family::Own) && !device.name.is_empty() {
            attributes.push(Attribute::text(keys::HW_NAME, device.name.clone()));
        }
        match family {
            Family::Gpu if !device.vendor.is_empty() => attributes.push(Attribute::text(keys::HW_VENDOR, device.vendor.clone())),
            Family::Typed => attributes.push(Attribute::text(keys::HW_TYPE, HW_TYPE_GPU)),
            _ => {}
        }
        attributes.extend(more.map(|(key, value)| Attribute::text(key, value)));
        attributes
    }

    fn value(&mut self, metric: Metric, family: Family, value: Option<Number>) {
        self.part(metric, family, value, 0, None);
    }

    fn part(&mut self, metric: Metric, family: Family, value: Option<Number>, part: u8, more: Option<(&'static str, &'static str)>) {
        if let Some(value) = value {
            let attributes = || Self::attributes(self.device, family, more);
            self.lines.push_of(metric, (self.number, part), Some(self.number), self.time_ns, value, attributes);
        }
    }

    fn counter(&mut self, metric: Metric, family: Family, raw: Option<Number>, part: u8, more: Option<(&'static str, &'static str)>) {
        if let Some(raw) = raw {
            let attributes = || Self::attributes(self.device, family, more);
            self.lines.push_counter(metric, (self.number, part), Some(self.number), self.time_ns, raw, attributes);
        }
    }

    fn status(&mut self, ok: bool) {
        for (part, state, holds) in [(0, "ok", ok), (1, "failed", !ok)] {
            let attributes = || Self::attributes(self.device, Family::Typed, Some((keys::HW_STATE, state)));
            let value = Number::I64(i64::from(holds));
            // The state outlives the device, so it is not among the series that end with it.
            self.lines.push_of(metrics::STATUS, (self.number, part), None, self.time_ns, value, attributes);
        }
    }
}

/// The cheap fields of a device.
pub(super) fn gpu(lines: &mut Lines, device: &GpuDevice, number: u8, time_ns: u64, reading: &GpuReading) {
    let mut to = Device { lines, device, number, time_ns };
    let used = reading.memory_used_bytes;
    let limit = device.memory_limit_bytes.filter(|limit| *limit > 0);
    to.value(metrics::GPU_UTILIZATION, Family::Gpu, share(reading.utilization));
    to.value(metrics::GPU_MEMORY_USAGE, Family::Gpu, used.map(whole));
    to.value(metrics::GPU_MEMORY_LIMIT, Family::Gpu, limit.map(whole));
    let used_share = used.zip(limit).map(|(used, limit)| used as f64 / limit as f64);
    to.value(metrics::GPU_MEMORY_UTILIZATION, Family::Gpu, share(used_share));
    to.counter(metrics::ENERGY, Family::Typed, reading.energy_j.map(Number::F64), 0, None);
    to.value(metrics::POWER, Family::Typed, reading.power_w.map(Number::F64));
    to.value(metrics::TEMPERATURE, Family::Typed, reading.temperature_c.map(Number::F64));
    // Drivers report up to 105 % of a fan's intended maximum; the metric is a share of the maximum.
    to.value(metrics::FAN_SPEED_RATIO, Family::Untyped, share(reading.fan_speed_ratio.map(|ratio| ratio.min(1.0))));
    to.value(metrics::GPU_MEMORY_RESERVED, Family::Own, reading.memory_reserved_bytes.map(whole));
    to.value(metrics::GPU_MEMORY_BANDWIDTH_UTILIZATION, Family::Own, share(reading.memory_bandwidth_utilization));
    for (part, domain, clock_hz) in [(0, "sm", reading.sm_clock_hz), (1, "memory", reading.memory_clock_hz)] {
        to.part(metrics::GPU_CLOCK_FREQUENCY, Family::Own, clock_hz.map(whole), part, Some((keys::GPU_CLOCK_DOMAIN, domain)));
    }
    to.status(true);
}

/// The dear fields of a device.
pub(super) fn gpu_slow(lines: &mut Lines, device: &GpuDevice, number: u8, time_ns: u64, reading: &GpuSlowReading) {
    let mut to = Device { lines, device, number, time_ns };
    for (part, direction, bytes) in [(0, "receive", reading.pcie_receive_bytes), (1, "transmit", reading.pcie_transmit_bytes)] {
        to.counter(metrics::GPU_IO, Family::Gpu, bytes.map(whole), part, Some((keys::NETWORK_IO_DIRECTION, direction)));
    }
    for (part, kind, errors) in [(0, "corrected", reading.ecc_corrected_errors), (1, "uncorrected", reading.ecc_uncorrected_errors)] {
        to.counter(metrics::ERRORS, Family::Typed, errors.map(whole), part, Some((keys::ERROR_TYPE, kind)));
    }
    to.value(metrics::GPU_PROCESS_MEMORY_USAGE, Family::Own, reading.process_memory_bytes.map(whole));
    for (part, reason, time_s) in [(0, "power", reading.throttle_power_s), (1, "thermal", reading.throttle_thermal_s)] {
        to.counter(metrics::GPU_THROTTLE_TIME, Family::Own, time_s.map(Number::F64), part, Some((keys::GPU_THROTTLE_REASON, reason)));
    }
}

/// A device was lost: its series end, its state is `failed`.
pub(super) fn gpu_lost(lines: &mut Lines, device: &GpuDevice, number: u8, time_ns: u64) {
    lines.end_device(number, time_ns);
    Device { lines, device, number, time_ns }.status(false);
}

/// The training process.
pub(super) fn process(lines: &mut Lines, time_ns: u64, reading: &ProcessReading) {
    for (part, mode, time_s) in [(0, "user", reading.cpu_user_s), (1, "system", reading.cpu_system_s)] {
        if let Some(time_s) = time_s {
            let attributes = || vec![Attribute::text(keys::CPU_MODE, mode)];
            lines.push_counter(metrics::PROCESS_CPU_TIME, (0, part), None, time_ns, Number::F64(time_s), attributes);
        }
    }
    for (part, direction, bytes) in [(0, "read", reading.read_bytes), (1, "write", reading.written_bytes)] {
        if let Some(bytes) = bytes {
            let attributes = || vec![Attribute::text(keys::DISK_IO_DIRECTION, direction)];
            lines.push_counter(metrics::PROCESS_DISK_IO, (0, part), None, time_ns, whole(bytes), attributes);
        }
    }
    let values = [
        (metrics::PROCESS_MEMORY_USAGE, reading.resident_bytes.map(whole)),
        (metrics::PROCESS_THREAD_COUNT, reading.threads.map(|threads| whole(u64::from(threads)))),
        (metrics::CHILDREN_MEMORY_USAGE, reading.children_resident_bytes.map(whole)),
        (metrics::CHILDREN_CPU_TIME, reading.children_cpu_s.map(Number::F64)),
    ];
    push_plain(lines, time_ns, values);
}

/// The host.
pub(super) fn host(lines: &mut Lines, time_ns: u64, reading: &HostReading) {
    let values = [
        (metrics::HOST_MEMORY_USAGE, reading.memory_used_bytes.map(whole)),
        (metrics::HOST_MEMORY_LIMIT, reading.memory_limit_bytes.map(whole)),
        (metrics::HOST_CPU_UTILIZATION, share(reading.cpu_utilization)),
    ];
    push_plain(lines, time_ns, values);
}

fn push_plain<const N: usize>(lines: &mut Lines, time_ns: u64, values: [(Metric, Option<Number>); N]) {
    for (metric, value) in values {
        if let Some(value) = value {
            lines.push(metric, (0, 0), time_ns, value, Vec::new);
        }
    }
}
