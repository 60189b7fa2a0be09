//! Where a record's time comes from: the processor's own counter where it is fit for it, since reading the system's clock
//! (about 30 ns) ten times a step would cost more than everything else in the hook together (about 16 ns for the counter).

use std::sync::OnceLock;
use std::time::Instant;

/// What a tick is. The number stands in the journal's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickKind {
    /// A nanosecond of the system's monotonic clock.
    Nanosecond = 0,
    /// A tick of the processor's counter (TSC on x86-64, virtual counter on aarch64).
    Counter = 1,
}

impl TickKind {
    /// The best kind on this machine, found out once.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<TickKind> = OnceLock::new();
        *BEST.get_or_init(|| if counter_is_fit() { Self::Counter } else { Self::Nanosecond })
    }

    /// Ticks now. Never smaller than what any thread read before, up to the counter's own precision.
    #[inline]
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Counter => counter(),
            Self::Nanosecond => nanoseconds(),
        }
    }

    /// Ticks now, if the counter gives them.
    #[inline]
    pub(crate) fn counter_now(self) -> Option<u64> {
        match self {
            Self::Counter => Some(counter()),
            Self::Nanosecond => None,
        }
    }

    /// Ticks and the instant at which they were read: the tightest of a few pairs.
    pub(crate) fn with_instant(self) -> (u64, Instant) {
        let mut best: Option<(u64, Instant, u64)> = None;
        for _ in 0..5 {
            let before = self.now();
            let instant = Instant::now();
            let after = self.now();
            let width = after.saturating_sub(before);
            if best.is_none_or(|(_, _, narrowest)| width < narrowest) {
                best = Some((before + width / 2, instant, width));
            }
        }
        best.map_or_else(|| (self.now(), Instant::now()), |(ticks, instant, _)| (ticks, instant))
    }
}

#[cold]
fn nanoseconds() -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    // One second on top, so that a time shortly before the first reading is still positive.
    crate::clock::nanoseconds(BASE.get_or_init(Instant::now).elapsed()) + 1_000_000_000
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn counter() -> u64 {
    // SAFETY: RDTSC is part of every x86-64 processor; `counter_is_fit` has seen that user programs may read it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[allow(unsafe_code)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 is readable by user programs on Linux and macOS (the vDSO's clock reads it), has no side effect, touches no memory.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn counter() -> u64 {
    nanoseconds()
}

/// Whether the counter runs at one rate on all cores and through sleep states. Linux says so: it takes `tsc` off the list of
/// clock sources when it sees it drift.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn counter_is_fit() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .is_ok_and(|sources| sources.split_whitespace().any(|source| source == "tsc"))
}

/// The architecture promises it for the virtual counter.
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn counter_is_fit() -> bool {
    true
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn counter_is_fit() -> bool {
    false
}
