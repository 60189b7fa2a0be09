//! Records of one slot: from plain data to seven words. `decode` is the mirror; `docs/journal.md` gives the fields.

use super::ring::Payload;
use crate::model::{EndStatus, GpuEvent, GpuReading, GpuSlowReading, HostReading, Owner, ProcessReading};

pub(crate) const KIND_RUN_BEGAN: u8 = 1;
pub(crate) const KIND_RUN_ENDED: u8 = 2;
pub(crate) const KIND_EPOCH_BEGAN: u8 = 3;
pub(crate) const KIND_EPOCH_ENDED: u8 = 4;
pub(crate) const KIND_PHASE: u8 = 5;
pub(crate) const KIND_SCALAR: u8 = 6;
pub(crate) const KIND_ERROR: u8 = 7;
pub(crate) const KIND_GPU: u8 = 8;
pub(crate) const KIND_GPU_SLOW: u8 = 9;
pub(crate) const KIND_GPU_CHANGED: u8 = 10;
pub(crate) const KIND_PROCESS: u8 = 11;
pub(crate) const KIND_PROCESS_MORE: u8 = 12;
pub(crate) const KIND_HOST: u8 = 13;
pub(crate) const KIND_POSITION: u8 = 14;

/// Longest name of an error, bytes; what is longer is cut.
pub(crate) const ERROR_BYTES: usize = 32;

/// The text up to at most so many bytes, whole characters only.
#[inline]
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// The first word: kind, then bytes, then a 32-bit number.
fn first(kind: u8, bytes: [u8; 3], number: u32) -> u64 {
    u64::from(u32::from_le_bytes([kind, bytes[0], bytes[1], bytes[2]])) | u64::from(number) << 32
}

/// A bit for each field that is there, and their values with 0 for the others.
struct Fields {
    mask: u16,
    next: u16,
}

impl Fields {
    fn new() -> Self {
        Self { mask: 0, next: 1 }
    }

    fn put<T, U: Default>(&mut self, value: Option<T>, convert: impl FnOnce(T) -> U) -> U {
        let bit = self.next;
        self.next <<= 1;
        match value {
            Some(value) => {
                self.mask |= bit;
                convert(value)
            }
            None => U::default(),
        }
    }

    fn bytes(&self) -> [u8; 2] {
        self.mask.to_le_bytes()
    }
}

/// A number that is one: NaN and infinities are no readings, and must not become a 0.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A number of some unit in finer units, as a whole number. Rust's `as` stops at the ends of the type.
fn scaled(factor: f64) -> impl Fn(f64) -> u64 {
    move |value| (value * factor).round() as u64
}

pub(crate) fn status_number(status: EndStatus) -> u8 {
    match status {
        EndStatus::Finished => 0,
        EndStatus::Failed => 1,
        EndStatus::Interrupted => 2,
    }
}

/// Kind and number of an owner.
#[inline]
pub(crate) fn owner_words(owner: Owner) -> (u8, u64) {
    match owner {
        Owner::Run => (0, 0),
        Owner::Epoch(ordinal) => (1, u64::from(ordinal)),
        Owner::Step(ordinal) => (2, ordinal),
        Owner::Phase(ordinal) => (3, ordinal),
    }
}

pub(crate) fn run_began(ticks: u64) -> Payload {
    [first(KIND_RUN_BEGAN, [0; 3], 0), ticks, 0, 0, 0, 0, 0]
}

pub(crate) fn run_ended(ticks: u64, status: EndStatus) -> Payload {
    [first(KIND_RUN_ENDED, [status_number(status), 0, 0], 0), ticks, 0, 0, 0, 0, 0]
}

pub(crate) fn epoch_began(ticks: u64, ordinal: u32, epoch: u64) -> Payload {
    [first(KIND_EPOCH_BEGAN, [0; 3], ordinal), ticks, epoch, 0, 0, 0, 0]
}

pub(crate) fn epoch_ended(ticks: u64, ordinal: u32, status: EndStatus) -> Payload {
    [first(KIND_EPOCH_ENDED, [status_number(status), 0, 0], ordinal), ticks, 0, 0, 0, 0, 0]
}

#[inline]
pub(crate) fn phase(ordinal: u64, phase: u8, owner: Owner, begin: u64, end: u64, failed: bool) -> Payload {
    let (owner_kind, owner_number) = owner_words(owner);
    [first(KIND_PHASE, [phase, owner_kind, u8::from(failed)], 0), end, ordinal, owner_number, begin, 0, 0]
}

#[inline]
pub(crate) fn scalar(ticks: u64, owner: Owner, scalar: u8, bits: u64) -> Payload {
    let (owner_kind, owner_number) = owner_words(owner);
    [first(KIND_SCALAR, [scalar, owner_kind, 0], 0), ticks, owner_number, bits, 0, 0, 0]
}

pub(crate) fn error(ticks: u64, owner: Owner, error_type: &str) -> Payload {
    let (owner_kind, owner_number) = owner_words(owner);
    let length = cut(error_type, ERROR_BYTES).len();
    let mut text = [0_u8; ERROR_BYTES];
    text[..length].copy_from_slice(&error_type.as_bytes()[..length]);
    let mut payload = [first(KIND_ERROR, [length as u8, owner_kind, 0], 0), ticks, owner_number, 0, 0, 0, 0];
    for (word, chunk) in payload[3..].iter_mut().zip(text.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    payload
}

pub(crate) fn gpu(ticks: u64, device: u8, reading: &GpuReading) -> Payload {
    let mut fields = Fields::new();
    let used = fields.put(reading.memory_used_bytes, |bytes| bytes);
    let reserved = fields.put(reading.memory_reserved_bytes, |bytes| bytes);
    let utilization = fields.put(finite(reading.utilization), |share| scaled(10_000.0)(share).min(u64::from(u16::MAX)) as u16);
    let bandwidth =
        fields.put(finite(reading.memory_bandwidth_utilization), |share| scaled(10_000.0)(share).min(u64::from(u16::MAX)) as u16);
    let power_mw = fields.put(finite(reading.power_w), |power| scaled(1_000.0)(power).min(u64::from(u32::MAX)) as u32);
    let energy_mj = fields.put(finite(reading.energy_j), scaled(1_000.0));
    let temperature = fields.put(finite(reading.temperature_c), |celsius| (celsius * 10.0).round() as i16);
    let fan = fields.put(finite(reading.fan_speed_ratio), |share| scaled(10_000.0)(share).min(u64::from(u16::MAX)) as u16);
    let sm_mhz = fields.put(reading.sm_clock_hz, |hz| (hz / 1_000_000).min(u64::from(u16::MAX)) as u16);
    let memory_mhz = fields.put(reading.memory_clock_hz, |hz| (hz / 1_000_000).min(u64::from(u16::MAX)) as u16);
    let throttle = fields.put(reading.throttle_reasons, |bits| bits);
    let [low, high] = fields.bytes();
    [
        first(KIND_GPU, [device, low, high], u32::from(utilization) | u32::from(bandwidth) << 16),
        ticks,
        used,
        reserved,
        energy_mj,
        u64::from(power_mw) | u64::from(temperature as u16) << 32 | u64::from(fan) << 48,
        u64::from(sm_mhz) | u64::from(memory_mhz) << 16 | u64::from(throttle) << 32,
    ]
}

pub(crate) fn gpu_slow(ticks: u64, device: u8, reading: &GpuSlowReading) -> Payload {
    let mut fields = Fields::new();
    let narrow = |number: u64| number.min(u64::from(u32::MAX)) as u32;
    let received = fields.put(reading.pcie_receive_bytes, |bytes| bytes);
    let transmitted = fields.put(reading.pcie_transmit_bytes, |bytes| bytes);
    let corrected = fields.put(reading.ecc_corrected_errors, narrow);
    let uncorrected = fields.put(reading.ecc_uncorrected_errors, narrow);
    let memory = fields.put(reading.process_memory_bytes, |bytes| bytes);
    // Hundredths of a second: 497 days fit.
    let power = fields.put(finite(reading.throttle_power_s), |s| narrow(scaled(100.0)(s)));
    let thermal = fields.put(finite(reading.throttle_thermal_s), |s| narrow(scaled(100.0)(s)));
    let [low, high] = fields.bytes();
    [
        first(KIND_GPU_SLOW, [device, low, high], 0),
        ticks,
        received,
        transmitted,
        u64::from(corrected) | u64::from(uncorrected) << 32,
        memory,
        u64::from(power) | u64::from(thermal) << 32,
    ]
}

pub(crate) fn gpu_changed(ticks: u64, device: u8, event: GpuEvent) -> Payload {
    let number = match event {
        GpuEvent::Lost => 0,
        GpuEvent::Returned => 1,
    };
    [first(KIND_GPU_CHANGED, [device, number, 0], 0), ticks, 0, 0, 0, 0, 0]
}

/// A reading of the process takes two slots; each stands for itself.
pub(crate) fn process(ticks: u64, reading: &ProcessReading) -> [Payload; 2] {
    let mut fields = Fields::new();
    let resident = fields.put(reading.resident_bytes, |bytes| bytes);
    let children = fields.put(reading.children_resident_bytes, |bytes| bytes);
    let user = fields.put(finite(reading.cpu_user_s), scaled(1e6));
    let system = fields.put(finite(reading.cpu_system_s), scaled(1e6));
    let threads = fields.put(reading.threads, |threads| threads);
    let [low, high] = fields.bytes();
    let one = [first(KIND_PROCESS, [low, high, 0], threads), ticks, resident, children, user, system, 0];
    let mut fields = Fields::new();
    let children_cpu = fields.put(finite(reading.children_cpu_s), scaled(1e6));
    let read = fields.put(reading.read_bytes, |bytes| bytes);
    let written = fields.put(reading.written_bytes, |bytes| bytes);
    let [low, high] = fields.bytes();
    [one, [first(KIND_PROCESS_MORE, [low, high, 0], 0), ticks, children_cpu, read, written, 0, 0]]
}

pub(crate) fn host(ticks: u64, reading: &HostReading) -> Payload {
    let mut fields = Fields::new();
    let used = fields.put(reading.memory_used_bytes, |bytes| bytes);
    let limit = fields.put(reading.memory_limit_bytes, |bytes| bytes);
    let cpu = fields.put(finite(reading.cpu_utilization), |share| scaled(10_000.0)(share).min(u64::from(u32::MAX)) as u32);
    let [low, high] = fields.bytes();
    [first(KIND_HOST, [low, high, 0], cpu), ticks, used, limit, 0, 0, 0]
}

pub(crate) fn position(ticks: u64, step: Option<u64>, phase: Option<u8>) -> Payload {
    let mut fields = Fields::new();
    let step = fields.put(step, |step| step);
    let phase = fields.put(phase, |phase| phase);
    let [low, high] = fields.bytes();
    [first(KIND_POSITION, [low, high, phase], 0), ticks, step, 0, 0, 0, 0]
}
