//! Copies of the library for one test each, with a scenario and a log of their own.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::call_log::CallLog;
use crate::elf;
use crate::function;
use crate::scenario::Scenario;

const FILE_NAME: &str = "libfake_nvml.so";

/// The library that cargo built: beside the running program (a test lies in `deps`), in its parent directory or in a `deps` of either.
/// Of several the newest, since `cargo test` renews only the one in `deps`.
///
/// # Errors
///
/// `NotFound` when cargo has not built it; a crate that depends on `fake-nvml` gets it built.
pub fn library_path() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let newest = program
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|directory| [directory.join(FILE_NAME), directory.join("deps").join(FILE_NAME)])
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified);
    newest.map(|(_, path)| path).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("no {FILE_NAME} beside {}; build the crate fake-nvml", program.display()))
    })
}

/// A copy of the library with its scenario and its log of calls beside it. A process that loads the copy by its path is steered by these
/// files whatever its environment says, and shares no state with users of other copies: tests may run in parallel.
///
/// The directory goes when the installation is dropped, except for [`Installation::at`].
#[derive(Debug)]
pub struct Installation {
    library: PathBuf,
    temporary: Option<PathBuf>,
}

impl Installation {
    /// A copy in a directory of its own.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a scenario that contradicts itself, otherwise what the file system says.
    pub fn new(scenario: &Scenario) -> io::Result<Self> {
        Self::lacking(scenario, &[])
    }

    /// A copy in which some functions do not exist, as in an older driver: looking them up fails.
    ///
    /// # Errors
    ///
    /// As [`Installation::new`]; `InvalidInput` as well for a function that was never there.
    pub fn lacking(scenario: &Scenario, functions: &[&str]) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("fake-nvml-{}-{number}", std::process::id()));
        // Left behind by a killed process that had the same id.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory)?;
        let mut installation = Self { library: directory.join(FILE_NAME), temporary: Some(directory) };
        installation.library = Self::at(&installation.library, scenario, functions)?.library.clone();
        Ok(installation)
    }

    /// A copy at that path, which may have another name (`libnvidia-ml.so.1` for a search list or LD_LIBRARY_PATH). Stays when dropped.
    ///
    /// # Errors
    ///
    /// As [`Installation::lacking`].
    pub fn at(library: &Path, scenario: &Scenario, lacking: &[&str]) -> io::Result<Self> {
        let mut bytes = std::fs::read(library_path()?)?;
        for name in lacking {
            let taken_out = function::full_name(name).is_some_and(|name| elf::remove_symbol(&mut bytes, name));
            if !taken_out {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the library has no function {name:?} to take out")));
            }
        }
        let installation = Self { library: library.to_owned(), temporary: None };
        scenario.write(&installation.scenario_path())?;
        // Not over a file that somebody has loaded: its pages would change under them.
        let _ = std::fs::remove_file(library);
        std::fs::write(library, bytes)?;
        Ok(installation)
    }

    /// The library's path.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The scenario's path.
    pub fn scenario_path(&self) -> PathBuf {
        Beside::of(&self.library).scenario
    }

    /// The log's path.
    pub fn log_path(&self) -> PathBuf {
        Beside::of(&self.library).log
    }

    /// Another scenario from the next call on. Calls and seconds are counted anew; energy and byte counters go on.
    ///
    /// # Errors
    ///
    /// As [`Scenario::write`].
    pub fn change(&self, scenario: &Scenario) -> io::Result<()> {
        scenario.write(&self.scenario_path())
    }

    /// All calls so far.
    ///
    /// # Errors
    ///
    /// As [`CallLog::read`].
    pub fn calls(&self) -> io::Result<CallLog> {
        CallLog::read(&self.log_path())
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if let Some(directory) = &self.temporary {
            // What is loaded stays mapped; a directory that cannot be removed is the temporary directory's to clean.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// The files that belong to one copy of the library.
pub(crate) struct Beside {
    pub(crate) scenario: PathBuf,
    pub(crate) log: PathBuf,
}

impl Beside {
    fn of(library: &Path) -> Self {
        let with = |suffix: &str| {
            let mut path = OsString::from(library);
            path.push(suffix);
            PathBuf::from(path)
        };
        Self { scenario: with(".scenario.json"), log: with(".calls.log") }
    }
}

/// Where the library lies that this code was loaded from.
#[cfg(unix)]
fn this_library() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here = this_library as fn() -> Option<PathBuf> as *const ();
    // SAFETY: dladdr only compares the address, and `info` is a valid place for the one struct that it writes.
    let found = unsafe { libc::dladdr(here.cast(), &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // nvml-wrapper unloads the library when it is dropped. What has been lost must stay lost when it is loaded again, and a call that still
    // sleeps in another thread must find its code when it wakes.
    // SAFETY: the name is that of a library which is loaded already, so no code runs; the handle is meant to stay open.
    unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    // SAFETY: dladdr succeeded, so dli_fname is a text that ends with a zero and lives as long as the library is loaded.
    let path = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

#[cfg(not(unix))]
fn this_library() -> Option<PathBuf> {
    None
}

/// The files beside this library, where it has a scenario.
pub(crate) fn beside_this_library() -> Option<Beside> {
    let beside = Beside::of(&this_library()?);
    beside.scenario.exists().then_some(beside)
}
