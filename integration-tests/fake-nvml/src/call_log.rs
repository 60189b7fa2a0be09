//! The log of calls: written by the library, read by tests.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error_code::ErrorCode;
use crate::function::{self, FIELD_VALUE};
use crate::target::Target;

/// One call of an NVML function, as the library saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// When it came, in ms of the machine's monotonic clock.
    pub at_ms: f64,
    /// The process that called.
    pub process_id: u32,
    /// The thread that called (its kernel id; on other systems than Linux 0).
    pub thread_id: u32,
    /// The function's full name; `FieldValue` for each id inside a call of `nvmlDeviceGetFieldValues`.
    pub function: String,
    /// What the caller chose from: a clock's number, a field's id, an index; `None` where there is no choice.
    pub selector: Option<String>,
    /// The device that it was about.
    pub device: Target,
    /// What was answered.
    pub result: ErrorCode,
    /// How long the answer took.
    pub duration_ms: f64,
}

/// All calls so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallLog {
    calls: Vec<Call>,
}

impl CallLog {
    /// Reads a log file. A file that is not there yet is a log without calls; an unfinished last line is left out.
    ///
    /// # Errors
    ///
    /// What the file system says; `InvalidData` when a line is none of ours.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        let calls = whole.lines().map(|line| parse(line).ok_or_else(|| invalid(line))).collect::<io::Result<_>>()?;
        Ok(Self { calls })
    }

    /// The calls, in the order in which they were answered.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// How often that function was called for that device; `Target::System` for functions without a device.
    ///
    /// # Panics
    ///
    /// When there is no such function, since "never called" would then prove nothing.
    pub fn count(&self, function: &str, device: impl Into<Target>) -> usize {
        let device = device.into();
        self.of(function).filter(|call| call.device == device).count()
    }

    /// How often that function was called for any device or none.
    ///
    /// # Panics
    ///
    /// Like [`CallLog::count`].
    pub fn count_all(&self, function: &str) -> usize {
        self.of(function).count()
    }

    /// The calls of one function.
    ///
    /// # Panics
    ///
    /// Like [`CallLog::count`].
    pub fn of<'log>(&'log self, function: &'log str) -> impl Iterator<Item = &'log Call> {
        assert!(function == FIELD_VALUE || function::full_name(function).is_some(), "fake-nvml has no function {function:?}");
        self.calls.iter().filter(move |call| function::same(&call.function, function))
    }

    /// How often that field id was asked for through FieldValues.
    pub fn count_field_value(&self, id: u32, device: impl Into<Target>) -> usize {
        let (id, device) = (id.to_string(), device.into());
        self.of(FIELD_VALUE).filter(|call| call.device == device && call.selector.as_deref() == Some(&id)).count()
    }

    /// Only the calls that `earlier` does not have yet; `earlier` is the same log, read before.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { calls: self.calls.get(earlier.calls.len()..).unwrap_or_default().to_vec() }
    }
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a line of a call log: {line:?}"))
}

fn parse(line: &str) -> Option<Call> {
    let mut columns = line.split(' ');
    let mut next = || columns.next();
    Some(Call {
        at_ms: next()?.parse().ok()?,
        process_id: next()?.parse().ok()?,
        thread_id: next()?.parse().ok()?,
        function: next()?.to_owned(),
        selector: next().map(|column| (column != "-").then(|| column.to_owned()))?,
        device: next()?.parse().ok()?,
        result: ErrorCode::from_name(next()?)?,
        duration_ms: next()?.parse().ok()?,
    })
}

/// Appends calls, each with one write, so that lines of several threads and processes do not mix.
pub(crate) fn append(file: &mut File, call: &Call) {
    let line = format!(
        "{:.3} {} {} {} {} {} {} {:.3}\n",
        call.at_ms,
        call.process_id,
        call.thread_id,
        call.function,
        call.selector.as_deref().unwrap_or("-"),
        call.device,
        call.result.name(),
        call.duration_ms
    );
    // A log that cannot be written must not change what the library answers; the test that reads it will miss its lines.
    let _ = file.write_all(line.as_bytes());
}

#[cfg(unix)]
pub(crate) fn monotonic_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one timespec that the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6
}

#[cfg(not(unix))]
pub(crate) fn monotonic_ms() -> f64 {
    0.0
}

#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: gettid takes nothing, touches no memory and cannot fail.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u32 {
    0
}
