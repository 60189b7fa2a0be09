//! An NVML library without a GPU, for tests: a shared object with NVML's C functions, steered by a scenario file.
//!
//! stepline's GPU code is tested through the real nvml-wrapper, which loads this library by its path. The crate has two faces that share no
//! memory: the shared object `libfake_nvml.so`, and this Rust API, which writes scenarios and reads the log of calls. All steering is by
//! files, so it works across processes, and a test can change a scenario while the process under test runs.
//!
//! # In a test
//!
//! ```
//! use fake_nvml::{Device, ErrorCode, Fault, Field, Installation, Model, Scenario, Value};
//!
//! # fn main() -> std::io::Result<()> {
//! let scenario = Scenario::with(Device::new(Model::H100).field(Field::UtilizationGpuPercent, Value::over_calls([10, 90])))
//!     .and(Device::new(Model::T4).field(Field::PowerMw, ErrorCode::NotSupported))
//!     .fault(Fault::error(ErrorCode::GpuIsLost).device(1).from_call(5).counting("UtilizationRates"));
//! # fn install(scenario: &Scenario) -> std::io::Result<()> {
//! let fake = Installation::new(&scenario)?;
//! // ... load fake.library(), let the code under test run, then:
//! assert_eq!(fake.calls()?.count("TotalEnergyConsumption", 1), 0);
//! # Ok(())
//! # }
//! # scenario.write(&std::env::temp_dir().join(format!("fake-nvml-doc-{}.json", std::process::id())))?;
//! # std::fs::remove_file(std::env::temp_dir().join(format!("fake-nvml-doc-{}.json", std::process::id())))
//! # }
//! ```
//!
//! # Which files
//!
//! 1. `<library>.scenario.json` beside the library that was loaded, with the log in `<library>.calls.log`. An [`Installation`] is a copy of the
//!    library with these two, so that tests of one process may run in parallel.
//! 2. Otherwise the file that `FAKE_NVML_SCENARIO` names, with the log in `FAKE_NVML_LOG` (none without it). For child processes that load
//!    [`library_path`].
//! 3. Otherwise one idle H100.
//!
//! The file is read again when it has changed, which the next call notices. A file that cannot be read is reported on stderr and leaves the
//! scenario before it in force; where there was none, every function answers Unknown.
//!
//! # The scenario
//!
//! ```
//! # let text = r#"
//! {
//!   "driver_version": "590.48.01",
//!   "devices": [
//!     { "model": "h100",
//!       "fields": {
//!         "memory_used_bytes": 8000000000,
//!         "utilization_gpu_percent": { "seconds": [[0, 10], [2.5, 90]], "repeat_every": 5 },
//!         "power_mw": { "calls": [70000, 300000, "GpuIsLost"] },
//!         "energy_mj": "NotSupported",
//!         "temperature_celsius": { "replay": { "file": "run.csv", "column": "temperature_C", "only": ["gpu_index", 0], "speed": 10 } }
//!       },
//!       "field_values": { "202": 17 },
//!       "processes": [ { "pid": 28290, "memory_bytes": 512000000, "until_second": 3 }, { "pid": 7 } ] },
//!     { "model": "rtx2080s", "mirror": { "base": 200000000 }, "idle_power_mw": 40000, "max_power_mw": 250000 },
//!     { "model": "a100", "mig": [ { "profile": "1g.20gb", "memory_used_bytes": 12000000 }, { "profile": "1g.20gb" } ] }
//!   ],
//!   "faults": [
//!     { "function": "nvmlInit_v2", "error": "LibRmVersionMismatch", "until_call": 2 },
//!     { "delay_ms": 2000, "from_second": 1, "until_second": 4 },
//!     { "device": 1, "error": "GpuIsLost", "from_call": 5, "counting": "UtilizationRates" },
//!     { "device": 2, "unplug": true, "from_second": 10 }
//!   ]
//! }
//! # "#.replace(r#"{ "replay": { "file": "run.csv", "column": "temperature_C", "only": ["gpu_index", 0], "speed": 10 } }"#, "1");
//! # let path = std::env::temp_dir().join(format!("fake-nvml-doc-{}-scenario.json", std::process::id()));
//! # std::fs::write(&path, text).unwrap();
//! # let scenario = fake_nvml::Scenario::read(&path);
//! # std::fs::remove_file(&path).unwrap();
//! # assert_eq!(scenario.unwrap().devices.len(), 3);
//! ```
//!
//! * **devices**: what is not said comes from the `model` (`h100`, `a100`, `rtx2080s`, `t4`), which holds what such cards reported in
//!   recordings, idle. `fields` are quantities with their unit ([`Field`]), whichever function reports them. `mirror` makes memory, utilization,
//!   power, energy and the list of processes follow the calling process.
//! * A **value** is a number; the name of an error ([`ErrorCode`]), which then every function that would report the quantity answers; answers
//!   by `calls` (readings of that quantity); a staircase over `seconds`; `{"mirror": {}}`; or a column of a recorded file ([`Replay`]). See
//!   [`Value`].
//! * **faults** hold for functions, and before anything else ([`Fault`]): an error, a delay, a device that is unplugged.
//! * Calls and seconds are counted from when the scenario came into force: the first call of the process, or the change of the file. They are
//!   not counted anew by another nvmlInit, so that what is lost stays lost. Energy and byte counters go on through a change.
//! * Energy is the exact integral of `power_mw` over time and the PCIe byte counters that of the rates, unless they are given.
//!
//! # The log of calls
//!
//! One line for each call, written when it is answered: monotonic ms, process id, thread id, function, what it selected or `-`, device (`0`,
//! a MIG device `0:1`, none `-`), result, duration in ms. Each id inside a call of `nvmlDeviceGetFieldValues` has a line `FieldValue` of its
//! own. [`CallLog`] reads it.

// A C library cannot be written without: pointers are followed in `abi` only, symbols carry NVML's names in `exports`, and `process_mirror`,
// `call_log` and `install` ask the system for clocks and addresses.
#![allow(unsafe_code)]

mod abi;
mod call_log;
mod device_state;
mod driver;
mod elf;
mod error_code;
// The names are NVML's.
#[allow(non_snake_case)]
mod exports;
mod fault;
mod field;
mod function;
mod install;
mod model;
mod process_mirror;
mod replay;
mod scenario;
mod target;
mod value;

pub use call_log::{Call, CallLog};
pub use driver::{LOG_VARIABLE, SCENARIO_VARIABLE};
pub use error_code::ErrorCode;
pub use fault::Fault;
pub use field::Field;
pub use function::FUNCTIONS;
pub use install::{Installation, library_path};
pub use model::Model;
pub use replay::{Column, Replay};
pub use scenario::{Device, Mig, Process, ProcessKind, Scenario};
pub use target::Target;
pub use value::{Answer, Calls, Mirror, Mirrored, Replayed, Seconds, Value};
