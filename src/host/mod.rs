//! This process, its descendants and its host: CPU time, memory, threads, bytes to and from storage.
//!
//! Linux only, through procfs; elsewhere every field is absent. Nothing here fails: what cannot be read (no permission, a kernel
//! without it, another system) is `None`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod parse;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(not(target_os = "linux"))]
mod absent;

#[cfg(not(target_os = "linux"))]
use absent as platform;
#[cfg(target_os = "linux")]
use linux as platform;

use crate::model::{HostReading, ProcessReading};

/// Reads one process and the host that it runs on. Keeps its files open and its buffers, so that a reading costs little.
#[derive(Debug)]
pub struct HostSource {
    inner: platform::Source,
}

impl HostSource {
    /// A source for this process. What cannot be opened now stays absent.
    #[must_use]
    pub fn new() -> Self {
        Self::for_process(std::process::id())
    }

    /// A source for another process of this host: the agent reads the training processes beside it.
    #[must_use]
    pub fn for_process(pid: u32) -> Self {
        Self { inner: platform::Source::new(pid) }
    }

    /// Reads the process itself. The fields about its descendants are `None`: see [`read_children`](Self::read_children).
    pub fn read_process(&mut self) -> ProcessReading {
        self.inner.read_process()
    }

    /// Fills in the fields about the living descendants of the process. Costs a walk through `/proc` for each of its threads and
    /// theirs: every few seconds, not at each reading.
    pub fn read_children(&mut self, reading: &mut ProcessReading) {
        self.inner.read_children(reading);
    }

    /// Reads the host. The CPU figure is the share since the reading before, so the first has none; on hosts with many cores, where
    /// the kernel takes long to say it, it is asked less often and `None` in between.
    pub fn read_host(&mut self) -> HostReading {
        self.inner.read_host()
    }
}

impl Default for HostSource {
    fn default() -> Self {
        Self::new()
    }
}

/// When this process was started, Unix nanoseconds (`process.creation.time`); good to about 10 ms.
#[must_use]
pub fn process_start_unix_ns() -> Option<u64> {
    platform::process_start_unix_ns(std::process::id())
}

/// Adds the process and its living descendants to `pids`. Where descendants cannot be found out, the process alone.
pub fn process_tree(pid: u32, pids: &mut Vec<u32>) {
    pids.push(pid);
    platform::add_descendants(pid, pids);
}
