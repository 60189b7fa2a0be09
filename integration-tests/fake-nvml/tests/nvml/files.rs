//! Steering by files: changes in mid-run, the environment, mistakes.

use std::process::Command;
use std::time::Duration;

use fake_nvml::{CallLog, Device, ErrorCode, Fault, Field, Installation, LOG_VARIABLE, Model, SCENARIO_VARIABLE, Scenario, Target, Value};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::{TestResult, load, start};

#[test]
fn a_changed_scenario_holds_from_the_next_call_on() -> TestResult {
    let scenario = |power: Value| Scenario::with(Device::new(Model::H100).field(Field::PowerMw, power));
    let (fake, nvml) = start(&scenario(100_000.into()))?;
    let gpu = nvml.device_by_index(0)?;
    std::thread::sleep(Duration::from_millis(100));
    let energy = gpu.total_energy_consumption()?;
    assert!(energy >= 10_000, "{energy} mJ after 0.1 s at 100 W");

    fake.change(&scenario(Value::over_calls([1, 2])))?;
    assert_eq!((gpu.power_usage()?, gpu.power_usage()?), (1, 2));
    assert!(gpu.total_energy_consumption()? >= energy, "the counter goes on");
    fake.change(&scenario(Value::over_calls([3, 4])))?;
    assert_eq!(gpu.power_usage()?, 3, "calls are counted anew");
    fake.change(&scenario(ErrorCode::GpuIsLost.into()))?;
    assert!(matches!(gpu.power_usage(), Err(NvmlError::GpuLost)));
    fake.change(&Scenario::default())?;
    assert_eq!(nvml.device_count()?, 0);
    assert!(matches!(gpu.power_usage(), Err(NvmlError::InvalidArg)));
    Ok(())
}

#[test]
fn an_unreadable_change_leaves_the_scenario_in_force() -> TestResult {
    let (fake, nvml) = start(&Scenario::with(Device::new(Model::H100)))?;
    let gpu = nvml.device_by_index(0)?;
    for text in ["{ \"devices\": [", "{ \"devises\": [] }", "{ \"devices\": [ { \"fields\": { \"power_w\": 3 } } ] }"] {
        std::fs::write(fake.scenario_path(), text)?;
        assert_eq!(gpu.power_usage()?, 69_850, "{text}");
    }
    Ok(())
}

#[test]
fn an_unreadable_scenario_answers_nothing() -> TestResult {
    let fake = Installation::new(&Scenario::with(Device::new(Model::H100)))?;
    std::fs::write(fake.scenario_path(), "{ \"devices\": [ { \"model\": \"h1000\" } ] }")?;
    assert!(matches!(load(&fake), Err(NvmlError::Unknown)));
    Ok(())
}

#[test]
fn the_log_counts_by_function_device_and_result() -> TestResult {
    let scenario = Scenario::with(Device::new(Model::H100))
        .and(Device::new(Model::H100))
        .fault(Fault::error(ErrorCode::NotSupported).function("PowerUsage").device(1));
    let (fake, nvml) = start(&scenario)?;
    let (first, second) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    first.power_usage()?;
    let before = fake.calls()?;
    assert_eq!((before.count("nvmlDeviceGetPowerUsage", 0), before.count("PowerUsage", 1)), (1, 0));
    let _ = second.power_usage();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert!(first.memory_info().is_ok())));
        }
    });
    let after = fake.calls()?;
    assert_eq!((after.count("PowerUsage", 1), after.count_all("PowerUsage"), after.count("MemoryInfo_v2", 0)), (1, 2, 200));
    let new = after.since(&before);
    assert_eq!(new.calls().len(), 201);
    assert_eq!(new.of("PowerUsage").next().map(|call| (call.device, call.result)), Some((Target::Gpu(1), ErrorCode::NotSupported)));
    assert!(new.calls().iter().all(|call| call.process_id == std::process::id()));
    assert!(std::panic::catch_unwind(|| after.count("PowerUsge", 0)).is_err(), "a function that does not exist proves nothing");
    Ok(())
}

/// Not a test of its own: what the next test starts with another environment.
#[test]
#[ignore = "started by a_child_process_is_steered_by_its_environment"]
fn child() -> TestResult {
    if std::env::var_os(SCENARIO_VARIABLE).is_some() {
        let nvml = Nvml::builder().lib_path(fake_nvml::library_path()?.as_os_str()).init()?;
        assert_eq!(nvml.device_by_index(0)?.power_usage()?, 4242);
    }
    Ok(())
}

#[test]
fn a_child_process_is_steered_by_its_environment() -> TestResult {
    let directory = std::env::temp_dir().join(format!("fake-nvml-child-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let (scenario, log) = (directory.join("scenario.json"), directory.join("calls.log"));
    Scenario::with(Device::new(Model::H100).field(Field::PowerMw, 4242)).write(&scenario)?;
    let child = Command::new(std::env::current_exe()?)
        .args(["--exact", "files::child", "--ignored"])
        .env(SCENARIO_VARIABLE, &scenario)
        .env(LOG_VARIABLE, &log)
        .output()?;
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(CallLog::read(&log)?.count("PowerUsage", 0), 1);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
