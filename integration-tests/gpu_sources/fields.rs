//! Fields that a device does not have, that fail, that are slow, and values that cannot be.

use std::time::{Duration, Instant};

use fake_nvml::{Device, ErrorCode, Fault, Field, Installation, Model, Process, Scenario, Value};
use stepline::gpu::nvml::{Capability, NvmlOptions, NvmlSource};
use stepline::gpu::{GpuLost, GpuSource};
use stepline::model::{GpuReading, GpuSlowReading};

use super::{capability, install, open, options};

const MIB: u64 = 1 << 20;

#[test]
fn the_cheap_fields_stand_in_their_units() {
    let device = Device::new(Model::Rtx2080s)
        .field(Field::MemoryUsedBytes, 300 * MIB)
        .field(Field::UtilizationGpuPercent, 37)
        .field(Field::UtilizationMemoryPercent, 12)
        .field(Field::PowerMw, 181_250)
        .field(Field::EnergyMj, 7_500)
        .field(Field::ThrottleReasons, 0x4);
    let fake = install(&Scenario::with(device));
    let mut source = open(&fake);
    let expected = GpuReading {
        memory_used_bytes: Some(300 * MIB),
        memory_reserved_bytes: Some(400 * MIB),
        utilization: Some(0.37),
        memory_bandwidth_utilization: Some(0.12),
        power_w: Some(181.25),
        energy_j: Some(7.5),
        temperature_c: Some(33.0),
        fan_speed_ratio: Some(0.38),
        sm_clock_hz: Some(765_000_000),
        memory_clock_hz: Some(810_000_000),
        throttle_reasons: Some(4),
    };
    assert_eq!(source.read(0), Ok(expected));
}

#[test]
fn rows_3_and_4_what_is_unsupported_is_asked_once_and_costs_nothing_else() {
    let scenario = Scenario::with(Device::new(Model::H100))
        .and(Device::new(Model::T4).field(Field::PowerMw, ErrorCode::NotSupported).field(Field::EnergyMj, ErrorCode::NotSupported));
    let fake = Installation::lacking(&scenario, &["nvmlDeviceGetCurrentClocksThrottleReasons"]).expect("installed");
    let mut source = open(&fake);
    for _ in 0..5 {
        let (first, second) = (source.read(0).expect("there"), source.read(1).expect("there"));
        assert_eq!((second.power_w, second.energy_j), (None, None), "no placeholder 0 W");
        assert_eq!((first.power_w.is_some(), first.energy_j.is_some()), (true, true));
        assert_eq!(second.utilization, Some(0.0));
        assert!(second.memory_used_bytes.is_some() && second.temperature_c.is_some());
        assert_eq!(first.throttle_reasons, None, "the driver has no such function");
    }
    let calls = fake.calls().expect("log");
    assert_eq!((calls.count("PowerUsage", 0), calls.count("PowerUsage", 1)), (5, 1));
    assert_eq!((calls.count("TotalEnergyConsumption", 0), calls.count("TotalEnergyConsumption", 1)), (5, 1));
    assert_eq!(capability(&source, 1, "power"), Capability::Unsupported("not supported by this device".to_owned()));
    assert_eq!(capability(&source, 0, "throttle reasons"), Capability::Unsupported("the driver is too old for it".to_owned()));
    assert_eq!(capability(&source, 0, "power"), Capability::Supported);
}

#[test]
fn row_1_a_device_without_any_memory_call_gives_the_rest() {
    let scenario = Scenario::with(Device::new(Model::H100))
        .fault(Fault::error(ErrorCode::NotSupported).function("MemoryInfo"))
        .fault(Fault::error(ErrorCode::NotSupported).function("MemoryInfo_v2"));
    let fake = install(&scenario);
    let mut source = open(&fake);
    for _ in 0..3 {
        let reading = source.read(0).expect("there");
        assert_eq!((reading.memory_used_bytes, reading.memory_reserved_bytes), (None, None));
        assert_eq!(reading.utilization, Some(0.0));
    }
    assert_eq!(source.devices()[0].memory_limit_bytes, None);
    assert!(!source.devices()[0].memory_used_includes_reserved);
    let calls = fake.calls().expect("log");
    assert_eq!((calls.count("MemoryInfo", 0), calls.count("MemoryInfo_v2", 0)), (1, 1));
}

#[test]
fn row_2_a_device_without_any_field_is_asked_once_and_is_not_lost() {
    let fake = install(&Scenario::with(Device::new(Model::H100).all_fields(ErrorCode::NotSupported)));
    let mut source = open(&fake);
    for _ in 0..3 {
        assert_eq!(source.read(0), Ok(GpuReading::default()));
    }
    let calls = fake.calls().expect("log");
    for function in
        ["UtilizationRates", "PowerUsage", "TotalEnergyConsumption", "Temperature", "FanSpeed_v2", "CurrentClocksThrottleReasons"]
    {
        assert_eq!(calls.count(function, 0), 1, "{function}");
    }
    assert_eq!(calls.count("ClockInfo", 0), 2, "two clocks");
    source.read_slow(0).expect("there");
    let unsupported = source.capabilities()[0].fields.iter().filter(|(_, found)| matches!(found, Capability::Unsupported(_))).count();
    assert!(unsupported >= 13, "{:?}", source.capabilities());
}

#[test]
fn row_18_what_the_driver_reserves_stands_apart_or_is_labelled() {
    let device = Device::new(Model::T4).field(Field::MemoryUsedBytes, 8 * MIB).field(Field::MemoryReservedBytes, 904 * MIB);
    let scenario = Scenario::with(device);
    let fake = install(&scenario);
    let mut source = open(&fake);
    let reading = source.read(0).expect("there");
    assert_eq!((reading.memory_used_bytes, reading.memory_reserved_bytes), (Some(8 * MIB), Some(904 * MIB)));
    assert!(!source.devices()[0].memory_used_includes_reserved);

    let without = Installation::lacking(&scenario, &["nvmlDeviceGetMemoryInfo_v2"]).expect("installed");
    let not_supported = install(&scenario.fault(Fault::error(ErrorCode::NotSupported).function("MemoryInfo_v2")));
    for fake in [without, not_supported] {
        let mut source = open(&fake);
        let reading = source.read(0).expect("there");
        assert_eq!((reading.memory_used_bytes, reading.memory_reserved_bytes), (Some(912 * MIB), None));
        assert!(source.devices()[0].memory_used_includes_reserved, "labelled");
        assert_eq!(source.devices()[0].memory_limit_bytes, Some(15_360 * MIB));
    }
}

#[test]
fn values_that_cannot_be_are_absent() {
    let device = Device::new(Model::Rtx2080s)
        .field(Field::UtilizationGpuPercent, 150)
        .field(Field::MemoryUsedBytes, 9000 * MIB)
        .field(Field::PowerMw, 20_000_000)
        .field(Field::EnergyMj, u64::MAX)
        .field(Field::TemperatureCelsius, 4_294_967_295)
        .field(Field::FanSpeedPercent, 4_294_967_295)
        .field(Field::ClockSmMhz, 4_294_967_295);
    let fake = install(&Scenario::with(device));
    let mut source = open(&fake);
    let reading = source.read(0).expect("there");
    assert_eq!(reading.utilization, None);
    assert_eq!(reading.memory_used_bytes, None);
    assert_eq!(reading.power_w, None);
    assert_eq!((reading.energy_j, reading.temperature_c, reading.fan_speed_ratio, reading.sm_clock_hz), (None, None, None, None));
    assert_eq!(reading.memory_clock_hz, Some(810_000_000), "the others are");
    assert_eq!(capability(&source, 0, "power"), Capability::Supported, "a device that has the field may come to its senses");
}

#[test]
fn a_failure_passes_and_the_field_returns() {
    let power = Value::over_calls(
        [Ok(70_000), Err(ErrorCode::Timeout), Ok(71_000)].map(|answer| answer.map_or_else(fake_nvml::Answer::from, Into::into)),
    );
    let fake = install(&Scenario::with(Device::new(Model::H100).field(Field::PowerMw, power).field(Field::EnergyMj, 1)));
    let mut source = open(&fake);
    let mut power = || source.read(0).expect("there").power_w;
    assert_eq!(power(), Some(70.0));
    assert_eq!(power(), None);
    assert_eq!(power(), None, "it is not asked at once");
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(power(), Some(71.0));
    assert_eq!(fake.calls().expect("log").count("PowerUsage", 0), 3);
}

#[test]
fn row_20_slow_calls_are_asked_less_often_and_do_not_hold_up_the_other_device() {
    let scenario = Scenario::with(Device::new(Model::H100)).and(Device::new(Model::H100));
    let fake = install(&scenario);
    let mut source = open(&fake);
    source.read(0).expect("there");
    fake.change(&scenario.fault(Fault::delay(Duration::from_millis(300)).device(0))).expect("changed");
    let before = fake.calls().expect("log");
    let began = Instant::now();
    let mut readings = 0;
    while began.elapsed() < Duration::from_secs(2) {
        let reading_began = Instant::now();
        assert_ne!(source.read(0), Err(GpuLost), "slow is not lost");
        assert!(
            reading_began.elapsed() < Duration::from_millis(900),
            "one reading takes one slow call, not all: {:?}",
            reading_began.elapsed()
        );
        let other_began = Instant::now();
        assert!(source.read(1).expect("there").memory_used_bytes.is_some());
        assert!(other_began.elapsed() < Duration::from_millis(200), "{:?}", other_began.elapsed());
        readings += 1;
    }
    let calls = fake.calls().expect("log").since(&before);
    assert!(readings > 3);
    for function in ["MemoryInfo_v2", "UtilizationRates", "PowerUsage", "TotalEnergyConsumption", "Temperature"] {
        assert!(calls.count(function, 0) <= 1, "{function}: 300 ms a call is asked every 15 s");
    }
    assert!(calls.count("MemoryInfo_v2", 1) == readings);
}

#[test]
fn pcie_counters_are_counters_or_absent() {
    let fake = install(&Scenario::with(Device::new(Model::H100).field(Field::PcieRxBytes, 5_000_000_000_u64).field(Field::PcieTxBytes, 7)));
    let slow = open(&fake).read_slow(0).expect("there");
    assert_eq!((slow.pcie_receive_bytes, slow.pcie_transmit_bytes), (Some(5_000_000_000), Some(7)));
    // A device without the counters: the rate is not added up in their place.
    let fake = install(&Scenario::with(Device::new(Model::A100)));
    let mut source = open(&fake);
    for _ in 0..3 {
        let slow = source.read_slow(0).expect("there");
        assert_eq!((slow.pcie_receive_bytes, slow.pcie_transmit_bytes), (None, None));
    }
    let calls = fake.calls().expect("log");
    assert_eq!((calls.count_field_value(197, 0), calls.count("PcieThroughput", 0)), (1, 0));
    // Counters of 32 bits go round too fast to be of use.
    let round = Device::new(Model::H100).field(Field::PcieRxBytes, Value::over_calls([4_000_000_000, 5, 6])).field(Field::PcieTxBytes, 7);
    let fake = install(&Scenario::with(round));
    let mut source = open(&fake);
    assert_eq!(source.read_slow(0).expect("there").pcie_receive_bytes, Some(4_000_000_000));
    for _ in 0..2 {
        assert_eq!(source.read_slow(0).expect("there").pcie_receive_bytes, None);
    }
    assert!(matches!(capability(&source, 0, "PCIe bytes"), Capability::Unsupported(_)));
}

#[test]
fn errors_and_throttled_time() {
    let device = Device::new(Model::H100)
        .field(Field::EccCorrectedVolatile, 3)
        .field(Field::EccUncorrectedVolatile, 1)
        .field(Field::ViolationPowerNs, 2_500_000_000_u64)
        .field(Field::ViolationThermalNs, 1_000_000);
    let fake = install(&Scenario::with(device).and(Device::new(Model::Rtx2080s)));
    let mut source = open(&fake);
    let slow = source.read_slow(0).expect("there");
    assert_eq!((slow.ecc_corrected_errors, slow.ecc_uncorrected_errors), (Some(3), Some(1)));
    assert_eq!((slow.throttle_power_s, slow.throttle_thermal_s), (Some(2.5), Some(0.001)));
    let desktop = source.read_slow(1).expect("there");
    assert_eq!((desktop.ecc_corrected_errors, desktop.ecc_uncorrected_errors), (None, None), "no ECC is not 0 errors");
}

#[test]
fn rows_15_and_16_memory_of_own_processes() {
    let memory_of = |processes: Vec<Process>, own: Vec<u32>| {
        let device = processes.into_iter().fold(Device::new(Model::H100), Device::process);
        let fake = install(&Scenario::with(device));
        let own_pids = Box::new(move |pids: &mut Vec<u32>| pids.extend(&own));
        let mut source = NvmlSource::open(NvmlOptions { own_pids, ..options(&fake) }).expect("a device");
        source.read_slow(0).expect("there").process_memory_bytes
    };
    let me = std::process::id();
    let parent = std::os::unix::process::parent_id();
    assert_eq!(memory_of(vec![Process::own(500 * MIB)], vec![me]), Some(500 * MIB));
    assert_eq!(memory_of(vec![Process::own(500 * MIB), Process::other(parent, 70 * MIB)], vec![me]), Some(500 * MIB), "not the other's");
    assert_eq!(
        memory_of(vec![Process::own(500 * MIB), Process::other(parent, 70 * MIB)], vec![me, parent]),
        Some(570 * MIB),
        "descendants too"
    );
    assert_eq!(memory_of(vec![Process::other(28_290, 500 * MIB)], vec![me]), None, "another namespace: unknown, not 0");
    assert_eq!(memory_of(vec![], vec![me]), None);
    assert_eq!(memory_of(vec![Process::default()], vec![me]), None, "Windows does not say: neither 0 nor 2^64-1");
}

#[test]
fn slow_fields_absent_in_all_are_not_asked_again() {
    let fake = install(&Scenario::with(Device::new(Model::H100).all_fields(ErrorCode::NotSupported)));
    let mut source = open(&fake);
    for _ in 0..3 {
        assert_eq!(source.read_slow(0), Ok(GpuSlowReading::default()));
    }
    let calls = fake.calls().expect("log");
    assert_eq!((calls.count("TotalEccErrors", 0), calls.count("ViolationStatus", 0), calls.count_field_value(198, 0)), (2, 2, 1));
}
