//! Which functions the library has, and libraries that lack some.

use std::collections::BTreeSet;

use fake_nvml::{Device, FUNCTIONS, Installation, Model, Scenario, library_path};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use crate::{TestResult, load};

#[test]
fn the_list_of_functions_is_what_the_library_exports() -> TestResult {
    let library = std::fs::read(library_path()?)?;
    let names = library.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let is_function = |name: &&str| {
        name.strip_prefix("nvml").is_some_and(|rest| rest.starts_with(char::is_uppercase))
            && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    let exported: BTreeSet<&str> = names.filter(is_function).collect();
    assert_eq!(exported, FUNCTIONS.iter().copied().collect());
    Ok(())
}

#[test]
fn functions_can_be_missing_one_by_one() -> TestResult {
    let missing = ["nvmlDeviceGetMemoryInfo_v2", "TotalEnergyConsumption", "FieldValues"];
    let fake = Installation::lacking(&Scenario::with(Device::new(Model::T4)), &missing)?;
    let nvml = load(&fake)?;
    let gpu = nvml.device_by_index(0)?;
    assert!(matches!(gpu.memory_info(), Err(NvmlError::FailedToLoadSymbol(_))));
    assert!(matches!(gpu.total_energy_consumption(), Err(NvmlError::FailedToLoadSymbol(_))));
    assert!(matches!(gpu.field_values_for(&[FieldId(186)]), Err(NvmlError::FailedToLoadSymbol(_))));
    assert!(nvml.lib().nvmlDeviceGetMemoryInfo.is_ok(), "the first form is still there");
    assert_eq!(gpu.power_usage()?, 26_780);
    Ok(())
}

#[test]
fn every_function_can_be_missing() -> TestResult {
    let fake = Installation::lacking(&Scenario::default(), FUNCTIONS)?;
    assert!(matches!(load(&fake), Err(NvmlError::FailedToLoadSymbol(_))), "a stub");
    assert!(Installation::lacking(&Scenario::default(), &["nvmlDeviceGetNothing"]).is_err());
    Ok(())
}

#[test]
fn the_library_can_have_another_name() -> TestResult {
    let directory = std::env::temp_dir().join(format!("fake-nvml-name-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let fake = Installation::at(&directory.join("libnvidia-ml.so.1"), &Scenario::with(Device::new(Model::A100)), &[])?;
    assert_eq!(load(&fake)?.device_by_index(0)?.name()?, "NVIDIA A100-SXM4-80GB");
    assert!(fake.library().ends_with("libnvidia-ml.so.1") && fake.log_path().exists());
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
