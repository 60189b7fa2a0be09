//! Devices that follow the calling process.

use std::time::{Duration, Instant};

use fake_nvml::{Device, Field, Mirror, Model, Process, Scenario, Value};
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::UsedGpuMemory;

use crate::{TestResult, start};

fn work(duration: Duration) {
    let began = Instant::now();
    while began.elapsed() < duration {
        std::hint::black_box((0..1000_u64).sum::<u64>());
    }
}

#[test]
fn memory_follows_the_resident_size() -> TestResult {
    const GROWTH: usize = 64 << 20;
    let base = 200 << 20;
    let mut device = Device::mirror(Model::Rtx2080s);
    device.mirror = Some(Mirror { base });
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let before = gpu.memory_info()?;
    assert!(before.used > base && before.used < before.total);
    let grown = std::hint::black_box(vec![1_u8; GROWTH]);
    let after = gpu.memory_info()?.used;
    // Other tests of this process allocate too, so only a lower bound holds, with room for what they free.
    assert!(after > before.used + GROWTH as u64 * 3 / 4, "{} -> {after}", before.used);
    drop(grown);

    let processes = gpu.running_compute_processes()?;
    let own = processes.first().ok_or("the process itself is not listed")?;
    assert_eq!(own.pid, std::process::id());
    assert!(matches!(own.used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes > 0));
    Ok(())
}

#[test]
fn utilization_power_and_energy_follow_the_cpu() -> TestResult {
    let mut device = Device::mirror(Model::H100);
    (device.idle_power_mw, device.max_power_mw) = (Some(50_000), Some(250_000));
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    let (began, energy_before) = (Instant::now(), gpu.total_energy_consumption()?);
    // Readings within 10 ms are of one window; on a busy machine it may take several tries to get two of them that close together.
    let (utilization, power) = loop {
        work(Duration::from_millis(100));
        let asked = Instant::now();
        let (utilization, power) = (gpu.utilization_rates()?.gpu, gpu.power_usage()?);
        if asked.elapsed() < Duration::from_millis(9) {
            break (utilization, power);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "this machine is too busy to tell");
    };
    assert!((5..=100).contains(&utilization), "{utilization} % after 0.1 s of work");
    let expected = 50_000 + 2_000 * utilization;
    assert!(power.abs_diff(expected) <= 1_000, "{power} mW at {utilization} % is of the same window");

    let (energy, seconds) = (gpu.total_energy_consumption()? - energy_before, began.elapsed().as_secs_f64());
    let mean_mw = energy as f64 / seconds;
    assert!((50_000.0 * 0.8..=250_000.0 * 1.2).contains(&mean_mw), "{energy} mJ in {seconds} s");
    assert!(!gpu.samples(Sampling::Power, None)?.is_empty());
    Ok(())
}

#[test]
fn energy_never_falls() -> TestResult {
    let (_fake, nvml) = start(&Scenario::with(Device::mirror(Model::H100)))?;
    let gpu = nvml.device_by_index(0)?;
    let (mut last, mut first) = (0, None);
    for reading in 0..300 {
        let energy = gpu.total_energy_consumption()?;
        assert!(energy >= last, "{last} -> {energy}");
        (last, first) = (energy, first.or(Some(energy)));
        if reading % 3 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(Some(last) > first);
    Ok(())
}

#[test]
fn one_field_can_mirror_beside_constant_ones() -> TestResult {
    let device = Device::new(Model::H100)
        .field(Field::MemoryUsedBytes, Value::mirror(0))
        .field(Field::PowerMw, 123_000)
        .process(Process::own(Value::mirror(5)));
    let (_fake, nvml) = start(&Scenario::with(device))?;
    let gpu = nvml.device_by_index(0)?;
    assert!(gpu.memory_info()?.used > 1 << 20);
    assert_eq!((gpu.power_usage()?, gpu.utilization_rates()?.gpu), (123_000, 0));
    assert!(Scenario::with(Device::new(Model::H100).field(Field::Fans, Value::mirror(0))).write(&std::env::temp_dir()).is_err());
    Ok(())
}
