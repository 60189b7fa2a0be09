//! Where GPU readings come from: NVML, AMD's sysfs files, or a script.

pub mod amdgpu;
#[cfg(any(target_os = "linux", target_os = "windows"))]
pub mod nvml;
mod plausible;
pub mod scripted;
pub mod visible;

use std::path::PathBuf;

use crate::model::{GpuDevice, GpuReading, GpuSlowReading};
use crate::notice::notice;
use scripted::mirror::Mirror;
use scripted::replay::Replay;

/// Something that can read devices. Called by the sampler's thread only; a call may take long, and must not panic.
pub trait GpuSource: Send {
    /// The devices of this process, in the order in which the training sees them. Does not change.
    fn devices(&self) -> &[GpuDevice];

    /// Reads the cheap fields of the device with this place in [`devices`](Self::devices).
    ///
    /// # Errors
    /// [`GpuLost`] when the device does not answer any more. A field that cannot be read is `None` instead.
    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost>;

    /// Reads the dear fields of the device with this place in [`devices`](Self::devices).
    ///
    /// # Errors
    /// [`GpuLost`] when the device does not answer any more. A field that cannot be read is `None` instead.
    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost>;
}

/// The device does not answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device does not answer any more")]
pub struct GpuLost;

/// Adds the ids of this run's processes on this host to the list: this process and its descendants.
pub type OwnPids = Box<dyn FnMut(&mut Vec<u32>) + Send>;

/// Which source is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// NVML, else AMD's files, else none.
    Auto {
        /// NVML's library (`STEPLINE_NVML_PATH`); searched for where absent.
        nvml_path: Option<PathBuf>,
    },
    /// None.
    Off,
    /// A simulated device that follows this process.
    Mirror,
    /// A recording, as CSV.
    Replay(PathBuf),
}

/// What [`open`] needs to know.
pub struct Options {
    /// Which source is wanted.
    pub choice: Choice,
    /// `CUDA_VISIBLE_DEVICES`, when it is set.
    pub visible: Option<String>,
    /// Whether `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.
    pub pci_order: bool,
    /// Tells the simulated devices of the processes of one host apart: the local rank.
    pub ordinal: u32,
    /// This run's processes on this host.
    pub own_pids: OwnPids,
}

/// CUDA's variables from the environment, this process alone, the first of its host.
impl From<Choice> for Options {
    fn from(choice: Choice) -> Self {
        Self {
            choice,
            visible: std::env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned()),
            pci_order: std::env::var_os("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID"),
            ordinal: 0,
            own_pids: Box::new(|pids| pids.push(std::process::id())),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("choice", &self.choice).field("visible", &self.visible).finish_non_exhaustive()
    }
}

/// Opens the source that is wanted. `None`: there are no devices, which is a normal state; what is wrong rather than absent is said in one
/// line. May take seconds where a driver has to wake up: for the sampler's thread, not for the training's.
#[must_use]
pub fn open(options: impl Into<Options>) -> Option<Box<dyn GpuSource>> {
    let options = options.into();
    match &options.choice {
        Choice::Off => None,
        Choice::Mirror => Some(Box::new(Mirror::new(options.ordinal))),
        Choice::Replay(path) => match Replay::open(path) {
            Ok(replay) => {
                if replay.malformed_rows() > 0 {
                    notice!("{} rows of {} cannot be read: they are left out", replay.malformed_rows(), path.display());
                }
                Some(Box::new(replay))
            }
            Err(error) => {
                notice!("no GPU readings: {error}");
                None
            }
        },
        Choice::Auto { .. } => real_devices(options),
    }
}

#[cfg(any(target_os = "linux", target_os = "windows"))]
fn real_devices(options: Options) -> Option<Box<dyn GpuSource>> {
    let path = match options.choice {
        Choice::Auto { nvml_path } => nvml_path,
        _ => None,
    };
    let nvml = nvml::NvmlSource::open(nvml::NvmlOptions {
        path,
        visible: options.visible,
        pci_order: options.pci_order,
        ..nvml::NvmlOptions::new(options.own_pids)
    });
    match nvml {
        Ok(source) => return Some(Box::new(source)),
        Err(reason) if reason.is_normal() => {}
        Err(reason) => notice!("{reason}"),
    }
    amd_devices()
}

#[cfg(not(any(target_os = "linux", target_os = "windows")))]
fn real_devices(_options: Options) -> Option<Box<dyn GpuSource>> {
    amd_devices()
}

/// The files are Linux's; elsewhere the directory does not exist.
fn amd_devices() -> Option<Box<dyn GpuSource>> {
    let source = amdgpu::AmdgpuSource::open(std::path::Path::new(amdgpu::DEFAULT_ROOT))?;
    Some(Box::new(source))
}
