//! The thread that asks the sources on time and writes what they give into the journal.
//!
//! A tick that comes late is skipped, never made up for: a driver that takes two seconds an answer costs samples, and no backlog.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::gpu::{GpuLost, GpuSource};
use crate::host::HostSource;
use crate::journal::Writer;
use crate::model::GpuEvent;

/// Time between two readings of a device's dear fields (process lists, PCIe, ECC).
const SLOW_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two looks at the processes below this one: a walk through `/proc`.
const CHILDREN_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two readings of the host.
const HOST_INTERVAL: Duration = Duration::from_secs(1);

/// What the sampler asks.
pub struct Sources {
    /// The devices; `None` on a machine without.
    pub gpu: Option<Box<dyn GpuSource>>,
    /// This process and this host.
    pub host: HostSource,
}

/// The sampler's thread, running.
pub struct Sampler {
    stop: Sender<()>,
    stopped: mpsc::Receiver<()>,
    cpu_time_ns: Arc<AtomicU64>,
}

impl Sampler {
    /// Starts the thread; it takes its first sample at once.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(writer: Arc<Writer>, sources: Sources, interval: Duration) -> io::Result<Self> {
        let (stop, stop_asked) = mpsc::channel();
        let (has_stopped, stopped) = mpsc::channel();
        let cpu_time_ns = Arc::new(AtomicU64::new(0));
        let cpu_time = Arc::clone(&cpu_time_ns);
        thread::Builder::new().name("stepline-sampler".to_owned()).spawn(move || {
            let mut rounds = Rounds::new(writer, sources);
            let mut due = Instant::now();
            loop {
                rounds.sample();
                cpu_time.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
                let now = Instant::now();
                due += interval;
                if due <= now {
                    // Late: go on with the grid, without the ticks that were missed.
                    let missed = (now - due).as_nanos() / interval.as_nanos().max(1) + 1;
                    due += interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX));
                }
                match stop_asked.recv_timeout(due.saturating_duration_since(now)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            // One more, so that what ended last has a reading after its end.
            rounds.sample();
            cpu_time.store(crate::clock::thread_cpu_time_ns(), Ordering::Relaxed);
            let _ = has_stopped.send(());
        })?;
        Ok(Self { stop, stopped, cpu_time_ns })
    }

    /// CPU time of the thread, nanoseconds: shared with whoever reports it.
    #[must_use]
    pub fn cpu_time_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.cpu_time_ns)
    }

    /// Has a last sample taken and ends the thread. Waits until the deadline at most; a thread that a driver holds longer is left
    /// behind. Whether it ended.
    pub fn stop(self, deadline: Instant) -> bool {
        let _ = self.stop.send(());
        self.stopped.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }
}

/// What the thread does each tick.
struct Rounds {
    writer: Arc<Writer>,
    sources: Sources,
    lost: Vec<bool>,
    slow: Every,
    children: Every,
    host: Every,
}

impl Rounds {
    fn new(writer: Arc<Writer>, sources: Sources) -> Self {
        let devices = sources.gpu.as_ref().map_or(0, |gpu| gpu.devices().len());
        Self {
            writer,
            sources,
            lost: vec![false; devices],
            slow: Every::new(SLOW_INTERVAL),
            children: Every::new(CHILDREN_INTERVAL),
            host: Every::new(HOST_INTERVAL),
        }
    }

    fn sample(&mut self) {
        // In a forked child there is no such thread; but a writer that is not ours must not be written to, whoever asks.
        if !self.writer.is_ours() {
            return;
        }
        self.writer.follow_clock();
        let slow = self.slow.is_due();
        if let Some(gpu) = &mut self.sources.gpu {
            for device in 0..self.lost.len() {
                let number = device as u8;
                let answered = match gpu.read(device) {
                    Ok(reading) => {
                        let ticks = self.writer.now();
                        if self.lost[device] {
                            self.lost[device] = false;
                            self.writer.gpu_changed(ticks, number, GpuEvent::Returned);
                        }
                        self.writer.gpu(ticks, number, &reading);
                        true
                    }
                    Err(GpuLost) => {
                        if !self.lost[device] {
                            self.lost[device] = true;
                            self.writer.gpu_changed(self.writer.now(), number, GpuEvent::Lost);
                        }
                        false
                    }
                };
                if slow
                    && answered
                    && let Ok(reading) = gpu.read_slow(device)
                {
                    self.writer.gpu_slow(self.writer.now(), number, &reading);
                }
            }
        }
        let process = self.sources.host.read_process();
        self.writer.process(self.writer.now(), &process);
        if self.children.is_due() {
            let children = self.sources.host.read_children();
            self.writer.process(self.writer.now(), &children);
        }
        if self.host.is_due() {
            let host = self.sources.host.read_host();
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
