//! The mirror of `encode`: from the words of a slot to a record. Takes any words.

use super::clock_map::ClockMap;
use super::encode::{
    ERROR_BYTES, KIND_EPOCH_BEGAN, KIND_EPOCH_ENDED, KIND_ERROR, KIND_GPU, KIND_GPU_CHANGED, KIND_GPU_SLOW, KIND_HOST, KIND_PHASE,
    KIND_POSITION, KIND_PROCESS, KIND_PROCESS_MORE, KIND_RUN_BEGAN, KIND_RUN_ENDED, KIND_SCALAR,
};
use super::ring::Payload;
use super::step_codec::{self, FLAG_EPOCH, FLAG_FAILED, FLAG_KEEP, PhaseTicks, StepTicks};
use crate::model::{
    EndStatus, GpuEvent, GpuReading, GpuSlowReading, HostReading, Owner, Phase, PhaseInterval, PhaseRecord, ProcessReading, Record, Scalar,
    StepRecord,
};

struct Fields {
    mask: u16,
}

impl Fields {
    fn take<T>(&mut self, value: T) -> Option<T> {
        let there = self.mask & 1 != 0;
        self.mask >>= 1;
        there.then_some(value)
    }
}

fn byte(word: u64, place: u32) -> u8 {
    (word >> (place * 8)) as u8
}

fn half(word: u64, place: u32) -> u16 {
    (word >> (place * 16)) as u16
}

fn mask(word: u64, place: u32) -> Fields {
    Fields { mask: u16::from_le_bytes([byte(word, place), byte(word, place + 1)]) }
}

fn status(number: u8) -> EndStatus {
    match number {
        0 => EndStatus::Finished,
        1 => EndStatus::Failed,
        _ => EndStatus::Interrupted,
    }
}

/// What a record belongs to.
pub(super) fn owner(kind: u8, number: u64) -> Owner {
    match kind {
        1 => Owner::Epoch(number as u32),
        2 => Owner::Step(number),
        3 => Owner::Phase(number),
        _ => Owner::Run,
    }
}

/// The record of a slot that stands for itself. `None`: of a kind that this version does not know.
pub(crate) fn record(payload: &Payload, clock: &ClockMap) -> Option<Record> {
    let [first, ticks, a, b, c, d, e] = *payload;
    let number = (first >> 32) as u32;
    let time_ns = clock.unix_ns(ticks);
    Some(match byte(first, 0) {
        KIND_RUN_BEGAN => Record::RunBegan { time_ns },
        KIND_RUN_ENDED => Record::RunEnded { time_ns, status: status(byte(first, 1)) },
        KIND_EPOCH_BEGAN => Record::EpochBegan { time_ns, ordinal: number, epoch: a },
        KIND_EPOCH_ENDED => Record::EpochEnded { time_ns, ordinal: number, status: status(byte(first, 1)) },
        KIND_PHASE => Record::Phase(PhaseRecord {
            ordinal: a,
            phase: Phase(byte(first, 1)),
            owner: owner(byte(first, 2), b),
            begin_ns: clock.unix_ns(c).min(time_ns),
            end_ns: time_ns,
            failed: byte(first, 3) != 0,
            interrupted: false,
        }),
        KIND_SCALAR => {
            Record::Scalar { time_ns, owner: owner(byte(first, 2), a), scalar: Scalar(byte(first, 1)), value: f64::from_bits(b) }
        }
        KIND_ERROR => {
            let mut text = [0_u8; ERROR_BYTES];
            for (chunk, word) in text.as_chunks_mut::<8>().0.iter_mut().zip([b, c, d, e]) {
                *chunk = word.to_le_bytes();
            }
            let text = &text[..usize::from(byte(first, 1)).min(ERROR_BYTES)];
            Record::Error { time_ns, owner: owner(byte(first, 2), a), error_type: String::from_utf8_lossy(text).into_owned() }
        }
        KIND_GPU => Record::Gpu { time_ns, device: byte(first, 1), reading: gpu(payload) },
        KIND_GPU_SLOW => Record::GpuSlow { time_ns, device: byte(first, 1), reading: gpu_slow(payload) },
        KIND_GPU_CHANGED => Record::GpuChanged {
            time_ns,
            device: byte(first, 1),
            event: if byte(first, 2) == 0 { GpuEvent::Lost } else { GpuEvent::Returned },
        },
        KIND_PROCESS => {
            let mut fields = mask(first, 1);
            let reading = ProcessReading {
                resident_bytes: fields.take(a),
                children_resident_bytes: fields.take(b),
                cpu_user_s: fields.take(c as f64 / 1e6),
                cpu_system_s: fields.take(d as f64 / 1e6),
                threads: fields.take(number),
                ..ProcessReading::default()
            };
            Record::Process { time_ns, reading }
        }
        KIND_PROCESS_MORE => {
            let mut fields = mask(first, 1);
            let reading = ProcessReading {
                children_cpu_s: fields.take(a as f64 / 1e6),
                read_bytes: fields.take(b),
                written_bytes: fields.take(c),
                ..ProcessReading::default()
            };
            Record::Process { time_ns, reading }
        }
        KIND_HOST => {
            let mut fields = mask(first, 1);
            let reading = HostReading {
                memory_used_bytes: fields.take(a),
                memory_limit_bytes: fields.take(b),
                cpu_utilization: fields.take(f64::from(number) / 10_000.0),
            };
            Record::Host { time_ns, reading }
        }
        KIND_POSITION => {
            let mut fields = mask(first, 1);
            Record::Position { time_ns, step: fields.take(a), phase: fields.take(Phase(byte(first, 3))) }
        }
        _ => return None,
    })
}

fn gpu(payload: &Payload) -> GpuReading {
    let [first, _, used, reserved, energy_mj, power, clocks] = *payload;
    let mut fields = mask(first, 2);
    let share = |number: u16| f64::from(number) / 10_000.0;
    let megahertz = |number: u16| u64::from(number) * 1_000_000;
    GpuReading {
        memory_used_bytes: fields.take(used),
        memory_reserved_bytes: fields.take(reserved),
        utilization: fields.take(share(half(first, 2))),
        memory_bandwidth_utilization: fields.take(share(half(first, 3))),
        power_w: fields.take(f64::from(power as u32) / 1_000.0),
        energy_j: fields.take(energy_mj as f64 / 1_000.0),
        temperature_c: fields.take(f64::from(half(power, 2) as i16) / 10.0),
        fan_speed_ratio: fields.take(share(half(power, 3))),
        sm_clock_hz: fields.take(megahertz(half(clocks, 0))),
        memory_clock_hz: fields.take(megahertz(half(clocks, 1))),
        throttle_reasons: fields.take((clocks >> 32) as u32),
    }
}

fn gpu_slow(payload: &Payload) -> GpuSlowReading {
    let [first, _, received, transmitted, errors, memory, throttle] = *payload;
    let mut fields = mask(first, 2);
    let hundredths = |number: u32| f64::from(number) / 100.0;
    GpuSlowReading {
        pcie_receive_bytes: fields.take(received),
        pcie_transmit_bytes: fields.take(transmitted),
        ecc_corrected_errors: fields.take(errors & 0xffff_ffff),
        ecc_uncorrected_errors: fields.take(errors >> 32),
        process_memory_bytes: fields.take(memory),
        throttle_power_s: fields.take(hundredths(throttle as u32)),
        throttle_thermal_s: fields.take(hundredths((throttle >> 32) as u32)),
    }
}

/// The step of a row of slots. `None`: they do not belong together.
pub(crate) fn step(slots: &[Payload], clock: &ClockMap) -> Option<StepRecord> {
    let (step, phases, scalars) = step_codec::decode(slots)?;
    Some(step_record(&step, &phases, scalars, clock))
}

/// A step in wall-clock time.
pub(crate) fn step_record(step: &StepTicks, phases: &[PhaseTicks], scalars: Vec<(u8, f64)>, clock: &ClockMap) -> StepRecord {
    let begin_ns = clock.unix_ns(step.begin);
    let end_ns = clock.unix_ns(step.end).max(begin_ns);
    StepRecord {
        ordinal: step.ordinal,
        step: step.step,
        epoch: (step.flags & FLAG_EPOCH != 0).then_some(step.epoch),
        begin_ns,
        end_ns,
        micro_steps: u32::from(step.micro_steps),
        failed: step.flags & FLAG_FAILED != 0,
        keep: step.flags & FLAG_KEEP != 0,
        interrupted: false,
        phases: phases
            .iter()
            .map(|phase| {
                let phase_begin_ns = clock.unix_ns(phase.begin).clamp(begin_ns, end_ns);
                PhaseInterval {
                    phase: Phase(phase.phase),
                    begin_ns: phase_begin_ns,
                    end_ns: clock.unix_ns(phase.end).clamp(phase_begin_ns, end_ns),
                    parent: phase.parent.checked_sub(1),
                }
            })
            .collect(),
        scalars: scalars.into_iter().map(|(scalar, value)| (Scalar(scalar), value)).collect(),
    }
}
