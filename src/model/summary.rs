//! The summary of a run that the terminal shows: filled while a run lives, and from its files afterwards.

use serde::{Deserialize, Serialize};

/// What the run and its epochs were like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Identifies the run.
    pub run_id: String,
    /// What people call the run.
    pub run_name: String,
    /// Number of this training process within the run.
    pub rank: u32,
    /// 0 for the first start.
    pub attempt: u32,
    /// `finished`, `failed`, `interrupted` or, while it lives, `running`.
    pub status: String,
    /// `error.type` of a run that failed.
    pub error_type: Option<String>,
    /// How long it took, seconds.
    pub duration_s: f64,
    /// Steps done.
    pub steps: u64,
    /// Whether `epochs` are true epochs; otherwise they are equal stretches of a run without any.
    pub has_epochs: bool,
    /// Its epochs in the order in which they began.
    pub epochs: Vec<EpochSummary>,
    /// The devices that were sampled.
    pub devices: Vec<DeviceSummary>,
    /// The most memory seen on a device, and where.
    pub gpu_memory_peak: Option<PeakSummary>,
    /// Energy of all sampled devices, joules.
    pub energy_j: Option<f64>,
    /// Numbers that were NaN or infinite.
    pub nonfinite_scalars: u64,
}

/// One epoch, or one stretch of a run without epochs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochSummary {
    /// The training's own number of it.
    pub epoch: u64,
    /// How long it took, seconds.
    pub duration_s: f64,
    /// Steps done in it.
    pub steps: u64,
    /// Half of the steps were faster, seconds.
    pub step_p50_s: Option<f64>,
    /// 95 of 100 steps were faster, seconds.
    pub step_p95_s: Option<f64>,
    /// Share of the steps' time spent waiting for data, 0..=1.
    pub data_wait_ratio: Option<f64>,
    /// The most memory in use on a device of this rank, bytes.
    pub gpu_memory_max_bytes: Option<u64>,
    /// The phase in which that was.
    pub gpu_memory_max_phase: Option<String>,
    /// The most resident memory of the process, bytes.
    pub process_memory_max_bytes: Option<u64>,
    /// Time-weighted mean of the utilization, 0..=1.
    pub gpu_utilization_mean: Option<f64>,
    /// Energy of the devices, joules.
    pub energy_j: Option<f64>,
    /// How it ended if not as it should.
    pub error_type: Option<String>,
    /// Whether it was still open when it was last heard of.
    pub interrupted: bool,
}

/// One sampled device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Its UUID.
    pub id: String,
    /// The driver's number of it.
    pub index: u32,
    /// What it is called.
    pub name: String,
    /// What it simulates, if it does.
    pub simulated: Option<String>,
    /// Readings taken.
    pub readings: u64,
    /// The usual time between two readings (median), seconds.
    pub interval_s: Option<f64>,
    /// Whether it was lost during the run.
    pub lost: bool,
}

/// The most memory seen on a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeakSummary {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that the device has.
    pub limit_bytes: Option<u64>,
    /// The epoch in which it was.
    pub epoch: Option<u64>,
    /// The phase in which it was.
    pub phase: Option<String>,
    /// How much that is above the median of the epochs' maxima, bytes; absent with fewer than three epochs.
    pub above_median_bytes: Option<u64>,
}
