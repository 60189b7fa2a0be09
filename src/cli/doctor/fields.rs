//! What a device's fields are called, what they say now, and in which unit.

use serde::Serialize;

use crate::model::{GpuReading, GpuSlowReading};
use crate::report::format::{bytes, duration, energy, percent};

/// One number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Value {
    /// Which, where a field has several.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) what: &'static str,
    pub(super) value: f64,
    /// In UCUM; `{bits}` for NVML's throttle reasons.
    pub(super) unit: &'static str,
}

impl Value {
    /// `300 MiB used`
    pub(super) fn text(&self) -> String {
        let number = match self.unit {
            "By" => bytes(self.value as u64),
            "1" => percent(self.value),
            "J" => energy(self.value),
            "s" => duration(self.value),
            "W" => format!("{:.0} W", self.value),
            "Cel" => format!("{:.0} °C", self.value),
            "Hz" => format!("{:.0} MHz", self.value / 1e6),
            "{bits}" => throttle_reasons(self.value as u32),
            _ => format!("{:.0}", self.value),
        };
        if self.what.is_empty() { number } else { format!("{number} {}", self.what) }
    }
}

/// The fields with what two readings say about each: nothing, one number or two. The names are those that NVML's source uses.
pub(super) fn values(fast: &GpuReading, slow: &GpuSlowReading) -> Vec<(&'static str, Vec<Value>)> {
    let whole = |number: Option<u64>| number.map(|number| number as f64);
    vec![
        (
            "memory",
            list(&[("used", "By", whole(fast.memory_used_bytes)), ("reserved by the driver", "By", whole(fast.memory_reserved_bytes))]),
        ),
        ("utilization", list(&[("", "1", fast.utilization), ("of memory bandwidth", "1", fast.memory_bandwidth_utilization)])),
        ("power", list(&[("", "W", fast.power_w)])),
        ("energy", list(&[("", "J", fast.energy_j)])),
        ("temperature", list(&[("", "Cel", fast.temperature_c)])),
        ("fan speed", list(&[("", "1", fast.fan_speed_ratio)])),
        ("SM clock", list(&[("", "Hz", whole(fast.sm_clock_hz))])),
        ("memory clock", list(&[("", "Hz", whole(fast.memory_clock_hz))])),
        ("throttle reasons", list(&[("", "{bits}", fast.throttle_reasons.map(f64::from))])),
        ("process memory", list(&[("", "By", whole(slow.process_memory_bytes))])),
        ("PCIe bytes", list(&[("received", "By", whole(slow.pcie_receive_bytes)), ("sent", "By", whole(slow.pcie_transmit_bytes))])),
        ("corrected ECC errors", list(&[("", "{error}", whole(slow.ecc_corrected_errors))])),
        ("uncorrected ECC errors", list(&[("", "{error}", whole(slow.ecc_uncorrected_errors))])),
        ("time throttled for power", list(&[("", "s", slow.throttle_power_s)])),
        ("time throttled for heat", list(&[("", "s", slow.throttle_thermal_s)])),
    ]
}

fn list(values: &[(&'static str, &'static str, Option<f64>)]) -> Vec<Value> {
    values.iter().filter_map(|&(what, unit, value)| Some(Value { what, value: value?, unit })).collect()
}

/// The names of NVML's bits (`nvmlClocksEventReason…`).
fn throttle_reasons(bits: u32) -> String {
    const NAMES: [&str; 9] = [
        "idle",
        "application clocks",
        "power cap",
        "hardware slowdown",
        "sync boost",
        "heat (software)",
        "heat (hardware)",
        "power brake",
        "display clocks",
    ];
    let known = NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| (*name).to_owned());
    let unknown = bits >> NAMES.len() << NAMES.len();
    let all: Vec<String> = known.chain((unknown != 0).then(|| format!("{unknown:#x}"))).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_units() {
        let fast = GpuReading {
            memory_used_bytes: Some(300 << 20),
            memory_reserved_bytes: Some(400 << 20),
            utilization: Some(0.37),
            power_w: Some(181.25),
            sm_clock_hz: Some(765_000_000),
            throttle_reasons: Some(0x404),
            ..GpuReading::default()
        };
        let texts: Vec<String> = values(&fast, &GpuSlowReading { ecc_corrected_errors: Some(0), ..GpuSlowReading::default() })
            .into_iter()
            .flat_map(|(_, values)| values)
            .map(|value| value.text())
            .collect();
        assert_eq!(texts, ["300 MiB used", "400 MiB reserved by the driver", "37 %", "181 W", "765 MHz", "power cap and 0x400", "0"]);
        assert_eq!((throttle_reasons(0), throttle_reasons(0x41)), ("none".to_owned(), "idle and heat (hardware)".to_owned()));
    }
}
