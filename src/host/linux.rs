//! Linux, through procfs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use procfs::FromRead;
use procfs::process::{Io, Stat};

use super::parse::{CpuTicks, cpu_ticks, memory};
use super::tree;
use crate::clock::nanoseconds;
use crate::model::{HostReading, ProcessReading};

const PROC: &str = "/proc";

/// Asking for the host's CPU time may cost this share of time at most: the kernel writes a line for each core and a number for each
/// interrupt, which takes a millisecond on the largest hosts.
const CPU_ASK_COST: u32 = 500;

/// Large enough for each of the files: of `/proc/meminfo` and `/proc/stat` the first lines are needed only.
const BUFFER_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct Source {
    pid: u32,
    // Kept open: opening costs as much as reading. A file of /proc that stays open belongs to the process that it was opened for,
    // even when that has ended and its number is taken anew.
    stat: Option<File>,
    io: Option<File>,
    meminfo: Option<File>,
    host_stat: Option<File>,
    page_bytes: u64,
    tick_s: f64,
    last_cpu: Option<CpuTicks>,
    ask_cpu_from: Instant,
    pids: Vec<u32>,
}

impl Source {
    pub(super) fn new(pid: u32) -> Self {
        let open = |name: &str| File::open(format!("{PROC}/{name}")).ok();
        Self {
            pid,
            stat: open(&format!("{pid}/stat")),
            io: open(&format!("{pid}/io")),
            meminfo: open("meminfo"),
            host_stat: open("stat"),
            page_bytes: procfs::page_size(),
            tick_s: 1.0 / procfs::ticks_per_second().max(1) as f64,
            last_cpu: None,
            ask_cpu_from: Instant::now(),
            pids: Vec::new(),
        }
    }

    pub(super) fn read_process(&mut self) -> ProcessReading {
        let mut reading = ProcessReading::default();
        if let Some(stat) = self.stat.as_ref().and_then(read_stat) {
            reading.resident_bytes = Some(stat.rss.saturating_mul(self.page_bytes));
            reading.cpu_user_s = Some(stat.utime as f64 * self.tick_s);
            reading.cpu_system_s = Some(stat.stime as f64 * self.tick_s);
            reading.threads = u32::try_from(stat.num_threads).ok();
        }
        if let Some(io) = self.io.as_ref().and_then(|file| with_text(file, |text| Io::from_read(text).ok())) {
            reading.read_bytes = Some(io.read_bytes);
            reading.written_bytes = Some(io.write_bytes);
        }
        reading
    }

    pub(super) fn read_children(&mut self, reading: &mut ProcessReading) {
        self.pids.clear();
        if tree::add_descendants(Path::new(PROC), self.pid, &mut self.pids).is_none() {
            return;
        }
        let (mut resident_bytes, mut ticks) = (0_u64, 0_u64);
        for pid in &self.pids {
            // One that has ended meanwhile is none any more.
            let Some(stat) = File::open(format!("{PROC}/{pid}/stat")).ok().as_ref().and_then(read_stat) else { continue };
            resident_bytes = resident_bytes.saturating_add(stat.rss.saturating_mul(self.page_bytes));
            ticks = ticks.saturating_add(stat.utime).saturating_add(stat.stime);
        }
        reading.children_resident_bytes = Some(resident_bytes);
        reading.children_cpu_s = Some(ticks as f64 * self.tick_s);
    }

    pub(super) fn read_host(&mut self) -> HostReading {
        let mut reading = HostReading::default();
        if let Some(found) = self.meminfo.as_ref().and_then(|file| with_text(file, |text| Some(memory(text)))) {
            reading.memory_limit_bytes = found.total;
            reading.memory_used_bytes = found.total.zip(found.available).and_then(|(total, available)| total.checked_sub(available));
        }
        reading.cpu_utilization = self.cpu_utilization();
        reading
    }

    fn cpu_utilization(&mut self) -> Option<f64> {
        let before = Instant::now();
        if before < self.ask_cpu_from {
            return None;
        }
        let now = with_text(self.host_stat.as_ref()?, cpu_ticks)?;
        let after = Instant::now();
        self.ask_cpu_from = after + Duration::min(Duration::from_secs(60), (after - before) * CPU_ASK_COST);
        let last = match self.last_cpu {
            // No tick has passed: the share of nothing is unknown, and the window goes on.
            Some(last) if now.total <= last.total => return None,
            last => last,
        };
        self.last_cpu = Some(now);
        let last = last?;
        // Idle time is known to step back a little on some kernels.
        Some((now.busy.saturating_sub(last.busy) as f64 / (now.total - last.total) as f64).min(1.0))
    }
}

fn read_stat(file: &File) -> Option<Stat> {
    with_text(file, |text| Stat::from_read(text).ok())
}

/// Reads a file of `/proc` from its beginning.
fn with_text<T>(file: &File, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let mut buffer = [0_u8; BUFFER_BYTES];
    let mut length = 0;
    // More than one read is needed where the kernel gives a file piece by piece.
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    parse(buffer.get(..length)?)
}

pub(super) fn process_start_unix_ns(pid: u32) -> Option<u64> {
    let stat = read_stat(&File::open(format!("{PROC}/{pid}/stat")).ok()?)?;
    let ticks_per_second = procfs::ticks_per_second().max(1);
    let started_ns = u128::from(stat.starttime) * 1_000_000_000 / u128::from(ticks_per_second);
    // Both count from the boot of the host, or of the container where it has a time of its own.
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = Duration::new(u64::try_from(boot.tv_sec).ok()?, u32::try_from(boot.tv_nsec).ok()?);
    let age = since_boot.checked_sub(Duration::from_nanos(u64::try_from(started_ns).ok()?))?;
    SystemTime::now().checked_sub(age)?.duration_since(UNIX_EPOCH).ok().map(nanoseconds)
}

pub(super) fn add_descendants(pid: u32, pids: &mut Vec<u32>) {
    let _ = tree::add_descendants(Path::new(PROC), pid, pids);
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_read() {
        let mut source = Source::new(std::process::id());
        let before = source.read_process();
        let memory = vec![1_u8; 64 << 20];
        let after = source.read_process();
        let grown = after.resident_bytes.expect("memory") as i64 - before.resident_bytes.expect("memory") as i64;
        assert!((48 << 20..96 << 20).contains(&grown), "{} bytes were touched, the reading grew by {grown}", memory.len());
        assert!(after.threads.expect("threads") >= 1);
        assert!(after.cpu_user_s >= before.cpu_user_s);
        assert_eq!(after.children_resident_bytes, None);
    }

    #[test]
    fn children_and_theirs_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 30 & echo started; wait"]).stdout(Stdio::piped()).spawn().expect("sh starts");
        let mut line = [0_u8; 8];
        io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line).expect("it has forked");
        let mut pids = Vec::new();
        add_descendants(child.id(), &mut pids);
        let mut reading = ProcessReading::default();
        Source::new(std::process::id()).read_children(&mut reading);
        let _ = child.kill();
        for &pid in &pids {
            let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = child.wait();
        assert_eq!(pids.len(), 1, "sleep is the one child of sh: {pids:?}");
        assert!(reading.children_resident_bytes.expect("readable") > 0);
        assert!(reading.children_cpu_s.expect("readable") >= 0.0);
    }

    #[test]
    fn the_host_is_read() {
        let mut source = Source::new(std::process::id());
        let first = source.read_host();
        assert!(first.memory_used_bytes.expect("used") < first.memory_limit_bytes.expect("all"));
        assert_eq!(first.cpu_utilization, None, "a share needs two readings");
        std::thread::sleep(Duration::from_millis(200));
        let second = source.read_host().cpu_utilization.expect("two readings");
        assert!((0.0..=1.0).contains(&second), "{second}");
    }

    #[test]
    fn a_process_that_has_ended_is_absent() {
        let mut child = Command::new("true").spawn().expect("true starts");
        let mut source = Source::new(child.id());
        child.wait().expect("it ends");
        assert_eq!(source.read_process(), ProcessReading::default());
        assert_eq!(Source::new(u32::MAX).read_process(), ProcessReading::default());
    }

    #[test]
    fn the_start_lies_in_the_near_past() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanoseconds);
        let started = process_start_unix_ns(std::process::id()).expect("start");
        // A tick later than now at most; tests take no day.
        assert!(started <= now + 20_000_000 && now - started.min(now) < 86_400_000_000_000, "{started} of {now}");
    }
}
