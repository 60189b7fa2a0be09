//! A wall clock that steps back two hours, for `LD_PRELOAD`: half a second after a program's first look at its wall clock, as if
//! somebody had set it. The monotonic clocks stay as they are.

use std::sync::atomic::{AtomicI64, Ordering};

const STEP_BACK_S: i64 = 2 * 3600;
const AFTER_NS: i64 = 500_000_000;

static FIRST_LOOK_NS: AtomicI64 = AtomicI64::new(0);

/// The C library's `clock_gettime`, with the step.
///
/// # Safety
/// As the C library's: `time` must point to a `timespec`.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller's pointer is handed on to the system call, which checks it.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    if result != 0 || clock != libc::CLOCK_REALTIME {
        return result as libc::c_int;
    }
    // SAFETY: the system call has just written there.
    let time = unsafe { &mut *time };
    let now_ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    let first = FIRST_LOOK_NS.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|first| first);
    if first != 0 && now_ns - first > AFTER_NS {
        time.tv_sec -= STEP_BACK_S;
    }
    0
}
