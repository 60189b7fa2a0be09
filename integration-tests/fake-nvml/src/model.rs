//! The cards that a scenario can name, with the numbers that such cards reported in recordings: idle, except where noted.
//!
//! Rounded to what their tools print (MiB, 10 mW). Where a recording says "N/A", the field is not supported here either.

use serde::{Deserialize, Serialize};

use crate::error_code::ErrorCode;
use crate::field::Field;
use crate::value::Value;

pub(crate) const MIB: u64 = 1 << 20;

/// A card with known defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// H100 80GB HBM3: every field, MIG, no fan.
    #[default]
    H100,
    /// A100-SXM4-80GB: MIG, no fan, no averaged power, no PCIe byte counters.
    A100,
    /// GeForce RTX 2080 SUPER: one fan, no ECC, no serial number, no memory temperature, no MIG.
    Rtx2080s,
    /// Tesla T4: no fan, no memory temperature, no MIG. Recorded with 1,032 MiB in use.
    T4,
}

pub(crate) struct Facts {
    pub(crate) name: &'static str,
    pub(crate) memory_total_mib: u64,
    memory_reserved_mib: u64,
    memory_used_mib: u64,
    pub(crate) idle_power_mw: u64,
    pub(crate) power_limit_mw: u64,
    temperature_celsius: u64,
    memory_temperature_celsius: Option<u64>,
    fan_speed_percent: Option<u64>,
    /// Graphics, SM, memory, video.
    clocks_mhz: [u64; 4],
    max_clocks_mhz: [u64; 4],
    performance_state: u64,
    /// ECC, serial number and the like: what a data-centre card has and a desktop card has not.
    pub(crate) data_center: bool,
    average_power: bool,
    pcie_byte_counters: bool,
    pcie_kb_per_second: [u64; 2],
    pcie_replays: u64,
    pub(crate) pci_device_id: u32,
    pub(crate) pci_subsystem_id: u32,
    pub(crate) compute_capability: [i32; 2],
    pub(crate) max_mig_devices: u32,
}

/// Where a field's number comes from when the scenario does not say.
pub(crate) enum Origin {
    Value(Value),
    SameAs(Field),
    IntegralOf { rate: Field, per_rate_second: f64 },
}

impl Model {
    pub(crate) fn facts(self) -> &'static Facts {
        match self {
            Self::H100 => &H100,
            Self::A100 => &A100,
            Self::Rtx2080s => &RTX2080S,
            Self::T4 => &T4,
        }
    }

    pub(crate) fn default_of(self, field: Field) -> Origin {
        let facts = self.facts();
        let when = |supported: bool, number: u64| if supported { Ok(number) } else { Err(ErrorCode::NotSupported) };
        let known = match field {
            Field::MemoryTotalBytes => Ok(facts.memory_total_mib * MIB),
            Field::MemoryReservedBytes => Ok(facts.memory_reserved_mib * MIB),
            Field::MemoryUsedBytes => Ok(facts.memory_used_mib * MIB),
            Field::UtilizationGpuPercent | Field::UtilizationMemoryPercent => Ok(0),
            Field::PowerMw => Ok(facts.idle_power_mw),
            Field::PowerInstantMw => return Origin::SameAs(Field::PowerMw),
            Field::PowerAverageMw if facts.average_power => return Origin::SameAs(Field::PowerMw),
            Field::PowerAverageMw => Err(ErrorCode::NotSupported),
            // mW times s is mJ.
            Field::EnergyMj => return Origin::IntegralOf { rate: Field::PowerMw, per_rate_second: 1.0 },
            Field::PowerLimitMw => Ok(facts.power_limit_mw),
            Field::TemperatureCelsius => Ok(facts.temperature_celsius),
            Field::MemoryTemperatureCelsius => facts.memory_temperature_celsius.ok_or(ErrorCode::NotSupported),
            Field::Fans => Ok(u64::from(facts.fan_speed_percent.is_some())),
            Field::FanSpeedPercent => facts.fan_speed_percent.ok_or(ErrorCode::NotSupported),
            Field::ClockGraphicsMhz => Ok(facts.clocks_mhz[0]),
            Field::ClockSmMhz => Ok(facts.clocks_mhz[1]),
            Field::ClockMemoryMhz => Ok(facts.clocks_mhz[2]),
            Field::ClockVideoMhz => Ok(facts.clocks_mhz[3]),
            Field::MaxClockGraphicsMhz => Ok(facts.max_clocks_mhz[0]),
            Field::MaxClockSmMhz => Ok(facts.max_clocks_mhz[1]),
            Field::MaxClockMemoryMhz => Ok(facts.max_clocks_mhz[2]),
            Field::MaxClockVideoMhz => Ok(facts.max_clocks_mhz[3]),
            Field::PerformanceState => Ok(facts.performance_state),
            Field::ThrottleReasons => Ok(1),
            Field::ViolationPowerNs | Field::ViolationThermalNs => Ok(0),
            Field::EccEnabled => when(facts.data_center, 1),
            Field::EccCorrectedVolatile | Field::EccCorrectedAggregate | Field::EccUncorrectedVolatile | Field::EccUncorrectedAggregate => {
                when(facts.data_center, 0)
            }
            Field::PcieTxKbPerSecond => Ok(facts.pcie_kb_per_second[0]),
            Field::PcieRxKbPerSecond => Ok(facts.pcie_kb_per_second[1]),
            Field::PcieTxBytes | Field::PcieRxBytes if !facts.pcie_byte_counters => Err(ErrorCode::NotSupported),
            Field::PcieTxBytes => return Origin::IntegralOf { rate: Field::PcieTxKbPerSecond, per_rate_second: 1000.0 },
            Field::PcieRxBytes => return Origin::IntegralOf { rate: Field::PcieRxKbPerSecond, per_rate_second: 1000.0 },
            Field::PcieReplays => Ok(facts.pcie_replays),
        };
        Origin::Value(known.map_or_else(Value::from, Value::from))
    }
}

static H100: Facts = Facts {
    name: "NVIDIA H100 80GB HBM3",
    memory_total_mib: 81_559,
    memory_reserved_mib: 479,
    memory_used_mib: 0,
    idle_power_mw: 69_850,
    power_limit_mw: 700_000,
    temperature_celsius: 41,
    memory_temperature_celsius: Some(48),
    fan_speed_percent: None,
    clocks_mhz: [345, 345, 2619, 765],
    max_clocks_mhz: [1980, 1980, 2619, 1545],
    performance_state: 0,
    data_center: true,
    average_power: true,
    pcie_byte_counters: true,
    pcie_kb_per_second: [352, 329],
    pcie_replays: 9,
    pci_device_id: 0x2330_10DE,
    pci_subsystem_id: 0x16C1_10DE,
    compute_capability: [9, 0],
    max_mig_devices: 7,
};

static A100: Facts = Facts {
    name: "NVIDIA A100-SXM4-80GB",
    memory_total_mib: 81_920,
    memory_reserved_mib: 869,
    memory_used_mib: 50,
    idle_power_mw: 67_030,
    power_limit_mw: 500_000,
    temperature_celsius: 27,
    memory_temperature_celsius: Some(44),
    fan_speed_percent: None,
    clocks_mhz: [1275, 1275, 1593, 1275],
    max_clocks_mhz: [1410, 1410, 1593, 1290],
    performance_state: 0,
    data_center: true,
    average_power: false,
    pcie_byte_counters: false,
    pcie_kb_per_second: [4000, 0],
    pcie_replays: 0,
    pci_device_id: 0x20B2_10DE,
    pci_subsystem_id: 0x147F_10DE,
    compute_capability: [8, 0],
    max_mig_devices: 7,
};

static RTX2080S: Facts = Facts {
    name: "NVIDIA GeForce RTX 2080 SUPER",
    memory_total_mib: 8192,
    memory_reserved_mib: 400,
    memory_used_mib: 211,
    idle_power_mw: 39_170,
    power_limit_mw: 250_000,
    temperature_celsius: 33,
    memory_temperature_celsius: None,
    fan_speed_percent: Some(38),
    clocks_mhz: [765, 765, 810, 675],
    max_clocks_mhz: [2145, 2145, 7751, 1995],
    performance_state: 8,
    data_center: false,
    average_power: false,
    pcie_byte_counters: false,
    pcie_kb_per_second: [439, 292],
    pcie_replays: 0,
    pci_device_id: 0x1E81_10DE,
    pci_subsystem_id: 0x4005_1458,
    compute_capability: [7, 5],
    max_mig_devices: 0,
};

static T4: Facts = Facts {
    name: "Tesla T4",
    memory_total_mib: 15_360,
    memory_reserved_mib: 388,
    memory_used_mib: 1032,
    idle_power_mw: 26_780,
    power_limit_mw: 70_000,
    temperature_celsius: 40,
    memory_temperature_celsius: None,
    fan_speed_percent: None,
    clocks_mhz: [585, 585, 5000, 810],
    max_clocks_mhz: [1590, 1590, 5001, 1470],
    performance_state: 0,
    data_center: true,
    average_power: false,
    pcie_byte_counters: false,
    pcie_kb_per_second: [0, 0],
    pcie_replays: 0,
    pci_device_id: 0x1EB8_10DE,
    pci_subsystem_id: 0x12A2_10DE,
    compute_capability: [7, 5],
    max_mig_devices: 0,
};

/// What a slice of a MIG card holds, by the name of its profile.
pub(crate) struct Slice {
    pub(crate) memory_mib: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) slices: u32,
}

/// Recorded slices of H100 80 GB and, for `1g.20gb`, of A100 80 GB.
pub(crate) fn slice_of(profile: &str) -> Option<Slice> {
    let (memory_mib, multiprocessors, slices) = match profile {
        "3g.40gb" => (40_448, 60, 3),
        "2g.20gb" => (20_096, 32, 2),
        "1g.10gb" => (9_984, 16, 1),
        "1g.20gb" => (19_968, 14, 1),
        _ => return None,
    };
    Some(Slice { memory_mib, multiprocessors, slices })
}
