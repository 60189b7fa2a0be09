//! Whether this is still the process that opened the journal. A forked child (a data-loader worker) shares the mapping, and must
//! not write into it.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often the process has been forked off, seen from the innermost child: 0 in a process that was started, not forked, since
/// the first journal was opened.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The generation now: one load, no system call. Changes in a forked child.
#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has the generation counted from now on. Cheap when done already.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn watch() {
    use std::sync::Once;

    extern "C" fn in_the_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is safe in a freshly forked child of a process with many threads. It is
        // a function of this program and stays as long as the program does.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_the_child));
        }
    });
}

/// Nothing forks here.
#[cfg(not(unix))]
pub(crate) fn watch() {}
