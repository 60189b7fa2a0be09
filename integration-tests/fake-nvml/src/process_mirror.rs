//! What the calling process does: the numbers that a mirroring device shows as its own.

use std::collections::VecDeque;

use crate::error_code::ErrorCode;

/// Readings closer together than this share one window, so that the calls of one tick agree with each other and no utilization is
/// computed from a window of microseconds.
const SHORTEST_WINDOW_SECONDS: f64 = 0.01;

/// As many windows as a driver's own sample buffer holds entries, roughly.
const HISTORY: usize = 240;

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> Result<u64, ErrorCode> {
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(|_| ErrorCode::OperatingSystem)?;
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).ok_or(ErrorCode::OperatingSystem)?;
    Ok(pages * page_bytes())
}

#[cfg(unix)]
fn page_bytes() -> u64 {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

#[cfg(not(unix))]
fn page_bytes() -> u64 {
    4096
}

/// CPU time of all threads of this process so far.
#[cfg(unix)]
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one timespec that the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(unix))]
fn cpu_seconds() -> f64 {
    0.0
}

/// CPU use of this process, window by window. Times are seconds on the library's own clock.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    at: f64,
    cpu_at: f64,
    /// Seconds of one full core so far: the integral of the utilization.
    busy: f64,
    /// End of a window and the share of one core in it.
    windows: VecDeque<(f64, f64)>,
}

/// What a meter has seen up to its last window's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuReading {
    pub(crate) at: f64,
    pub(crate) busy: f64,
    /// Share of one core in the last window, 0 to 1.
    pub(crate) share: f64,
}

impl CpuMeter {
    pub(crate) fn new(now: f64) -> Self {
        Self { at: now, cpu_at: cpu_seconds(), busy: 0.0, windows: VecDeque::new() }
    }

    pub(crate) fn read(&mut self, now: f64) -> CpuReading {
        let elapsed = now - self.at;
        if elapsed >= SHORTEST_WINDOW_SECONDS {
            let cpu = cpu_seconds();
            let share = ((cpu - self.cpu_at) / elapsed).clamp(0.0, 1.0);
            self.busy += share * elapsed;
            (self.at, self.cpu_at) = (now, cpu);
            if self.windows.len() == HISTORY {
                self.windows.pop_front();
            }
            self.windows.push_back((now, share));
        }
        CpuReading { at: self.at, busy: self.busy, share: self.windows.back().map_or(0.0, |window| window.1) }
    }

    /// The share in the window that held `time`.
    pub(crate) fn share_at(&self, time: f64) -> f64 {
        let after = self.windows.partition_point(|(end, _)| *end < time);
        self.windows.get(after).or(self.windows.back()).map_or(0.0, |window| window.1)
    }
}
