//! The lines that stepline itself says on standard error: few, each with what to do about it.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static SILENT: AtomicBool = AtomicBool::new(false);

/// Switches the lines off or on for this process (`OTEL_LOG_LEVEL=none`).
pub(crate) fn set_silent(silent: bool) {
    SILENT.store(silent, Ordering::Relaxed);
}

/// Says one line, `stepline: …`. A standard error that cannot be written to is no reason to fail.
pub(crate) fn say(line: Arguments<'_>) {
    if !SILENT.load(Ordering::Relaxed) {
        // One write, so that lines of several threads do not mix.
        let line = format!("stepline: {line}\n");
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Says one line on standard error, formatted as `format!` does.
macro_rules! notice {
    ($($argument:tt)*) => {
        crate::notice::say(format_args!($($argument)*))
    };
}
pub(crate) use notice;
