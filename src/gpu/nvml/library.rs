//! Finding and loading NVML.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::notice::notice;

/// Why there are no readings from NVML. [`is_normal`](Self::is_normal) tells a machine without NVIDIA devices from one where something is
/// wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvmlUnavailable {
    /// There is no NVML library: a machine without an NVIDIA driver.
    #[error("no NVML library found (tried {})", tried.join(", "))]
    NoLibrary {
        /// Where it was looked for.
        tried: Vec<String>,
    },
    /// There is a library and no driver: a container image with the library on a machine without a GPU.
    #[error("{library} is there, but no NVIDIA driver runs")]
    NoDriver {
        /// Which library.
        library: String,
    },
    /// The library that was asked for cannot be loaded.
    #[error("cannot load the NVML library {library}: {reason}. Correct STEPLINE_NVML_PATH, or unset it to search the usual places")]
    WrongPath {
        /// Which library.
        library: String,
        /// What the system said.
        reason: String,
    },
    /// The driver in the kernel and the library are of different versions.
    #[error(
        "the NVIDIA driver in the kernel and {library} are of different versions, as after an upgrade of the driver without a reboot: \
         no GPU readings. Reboot, or unload and load the nvidia kernel modules"
    )]
    VersionMismatch {
        /// Which library.
        library: String,
    },
    /// The library does not say what is wrong.
    #[error(
        "{library} fails with an unknown error: no GPU readings. In a container this is how a lost access to the devices looks (after \
         `systemctl daemon-reload` on the host, or without the NVIDIA container toolkit): start the container anew with --gpus"
    )]
    Unknown {
        /// Which library.
        library: String,
    },
    /// This user may not ask.
    #[error("{library} says that this user may not read the GPUs: look at the permissions of /dev/nvidia*")]
    NoPermission {
        /// Which library.
        library: String,
    },
    /// Another failure.
    #[error("{library} cannot be used: {reason}")]
    Failed {
        /// Which library.
        library: String,
        /// What it said.
        reason: String,
    },
    /// The driver knows no device.
    #[error("the NVIDIA driver knows no GPU")]
    NoDevices,
    /// `CUDA_VISIBLE_DEVICES` hides all devices from this process.
    #[error("CUDA_VISIBLE_DEVICES={variable:?} shows this process none of the {devices} GPUs")]
    NoneVisible {
        /// Its value.
        variable: String,
        /// GPUs of the host.
        devices: usize,
    },
}

impl NvmlUnavailable {
    /// Whether this is how a machine without NVIDIA devices looks, or what the user asked for: nothing to say aloud.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        matches!(self, Self::NoLibrary { .. } | Self::NoDriver { .. } | Self::NoDevices | Self::NoneVisible { .. })
    }

    /// Of several libraries that fail the one to speak of is the one that comes nearest to working.
    fn weight(&self) -> u8 {
        match self {
            Self::NoLibrary { .. } | Self::NoDevices | Self::NoneVisible { .. } => 0,
            Self::NoDriver { .. } => 1,
            Self::WrongPath { .. } => 2,
            Self::Failed { .. } => 3,
            Self::NoPermission { .. } => 4,
            Self::Unknown { .. } => 5,
            Self::VersionMismatch { .. } => 6,
        }
    }
}

/// The library in use. Leaked, so that handles of devices can be held beside it: one of a process, and one more after each of the few
/// attempts to begin anew.
#[derive(Debug, Clone)]
pub(super) struct Library {
    pub(super) nvml: &'static Nvml,
    pub(super) name: OsString,
}

/// Where NVML is looked for, the driver's own place first. A name without a directory is looked for where the system's loader does.
#[must_use]
pub fn usual_places() -> Vec<PathBuf> {
    let places: &[&str] = if cfg!(windows) {
        &["nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"]
    } else {
        &[
            "libnvidia-ml.so.1",
            // Windows Subsystem for Linux: a stub may stand in the usual place, and this is not always in the loader's path.
            "/usr/lib/wsl/lib/libnvidia-ml.so.1",
            // Kubernetes: the device plug-in's directory, Google's, and the GPU operator's driver container.
            "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
            "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
            "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
            // A loader cache that was not renewed after the driver came.
            "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
            "/usr/lib64/libnvidia-ml.so.1",
            // NixOS.
            "/run/opengl-driver/lib/libnvidia-ml.so.1",
            "libnvidia-ml.so",
        ]
    };
    places.iter().map(PathBuf::from).collect()
}

/// Loads and initialises the first library that works: the one asked for, else one of `places`.
pub(super) fn load(asked_for: Option<&Path>, places: &[PathBuf]) -> Result<Library, NvmlUnavailable> {
    let mut worst = NvmlUnavailable::NoLibrary { tried: Vec::new() };
    let candidates = asked_for.into_iter().chain(places.iter().map(PathBuf::as_path));
    for (number, place) in candidates.enumerate() {
        let explicit = number == 0 && asked_for.is_some();
        // Without the file there is nothing to load, and no reason to ask the loader for one.
        if !explicit && place.is_absolute() && !place.exists() {
            note_tried(&mut worst, place);
            continue;
        }
        match initialise(place.as_os_str()) {
            Ok(library) => {
                if let (false, NvmlUnavailable::WrongPath { library: wrong, reason }) = (explicit, &worst) {
                    notice!("STEPLINE_NVML_PATH={wrong} cannot be loaded ({reason}): {} is used instead", place.display());
                }
                return Ok(library);
            }
            Err(error) => {
                note_tried(&mut worst, place);
                let reason = why(&error, place, explicit);
                if reason.as_ref().is_some_and(|reason| reason.weight() > worst.weight()) {
                    worst = reason.unwrap_or(worst);
                }
            }
        }
    }
    Err(worst)
}

fn note_tried(worst: &mut NvmlUnavailable, place: &Path) {
    if let NvmlUnavailable::NoLibrary { tried } = worst {
        tried.push(place.display().to_string());
    }
}

pub(super) fn initialise(name: &std::ffi::OsStr) -> Result<Library, NvmlError> {
    let nvml = Nvml::builder().lib_path(name).init()?;
    Ok(Library { nvml: Box::leak(Box::new(nvml)), name: name.to_owned() })
}

/// `None`: there is no such library.
fn why(error: &NvmlError, place: &Path, explicit: bool) -> Option<NvmlUnavailable> {
    let library = place.display().to_string();
    Some(match error {
        NvmlError::LibloadingError(reason) if explicit => NvmlUnavailable::WrongPath { library, reason: with_causes(reason) },
        NvmlError::LibloadingError(_) => return None,
        NvmlError::LibRmVersionMismatch => NvmlUnavailable::VersionMismatch { library },
        NvmlError::Unknown | NvmlError::OperatingSystem => NvmlUnavailable::Unknown { library },
        NvmlError::NoPermission => NvmlUnavailable::NoPermission { library },
        // What stubs say: the one for linking, and the one that hides WSL's.
        NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound | NvmlError::FunctionNotFound => NvmlUnavailable::NoDriver { library },
        other => NvmlUnavailable::Failed { library, reason: other.to_string() },
    })
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_is_a_normal_state_and_a_wrong_path_is_not() {
        let nowhere = [PathBuf::from("/nonexistent/libnvidia-ml.so.1"), PathBuf::from("libno-such-nvml.so.7")];
        let error = load(None, &nowhere).map(|_| ());
        assert_eq!(
            error,
            Err(NvmlUnavailable::NoLibrary { tried: vec!["/nonexistent/libnvidia-ml.so.1".to_owned(), "libno-such-nvml.so.7".to_owned()] })
        );
        assert!(error.is_err_and(|error| error.is_normal()));
        let error = load(Some(Path::new("/nonexistent/mine.so")), &nowhere).map(|_| ());
        assert!(matches!(&error, Err(NvmlUnavailable::WrongPath { library, .. }) if library == "/nonexistent/mine.so"), "{error:?}");
        assert!(error.is_err_and(|error| !error.is_normal()));
    }

    #[test]
    fn the_failure_nearest_to_working_is_spoken_of() {
        let library = || "x".to_owned();
        let mismatch = NvmlUnavailable::VersionMismatch { library: library() };
        assert!(mismatch.weight() > NvmlUnavailable::NoDriver { library: library() }.weight());
        assert!(mismatch.to_string().contains("Reboot"));
    }
}
