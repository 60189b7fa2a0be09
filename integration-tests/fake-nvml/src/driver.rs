//! The one state behind all functions: the scenario in force, who is initialised, what has been counted.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::call_log::{self, Call};
use crate::device_state::DeviceState;
use crate::error_code::ErrorCode;
use crate::install;
use crate::model::Model;
use crate::scenario::{Device, Scenario};
use crate::target::Target;

/// Where the scenario file is, unless one lies beside the library.
pub const SCENARIO_VARIABLE: &str = "FAKE_NVML_SCENARIO";
/// Where the log of calls goes, unless a scenario lies beside the library. Without it nothing is logged.
pub const LOG_VARIABLE: &str = "FAKE_NVML_LOG";

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

pub(crate) type Outcome = Result<(), ErrorCode>;

pub(crate) struct Driver {
    scenario_path: Option<PathBuf>,
    stamp: Option<Stamp>,
    log: Option<File>,
    pub(crate) scenario: Arc<Scenario>,
    /// The file could not be read and there was no scenario before it.
    broken: bool,
    born: Instant,
    born_wall_us: u64,
    /// When the scenario came into force, in seconds of [`Driver::now`].
    pub(crate) started: f64,
    users: u32,
    fault_calls: Vec<u64>,
    pub(crate) devices: Vec<DeviceState>,
}

/// What tells one version of a file from another.
#[derive(PartialEq, Clone, Copy)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { modified: metadata.modified().ok(), size: metadata.len(), inode })
    }
}

impl Driver {
    fn new() -> Self {
        let beside = install::beside_this_library();
        let from_variable = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
        let (scenario_path, log_path) = match beside {
            Some(paths) => (Some(paths.scenario), Some(paths.log)),
            None => (from_variable(SCENARIO_VARIABLE), from_variable(LOG_VARIABLE)),
        };
        let log = log_path.and_then(|path| match File::options().append(true).create(true).open(&path) {
            Ok(file) => Some(file),
            Err(error) => {
                complain(&format!("{}: {error}", path.display()));
                None
            }
        });
        let mut driver = Self {
            stamp: None,
            log,
            scenario: Arc::new(Scenario::default()),
            broken: scenario_path.is_some(),
            scenario_path,
            born: Instant::now(),
            born_wall_us: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64),
            started: 0.0,
            users: 0,
            fault_calls: Vec::new(),
            devices: Vec::new(),
        };
        if driver.scenario_path.is_none() {
            driver.take(Scenario::with(Device::new(Model::H100)));
        }
        driver.reload();
        driver
    }

    /// Takes the scenario file if it is not the one in force. A file that cannot be read leaves things as they are.
    fn reload(&mut self) {
        let Some(path) = &self.scenario_path else { return };
        let stamp = Stamp::of(path);
        if stamp == self.stamp && !(stamp.is_none() && self.broken) {
            return;
        }
        self.stamp = stamp;
        match Scenario::read(path) {
            Ok(scenario) => {
                self.take(scenario);
                self.broken = false;
            }
            Err(error) => complain(&error),
        }
    }

    /// Puts a scenario into force. Devices are the same as before by their place, and their counters go on.
    fn take(&mut self, scenario: Scenario) {
        self.settle_counters();
        let now = self.now();
        self.devices.truncate(scenario.devices.len());
        self.devices.iter_mut().for_each(DeviceState::forget_readings);
        self.devices.resize_with(scenario.devices.len(), || DeviceState::new(now));
        self.fault_calls = vec![0; scenario.faults.len()];
        self.started = now;
        self.scenario = Arc::new(scenario);
    }

    /// Seconds since the library was first used.
    pub(crate) fn now(&self) -> f64 {
        self.born.elapsed().as_secs_f64()
    }

    /// Seconds since the scenario came into force.
    pub(crate) fn second(&self) -> f64 {
        self.now() - self.started
    }

    /// A time of [`Driver::now`] as the microseconds since 1970 that NVML's buffers carry.
    pub(crate) fn wall_us(&self, now: f64) -> u64 {
        self.born_wall_us + (now * 1e6) as u64
    }

    pub(crate) fn add_user(&mut self) {
        self.users += 1;
    }

    pub(crate) fn remove_user(&mut self) -> Outcome {
        self.users = self.users.checked_sub(1).ok_or(ErrorCode::Uninitialized)?;
        Ok(())
    }

    pub(crate) fn device(&self, target: Target) -> Result<(u32, &Device), ErrorCode> {
        let gpu = target.gpu().ok_or(ErrorCode::InvalidArgument)?;
        self.scenario.devices.get(gpu as usize).map(|device| (gpu, device)).ok_or(ErrorCode::InvalidArgument)
    }

    /// The GPUs that are plugged in, in NVML's order.
    pub(crate) fn present(&self) -> impl Iterator<Item = u32> {
        (0..self.scenario.devices.len() as u32).filter(|gpu| !self.is_unplugged(*gpu))
    }

    fn is_unplugged(&self, gpu: u32) -> bool {
        let second = self.second();
        let mut faults = self.scenario.faults.iter().zip(&self.fault_calls);
        faults.any(|(fault, calls)| fault.unplug && fault.device == Some(Target::Gpu(gpu)) && fault.is_active(*calls, second))
    }

    /// Counts the call and says what the faults make of it.
    fn admit(&mut self, function: &str, target: Target) -> (Duration, Outcome) {
        let second = self.second();
        let mut delay_ms = 0_u64;
        let mut outcome = Ok(());
        for (fault, calls) in self.scenario.faults.iter().zip(&mut self.fault_calls) {
            *calls += u64::from(fault.counts(function, target));
            if fault.concerns(function, target) && fault.is_active(*calls, second) {
                delay_ms = delay_ms.saturating_add(fault.delay_ms);
                if let (Ok(()), Some(error)) = (outcome, fault.error) {
                    outcome = Err(error);
                }
            }
        }
        if outcome.is_ok() && target.gpu().is_some_and(|gpu| self.is_unplugged(gpu)) {
            outcome = Err(ErrorCode::GpuIsLost);
        }
        (Duration::from_millis(delay_ms), outcome)
    }

    pub(crate) fn log(&mut self, function: &str, selector: Option<&dyn Display>, device: Target, result: ErrorCode, began: Began) {
        if let Some(file) = &mut self.log {
            let call = Call {
                at_ms: began.at_ms,
                process_id: std::process::id(),
                thread_id: call_log::thread_id(),
                function: function.to_owned(),
                selector: selector.map(|selector| selector.to_string()),
                device,
                result,
                duration_ms: began.instant.elapsed().as_secs_f64() * 1e3,
            };
            call_log::append(file, &call);
        }
    }
}

/// When a call came.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    at_ms: f64,
    instant: Instant,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { at_ms: call_log::monotonic_ms(), instant: Instant::now() }
    }
}

fn complain(text: &str) {
    use std::io::Write;
    // A mistake in a scenario must not look like a mistake of the code under test.
    let _ = writeln!(std::io::stderr(), "fake-nvml: {text}");
}

fn with_driver<T>(work: impl FnOnce(&mut Driver) -> T) -> T {
    // A panic inside a call leaves counters at worst one short, so the state stays usable.
    let mut guard = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    work(guard.get_or_insert_with(Driver::new))
}

/// One call of an NVML function: faults and delays first, then what the function does. Nothing unwinds into C.
pub(crate) struct Question<'a> {
    pub(crate) function: &'static str,
    pub(crate) selector: Option<&'a dyn Display>,
    /// False for what may be called before initialisation.
    pub(crate) needs_init: bool,
}

impl<'a> Question<'a> {
    pub(crate) fn new(function: &'static str) -> Self {
        Self { function, selector: None, needs_init: true }
    }

    pub(crate) fn select(mut self, selector: &'a dyn Display) -> Self {
        self.selector = Some(selector);
        self
    }

    pub(crate) fn answer(
        self,
        resolve: impl FnOnce(&Driver) -> Result<Target, ErrorCode>,
        body: impl FnOnce(&mut Driver, Target) -> Outcome,
    ) -> u32 {
        let answered = catch_unwind(AssertUnwindSafe(|| self.run(resolve, body)));
        answered.unwrap_or(ErrorCode::Unknown).code()
    }

    fn run(
        self,
        resolve: impl FnOnce(&Driver) -> Result<Target, ErrorCode>,
        body: impl FnOnce(&mut Driver, Target) -> Outcome,
    ) -> ErrorCode {
        let began = Began::now();
        let (target, delay, admitted) = with_driver(|driver| {
            driver.reload();
            let resolved = resolve(driver);
            let target = resolved.unwrap_or(Target::System);
            let (delay, admitted) = driver.admit(self.function, target);
            let state = match (driver.broken, self.needs_init && driver.users == 0) {
                (true, _) => Err(ErrorCode::Unknown),
                (_, true) => Err(ErrorCode::Uninitialized),
                _ => Ok(()),
            };
            (target, delay, state.and(admitted).and(resolved.map(|_| ())))
        });
        // Outside the lock: a slow device must not make another one's answers late.
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        with_driver(|driver| {
            let outcome = admitted.and_then(|()| body(driver, target));
            let result = outcome.err().unwrap_or(ErrorCode::Success);
            driver.log(self.function, self.selector, target, result, began);
            result
        })
    }
}
