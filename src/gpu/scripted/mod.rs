//! Devices that are made up: for a demo without a GPU, and to play back what another machine recorded. They say so in their name, their
//! vendor and [`GpuDevice::simulated`](crate::model::GpuDevice::simulated).

mod csv;
pub mod mirror;
pub mod replay;
mod timestamp;

/// Who made the simulated devices.
const VENDOR: &str = "stepline";
