//! The library is absent, a stub, or fails.

use std::path::PathBuf;

use fake_nvml::{Device, ErrorCode, Fault, Installation, Model, Scenario};
use stepline::gpu::GpuSource;
use stepline::gpu::nvml::{NvmlOptions, NvmlSource, NvmlUnavailable};

use super::{install, open, options};

fn one() -> Scenario {
    Scenario::with(Device::new(Model::H100))
}

fn init_fails(error: ErrorCode) -> NvmlUnavailable {
    let fake = install(&one().fault(Fault::error(error).function("nvmlInit_v2")));
    NvmlSource::open(options(&fake)).expect_err("init fails")
}

#[test]
fn no_library_is_a_quiet_normal_state() {
    let nowhere = NvmlOptions { places: vec!["/nonexistent/libnvidia-ml.so.1".into()], ..NvmlOptions::new(Box::new(|_| {})) };
    let reason = NvmlSource::open(nowhere).expect_err("nothing there");
    assert!(matches!(reason, NvmlUnavailable::NoLibrary { .. }), "{reason}");
    assert!(reason.is_normal());
}

#[test]
fn row_7_a_driver_upgraded_without_a_reboot_says_what_to_do() {
    let reason = init_fails(ErrorCode::LibRmVersionMismatch);
    assert!(matches!(reason, NvmlUnavailable::VersionMismatch { .. }), "{reason}");
    assert!(!reason.is_normal());
    assert!(reason.to_string().contains("Reboot"), "{reason}");
    assert_eq!(reason.to_string().lines().count(), 1);
}

#[test]
fn row_6_a_container_without_access_gets_a_hint() {
    let reason = init_fails(ErrorCode::Unknown);
    assert!(matches!(reason, NvmlUnavailable::Unknown { .. }), "{reason}");
    assert!(reason.to_string().contains("container"), "{reason}");
}

#[test]
fn other_failures_of_init_are_told_apart() {
    assert!(matches!(init_fails(ErrorCode::NoPermission), NvmlUnavailable::NoPermission { .. }));
    assert!(matches!(init_fails(ErrorCode::InsufficientResources), NvmlUnavailable::Failed { .. }));
    let stub = init_fails(ErrorCode::DriverNotLoaded);
    assert!(stub.is_normal(), "an image with the library on a machine without a driver: {stub}");
}

#[test]
fn row_8_behind_a_stub_the_real_library_is_found() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (first, second) = (directory.path().join("stub"), directory.path().join("wsl"));
    for place in [&first, &second] {
        std::fs::create_dir(place).expect("create");
    }
    let broken = one().fault(Fault::error(ErrorCode::LibraryNotFound).function("nvmlInit_v2"));
    let stub = Installation::at(&first.join("libnvidia-ml.so.1"), &broken, &[]).expect("installed");
    let real = Installation::at(&second.join("libnvidia-ml.so.1"), &one(), &[]).expect("installed");
    let places: Vec<PathBuf> =
        vec!["/nonexistent/libnvidia-ml.so.1".into(), stub.library().into(), real.library().into(), "never-reached.so".into()];
    let source = NvmlSource::open(NvmlOptions { places: places.clone(), ..NvmlOptions::new(Box::new(|_| {})) }).expect("the second works");
    assert_eq!(source.library(), real.library().to_string_lossy());
    assert_eq!(stub.calls().expect("log").count_all("nvmlInit_v2"), 1);
    // A wrong STEPLINE_NVML_PATH does not keep it from working.
    let wrong = NvmlOptions { path: Some("/nonexistent/mine.so".into()), places, ..NvmlOptions::new(Box::new(|_| {})) };
    assert!(NvmlSource::open(wrong).is_ok());
}

#[test]
fn without_devices_or_with_none_visible_there_is_no_source() {
    let fake = install(&Scenario::default());
    let reason = NvmlSource::open(options(&fake)).expect_err("no device");
    assert_eq!(reason, NvmlUnavailable::NoDevices);
    let fake = install(&one());
    let hidden = NvmlOptions { visible: Some(String::new()), ..options(&fake) };
    let reason = NvmlSource::open(hidden).expect_err("none visible");
    assert_eq!(reason, NvmlUnavailable::NoneVisible { variable: String::new(), devices: 1 });
    assert!(reason.is_normal());
    assert_eq!(fake.calls().expect("log").count_all("nvmlShutdown"), 1, "what was opened is closed");
}

#[test]
fn a_device_is_described_and_the_library_closed_once() {
    let fake = install(&one());
    let mut source = open(&fake);
    let device = source.devices()[0].clone();
    assert!(device.id.starts_with("GPU-a0"), "{}", device.id);
    assert_eq!((device.name.as_str(), device.vendor.as_str()), ("NVIDIA H100 80GB HBM3", "NVIDIA"));
    assert_eq!(device.driver_version.as_deref(), Some("590.48.01"));
    assert_eq!(device.memory_limit_bytes, Some(81_559 << 20));
    assert!(device.serial_number.is_some());
    assert_eq!(device.simulated, None);
    assert_eq!(source.read(1), Err(stepline::gpu::GpuLost), "there is no such device");
    drop(source);
    let calls = fake.calls().expect("log");
    assert_eq!((calls.count_all("nvmlInit_v2"), calls.count_all("nvmlShutdown")), (1, 1));
}

#[test]
fn row_24_cuda_is_never_touched() {
    let fake = install(&one());
    let mut source = open(&fake);
    source.read(0).expect("there");
    source.read_slow(0).expect("there");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(!maps.contains("libcuda"));
}
