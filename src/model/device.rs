//! Devices and their readings. A field that a device did not give is `None`: absent, never 0.

use serde::{Deserialize, Serialize};

/// One GPU (or MIG instance) as it was found at start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// The device's UUID (`GPU-…` or `MIG-…`): `hw.id` on the wire.
    pub id: String,
    /// The driver's own number of the device on this host, for people; never an identity.
    pub index: u32,
    /// What it is called, such as `NVIDIA H100 80GB HBM3`. Simulated devices say so here.
    pub name: String,
    /// Who made it, such as `NVIDIA`. `stepline` for simulated devices.
    pub vendor: String,
    /// The driver's version, where known.
    pub driver_version: Option<String>,
    /// The serial number, where the board has one.
    pub serial_number: Option<String>,
    /// Memory of the device, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Whether the readings are made up (mirror) or played back (replay), and what they are then: a line for people.
    pub simulated: Option<String>,
    /// Whether `memory_used_bytes` includes what the driver reserves for itself (NVML's first memory call, used where the second is missing).
    pub memory_used_includes_reserved: bool,
}

/// The cheap fields of one device at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    /// Memory in use on the whole device, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory that the driver holds for itself, bytes.
    pub memory_reserved_bytes: Option<u64>,
    /// Share of the window before this reading in which a kernel ran, 0..=1.
    pub utilization: Option<f64>,
    /// Share of the window before this reading in which device memory was read or written, 0..=1.
    pub memory_bandwidth_utilization: Option<f64>,
    /// Power, watts.
    pub power_w: Option<f64>,
    /// The energy counter, joules since the driver was loaded.
    pub energy_j: Option<f64>,
    /// Temperature of the chip, degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Speed of the fan as a share of its maximum, 0..=1 (drivers may report a little more).
    pub fan_speed_ratio: Option<f64>,
    /// Clock of the streaming multiprocessors, Hz.
    pub sm_clock_hz: Option<u64>,
    /// Clock of the device memory, Hz.
    pub memory_clock_hz: Option<u64>,
    /// Bits of NVML's clocks-event (throttle) reasons that were active.
    pub throttle_reasons: Option<u32>,
}

/// The dear fields of one device at one time: asked seldom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuSlowReading {
    /// Bytes received over PCIe: a counter.
    pub pcie_receive_bytes: Option<u64>,
    /// Bytes sent over PCIe: a counter.
    pub pcie_transmit_bytes: Option<u64>,
    /// Corrected ECC errors: a counter.
    pub ecc_corrected_errors: Option<u64>,
    /// Uncorrected ECC errors: a counter.
    pub ecc_uncorrected_errors: Option<u64>,
    /// Memory of this run's own processes on the device, bytes. Absent when the driver's process list holds none of them
    /// (a container sees host process ids) or does not say how much they use.
    pub process_memory_bytes: Option<u64>,
    /// Time that the clocks were held down to stay within the power limit, seconds: a counter.
    pub throttle_power_s: Option<f64>,
    /// Time that the clocks were held down because of heat, seconds: a counter.
    pub throttle_thermal_s: Option<f64>,
}

/// What a device's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuHealth {
    /// It answers.
    Ok,
    /// It has stopped answering: fallen off the bus, reset, or cut off from this container.
    Lost,
}

/// The training process and its children at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessReading {
    /// Resident memory of the process itself, bytes.
    pub resident_bytes: Option<u64>,
    /// Resident memory of its descendants (data-loader workers), bytes. Pages shared between them count in each.
    pub children_resident_bytes: Option<u64>,
    /// CPU time of the process, user mode, seconds: a counter.
    pub cpu_user_s: Option<f64>,
    /// CPU time of the process, kernel mode, seconds: a counter.
    pub cpu_system_s: Option<f64>,
    /// CPU time of its living descendants, seconds. Falls when one of them ends.
    pub children_cpu_s: Option<f64>,
    /// Threads of the process.
    pub threads: Option<u32>,
    /// Bytes read from storage: a counter.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage: a counter.
    pub written_bytes: Option<u64>,
}

/// The host at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReading {
    /// Memory in use (total less available), bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory of the host, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Share of all cores' time spent busy since the reading before, 0..=1.
    pub cpu_utilization: Option<f64>,
}
