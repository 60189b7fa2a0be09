//! Wall-clock time that never runs backwards: an anchor taken once, plus monotonic time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A pair of readings of both clocks, taken together.
#[derive(Debug, Clone, Copy)]
pub struct Anchor {
    instant: Instant,
    unix_ns: u64,
}

impl Anchor {
    /// Reads both clocks now. A wall clock before 1970 reads as 1970.
    #[must_use]
    pub fn now() -> Self {
        let before = Instant::now();
        let wall = SystemTime::now();
        let instant = before + before.elapsed() / 2;
        Self { instant, unix_ns: unix_ns(wall) }
    }

    /// The anchored wall-clock time now, Unix nanoseconds. Steps of the wall clock after the anchor was taken do not show.
    #[must_use]
    pub fn elapsed_unix_ns(&self) -> u64 {
        self.at(Instant::now())
    }

    /// The anchored wall-clock time of an instant, Unix nanoseconds.
    #[must_use]
    pub fn at(&self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.unix_ns.saturating_add(nanoseconds(later)),
            None => self.unix_ns.saturating_sub(nanoseconds(self.instant.duration_since(instant))),
        }
    }

    /// The instant at which the anchor was taken.
    #[must_use]
    pub fn instant(&self) -> Instant {
        self.instant
    }

    /// The wall-clock time at which the anchor was taken, Unix nanoseconds.
    #[must_use]
    pub fn unix_ns(&self) -> u64 {
        self.unix_ns
    }
}

fn unix_ns(wall: SystemTime) -> u64 {
    wall.duration_since(UNIX_EPOCH).map_or(0, nanoseconds)
}

/// A duration in whole nanoseconds; more than 584 years stop at the largest number.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread, nanoseconds; 0 where the system does not tell.
#[must_use]
pub fn thread_cpu_time_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        0
    }
}
