//! GPU sources against what goes wrong in the field: NVML through the real nvml-wrapper on the fake library, recordings on files.
//!
//! The row numbers are those of the project's list of failure cases.

mod availability;
mod fields;
mod identity;
mod loss;
mod recordings;

use std::time::Duration;

use fake_nvml::{Installation, Scenario};
use stepline::gpu::nvml::{Capability, NvmlOptions, NvmlSource, Patience};

/// Back-off in milliseconds instead of seconds; the rest is as in use.
const HURRY: Patience = Patience {
    first_retry: Duration::from_millis(20),
    longest_retry: Duration::from_millis(80),
    new_beginnings: 3,
    reading: Duration::from_millis(250),
};

/// Nothing but this library is looked for: the machine may have a real one.
fn options(fake: &Installation) -> NvmlOptions {
    NvmlOptions {
        path: Some(fake.library().to_owned()),
        places: Vec::new(),
        patience: HURRY,
        ..NvmlOptions::new(Box::new(|pids| pids.push(std::process::id())))
    }
}

fn install(scenario: &Scenario) -> Installation {
    Installation::new(scenario).expect("a fake NVML library")
}

fn open(fake: &Installation) -> NvmlSource {
    NvmlSource::open(options(fake)).expect("devices")
}

fn capability(source: &NvmlSource, device: usize, field: &str) -> Capability {
    let capabilities = source.capabilities();
    let of_device = capabilities.iter().find(|found| found.device == device).expect("such a device");
    of_device.fields.iter().find(|(name, _)| *name == field).expect("such a field").1.clone()
}
