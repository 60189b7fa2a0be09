//! The quantities of a device, each with its unit in the name.

use serde::{Deserialize, Serialize};

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $name:ident = $wire:literal;)*) => {
        /// One quantity that a device reports. A scenario gives it a value under the name in quotes; what it does not mention comes from
        /// the model. Several functions may report one quantity (memory used: both forms of the memory call).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Field {
            $($(#[doc = $doc])+ #[doc = concat!("\n\nIn a scenario: `", $wire, "`.")] #[serde(rename = $wire)] $name,)*
        }

        impl Field {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

fields! {
    /// Memory of the whole card.
    MemoryTotalBytes = "memory_total_bytes";
    /// Held by driver and firmware: apart in MemoryInfo_v2, part of "used" in MemoryInfo.
    MemoryReservedBytes = "memory_reserved_bytes";
    /// Held by processes.
    MemoryUsedBytes = "memory_used_bytes";
    /// Share of the last window in which a kernel ran.
    UtilizationGpuPercent = "utilization_gpu_percent";
    /// Share of the last window in which memory was read or written.
    UtilizationMemoryPercent = "utilization_memory_percent";
    /// What PowerUsage reports (on recent cards an average over 1 s).
    PowerMw = "power_mw";
    /// Field value 186; unless given, the same as `power_mw`.
    PowerInstantMw = "power_instant_mw";
    /// Field value 185.
    PowerAverageMw = "power_average_mw";
    /// Counter since the driver was loaded; unless given, the exact integral of `power_mw`.
    EnergyMj = "energy_mj";
    /// The limit in force.
    PowerLimitMw = "power_limit_mw";
    /// The chip's temperature.
    TemperatureCelsius = "temperature_celsius";
    /// Field value 82.
    MemoryTemperatureCelsius = "memory_temperature_celsius";
    /// How many fans.
    Fans = "fans";
    /// Each fan's intended speed.
    FanSpeedPercent = "fan_speed_percent";
    /// Graphics clock.
    ClockGraphicsMhz = "clock_graphics_mhz";
    /// SM clock.
    ClockSmMhz = "clock_sm_mhz";
    /// Memory clock.
    ClockMemoryMhz = "clock_memory_mhz";
    /// Video clock.
    ClockVideoMhz = "clock_video_mhz";
    /// Highest graphics clock.
    MaxClockGraphicsMhz = "max_clock_graphics_mhz";
    /// Highest SM clock.
    MaxClockSmMhz = "max_clock_sm_mhz";
    /// Highest memory clock.
    MaxClockMemoryMhz = "max_clock_memory_mhz";
    /// Highest video clock.
    MaxClockVideoMhz = "max_clock_video_mhz";
    /// P-state, 0 (fastest) to 15.
    PerformanceState = "performance_state";
    /// Bits of nvmlClocksThrottleReason*: 1 idle, 4 software power cap, 8 hardware slowdown, 32 and 64 thermal, 128 power brake.
    ThrottleReasons = "throttle_reasons";
    /// Time throttled for power so far.
    ViolationPowerNs = "violation_power_ns";
    /// Time throttled for heat so far.
    ViolationThermalNs = "violation_thermal_ns";
    /// 1 where ECC is on.
    EccEnabled = "ecc_enabled";
    /// Corrected errors since the driver was loaded.
    EccCorrectedVolatile = "ecc_corrected_volatile";
    /// Corrected errors of the card's life.
    EccCorrectedAggregate = "ecc_corrected_aggregate";
    /// Uncorrected errors since the driver was loaded.
    EccUncorrectedVolatile = "ecc_uncorrected_volatile";
    /// Uncorrected errors of the card's life.
    EccUncorrectedAggregate = "ecc_uncorrected_aggregate";
    /// PCIe rate towards the host, in units of 1,000 bytes.
    PcieTxKbPerSecond = "pcie_tx_kb_per_second";
    /// PCIe rate towards the card, in units of 1,000 bytes.
    PcieRxKbPerSecond = "pcie_rx_kb_per_second";
    /// Field value 197; unless given, the exact integral of the rate.
    PcieTxBytes = "pcie_tx_bytes";
    /// Field value 198; unless given, the exact integral of the rate.
    PcieRxBytes = "pcie_rx_bytes";
    /// PCIe replays so far.
    PcieReplays = "pcie_replays";
}
