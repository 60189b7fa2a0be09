//! The thread, and what others hold of it.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::body::{Body, Format, MOST_BYTES};
use super::ledger::Ledger;
use super::outage::Outages;
use super::split::Split;
use super::tls::TlsConfigs;
use super::worker::{Shared, Worker, run_all};
use super::{Export, PushOutcome};
use crate::config::{Config, Endpoint};
use crate::model::{Delivery, Signal, Span};
use crate::notice::notice;
use crate::otlp::encode::Encoder;

/// Sends to the endpoints of a configuration, from a thread of its own.
pub struct Push {
    formats: [Option<Format>; 3],
    /// Of the endpoints, for people.
    addresses: [Option<String>; 3],
    ledger: Arc<Ledger>,
    cpu_time_ns: Arc<AtomicU64>,
    /// Says that the thread has nothing more to do. Behind a lock only so that whoever holds this may be shared.
    ended: Mutex<Receiver<()>>,
}

impl Push {
    /// Starts the thread; `None` where no signal has an endpoint. Connects to nothing yet.
    ///
    /// # Errors
    /// When the system gives no thread, or no means to wait for sockets.
    pub fn start(config: &Config) -> io::Result<Option<Self>> {
        let endpoints = Signal::ALL.map(|signal| config.endpoint(signal).filter(|endpoint| endpoint.protocol.is_built_in()).cloned());
        if endpoints.iter().all(Option::is_none) {
            return Ok(None);
        }
        let formats = [0, 1, 2].map(|place: usize| endpoints[place].as_ref().map(Format::of));
        let addresses = [0, 1, 2].map(|place: usize| endpoints[place].as_ref().map(Endpoint::shown_url));
        let ledger = Arc::new(Ledger::new(config.queue_bytes));
        let cpu_time_ns = Arc::new(AtomicU64::new(0));
        let (send_started, started) = mpsc::channel();
        let (send_ended, ended) = mpsc::channel();
        let of_thread = (Arc::clone(&ledger), Arc::clone(&cpu_time_ns));
        thread::Builder::new().name("stepline-push".to_owned()).spawn(move || run(endpoints, of_thread, &send_started, &send_ended))?;
        // The runtime is made and dropped on its own thread: in an application's runtime neither would be allowed.
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at once")))?;
        Ok(Some(Self { formats, addresses, ledger, cpu_time_ns, ended: Mutex::new(ended) }))
    }

    /// Takes what is to be sent. Never waits; where the queue is full the oldest is dropped and counted. A signal without an
    /// endpoint is not taken.
    pub fn send(&self, export: Export) {
        match export {
            Export::Traces(request) => self.hand_over(request),
            Export::Metrics(request) => self.hand_over(request),
            Export::Logs(request) => self.hand_over(request),
        }
    }

    /// As [`send`](Self::send), for spans as they are: several times cheaper than by way of a request.
    pub fn send_spans(&self, encoder: &Encoder, spans: &[Span]) {
        if let Some(format) = self.formats[Signal::Traces as usize] {
            self.take(Signal::Traces, format.span_bodies(encoder, spans, self.most_bytes()));
        }
    }

    fn hand_over<R: Split>(&self, request: R) {
        if let Some(format) = self.formats[R::SIGNAL as usize] {
            self.take(R::SIGNAL, format.bodies(request, self.most_bytes()));
        }
    }

    /// The most bytes of one body: several have room in the queue.
    fn most_bytes(&self) -> usize {
        MOST_BYTES.min(self.ledger.most_bytes() / 4)
    }

    fn take(&self, signal: Signal, bodies: Vec<Body>) {
        for body in bodies {
            if self.ledger.hand_over(signal, body) {
                notice!(
                    "{} MiB wait for the endpoint, which is the most (STEPLINE_QUEUE_SIZE): from now on the oldest are dropped and counted",
                    self.ledger.most_bytes() >> 20
                );
            }
        }
    }

    /// What became of everything so far, by signal in the order of [`Signal::ALL`], in items (spans, points, events).
    #[must_use]
    pub fn counts(&self) -> [Delivery; 3] {
        self.ledger.counts()
    }

    /// CPU time of the thread, nanoseconds, kept up to date.
    #[must_use]
    pub fn cpu_time_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.cpu_time_ns)
    }

    /// Sends what is left, until the deadline at the latest; what is left then counts as dropped.
    #[must_use]
    pub fn finish(self, deadline: Instant) -> PushOutcome {
        self.ledger.ask_to_finish(deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(left);
        self.ledger.close(&self.addresses)
    }
}

impl Drop for Push {
    /// Without [`finish`](Self::finish): the thread ends as soon as it can, and what is left is lost.
    fn drop(&mut self) {
        if self.ledger.deadline().is_none() {
            self.ledger.ask_to_finish(Instant::now());
        }
    }
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The thread.
fn run(
    endpoints: [Option<Endpoint>; 3],
    (ledger, cpu_time_ns): (Arc<Ledger>, Arc<AtomicU64>),
    started: &Sender<io::Result<()>>,
    ended: &Sender<()>,
) {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    let shared =
        Shared { ledger: Arc::clone(&ledger), outages: Rc::new(Outages::default()), tls: Rc::new(TlsConfigs::default()), cpu_time_ns };
    let workers =
        Signal::ALL.into_iter().zip(endpoints).filter_map(|(signal, endpoint)| Some(Worker::new(signal, endpoint?, shared.clone())));
    let tasks = LocalSet::new();
    let work = tasks.run_until(run_all(workers.collect(), ledger));
    #[cfg(feature = "grpc")]
    let work = super::untraced::Untraced::new(work);
    runtime.block_on(work);
    let _ = ended.send(());
    drop(tasks);
    // A lookup of a name that hangs must hold up nobody.
    runtime.shutdown_background();
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // For lookups of names alone: one for each signal.
        .max_blocking_threads(Signal::ALL.len())
        .thread_keep_alive(Duration::from_millis(100))
        .thread_name("stepline-lookup")
        .build()
}
