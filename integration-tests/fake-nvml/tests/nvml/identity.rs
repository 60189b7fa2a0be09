//! Who the devices are and how they are found.

use std::ffi::CString;

use fake_nvml::{Device, Mig, Model, Scenario};
use nvml_wrapper::error::NvmlError;

use crate::{TestResult, start};

#[test]
fn versions_come_from_the_scenario() -> TestResult {
    let scenario = Scenario { driver_version: "535.104.05".into(), cuda_version: 12_020, ..Scenario::default() };
    let (_fake, nvml) = start(&scenario)?;
    assert_eq!(nvml.sys_driver_version()?, "535.104.05");
    assert_eq!(nvml.sys_nvml_version()?, "13.590.48.01");
    assert_eq!(nvml.sys_cuda_driver_version()?, 12_020);
    assert_eq!(nvml.device_count()?, 0);
    Ok(())
}

#[test]
fn devices_are_found_by_index_uuid_and_bus() -> TestResult {
    let scenario = Scenario::with(Device::new(Model::H100)).and(Device::new(Model::Rtx2080s).pci_bus_id("00000000:0C:00.0"));
    let (_fake, nvml) = start(&scenario)?;
    assert_eq!(nvml.device_count()?, 2);
    let second = nvml.device_by_index(1)?;
    assert_eq!(second.name()?, "NVIDIA GeForce RTX 2080 SUPER");
    assert_eq!(second.index()?, 1);
    assert_eq!(nvml.device_by_uuid(second.uuid()?)?.index()?, 1);
    for bus in ["00000000:0C:00.0", "0000:0c:00.0", "0C:00.0"] {
        assert_eq!(nvml.device_by_pci_bus_id(bus)?.index()?, 1, "{bus}");
    }
    let pci = second.pci_info()?;
    assert_eq!((pci.domain, pci.bus, pci.device, pci.pci_device_id), (0, 0x0C, 0, 0x1E81_10DE));
    assert_eq!(pci.bus_id, "00000000:0C:00.0");
    assert_eq!(second.cuda_compute_capability()?.major, 7);

    assert!(matches!(second.serial(), Err(NvmlError::NotSupported)), "a desktop card has no serial number");
    assert_eq!(nvml.device_by_index(0)?.serial()?.len(), 13);
    assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
    assert!(matches!(nvml.device_by_pci_bus_id("0000:FF:00.0"), Err(NvmlError::NotFound)));
    Ok(())
}

#[test]
fn default_uuids_differ_in_their_first_digits() -> TestResult {
    let scenario = (0..4).fold(Scenario::default(), |scenario, _| scenario.and(Device::new(Model::A100)));
    let (_fake, nvml) = start(&scenario)?;
    let mut prefixes = Vec::new();
    for index in 0..4 {
        prefixes.push(nvml.device_by_index(index)?.uuid()?.get(..8).unwrap_or_default().to_owned());
    }
    prefixes.sort();
    prefixes.dedup();
    assert_eq!(prefixes.len(), 4, "{prefixes:?}");
    Ok(())
}

#[test]
fn a_text_needs_room_for_its_closing_zero() -> TestResult {
    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::T4)))?;
    let device = nvml.device_by_index(0)?;
    let name = nvml.lib().nvmlDeviceGetName.as_ref().map_err(ToString::to_string)?;
    let mut room = [1_i8; 9];
    let pointer = room.as_mut_ptr().cast();
    // SAFETY: the pointer leads to 9 bytes and no call is told that there are more.
    let (too_short, enough, nowhere) =
        unsafe { (name(device.handle(), pointer, 8), name(device.handle(), pointer, 9), name(device.handle(), std::ptr::null_mut(), 9)) };
    assert_eq!((too_short, enough, nowhere), (7, 0, 2));
    assert_eq!(CString::new("Tesla T4")?.as_bytes_with_nul(), room.map(|byte| byte as u8));
    Ok(())
}

#[test]
fn mig_devices_have_a_name_and_memory_and_little_else() -> TestResult {
    let device = Device::new(Model::H100).mig(Mig::new("3g.40gb").memory_used(27_262_976)).mig(Mig::new("1g.10gb"));
    let (fake, nvml) = start(&Scenario::with(device))?;
    let parent = nvml.device_by_index(0)?;
    assert_eq!(parent.mig_mode()?.current, 1);
    assert_eq!(parent.mig_device_count()?, 7, "the most there can be");
    assert!(matches!(parent.utilization_rates(), Err(NvmlError::NotSupported)), "never 0 % where nothing is known");
    assert_eq!(parent.power_usage()?, 69_850);

    let mig = parent.mig_device_by_index(0)?;
    assert_eq!(mig.name()?, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    assert!(mig.uuid()?.starts_with("MIG-"));
    assert_eq!((mig.memory_info()?.total, mig.memory_info()?.used), (40_448 << 20, 27_262_976));
    assert_eq!(mig.attributes()?.multiprocessor_count, 60);
    assert!(matches!(mig.utilization_rates(), Err(NvmlError::NotSupported)));
    assert!(matches!(mig.power_usage(), Err(NvmlError::NotSupported)));
    assert_eq!(mig.mig_parent_device()?.uuid()?, parent.uuid()?);
    assert_eq!(nvml.device_by_uuid(mig.uuid()?)?.name()?, mig.name()?);
    assert!(matches!(parent.mig_device_by_index(2), Err(NvmlError::NotFound)));
    assert!(matches!(parent.mig_device_by_index(7), Err(NvmlError::InvalidArg)));
    assert_eq!(fake.calls()?.count("UtilizationRates", (0, 0)), 1, "the log tells the two apart");

    let (_fake, nvml) = start(&Scenario::with(Device::new(Model::T4)))?;
    assert!(matches!(nvml.device_by_index(0)?.mig_mode(), Err(NvmlError::NotSupported)));
    Ok(())
}
