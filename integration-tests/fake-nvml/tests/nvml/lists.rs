//! Processes, the driver's own samples and field values.

use std::time::Duration;

use fake_nvml::{Device, ErrorCode, Field, Mig, Model, Process, ProcessKind, Scenario, Value};
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use crate::{TestResult, start};

#[test]
fn processes_come_and_go_and_may_hide_their_memory() -> TestResult {
    let host_process = Process::other(28_290, 512 << 20);
    let leaving = Process { until_second: Some(0.5), ..Process::own(Value::over_calls([1, 2])) };
    let hidden = Process { pid: Some(7), sm_percent: Some(40), ..Process::default() };
    let drawing = Process { kind: ProcessKind::Graphics, ..Process::other(1720, 173 << 20) };
    let device = Device::new(Model::H100).process(host_process).process(leaving).process(hidden).process(drawing);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let found: Vec<_> = gpu.running_compute_processes()?.into_iter().map(|process| (process.pid, process.used_gpu_memory)).collect();
    let own = std::process::id();
    // The wrapper asks twice, first for the number of processes.
    assert_eq!(found, [(28_290, UsedGpuMemory::Used(512 << 20)), (own, UsedGpuMemory::Used(2)), (7, UsedGpuMemory::Unavailable)]);
    assert_eq!(gpu.running_graphics_processes()?.len(), 1);
    assert_eq!(gpu.process_utilization_stats(None)?.into_iter().map(|sample| (sample.pid, sample.sm_util)).collect::<Vec<_>>(), [(7, 40)]);
    assert!(matches!(gpu.process_utilization_stats(u64::MAX), Err(NvmlError::NotFound)));
    std::thread::sleep(Duration::from_millis(550));
    assert_eq!(gpu.running_compute_processes()?.len(), 2);
    Ok(())
}

#[test]
fn a_list_that_does_not_fit_says_how_long_it_is() -> TestResult {
    let device = Device::new(Model::H100).process(Process::other(1, 10)).process(Process::other(2, 20));
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let list = nvml.lib().nvmlDeviceGetComputeRunningProcesses_v3.as_ref().map_err(ToString::to_string)?;
    let mut count = 1;
    // SAFETY: nvmlProcessInfo_t is integers only, for which zero is a value.
    let mut room: [nvml_wrapper_sys::bindings::nvmlProcessInfo_t; 1] = [unsafe { std::mem::zeroed() }];
    // SAFETY: `count` says how many structs there is room for.
    let result = unsafe { list(gpu.handle(), &mut count, room.as_mut_ptr()) };
    let pid = room[0].pid;
    assert_eq!((result, count, pid), (7, 2, 0), "insufficient size, two needed, nothing written");
    Ok(())
}

#[test]
fn processes_of_a_mig_device_are_its_own() -> TestResult {
    let on_mig = Process { mig: Some(1), ..Process::other(11, 100) };
    let device = Device::new(Model::A100).mig(Mig::new("1g.20gb")).mig(Mig::new("1g.20gb")).process(on_mig);
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let parent = nvml.device_by_index(0)?;
    assert_eq!(parent.mig_device_by_index(0)?.running_compute_processes()?, []);
    let found = parent.mig_device_by_index(1)?.running_compute_processes()?;
    assert_eq!(found.first().map(|process| (process.pid, process.gpu_instance_id)), Some((11, Some(2))));
    assert_eq!(parent.running_compute_processes()?.len(), 1);
    Ok(())
}

#[test]
fn the_drivers_own_samples_lie_between_readings() -> TestResult {
    let steps = Value::over_seconds([(0.0, 70_000), (0.2, 300_000)]);
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::H100).field(Field::PowerMw, steps)))?;
    let gpu = nvml.device_by_index(0)?;
    std::thread::sleep(Duration::from_millis(400));
    let samples = gpu.samples(Sampling::Power, None)?;
    assert!((15..=120).contains(&samples.len()), "{} samples in about 0.4 s, one every 20 ms", samples.len());
    assert!(samples.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp));
    assert_eq!(samples.first().map(|sample| sample.value.clone()), Some(SampleValue::U32(70_000)));
    assert_eq!(samples.last().map(|sample| sample.value.clone()), Some(SampleValue::U32(300_000)));

    let seen = samples.last().map_or(0, |sample| sample.timestamp);
    std::thread::sleep(Duration::from_millis(50));
    let newer = gpu.samples(Sampling::Power, seen)?;
    assert!((1..=10).contains(&newer.len()) && newer.iter().all(|sample| sample.timestamp > seen));
    assert!(matches!(gpu.samples(Sampling::Power, u64::MAX), Err(NvmlError::NotFound)));
    assert!(matches!(gpu.samples(Sampling::DecoderUtilization, None), Err(NvmlError::NotSupported)));
    Ok(())
}

#[test]
fn each_field_value_has_a_result_and_a_line_of_its_own() -> TestResult {
    let device = Device::new(Model::H100)
        .field(Field::PowerInstantMw, 69_620)
        .field(Field::MemoryTemperatureCelsius, ErrorCode::GpuIsLost)
        .field_value(202, 17);
    let (fake, nvml) = start(&Scenario::with(device))?;
    let values = nvml.device_by_index(0)?.field_values_for(&[186, 185, 82, 202, 999].map(FieldId))?;
    let mut answers = values.into_iter().map(|value| value.map(|sample| sample.value));
    let mut next = || answers.next().ok_or("too few values");
    assert_eq!(next()???, SampleValue::U32(69_620));
    assert_eq!(next()???, SampleValue::U32(69_850));
    assert!(matches!(next()??, Err(NvmlError::GpuLost)));
    assert_eq!(next()???, SampleValue::U64(17));
    assert!(matches!(next()??, Err(NvmlError::NotSupported)));

    let calls = fake.calls()?;
    assert_eq!((calls.count("FieldValues", 0), calls.count_field_value(186, 0), calls.count_field_value(83, 0)), (1, 1, 0));
    let lost = calls.of("FieldValue").find(|call| call.selector.as_deref() == Some("82")).ok_or("no line")?;
    assert_eq!(lost.result, ErrorCode::GpuIsLost);
    Ok(())
}

#[test]
fn events_are_not_supported() -> TestResult {
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::H100)))?;
    assert!(matches!(nvml.create_event_set(), Err(NvmlError::NotSupported)));
    assert!(nvml.device_by_index(0)?.supported_event_types().is_err());
    Ok(())
}
