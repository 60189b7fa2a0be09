//! Aggregates of several devices as attributes of one span: one plain number for all devices together, arrays beside it.

use super::correlate::{Aggregate, Energy};
use crate::model::{Attribute, GpuDevice, Value};
use crate::semconv::attributes as keys;

/// Adds what the devices did. Plain numbers speak of the devices together: the largest maximum, sums, the mean utilization; a sum is
/// there only when every device that was read has its part.
pub(super) fn add_devices(attributes: &mut Vec<Attribute>, devices: &[GpuDevice], aggregates: &[Option<Aggregate>]) {
    if let [aggregate] = aggregates {
        return add_device(attributes, aggregate.as_ref());
    }
    let known = || aggregates.iter().flatten();
    let count = known().count();
    if count == 0 {
        return;
    }
    attributes.reserve(16);
    let mut add = Adder { attributes, count };
    add.bytes(keys::GPU_MEMORY_USAGE_MAX, known().map(|device| device.memory_max.map(|peak| peak.bytes)), |all| all.iter().max().copied());
    add.bytes(keys::GPU_MEMORY_USAGE_END, known().map(|device| device.memory_end_bytes), |all| sum_of_all(all, count));
    add.numbers(keys::GPU_UTILIZATION_MEAN, known().map(|device| device.utilization), |all| {
        Some(all.iter().sum::<f64>() / all.len() as f64)
    });
    let sum = |all: &[f64]| (all.len() == count).then(|| all.iter().sum::<f64>());
    add.numbers(keys::GPU_POWER_MEAN, known().map(|device| device.power_w), sum);
    let energy = |part: fn(Energy) -> f64| known().map(move |device| device.energy.map(part));
    add.numbers(keys::GPU_ENERGY_CONSUMED, energy(|energy| energy.joules), sum);
    add.numbers(keys::GPU_ENERGY_ERROR, energy(|energy| energy.error_j), sum);
    add.bytes(keys::GPU_SAMPLES, known().map(|device| Some(device.samples)), |all| sum_of_all(all, count));
    let ids = devices.iter().zip(aggregates).filter(|(_, aggregate)| aggregate.is_some()).map(|(device, _)| device.id.clone());
    attributes.push(Attribute { key: keys::GPU_IDS.into(), value: Value::Texts(ids.collect()) });
}

/// Adds what the only device did.
pub(super) fn add_device(attributes: &mut Vec<Attribute>, aggregate: Option<&Aggregate>) {
    let Some(aggregate) = aggregate else { return };
    attributes.reserve(7);
    let mut bytes = |key, bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            attributes.push(Attribute::int(key, bytes));
        }
    };
    bytes(keys::GPU_MEMORY_USAGE_MAX, aggregate.memory_max.map(|peak| peak.bytes));
    bytes(keys::GPU_MEMORY_USAGE_END, aggregate.memory_end_bytes);
    bytes(keys::GPU_SAMPLES, Some(aggregate.samples));
    let mut number = |key, number: Option<f64>| {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            attributes.push(Attribute::number(key, number));
        }
    };
    number(keys::GPU_UTILIZATION_MEAN, aggregate.utilization);
    number(keys::GPU_POWER_MEAN, aggregate.power_w);
    number(keys::GPU_ENERGY_CONSUMED, aggregate.energy.map(|energy| energy.joules));
    number(keys::GPU_ENERGY_ERROR, aggregate.energy.map(|energy| energy.error_j));
}

/// Adds the memory of the process.
pub(super) fn add_process(attributes: &mut Vec<Attribute>, process: Option<Aggregate>) {
    let Some(process) = process else { return };
    if let Some(peak) = process.memory_max {
        attributes.push(Attribute::int(keys::PROCESS_MEMORY_USAGE_MAX, peak.bytes));
    }
    if let Some(bytes) = process.memory_end_bytes {
        attributes.push(Attribute::int(keys::PROCESS_MEMORY_USAGE_END, bytes));
    }
}

fn sum_of_all(all: &[u64], count: usize) -> Option<u64> {
    (all.len() == count).then(|| all.iter().fold(0, |sum: u64, part| sum.saturating_add(*part)))
}

/// Adds one aggregate: the plain number, and the array where every device of `stepline.gpu.ids` has its part.
struct Adder<'a> {
    attributes: &'a mut Vec<Attribute>,
    count: usize,
}

impl Adder<'_> {
    fn numbers(&mut self, key: &'static str, parts: impl Iterator<Item = Option<f64>>, together: impl Fn(&[f64]) -> Option<f64>) {
        let parts: Vec<f64> = parts.flatten().filter(|part| part.is_finite()).collect();
        if parts.is_empty() {
            return;
        }
        if let Some(number) = together(&parts) {
            self.attributes.push(Attribute::number(key, number));
        }
        if parts.len() == self.count {
            self.attributes.push(by_device(key, Value::F64s(parts)));
        }
    }

    fn bytes(&mut self, key: &'static str, parts: impl Iterator<Item = Option<u64>>, together: impl Fn(&[u64]) -> Option<u64>) {
        let parts: Vec<u64> = parts.flatten().collect();
        if parts.is_empty() {
            return;
        }
        if let Some(number) = together(&parts) {
            self.attributes.push(Attribute::int(key, number));
        }
        if parts.len() == self.count {
            let parts = parts.iter().map(|part| i64::try_from(*part).unwrap_or(i64::MAX)).collect();
            self.attributes.push(by_device(key, Value::I64s(parts)));
        }
    }
}

/// The array that stands beside an aggregate.
pub(super) fn by_device(key: &'static str, value: Value) -> Attribute {
    Attribute { key: format!("{key}{}", keys::BY_DEVICE).into(), value }
}
