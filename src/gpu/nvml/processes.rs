//! How much of a device's memory this run's own processes hold.
//!
//! The driver lists processes by their ids on the host. In a container those mean nothing, unless the driver is new enough to translate
//! them; and a foreign process could have an id that is ours here.

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

/// Memory of the processes in `own` that the driver lists, bytes. `None` where the list holds none of them, or does not say how much one
/// of them uses (Windows), or gives ids of another namespace.
pub(super) fn own_memory(listed: &[ProcessInfo], own: &[u32], ids_are_ours: impl Fn(&[ProcessInfo]) -> bool) -> Option<u64> {
    let mut sum = None;
    for process in listed.iter().filter(|process| own.contains(&process.pid)) {
        match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => sum = Some(sum.unwrap_or(0_u64).checked_add(bytes)?),
            UsedGpuMemory::Unavailable => return None,
        }
    }
    sum.filter(|_| ids_are_ours(listed))
}

/// Whether the ids in the list are those of this process's namespace. Outside of containers they are; inside, a list with an id that
/// exists nowhere here is the host's.
#[cfg(target_os = "linux")]
pub(super) fn ids_are_ours(listed: &[ProcessInfo]) -> bool {
    // The kernel's fixed number of the first namespace.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    let first = std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE);
    first || listed.iter().all(|process| std::path::Path::new("/proc").join(process.pid.to_string()).exists())
}

/// Elsewhere there are no namespaces of processes.
#[cfg(not(target_os = "linux"))]
pub(super) fn ids_are_ours(_listed: &[ProcessInfo]) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, used_gpu_memory: UsedGpuMemory) -> ProcessInfo {
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: None, compute_instance_id: None }
    }

    #[test]
    fn own_processes_are_added_up_and_others_left_out() {
        let listed = [process(1, UsedGpuMemory::Used(5)), process(2, UsedGpuMemory::Used(7)), process(9, UsedGpuMemory::Used(100))];
        assert_eq!(own_memory(&listed, &[1, 2, 3], |_| true), Some(12));
        assert_eq!(own_memory(&listed, &[4], |_| true), None, "no match is unknown, not 0");
        assert_eq!(own_memory(&listed, &[1], |_| false), None, "ids of another namespace");
        assert_eq!(own_memory(&[], &[1], |_| true), None);
    }

    #[test]
    fn one_that_does_not_say_makes_the_sum_unknown() {
        let listed = [process(1, UsedGpuMemory::Used(5)), process(2, UsedGpuMemory::Unavailable)];
        assert_eq!(own_memory(&listed, &[1, 2], |_| true), None);
        assert_eq!(own_memory(&listed, &[1], |_| true), Some(5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ids_that_exist_here_may_be_ours() {
        assert!(ids_are_ours(&[process(std::process::id(), UsedGpuMemory::Unavailable)]));
    }
}
