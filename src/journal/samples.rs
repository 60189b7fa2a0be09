//! What the sampler writes: readings, and where the training stands.

use super::encode;
use super::layout::LAST_STEP_AT;
use super::ring::Ordering;
use super::writer::Writer;
use crate::model::{GpuEvent, GpuReading, GpuSlowReading, HostReading, ProcessReading};

impl Writer {
    /// The cheap fields of a device.
    pub fn gpu(&self, ticks: u64, device: u8, reading: &GpuReading) {
        self.put(&encode::gpu(ticks, device, reading));
    }

    /// The dear fields of a device.
    pub fn gpu_slow(&self, ticks: u64, device: u8, reading: &GpuSlowReading) {
        self.put(&encode::gpu_slow(ticks, device, reading));
    }

    /// Something happened to a device.
    pub fn gpu_changed(&self, ticks: u64, device: u8, event: GpuEvent) {
        self.put_important(&encode::gpu_changed(ticks, device, event));
    }

    /// The training process.
    pub fn process(&self, ticks: u64, reading: &ProcessReading) {
        encode::process(ticks, reading).iter().for_each(|payload| self.put(payload));
    }

    /// The host.
    pub fn host(&self, ticks: u64, reading: &HostReading) {
        self.put(&encode::host(ticks, reading));
    }

    /// Where the training stands now: taken from the table of what is open.
    pub fn position(&self, ticks: u64) {
        let (step, phase) = self.table().position();
        let step = step.or_else(|| self.head()[LAST_STEP_AT].load(Ordering::Relaxed).checked_sub(1));
        self.put(&encode::position(ticks, step, phase));
    }
}
