//! One device: its handle, what is known about its fields, and whether it answers.

use std::time::{Duration, Instant};

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::fields::{self, Field, Gates, MemoryCall};
use super::gate::{Capability, Gate, Patience, Turn, reason};
use crate::gpu::{GpuLost, plausible};
use crate::model::{GpuReading, GpuSlowReading};
use crate::notice::notice;

/// So many calls in a row that fail, and none that does not, are a device that does not answer.
const STRIKES: u32 = 3;

#[derive(Debug)]
pub(super) struct Card {
    pub(super) uuid: String,
    name: String,
    index: u32,
    /// Absent while the device is lost.
    pub(super) handle: Option<Device<'static>>,
    pub(super) memory_call: MemoryCall,
    gates: Gates,
    strikes: u32,
    pub(super) lost: Option<Lost>,
    pcie: [Option<u64>; 2],
    said_what_is_missing: bool,
}

/// A device that does not answer.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) next_try: Instant,
    wait: Duration,
}

impl Card {
    pub(super) fn new(uuid: &str, name: &str, index: u32) -> Self {
        Self {
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            index,
            handle: None,
            memory_call: MemoryCall::Apart,
            gates: Gates::new(),
            strikes: 0,
            lost: None,
            pcie: [None; 2],
            said_what_is_missing: false,
        }
    }

    pub(super) fn forbid(&mut self, field: Field, reason: &str) {
        if let Some(gate) = self.gates.get_mut(field) {
            gate.unsupported(reason);
        }
    }

    pub(super) fn set_gate(&mut self, field: Field, gate: Gate) {
        if let Some(slot) = self.gates.get_mut(field) {
            *slot = gate;
        }
    }

    pub(super) fn capabilities(&self) -> Vec<(&'static str, Capability)> {
        self.gates.iter().map(|(name, gate)| (name, gate.capability.clone())).collect()
    }

    pub(super) fn read(&mut self, turn: &mut Turn<'_>) -> Result<GpuReading, GpuLost> {
        let handle = self.handle.as_ref().ok_or(GpuLost)?;
        let mut reading = GpuReading::default();
        let call = self.memory_call;
        if let Some(memory) = self.gates.ask(Field::Memory, turn, || fields::memory(handle, call)) {
            let limit = plausible::memory_limit_bytes(memory.total);
            reading.memory_used_bytes = plausible::memory_bytes(memory.used, limit);
            reading.memory_reserved_bytes = memory.reserved.and_then(|reserved| plausible::memory_bytes(reserved, limit));
        }
        fields::read_cheap(handle, &mut self.gates, turn, &mut reading);
        Ok(reading)
    }

    /// `own_memory`: what of a list of processes is this run's memory.
    pub(super) fn read_slow(
        &mut self,
        turn: &mut Turn<'_>,
        own_memory: impl FnOnce(&[nvml_wrapper::struct_wrappers::device::ProcessInfo]) -> Option<u64>,
    ) -> Result<GpuSlowReading, GpuLost> {
        let handle = self.handle.as_ref().ok_or(GpuLost)?;
        let gates = &mut self.gates;
        let processes = gates.ask(Field::ProcessMemory, turn, || handle.running_compute_processes());
        let process_memory_bytes = processes.and_then(|listed| own_memory(&listed));
        let bytes = gates.ask(Field::Pcie, turn, || fields::pcie_bytes(handle)).unwrap_or_default();
        let ecc_corrected_errors = gates.ask(Field::EccCorrected, turn, || fields::ecc_errors(handle, true));
        let ecc_uncorrected_errors = gates.ask(Field::EccUncorrected, turn, || fields::ecc_errors(handle, false));
        let throttle_power_s = gates.ask(Field::ThrottlePower, turn, || fields::throttled_s(handle, false));
        let throttle_thermal_s = gates.ask(Field::ThrottleThermal, turn, || fields::throttled_s(handle, true));
        let [pcie_receive_bytes, pcie_transmit_bytes] = self.pcie_counters(bytes);
        Ok(GpuSlowReading {
            pcie_receive_bytes,
            pcie_transmit_bytes,
            ecc_corrected_errors,
            ecc_uncorrected_errors,
            process_memory_bytes,
            throttle_power_s,
            throttle_thermal_s,
        })
    }

    /// The driver's header says that these "can be wrapped", not where. A counter that steps back from below 2^32 is taken for one of 32
    /// bits, of which nobody can tell how often it went round: no counter at all then.
    fn pcie_counters(&mut self, bytes: [Option<u64>; 2]) -> [Option<u64>; 2] {
        let wrapped = |(before, now): (&Option<u64>, Option<u64>)| {
            before.zip(now).is_some_and(|(before, now)| now < before && before <= u64::from(u32::MAX))
        };
        if self.pcie.iter().zip(bytes).any(wrapped) {
            self.forbid(Field::Pcie, "the counters go round at 32 bits");
            return [None; 2];
        }
        for (kept, now) in self.pcie.iter_mut().zip(bytes) {
            *kept = now.or(*kept);
        }
        bytes
    }

    /// Ends a reading: whether the device gave an answer (it may not have been asked anything), or why it is lost.
    pub(super) fn finish(&mut self, turn: Turn<'_>) -> Result<bool, NvmlError> {
        self.strikes = if turn.answers > 0 { 0 } else { self.strikes.saturating_add(turn.failures) };
        let error = match (turn.lost, turn.failure) {
            (Some(error), _) => error,
            (None, Some(error)) if self.strikes >= STRIKES || self.all_fail() => error,
            _ => {
                let answered = turn.answers > 0;
                if answered && self.lost.take().is_some() {
                    notice!("GPU {} ({}) answers again", self.index, self.name);
                }
                self.say_what_is_missing();
                return Ok(answered);
            }
        };
        self.lose(Some(&reason(&error)), turn.patience);
        Err(error)
    }

    /// Whether every cheap field that the device has fails, and these are several. Some may have worked a moment ago: what ends in the
    /// middle of a reading has ended.
    fn all_fail(&self) -> bool {
        let cheap = || self.gates.iter().take(fields::CHEAP).map(|(_, gate)| &gate.capability);
        let failing = cheap().filter(|capability| matches!(capability, Capability::Failing(_))).count();
        failing >= STRIKES as usize && !cheap().any(|capability| *capability == Capability::Supported)
    }

    /// The device does not answer: it is tried again after a while, which grows.
    pub(super) fn lose(&mut self, said: Option<&str>, patience: &Patience) {
        let now = Instant::now();
        self.handle = None;
        self.strikes = 0;
        if let (None, Some(reason)) = (&self.lost, said) {
            let (index, name) = (self.index, &self.name);
            notice!("GPU {index} ({name}) does not answer any more ({reason}): its series end, the training is not affected");
        }
        let wait = self.lost.as_ref().map_or(patience.first_retry, |lost| (lost.wait * 2).min(patience.longest_retry));
        self.lost = Some(Lost { next_try: now + wait, wait });
    }

    /// The device was found again. Whether it answers is not known yet.
    pub(super) fn found(&mut self, handle: Device<'static>) {
        self.handle = Some(handle);
        if self.lost.is_some() {
            self.gates.forget_failures();
            self.pcie = [None; 2];
        }
    }

    /// Says once what people would look for and not find. That a card has no fan is none of it.
    fn say_what_is_missing(&mut self) {
        if self.said_what_is_missing {
            return;
        }
        let cheap = [Field::Memory, Field::Utilization, Field::Power, Field::Energy, Field::Temperature, Field::SmClock];
        let capability = |gates: &mut Gates, field| gates.get_mut(field).map(|gate| gate.capability.clone());
        let known: Vec<_> = cheap.iter().map(|field| capability(&mut self.gates, *field)).collect();
        if known.contains(&Some(Capability::NotAsked)) {
            return;
        }
        self.said_what_is_missing = true;
        let unsupported = |known: &Option<Capability>| matches!(known, Some(Capability::Unsupported(_)));
        let (index, name) = (self.index, &self.name);
        if known.iter().all(unsupported) {
            notice!("GPU {index} ({name}): the driver gives no readings of it; `stepline doctor` says why");
            return;
        }
        // An instance has a memory of its own and little else; that is normal.
        let looked_for = if self.uuid.starts_with("MIG-") { 1 } else { 4 };
        let missing: Vec<&str> = ["memory use", "utilization", "power", "energy"]
            .into_iter()
            .zip(&known)
            .take(looked_for)
            .filter(|(_, known)| unsupported(known))
            .map(|(name, _)| name)
            .collect();
        if !missing.is_empty() {
            notice!("GPU {index} ({name}): the driver does not give its {}; those series are absent", missing.join(", "));
        }
    }
}
