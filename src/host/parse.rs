//! The few lines of `/proc/meminfo` and `/proc/stat` that are needed. (procfs reads the whole of both: 50 lines, or one for each core.)

/// Memory of the host, bytes: all of it, and what is available to a new program without swapping.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) total: Option<u64>,
    pub(super) available: Option<u64>,
}

/// Reads `/proc/meminfo`. Kernels before 3.14 have no `MemAvailable`.
pub(super) fn memory(text: &[u8]) -> Memory {
    let mut memory = Memory::default();
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"MemTotal:") {
            memory.total = kibibytes(rest);
        } else if let Some(rest) = line.strip_prefix(b"MemAvailable:") {
            memory.available = kibibytes(rest);
        }
        if memory.total.is_some() && memory.available.is_some() {
            break;
        }
    }
    memory
}

fn kibibytes(text: &[u8]) -> Option<u64> {
    numbers(text).next()?.checked_mul(1024)
}

/// Time of all cores together since the host was started, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTicks {
    pub(super) busy: u64,
    pub(super) total: u64,
}

/// Reads the first line of `/proc/stat`. Waiting for I/O is idle time: the core could have run something else.
pub(super) fn cpu_ticks(text: &[u8]) -> Option<CpuTicks> {
    let rest = text.strip_prefix(b"cpu ")?;
    let line = rest.split(|&byte| byte == b'\n').next()?;
    let mut ticks = [0_u64; 8];
    let mut found = 0;
    // user nice system idle iowait irq softirq steal; the two that follow (guests) are contained in user and nice.
    for (slot, number) in ticks.iter_mut().zip(numbers(line)) {
        *slot = number;
        found += 1;
    }
    if found < 4 {
        return None;
    }
    let total = ticks.iter().fold(0_u64, |sum, &tick| sum.saturating_add(tick));
    Some(CpuTicks { busy: total.saturating_sub(ticks[3]).saturating_sub(ticks[4]), total })
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map_while(|word| std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = b"MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    6000000 kB\nBuffers: 1 kB\n";
        assert_eq!(memory(text), Memory { total: Some(8_192_000_000), available: Some(6_144_000_000) });
        assert_eq!(memory(b"MemTotal: x kB\nMemFree: 3 kB\n"), Memory::default());
        assert_eq!(memory(b"MemTotal: 18446744073709551615 kB"), Memory::default());
        assert_eq!(memory(b""), Memory::default());
    }

    #[test]
    fn waiting_for_io_is_idle_and_guests_count_once() {
        let text = b"cpu  100 10 50 800 40 0 0 0 77 7\ncpu0 1 2 3\n";
        assert_eq!(cpu_ticks(text), Some(CpuTicks { busy: 160, total: 1000 }));
        assert_eq!(cpu_ticks(b"cpu  100 10 50 800\n"), Some(CpuTicks { busy: 160, total: 960 }));
        assert_eq!(cpu_ticks(b"cpu  100 10\n"), None);
        assert_eq!(cpu_ticks(b"intr 1\n"), None);
        // Absurd numbers do not overflow.
        let most = u64::MAX;
        assert!(cpu_ticks(format!("cpu  {most} {most} 1 0 0 0 0 0\n").as_bytes()).is_some());
    }
}
