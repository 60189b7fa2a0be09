//! Recordings played back as devices.

use std::path::{Path, PathBuf};

use stepline::gpu::GpuSource;
use stepline::gpu::scripted::replay::{Replay, ReplayError};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("integration-tests/data").join(name)
}

#[test]
fn what_nvidia_smi_writes() {
    let mut replay = Replay::open(&data("gpu-nvidia-smi.csv")).expect("playable");
    let names: Vec<&str> = replay.devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["Simulated GPU (replays NVIDIA A10)", "Simulated GPU (replays NVIDIA A10)"]);
    assert!(replay.devices().iter().all(|device| device.simulated.is_some() && device.vendor == "stepline"));
    assert_eq!(replay.devices()[0].memory_limit_bytes, Some(23_028 << 20));
    assert_eq!(replay.malformed_rows(), 1, "the line that was cut off when the recording was stopped");
    assert_eq!(replay.read(0).expect("a row").memory_used_bytes, Some(4 << 20));
    // Its first row was recorded 2 ms later.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let reading = replay.read(1).expect("a row");
    assert_eq!(reading.memory_used_bytes, Some(12_345 << 20));
    assert_eq!((reading.utilization, reading.power_w, reading.temperature_c), (Some(0.97), Some(148.2), Some(61.0)));
    assert_eq!(reading.fan_speed_ratio, None, "[N/A]");
}

#[test]
fn plain_columns() {
    let mut replay = Replay::open(&data("gpu-plain.csv")).expect("playable");
    assert_eq!(replay.devices().len(), 2);
    let reading = replay.read(0).expect("a row");
    assert_eq!((reading.utilization, reading.power_w, reading.temperature_c), (Some(1.0), Some(387.26), Some(38.0)));
    assert_eq!((reading.memory_used_bytes, replay.devices()[0].memory_limit_bytes), (None, None));
}

/// Recordings of real machines, which are not part of the repository.
#[test]
fn real_recordings() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/gpu-logs");
    if !directory.exists() {
        eprintln!("skipped: real_recordings: {} is not there", directory.display());
        return;
    }
    for (file, devices, seconds) in [
        ("nanogpt-8gpu-ddp.csv", 8, 157),
        ("weighted-retraining-2080ti-45min.csv", 1, 2737),
        ("weighted-retraining-2080ti-4min.csv", 1, 253),
        ("miris-v100s-underused.csv", 1, 106),
    ] {
        let mut replay = Replay::open(&directory.join(file)).expect(file);
        assert_eq!((replay.devices().len(), replay.malformed_rows()), (devices, 0), "{file}");
        assert!(replay.duration().as_secs().abs_diff(seconds) <= 2, "{file}: {:?}", replay.duration());
        for device in 0..devices {
            let reading = replay.read(device).expect(file);
            assert!(reading.utilization.is_some() && reading.temperature_c.is_some(), "{file}: {reading:?}");
        }
    }
    let without_header = Replay::open(&directory.join("plato-fl-5s.csv")).expect_err("it has no header");
    assert!(matches!(without_header, ReplayError::NoColumns { .. }), "{without_header}");
}
