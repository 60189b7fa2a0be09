//! Where GPU readings come from: NVML, AMD's sysfs files, or a script.

mod plausible;
pub mod scripted;

use crate::model::{GpuDevice, GpuReading, GpuSlowReading};

/// Something that can read devices. Called by the sampler's thread only; a call may take long, and must not panic.
pub trait GpuSource: Send {
    /// The devices of this process, in the order in which the training sees them. Does not change.
    fn devices(&self) -> &[GpuDevice];

    /// Reads the cheap fields of the device with this place in [`devices`](Self::devices).
    ///
    /// # Errors
    /// [`GpuLost`] when the device does not answer any more. A field that cannot be read is `None` instead.
    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost>;

    /// Reads the dear fields of the device with this place in [`devices`](Self::devices).
    ///
    /// # Errors
    /// [`GpuLost`] when the device does not answer any more. A field that cannot be read is `None` instead.
    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost>;
}

/// The device does not answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device does not answer any more")]
pub struct GpuLost;
