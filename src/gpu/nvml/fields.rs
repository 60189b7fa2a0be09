//! What is asked of a device, call by call.

use std::mem::MaybeUninit;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES};

use super::gate::{Gate, Turn};
use crate::gpu::plausible;
use crate::model::GpuReading;

macro_rules! fields {
    ($($name:ident = $text:literal,)*) => {
        /// One call to the driver, which gives one field or a few.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $($name,)* }

        impl Field {
            /// All of them and their names, in the order in which they are asked.
            pub(super) const ALL: &[(Self, &str)] = &[$((Self::$name, $text),)*];
        }
    };
}

fields! {
    Memory = "memory",
    Utilization = "utilization",
    Power = "power",
    Energy = "energy",
    Temperature = "temperature",
    Fan = "fan speed",
    SmClock = "SM clock",
    MemoryClock = "memory clock",
    Throttle = "throttle reasons",
    ProcessMemory = "process memory",
    Pcie = "PCIe bytes",
    EccCorrected = "corrected ECC errors",
    EccUncorrected = "uncorrected ECC errors",
    ThrottlePower = "time throttled for power",
    ThrottleThermal = "time throttled for heat",
}

/// How many of them, the first ones, are asked at each reading.
pub(super) const CHEAP: usize = Field::ProcessMemory as usize;

/// One gate a field.
#[derive(Debug)]
pub(super) struct Gates(Vec<Gate>);

impl Gates {
    pub(super) fn new() -> Self {
        Self(Field::ALL.iter().map(|_| Gate::new()).collect())
    }

    /// The field's gate, and whether there is one (there always is: the list has one for each).
    pub(super) fn get_mut(&mut self, field: Field) -> Option<&mut Gate> {
        self.0.get_mut(field as usize)
    }

    pub(super) fn ask<T>(&mut self, field: Field, turn: &mut Turn<'_>, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        self.get_mut(field)?.ask(turn, call)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Gate)> {
        Field::ALL.iter().map(|(_, name)| *name).zip(&self.0)
    }

    pub(super) fn forget_failures(&mut self) {
        self.0.iter_mut().for_each(Gate::forget_failures);
    }
}

/// Which of the two memory calls a device answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryCall {
    /// The newer one: what the driver reserves for itself stands apart.
    Apart,
    /// The first: what is used includes what is reserved, some hundred MB on an idle card.
    Together,
}

/// Memory, bytes, as the driver says it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) used: u64,
    pub(super) reserved: Option<u64>,
}

pub(super) fn memory(device: &Device<'static>, call: MemoryCall) -> Result<Memory, NvmlError> {
    match call {
        MemoryCall::Apart => {
            let memory = device.memory_info()?;
            Ok(Memory { total: memory.total, used: memory.used, reserved: Some(memory.reserved) })
        }
        MemoryCall::Together => memory_together(device),
    }
}

#[allow(unsafe_code, reason = "nvml-wrapper has the second memory call only, which drivers before 510 lack")]
fn memory_together(device: &Device<'static>) -> Result<Memory, NvmlError> {
    let missing = |error: &_| NvmlError::FailedToLoadSymbol(format!("{error}"));
    let function = device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(missing)?;
    let mut memory = MaybeUninit::zeroed();
    // SAFETY: the function is NVML's own with the signature of its header; the handle came from the same, initialised library; the struct
    // has no version word and is large enough, being of the type that the signature names.
    nvml_try(unsafe { function(device.handle(), memory.as_mut_ptr()) })?;
    // SAFETY: three integers, for which zeros are valid values, and which the call has filled.
    let memory = unsafe { memory.assume_init() };
    Ok(Memory { total: memory.total, used: memory.used, reserved: None })
}

/// The cheap fields except memory.
pub(super) fn read_cheap(device: &Device<'static>, gates: &mut Gates, turn: &mut Turn<'_>, reading: &mut GpuReading) {
    if let Some(shares) = gates.ask(Field::Utilization, turn, || device.utilization_rates()) {
        reading.utilization = plausible::share(f64::from(shares.gpu));
        reading.memory_bandwidth_utilization = plausible::share(f64::from(shares.memory));
    }
    let milliwatts = gates.ask(Field::Power, turn, || device.power_usage());
    reading.power_w = milliwatts.and_then(|milliwatts| plausible::power_w(f64::from(milliwatts) / 1e3));
    let millijoules = gates.ask(Field::Energy, turn, || device.total_energy_consumption());
    reading.energy_j = millijoules.filter(|millijoules| *millijoules != u64::MAX).map(|millijoules| millijoules as f64 / 1e3);
    let celsius = gates.ask(Field::Temperature, turn, || device.temperature(TemperatureSensor::Gpu));
    reading.temperature_c = celsius.and_then(|celsius| plausible::temperature_c(f64::from(celsius)));
    let percent = gates.ask(Field::Fan, turn, || device.fan_speed(0));
    reading.fan_speed_ratio = percent.and_then(|percent| plausible::fan_ratio(f64::from(percent)));
    let mhz = gates.ask(Field::SmClock, turn, || device.clock_info(Clock::SM));
    reading.sm_clock_hz = mhz.and_then(|mhz| plausible::clock_hz(f64::from(mhz)));
    let mhz = gates.ask(Field::MemoryClock, turn, || device.clock_info(Clock::Memory));
    reading.memory_clock_hz = mhz.and_then(|mhz| plausible::clock_hz(f64::from(mhz)));
    let reasons = gates.ask(Field::Throttle, turn, || device.current_throttle_reasons());
    reading.throttle_reasons = reasons.and_then(|reasons| u32::try_from(reasons.bits()).ok());
}

/// Bytes over PCIe as counters: received by the device, and sent. (The rate that NVML also has is measured over 20 ms, so adding it up
/// would make numbers out of nothing.)
pub(super) fn pcie_bytes(device: &Device<'static>) -> Result<[Option<u64>; 2], NvmlError> {
    let fields = [FieldId(NVML_FI_DEV_PCIE_COUNT_RX_BYTES), FieldId(NVML_FI_DEV_PCIE_COUNT_TX_BYTES)];
    let mut bytes = [None; 2];
    let mut failure = NvmlError::NotSupported;
    for (slot, sample) in bytes.iter_mut().zip(device.field_values_for(&fields)?) {
        match sample.and_then(|sample| sample.value) {
            Ok(SampleValue::U64(value)) => *slot = Some(value),
            Ok(SampleValue::I64(value)) => *slot = u64::try_from(value).ok(),
            // 32 bits are full after less than a second at full speed, and nobody could tell how often.
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    if bytes == [None; 2] { Err(failure) } else { Ok(bytes) }
}

/// Errors since the driver was loaded.
pub(super) fn ecc_errors(device: &Device<'static>, corrected: bool) -> Result<u64, NvmlError> {
    let kind = if corrected { MemoryError::Corrected } else { MemoryError::Uncorrected };
    device.total_ecc_errors(kind, EccCounter::Volatile)
}

/// Time that the clocks were held down, seconds.
pub(super) fn throttled_s(device: &Device<'static>, thermal: bool) -> Result<f64, NvmlError> {
    let policy = if thermal { PerformancePolicy::Thermal } else { PerformancePolicy::Power };
    Ok(device.violation_status(policy)?.violation_time as f64 / 1e9)
}
