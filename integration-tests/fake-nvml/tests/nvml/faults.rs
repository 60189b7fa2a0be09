//! What goes wrong, and when.

use std::time::{Duration, Instant};

use fake_nvml::{Device, ErrorCode, Fault, Installation, Mig, Model, Scenario, Target};
use nvml_wrapper::error::NvmlError;

use crate::{TestResult, load, start};

fn two_gpus() -> Scenario {
    Scenario::with(Device::new(Model::H100)).and(Device::new(Model::H100))
}

#[test]
fn initialisation_can_fail_and_recover() -> TestResult {
    let fault = Fault::error(ErrorCode::LibRmVersionMismatch).function("nvmlInit_v2").until_call(3);
    let fake = Installation::new(&two_gpus().fault(fault))?;
    for _ in 0..2 {
        assert!(matches!(load(&fake), Err(NvmlError::LibRmVersionMismatch)));
    }
    assert_eq!(load(&fake)?.device_count()?, 2);
    assert_eq!(fake.calls()?.count("Init_v2", Target::System), 3);
    Ok(())
}

#[test]
fn initialisation_can_be_slow() -> TestResult {
    let fake = Installation::new(&two_gpus().fault(Fault::delay(Duration::from_millis(600)).function("Init_v2")))?;
    let began = Instant::now();
    let nvml = load(&fake)?;
    assert!(began.elapsed() >= Duration::from_millis(600));
    let began = Instant::now();
    assert_eq!(nvml.device_count()?, 2);
    assert!(began.elapsed() < Duration::from_millis(500), "only the initialisation is slow");
    Ok(())
}

#[test]
fn every_call_can_be_slow_without_making_others_wait_in_line() -> TestResult {
    let (fake, nvml) = start(&two_gpus().fault(Fault::delay(Duration::from_secs(1)).device(1)))?;
    let (quick, slow) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| slow.power_usage());
        std::thread::sleep(Duration::from_millis(50));
        let asked = Instant::now();
        assert!(quick.power_usage().is_ok());
        assert!(asked.elapsed() < Duration::from_millis(500), "the quick device answers while the slow one sleeps");
    });
    assert!(began.elapsed() >= Duration::from_secs(1));
    let calls = fake.calls()?;
    let slow_call = calls.of("PowerUsage").find(|call| call.device == Target::Gpu(1)).ok_or("no line")?;
    assert!(slow_call.duration_ms >= 1000.0);
    Ok(())
}

#[test]
fn one_gpu_is_lost_in_mid_run_and_stays_lost() -> TestResult {
    let fault = Fault::error(ErrorCode::GpuIsLost).device(1).from_call(3).counting("UtilizationRates");
    let (fake, nvml) = start(&two_gpus().fault(fault))?;
    let (healthy, failing) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    for reading in 1..=5 {
        assert!(healthy.utilization_rates().is_ok());
        let outcome = failing.utilization_rates();
        assert_eq!(matches!(outcome, Err(NvmlError::GpuLost)), reading >= 3, "reading {reading}");
        assert_eq!(failing.power_usage().is_err(), reading >= 3, "the other functions follow");
    }
    drop(nvml);
    let again = load(&fake)?;
    assert!(matches!(again.device_by_index(1), Err(NvmlError::GpuLost)), "another initialisation does not bring it back");
    assert!(again.device_by_index(0)?.power_usage().is_ok());
    assert_eq!(fake.calls()?.count("UtilizationRates", 1), 5);
    Ok(())
}

#[test]
fn a_fault_holds_for_a_time() -> TestResult {
    let fault = Fault::error(ErrorCode::Unknown).from_second(0.5).until_second(1.5);
    let (_fake, nvml) = start(&two_gpus().fault(fault))?;
    let gpu = nvml.device_by_index(0)?;
    assert!(gpu.power_usage().is_ok());
    std::thread::sleep(Duration::from_millis(550));
    assert!(matches!(gpu.power_usage(), Err(NvmlError::Unknown)));
    assert!(matches!(nvml.device_count(), Err(NvmlError::Unknown)), "calls without a device as well");
    std::thread::sleep(Duration::from_secs(1));
    assert!(gpu.power_usage().is_ok());
    Ok(())
}

#[test]
fn one_function_of_one_gpu_fails() -> TestResult {
    let fault = Fault::error(ErrorCode::NoPermission).function("PowerUsage").device(1).from_call(2);
    let (_fake, nvml) = start(&two_gpus().fault(fault))?;
    let (first, second) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    assert!(second.power_usage().is_ok());
    for _ in 0..2 {
        assert!(matches!(second.power_usage(), Err(NvmlError::NoPermission)));
        assert!(second.memory_info().is_ok() && first.power_usage().is_ok());
    }
    Ok(())
}

#[test]
fn an_unplugged_gpu_is_neither_counted_nor_found() -> TestResult {
    let (_fake, nvml) = start(&two_gpus().fault(Fault::unplug(0).from_second(0.5)))?;
    let (first, second) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    let (first_uuid, second_uuid) = (first.uuid()?, second.uuid()?);
    assert_eq!(nvml.device_count()?, 2);
    std::thread::sleep(Duration::from_millis(550));
    assert_eq!(nvml.device_count()?, 1);
    assert!(matches!(first.memory_info(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_uuid(first_uuid), Err(NvmlError::NotFound)));
    assert_eq!(nvml.device_by_index(0)?.uuid()?, second_uuid, "the others move up");
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::InvalidArg)));
    assert_eq!(second.index()?, 0);
    Ok(())
}

#[test]
fn a_mig_device_shares_the_fate_of_its_gpu() -> TestResult {
    let device = Device::new(Model::H100).mig(Mig::new("1g.10gb")).mig(Mig::new("1g.10gb"));
    let scenario = Scenario::with(device)
        .fault(Fault::error(ErrorCode::GpuIsLost).function("MemoryInfo_v2").device(0).from_call(3))
        .fault(Fault::error(ErrorCode::NotSupported).function("Name").device((0, 1)));
    let (_fake, nvml) = start(&scenario)?;
    let parent = nvml.device_by_index(0)?;
    let (one, other) = (parent.mig_device_by_index(0)?, parent.mig_device_by_index(1)?);
    assert!(one.name().is_ok() && other.name().is_err());
    assert!(one.memory_info().is_ok() && other.memory_info().is_ok());
    assert!(matches!(one.memory_info(), Err(NvmlError::GpuLost)));
    Ok(())
}

#[test]
fn without_initialisation_nothing_is_answered() -> TestResult {
    let fake = Installation::new(&two_gpus())?;
    let nvml = load(&fake)?;
    let count = *nvml.lib().nvmlDeviceGetCount_v2.as_ref().map_err(ToString::to_string)?;
    let shutdown = *nvml.lib().nvmlShutdown.as_ref().map_err(ToString::to_string)?;
    let mut devices = 0;
    // SAFETY: both functions are called while the library is loaded, with a valid place for the count.
    let (down, counted, down_again) = unsafe { (shutdown(), count(&mut devices), shutdown()) };
    assert_eq!((down, counted, down_again), (0, 1, 1));
    Ok(())
}

#[test]
fn a_fault_that_cannot_hold_is_refused() {
    for fault in [Fault::error(ErrorCode::Unknown).function("PowerUsge"), Fault::default(), Fault::unplug((0, 1))] {
        assert!(Installation::new(&two_gpus().fault(fault.clone())).is_err(), "{fault:?}");
    }
}
