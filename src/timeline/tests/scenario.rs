//! Records of made-up trainings, and timelines to put them through.

use super::checks;
use crate::model::{
    EndStatus, GpuDevice, GpuReading, Identity, NameTable, Owner, Phase, PhaseInterval, PhaseRecord, Record, StepRecord, StepSpans,
};
use crate::timeline::{Emitted, Settings, Timeline};

/// 2026-01-01, so that times look like times.
pub(super) const T0: u64 = 1_767_225_600_000_000_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;
pub(super) const MIB: u64 = 1024 * 1024;

pub(super) fn identity() -> Identity {
    Identity { instance_id: [7; 16], run_id: "r-1".into(), run_name: "wine".into(), attempt: 0, rank: 0, world_size: 1 }
}

pub(super) fn settings(devices: usize) -> Settings {
    let device = |index: usize| GpuDevice {
        id: format!("GPU-{index}"),
        index: index as u32,
        name: "NVIDIA H100".into(),
        vendor: "NVIDIA".into(),
        memory_limit_bytes: Some(1024 * MIB),
        ..GpuDevice::default()
    };
    Settings { identity: identity(), step_spans: StepSpans::Auto, sample_interval_ns: S, devices: (0..devices).map(device).collect() }
}

pub(super) fn names() -> NameTable {
    NameTable::new(vec!["augment".into()], vec!["accuracy".into()])
}

pub(super) fn run_began(time_ns: u64) -> Record {
    Record::RunBegan { time_ns }
}

pub(super) fn run_ended(time_ns: u64) -> Record {
    Record::RunEnded { time_ns, status: EndStatus::Finished }
}

pub(super) fn epoch_began(time_ns: u64, ordinal: u32) -> Record {
    Record::EpochBegan { time_ns, ordinal, epoch: u64::from(ordinal) }
}

pub(super) fn epoch_ended(time_ns: u64, ordinal: u32) -> Record {
    Record::EpochEnded { time_ns, ordinal, status: EndStatus::Finished }
}

pub(super) fn step(ordinal: u64, epoch: Option<u32>, begin_ns: u64, end_ns: u64) -> StepRecord {
    StepRecord {
        ordinal,
        step: ordinal,
        epoch,
        begin_ns,
        end_ns,
        micro_steps: 0,
        failed: false,
        keep: false,
        interrupted: false,
        phases: Vec::new(),
        scalars: Vec::new(),
    }
}

/// A step with the four usual phases, one after the other.
pub(super) fn full_step(ordinal: u64, epoch: Option<u32>, begin_ns: u64, end_ns: u64) -> StepRecord {
    let at = |quarter: u64| begin_ns + (end_ns - begin_ns) * quarter / 4;
    let phases = [Phase::DATA_WAIT, Phase::FORWARD, Phase::BACKWARD, Phase::OPTIMIZER];
    let interval = |(place, phase): (usize, &Phase)| PhaseInterval {
        phase: *phase,
        begin_ns: at(place as u64),
        end_ns: at(place as u64 + 1),
        parent: None,
    };
    StepRecord { phases: phases.iter().enumerate().map(interval).collect(), ..step(ordinal, epoch, begin_ns, end_ns) }
}

pub(super) fn phase(ordinal: u64, phase: Phase, owner: Owner, begin_ns: u64, end_ns: u64) -> PhaseRecord {
    PhaseRecord { ordinal, phase, owner, begin_ns, end_ns, failed: false, interrupted: false }
}

pub(super) fn gpu(time_ns: u64, device: u8, memory: u64) -> Record {
    let reading = GpuReading { memory_used_bytes: Some(memory), utilization: Some(0.5), power_w: Some(300.0), ..GpuReading::default() };
    Record::Gpu { time_ns, device, reading }
}

/// Puts records through a timeline in batches, with a take after each, and checks what must hold of all that comes out.
pub(super) fn run_through(settings: Settings, records: &[Record], batch: usize) -> Emitted {
    let identity = settings.identity.clone();
    let mut timeline = Timeline::new(settings);
    let mut parts = Vec::new();
    for batch in records.chunks(batch.max(1)) {
        timeline.apply(batch.to_vec(), &names());
        parts.push(timeline.take(batch.last().map_or(0, Record::time_ns)));
    }
    parts.push(timeline.finish(records.iter().map(Record::time_ns).max().unwrap_or(0) + 1));
    assert_eq!(timeline.finish(u64::MAX), Emitted::default(), "nothing comes after the end");
    let all = checks::joined(parts);
    checks::check(&all, &identity);
    all
}
