//! The threads that ask the sources on time and write what they give into the journal: one for the devices, since a driver may hang,
//! and one for the process and the host.
//!
//! A tick that comes late is skipped, never made up for: a driver that takes two seconds an answer costs samples, and no backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::gpu::{GpuLost, GpuSource};
use crate::host::HostSource;
use crate::journal::Writer;
use crate::model::GpuEvent;
use crate::notice::notice;

/// Time between two readings of a device's dear fields (process lists, PCIe, ECC).
const SLOW_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two looks at the processes below this one: a walk through `/proc`.
const CHILDREN_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two readings of the host.
const HOST_INTERVAL: Duration = Duration::from_secs(1);

/// Finds the devices. Called on the sampler's own thread: a driver may take seconds to answer, or never do.
pub type OpenGpu = Box<dyn FnOnce() -> Option<Box<dyn GpuSource>> + Send>;

/// The sampler's threads, running.
pub struct Sampler {
    devices: Ticker,
    host: Ticker,
}

impl Sampler {
    /// Starts the threads; they take their first samples at once.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(writer: &Arc<Writer>, open_gpu: OpenGpu, interval: Duration) -> io::Result<Self> {
        let mut host = HostRounds::new(Arc::clone(writer));
        let host = Ticker::start("stepline-host", interval, move || {
            Some(move || {
                host.sample();
            })
        })?;
        let writer = Arc::clone(writer);
        let devices = Ticker::start("stepline-gpu", interval, move || {
            let gpu = open_gpu()?;
            if !writer.set_devices(gpu.devices()) {
                notice!("there is no room in the journal for all {} devices: the last ones are left out", gpu.devices().len());
            }
            let mut rounds = DeviceRounds::new(writer, gpu);
            Some(move || rounds.sample())
        })?;
        Ok(Self { devices, host })
    }

    /// CPU time of the threads, nanoseconds: shared with whoever reports it.
    #[must_use]
    pub fn cpu_times_ns(&self) -> [(&'static str, Arc<AtomicU64>); 2] {
        [("gpu sampler", Arc::clone(&self.devices.cpu_time_ns)), ("host sampler", Arc::clone(&self.host.cpu_time_ns))]
    }

    /// Has a last sample taken and ends the threads. Waits until the deadline at most; a thread that a driver holds longer is left
    /// behind. Whether both ended.
    pub fn stop(self, deadline: Instant) -> bool {
        self.devices.ask_to_stop();
        self.host.ask_to_stop();
        let devices = self.devices.wait(deadline);
        self.host.wait(deadline) && devices
    }
}

/// A thread that does something on time until it is stopped, and once more then, so that what ended last has a reading after its end.
struct Ticker {
    stop: Sender<()>,
    stopped: Receiver<()>,
    cpu_time_ns: Arc<AtomicU64>,
}

impl Ticker {
    /// `prepare` runs on the thread and makes what is done each tick; without that the thread ends.
    fn start<T: FnMut()>(name: &str, interval: Duration, prepare: impl FnOnce() -> Option<T> + Send + 'static) -> io::Result<Self> {
        let (stop, stop_asked) = mpsc::channel();
        let (has_stopped, stopped) = mpsc::channel();
        let cpu_time_ns = Arc::new(AtomicU64::new(0));
        let cpu_time = Arc::clone(&cpu_time_ns);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Some(mut tick) = prepare() {
                let mut measured = move || {
                    tick();
                    cpu_time.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
                };
                let mut due = Instant::now();
                loop {
                    measured();
                    due = next_tick(due, interval, Instant::now());
                    match stop_asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
                measured();
            }
            let _ = has_stopped.send(());
        })?;
        Ok(Self { stop, stopped, cpu_time_ns })
    }

    fn ask_to_stop(&self) {
        let _ = self.stop.send(());
    }

    fn wait(&self, deadline: Instant) -> bool {
        self.stopped.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }
}

/// The tick after the one that was due at `due`: the next one on the grid that is not past.
fn next_tick(due: Instant, interval: Duration, now: Instant) -> Instant {
    let next = due + interval;
    if next > now {
        return next;
    }
    let missed = (now - next).as_nanos() / interval.as_nanos().max(1) + 1;
    next + interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX))
}

/// What is done for the devices each tick.
struct DeviceRounds {
    writer: Arc<Writer>,
    gpu: Box<dyn GpuSource>,
    lost: Vec<bool>,
    slow: Every,
}

impl DeviceRounds {
    fn new(writer: Arc<Writer>, gpu: Box<dyn GpuSource>) -> Self {
        let lost = vec![false; gpu.devices().len().min(usize::from(u8::MAX))];
        Self { writer, gpu, lost, slow: Every::new(SLOW_INTERVAL) }
    }

    fn sample(&mut self) {
        let slow = self.slow.is_due();
        for device in 0..self.lost.len() {
            let number = device as u8;
            match self.gpu.read(device) {
                Ok(reading) => {
                    let ticks = self.writer.now();
                    if std::mem::take(&mut self.lost[device]) {
                        self.writer.gpu_changed(ticks, number, GpuEvent::Returned);
                    }
                    self.writer.gpu(ticks, number, &reading);
                    if slow && let Ok(reading) = self.gpu.read_slow(device) {
                        self.writer.gpu_slow(self.writer.now(), number, &reading);
                    }
                }
                Err(GpuLost) => {
                    if !std::mem::replace(&mut self.lost[device], true) {
                        self.writer.gpu_changed(self.writer.now(), number, GpuEvent::Lost);
                    }
                }
            }
        }
    }
}

/// What is done for the process and the host each tick.
struct HostRounds {
    writer: Arc<Writer>,
    source: HostSource,
    children: Every,
    host: Every,
}

impl HostRounds {
    fn new(writer: Arc<Writer>) -> Self {
        Self { writer, source: HostSource::new(), children: Every::new(CHILDREN_INTERVAL), host: Every::new(HOST_INTERVAL) }
    }

    fn sample(&mut self) {
        self.writer.follow_clock();
        let mut process = self.source.read_process();
        if self.children.is_due() {
            self.source.read_children(&mut process);
        }
        self.writer.process(self.writer.now(), &process);
        if self.host.is_due() {
            let host = self.source.read_host();
            self.writer.host(self.writer.now(), &host);
        }
        self.writer.position(self.writer.now());
    }
}

/// Something that is done now and then.
struct Every {
    interval: Duration,
    due: Instant,
}

impl Every {
    fn new(interval: Duration) -> Self {
        Self { interval, due: Instant::now() }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.due;
        if due {
            self.due = now + self.interval;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ticks_are_skipped_and_the_grid_is_kept() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(next_tick(start, second, start), start + second);
        assert_eq!(next_tick(start, second, start + Duration::from_millis(2500)), start + 3 * second);
        assert_eq!(next_tick(start, second, start + 2 * second), start + 3 * second);
    }
}
