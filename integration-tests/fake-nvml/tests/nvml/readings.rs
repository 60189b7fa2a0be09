//! Values: the models', constants, sequences, counters, recordings.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use fake_nvml::{Calls, Device, ErrorCode, Field, Model, Replay, Scenario, Seconds, Value};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, MemoryLocation, PcieUtilCounter, PerformancePolicy, PerformanceState, TemperatureSensor,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use crate::{TestResult, start};

#[test]
fn an_h100_reports_what_a_recorded_one_did() -> TestResult {
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::H100)))?;
    let gpu = nvml.device_by_index(0)?;
    let memory = gpu.memory_info()?;
    assert_eq!((memory.total >> 20, memory.reserved >> 20, memory.used), (81_559, 479, 0));
    assert_eq!(memory.free, memory.total - memory.reserved);
    assert_eq!((gpu.utilization_rates()?.gpu, gpu.utilization_rates()?.memory), (0, 0));
    assert_eq!((gpu.power_usage()?, gpu.enforced_power_limit()?), (69_850, 700_000));
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu)?, 41);
    assert_eq!((gpu.clock_info(Clock::SM)?, gpu.clock_info(Clock::Memory)?), (345, 2619));
    assert_eq!(gpu.max_clock_info(Clock::Graphics)?, 1980);
    assert_eq!(gpu.performance_state()?, PerformanceState::Zero);
    assert_eq!(gpu.current_throttle_reasons()?, ThrottleReasons::GPU_IDLE);
    assert!(gpu.is_ecc_enabled()?.currently_enabled);
    assert_eq!(gpu.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)?, 0);
    assert_eq!((gpu.pcie_throughput(PcieUtilCounter::Send)?, gpu.pcie_replay_counter()?), (352, 9));
    assert_eq!(gpu.num_fans()?, 0);
    assert!(matches!(gpu.fan_speed(0), Err(NvmlError::NotSupported)));
    assert_eq!(gpu.violation_status(PerformancePolicy::Power)?.violation_time, 0);
    assert_eq!(gpu.running_compute_processes()?, []);
    Ok(())
}

#[test]
fn a_desktop_card_has_a_fan_and_no_ecc() -> TestResult {
    let device = Device::new(Model::Rtx2080s).field(Field::Fans, 2);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    assert_eq!((gpu.num_fans()?, gpu.fan_speed(1)?), (2, 38));
    assert!(matches!(gpu.fan_speed(2), Err(NvmlError::InvalidArg)));
    assert!(matches!(gpu.is_ecc_enabled(), Err(NvmlError::NotSupported)));
    assert!(matches!(gpu.total_ecc_errors(MemoryError::Corrected, EccCounter::Aggregate), Err(NvmlError::NotSupported)));
    Ok(())
}

#[test]
fn ecc_errors_lie_in_device_memory() -> TestResult {
    let device = Device::new(Model::A100).field(Field::EccCorrectedAggregate, 5);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let of = |location| gpu.memory_error_counter(MemoryError::Corrected, EccCounter::Aggregate, location);
    assert_eq!((of(MemoryLocation::Device)?, of(MemoryLocation::L2Cache)?), (5, 0));
    Ok(())
}

#[test]
fn the_first_form_of_the_memory_call_counts_reserved_as_used() -> TestResult {
    let device = Device::new(Model::T4).field(Field::MemoryUsedBytes, 8 << 20).field(Field::MemoryReservedBytes, 904 << 20);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let memory = gpu.memory_info()?;
    assert_eq!((memory.used >> 20, memory.reserved >> 20), (8, 904));

    let first_form = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref().map_err(ToString::to_string)?;
    // SAFETY: nvmlMemory_t is three integers, for which zero is a value.
    let mut info = unsafe { std::mem::zeroed() };
    // SAFETY: the handle is a device's and `info` has the type that the function writes.
    assert_eq!(unsafe { first_form(gpu.handle(), &mut info) }, 0);
    assert_eq!((info.used >> 20, info.total >> 20), (912, 15_360));
    assert_eq!(info.free, info.total - info.used);
    Ok(())
}

#[test]
fn a_wrong_version_word_is_refused() -> TestResult {
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::T4)))?;
    let gpu = nvml.device_by_index(0)?;
    let second_form = nvml.lib().nvmlDeviceGetMemoryInfo_v2.as_ref().map_err(ToString::to_string)?;
    for (version, expected) in [(0, 25), (40 | 1 << 24, 25), (40 | 2 << 24, 0)] {
        // SAFETY: nvmlMemory_v2_t is integers only, for which zero is a value.
        let mut info: nvml_wrapper_sys::bindings::nvmlMemory_v2_t = unsafe { std::mem::zeroed() };
        info.version = version;
        // SAFETY: the handle is a device's and `info` has the type that the function reads and writes.
        assert_eq!(unsafe { second_form(gpu.handle(), &mut info) }, expected, "version word {version:#x}");
    }
    Ok(())
}

#[test]
fn values_move_over_calls() -> TestResult {
    let repeating = Value::Calls(Calls { calls: vec![1.into(), ErrorCode::Timeout.into()], repeat: true });
    let device =
        Device::new(Model::H100).field(Field::UtilizationGpuPercent, Value::over_calls([10, 20])).field(Field::PcieReplays, repeating);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    for expected in [10, 20, 20] {
        assert_eq!(gpu.utilization_rates()?.gpu, expected);
    }
    for _ in 0..2 {
        assert_eq!(gpu.pcie_replay_counter()?, 1);
        assert!(matches!(gpu.pcie_replay_counter(), Err(NvmlError::Timeout)));
    }
    Ok(())
}

#[test]
fn values_move_over_time() -> TestResult {
    let steps = Value::over_seconds([(0.0, 30), (0.5, 70)]);
    let repeating = Value::Seconds(Seconds { seconds: vec![(0.0, 1.into()), (0.2, 2.into())], repeat_every: Some(0.4) });
    let device = Device::new(Model::H100).field(Field::TemperatureCelsius, steps).field(Field::PerformanceState, repeating);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu)?, 30);
    let (began, mut states) = (Instant::now(), Vec::new());
    while began.elapsed() < Duration::from_secs(1) {
        states.push(gpu.performance_state()?);
        std::thread::sleep(Duration::from_millis(10));
    }
    states.dedup();
    assert!(states.len() >= 4, "{states:?} repeats every 0.4 s");
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu)?, 70);
    Ok(())
}

#[test]
fn energy_is_the_integral_of_power() -> TestResult {
    let device = Device::new(Model::H100)
        .field(Field::PowerMw, Value::over_seconds([(0.0, 100_000), (0.1, 500_000), (0.2, 0)]))
        .field(Field::PcieTxKbPerSecond, Value::over_seconds([(0.0, 1_000_000), (0.1, 0)]));
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let early = gpu.total_energy_consumption()?;
    std::thread::sleep(Duration::from_millis(300));
    assert!(early < gpu.total_energy_consumption()?);
    assert_eq!(gpu.total_energy_consumption()?, 60_000, "0.1 s at 100 W and 0.1 s at 500 W");
    let values = gpu.field_values_for(&[FieldId(197)])?;
    let sent = values.into_iter().next().ok_or("no value")??.value?;
    assert_eq!(sent, SampleValue::U64(100_000_000), "0.1 s at 1 GB/s");
    Ok(())
}

#[test]
fn a_recorded_column_is_played_back() -> TestResult {
    let file = std::env::temp_dir().join(format!("fake-nvml-replay-{}.csv", std::process::id()));
    std::fs::write(&file, "timestamp, index, power.draw [W]\n2026/07/14 08:12:38.000, 0, 69.85 W\n2026/07/14 08:13:38.000, 0, 631.95 W\n")?;
    let mut replay = Replay::new(file.display().to_string(), "power.draw [W]");
    replay.scale = 1000.0;
    replay.speed = 120.0;
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::H100).field(Field::PowerMw, Value::replay(replay))))?;
    let gpu = nvml.device_by_index(0)?;
    assert_eq!(gpu.power_usage()?, 69_850);
    std::thread::sleep(Duration::from_millis(550));
    assert_eq!(gpu.power_usage()?, 631_950);
    std::fs::remove_file(file)?;
    Ok(())
}

#[test]
fn a_value_may_be_an_error() -> TestResult {
    let scenario = Scenario::with(Device::new(Model::H100).field(Field::EnergyMj, ErrorCode::NotSupported))
        .and(Device::new(Model::H100).field(Field::MemoryUsedBytes, ErrorCode::NoPermission).all_fields(ErrorCode::NotSupported));
    let (_fake, nvml) = start(&scenario)?;
    let first = nvml.device_by_index(0)?;
    assert!(matches!(first.total_energy_consumption(), Err(NvmlError::NotSupported)));
    assert_eq!(first.power_usage()?, 69_850);
    let second = nvml.device_by_index(1)?;
    assert!(matches!(second.memory_info(), Err(NvmlError::NotSupported)));
    assert!(matches!(second.clock_info(Clock::Video), Err(NvmlError::NotSupported)));
    assert!(second.uuid()?.starts_with("GPU-"));
    Ok(())
}

/// Additional: the recordings are not part of the repository.
#[test]
fn a_recording_of_eight_gpus_is_played_back_where_there_is_one() -> TestResult {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gpu-logs/nanogpt-8gpu-ddp.csv");
    if !file.exists() {
        writeln!(std::io::stderr(), "skipped: a_recording_of_eight_gpus_is_played_back_where_there_is_one (no recording)")?;
        return Ok(());
    }
    let of = |gpu: f64, column: &str, scale| {
        let mut replay = Replay::new(file.display().to_string(), column);
        (replay.only, replay.scale, replay.speed) = (Some(("gpu_index".into(), gpu)), scale, 0.01);
        Value::replay(replay)
    };
    let device = |gpu| {
        Device::new(Model::H100)
            .field(Field::PowerMw, of(gpu, "power_W", 1000.0))
            .field(Field::TemperatureCelsius, of(gpu, "temperature_C", 1.0))
    };
    let (_fake, nvml) = start(&Scenario::with(device(0.0)).and(device(1.0)))?;
    assert_eq!(nvml.device_by_index(0)?.power_usage()?, 387_260);
    let odd_one = nvml.device_by_index(1)?;
    assert_eq!((odd_one.power_usage()?, odd_one.temperature(TemperatureSensor::Gpu)?), (422_550, 60));
    Ok(())
}
