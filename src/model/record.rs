//! What a journal says, decoded.

use serde::{Deserialize, Serialize};

use super::{GpuReading, GpuSlowReading, HostReading, Phase, ProcessReading, Scalar};

/// How a run or an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndStatus {
    /// As it should.
    Finished,
    /// By a panic or an error that the user reported.
    Failed,
    /// Not by itself: closed by whoever found it open.
    Interrupted,
}

/// What a phase, a number or an error belongs to. The numbers are ordinals: the n-th of its kind in this process, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The run itself.
    Run,
    /// The epoch with this ordinal.
    Epoch(u32),
    /// The step with this ordinal.
    Step(u64),
    /// The free-standing phase with this ordinal.
    Phase(u64),
}

/// A phase inside a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PhaseInterval {
    /// Which one.
    pub phase: Phase,
    /// When it began, Unix nanoseconds.
    pub begin_ns: u64,
    /// When it ended, Unix nanoseconds.
    pub end_ns: u64,
    /// Index of the phase around it in the step's list, if any; always smaller than its own.
    pub parent: Option<u8>,
}

/// One optimizer update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The n-th step of this process, from 0: what ids are made of.
    pub ordinal: u64,
    /// The training's own step number, which may repeat after a resume.
    pub step: u64,
    /// Ordinal of the epoch that it stands in; `None` in a run without epochs.
    pub epoch: Option<u32>,
    /// When it began, Unix nanoseconds.
    pub begin_ns: u64,
    /// When it ended, Unix nanoseconds.
    pub end_ns: u64,
    /// Batches inside it; 0 where the training does not say.
    pub micro_steps: u32,
    /// Whether it ended by a panic or an error.
    pub failed: bool,
    /// Whether the user asked for its span.
    pub keep: bool,
    /// Whether its writer died before it ended, so that `end_ns` is the last that was heard.
    pub interrupted: bool,
    /// Its phases in the order of their begin.
    pub phases: Vec<PhaseInterval>,
    /// The numbers recorded in it, in order. NaN and infinities stand here as they came.
    pub scalars: Vec<(Scalar, f64)>,
}

/// A phase that is not part of a step's own list: of an epoch, of the run, or of a step but on another thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// The n-th such phase of this process, from 0.
    pub ordinal: u64,
    /// Which one.
    pub phase: Phase,
    /// What it belongs to.
    pub owner: Owner,
    /// When it began, Unix nanoseconds.
    pub begin_ns: u64,
    /// When it ended, Unix nanoseconds.
    pub end_ns: u64,
    /// Whether it ended by a panic or an error.
    pub failed: bool,
    /// Whether its writer died before it ended.
    pub interrupted: bool,
}

/// What happened to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuEvent {
    /// It stopped answering; its series end here.
    Lost,
    /// It answers again.
    Returned,
}

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// The run began.
    RunBegan {
        /// When, Unix nanoseconds.
        time_ns: u64,
    },
    /// The run ended.
    RunEnded {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// How.
        status: EndStatus,
    },
    /// An epoch began.
    EpochBegan {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// The n-th epoch of this process, from 0: what ids are made of.
        ordinal: u32,
        /// The training's own epoch number.
        epoch: u64,
    },
    /// An epoch ended.
    EpochEnded {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// The n-th epoch of this process, from 0.
        ordinal: u32,
        /// How.
        status: EndStatus,
    },
    /// A step ended.
    Step(StepRecord),
    /// A free-standing phase ended.
    Phase(PhaseRecord),
    /// A number was recorded outside of a step, or beyond what a step's own list holds.
    Scalar {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// What it belongs to.
        owner: Owner,
        /// Which one.
        scalar: Scalar,
        /// Its value; NaN and infinities stand here as they came.
        value: f64,
    },
    /// An error was reported for something that is open or has just ended.
    Error {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// What it belongs to.
        owner: Owner,
        /// A low-cardinality name of the error: `error.type` on the wire.
        error_type: String,
    },
    /// The cheap fields of a device were read.
    Gpu {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// Number of the device in the journal's table.
        device: u8,
        /// What it gave.
        reading: GpuReading,
    },
    /// The dear fields of a device were read.
    GpuSlow {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// Number of the device in the journal's table.
        device: u8,
        /// What it gave.
        reading: GpuSlowReading,
    },
    /// Something happened to a device.
    GpuChanged {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// Number of the device in the journal's table.
        device: u8,
        /// What.
        event: GpuEvent,
    },
    /// The training process was read.
    Process {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// What it gave.
        reading: ProcessReading,
    },
    /// The host was read.
    Host {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// What it gave.
        reading: HostReading,
    },
    /// Where the training stood when the sampler looked: once a tick.
    Position {
        /// When, Unix nanoseconds.
        time_ns: u64,
        /// The training's own number of the step that was open or had just ended.
        step: Option<u64>,
        /// The innermost phase that was open.
        phase: Option<Phase>,
    },
}

impl Record {
    /// When the entry was made: the end of what it speaks of, Unix nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::RunBegan { time_ns }
            | Self::RunEnded { time_ns, .. }
            | Self::EpochBegan { time_ns, .. }
            | Self::EpochEnded { time_ns, .. }
            | Self::Scalar { time_ns, .. }
            | Self::Error { time_ns, .. }
            | Self::Gpu { time_ns, .. }
            | Self::GpuSlow { time_ns, .. }
            | Self::GpuChanged { time_ns, .. }
            | Self::Process { time_ns, .. }
            | Self::Host { time_ns, .. }
            | Self::Position { time_ns, .. } => *time_ns,
            Self::Step(step) => step.end_ns,
            Self::Phase(phase) => phase.end_ns,
        }
    }
}
