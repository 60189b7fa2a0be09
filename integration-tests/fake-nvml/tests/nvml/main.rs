//! The fake library through the real nvml-wrapper, and where that has no call for it, through its raw symbols.

// The first form of the memory call and wrong version words can only be reached with raw calls.
#![allow(unsafe_code)]

mod faults;
mod files;
mod identity;
mod lists;
mod mirror;
mod readings;
mod symbols;

use std::error::Error;

use fake_nvml::{Installation, Scenario};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

type TestResult = Result<(), Box<dyn Error>>;

fn load(fake: &Installation) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(fake.library().as_os_str()).init()
}

/// A fake of its own, loaded.
fn start(scenario: &Scenario) -> Result<(Installation, Nvml), Box<dyn Error>> {
    let fake = Installation::new(scenario)?;
    let nvml = load(&fake)?;
    Ok((fake, nvml))
}
