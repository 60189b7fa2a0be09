//! A simulated device that follows this process: its memory is the process's resident memory, its utilization the process's CPU use.

use std::time::{Duration, Instant};

use crate::gpu::{GpuLost, GpuSource};
use crate::model::{GpuDevice, GpuReading, GpuSlowReading};

/// Power of the device when the process does nothing, watts.
pub const IDLE_POWER_W: f64 = 60.0;

/// Power of the device when the process keeps all cores busy, watts.
pub const MOST_POWER_W: f64 = 300.0;

/// The CPU clock of a process is good to some microseconds: a share of less than that is noise.
const SHORTEST_WINDOW: Duration = Duration::from_millis(1);

/// A simulated device that follows this process.
#[derive(Debug)]
pub struct Mirror {
    devices: [GpuDevice; 1],
    usage: Usage,
    cores: f64,
    window: Window,
}

/// What the readings are made of.
#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    cpu: Option<Duration>,
    energy_j: f64,
}

impl Mirror {
    /// A device that follows this process. `ordinal` tells the devices of several processes apart (the local rank): it is part of the
    /// device's id, which is the same in each run.
    #[must_use]
    pub fn new(ordinal: u32) -> Self {
        let usage = Usage::open();
        let device = GpuDevice {
            id: format!("GPU-simulated-mirror-{ordinal}"),
            index: ordinal,
            name: "Simulated GPU (mirrors this process)".to_owned(),
            vendor: super::VENDOR.to_owned(),
            memory_limit_bytes: usage::host_memory_bytes(),
            simulated: Some("mirrors this process".to_owned()),
            ..GpuDevice::default()
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let window = Window { began: Instant::now(), cpu: usage.cpu_time(), energy_j: 0.0 };
        Self { devices: [device], usage, cores: cores as f64, window }
    }
}

impl GpuSource for Mirror {
    fn devices(&self) -> &[GpuDevice] {
        &self.devices
    }

    fn read(&mut self, device: usize) -> Result<GpuReading, GpuLost> {
        if device != 0 {
            return Err(GpuLost);
        }
        let mut reading = GpuReading { memory_used_bytes: self.usage.resident_bytes(), ..GpuReading::default() };
        self.window.advance(Instant::now(), self.usage.cpu_time(), self.cores, &mut reading);
        Ok(reading)
    }

    fn read_slow(&mut self, device: usize) -> Result<GpuSlowReading, GpuLost> {
        if device != 0 {
            return Err(GpuLost);
        }
        Ok(GpuSlowReading { process_memory_bytes: self.usage.resident_bytes(), ..GpuSlowReading::default() })
    }
}

impl Window {
    /// Ends the window at `now` and begins the next; a window too short to say anything goes on.
    fn advance(&mut self, now: Instant, cpu: Option<Duration>, cores: f64, reading: &mut GpuReading) {
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed >= SHORTEST_WINDOW {
            if let (Some(before), Some(after)) = (self.cpu, cpu) {
                let utilization = (after.saturating_sub(before).as_secs_f64() / (elapsed.as_secs_f64() * cores)).min(1.0);
                let power_w = (MOST_POWER_W - IDLE_POWER_W).mul_add(utilization, IDLE_POWER_W);
                self.energy_j += power_w * elapsed.as_secs_f64();
                reading.utilization = Some(utilization);
                reading.power_w = Some(power_w);
            }
            self.began = now;
            self.cpu = cpu;
        }
        reading.energy_j = cpu.map(|_| self.energy_j);
    }
}

use usage::Usage;

#[cfg(target_os = "linux")]
mod usage {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    /// What this process uses.
    #[derive(Debug)]
    pub(super) struct Usage {
        statm: Option<File>,
        page_bytes: u64,
    }

    impl Usage {
        pub(super) fn open() -> Self {
            Self { statm: File::open("/proc/self/statm").ok(), page_bytes: procfs::page_size() }
        }

        pub(super) fn resident_bytes(&self) -> Option<u64> {
            let mut buffer = [0_u8; 128];
            let length = self.statm.as_ref()?.read_at(&mut buffer, 0).ok()?;
            let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
            text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(self.page_bytes)
        }

        pub(super) fn cpu_time(&self) -> Option<Duration> {
            super::process_cpu_time()
        }
    }

    pub(super) fn host_memory_bytes() -> Option<u64> {
        let sysinfo = rustix::system::sysinfo();
        // Both are unsigned words, of the machine's width.
        #[allow(clippy::useless_conversion, reason = "the width differs between targets")]
        u64::from(sysinfo.totalram).checked_mul(u64::from(sysinfo.mem_unit.max(1)))
    }
}

#[cfg(not(target_os = "linux"))]
mod usage {
    use std::time::Duration;

    /// What this process uses: elsewhere than on Linux its CPU time at most.
    #[derive(Debug)]
    pub(super) struct Usage;

    impl Usage {
        pub(super) fn open() -> Self {
            Self
        }

        pub(super) fn resident_bytes(&self) -> Option<u64> {
            None
        }

        pub(super) fn cpu_time(&self) -> Option<Duration> {
            super::process_cpu_time()
        }
    }

    pub(super) fn host_memory_bytes() -> Option<u64> {
        None
    }
}

#[cfg(unix)]
fn process_cpu_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn process_cpu_time() -> Option<Duration> {
    None
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn power_follows_utilization_and_energy_is_its_integral() {
        let began = Instant::now();
        let mut window = Window { began, cpu: Some(Duration::ZERO), energy_j: 0.0 };
        let mut at = |ms: u64, cpu_ms: u64| {
            let mut reading = GpuReading::default();
            window.advance(began + Duration::from_millis(ms), Some(Duration::from_millis(cpu_ms)), 2.0, &mut reading);
            reading
        };
        let half = at(100, 100);
        assert_eq!((half.utilization, half.power_w), (Some(0.5), Some(180.0)));
        assert!((half.energy_j.expect("energy") - 18.0).abs() < 1e-9);
        let idle = at(200, 100);
        assert_eq!((idle.utilization, idle.power_w), (Some(0.0), Some(60.0)));
        assert!((idle.energy_j.expect("energy") - 24.0).abs() < 1e-9);
        let full = at(300, 400);
        assert_eq!(full.utilization, Some(1.0), "rounding makes no more than all");
        let at_once = at(300, 400);
        assert_eq!(at_once.utilization, None, "no time has passed");
        assert_eq!(at_once.energy_j, full.energy_j);
    }

    #[test]
    fn it_says_that_it_is_simulated() {
        let mirror = Mirror::new(3);
        let device = &mirror.devices()[0];
        assert_eq!(device.id, "GPU-simulated-mirror-3");
        assert_eq!(device.vendor, "stepline");
        assert!(device.name.contains("Simulated"));
        assert_eq!(device.simulated.as_deref(), Some("mirrors this process"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_follows_this_process() {
        let mut mirror = Mirror::new(0);
        let before = mirror.read(0).expect("never lost");
        let memory = vec![1_u8; 64 << 20];
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let after = mirror.read(0).expect("never lost");
        let grown = after.memory_used_bytes.expect("memory") as i64 - before.memory_used_bytes.expect("memory") as i64;
        assert!(grown > 48 << 20, "{} bytes were touched, the reading grew by {grown}", memory.len());
        assert!(after.utilization.expect("a window") > 0.0);
        assert!(after.energy_j > before.energy_j);
        assert!(mirror.devices()[0].memory_limit_bytes.expect("host memory") > after.memory_used_bytes.expect("memory"));
        assert_eq!(mirror.read_slow(0).expect("never lost").ecc_corrected_errors, None);
        assert_eq!(mirror.read(1), Err(GpuLost));
    }
}
