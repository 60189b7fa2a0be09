//! An OTLP server that does what a test wants: takes, refuses, delays, breaks off; by signal and by number of request. It keeps what it
//! was sent, and exactly what of it it took.
//!
//! HTTP (protobuf and JSON, gzip) and gRPC, each on a free port of an address of its own (all of 127/8 is this host), so that the ports of
//! one that has gone are not given to another. Written against the specification, not against the
//! client: framing and statuses are its own.

mod server;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use stepline::model::Signal;

/// What the sink does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Takes it.
    Accept,
    /// Takes it, but for its first items.
    Partial {
        /// How many it does not take.
        rejected: u64,
        /// Why.
        message: String,
    },
    /// Does not take it. For gRPC the status becomes the one that belongs to it.
    Fail {
        /// HTTP's status.
        status: u16,
        /// What it says about it.
        message: String,
        /// `Retry-After` (gRPC: `RetryInfo`, of whole seconds).
        retry_after: Option<String>,
    },
    /// Sends it elsewhere.
    Redirect(String),
    /// Never answers.
    BlackHole,
    /// Takes it, and says so after some time.
    Slow(Duration),
    /// Closes the connection in the middle of the answer, having taken nothing.
    CloseMidResponse,
    /// Takes it, and then closes the connection.
    AcceptAndClose,
}

impl Behaviour {
    pub(crate) fn fail(status: u16) -> Self {
        Self::Fail { status, message: format!("sink says {status}"), retry_after: None }
    }

    pub(crate) fn retry_after(status: u16, retry_after: &str) -> Self {
        Self::Fail { status, message: "later".to_owned(), retry_after: Some(retry_after.to_owned()) }
    }
}

/// A request, decoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decoded {
    Traces(ExportTraceServiceRequest),
    Metrics(ExportMetricsServiceRequest),
    Logs(ExportLogsServiceRequest),
}

impl Decoded {
    pub(crate) fn signal(&self) -> Signal {
        match self {
            Self::Traces(_) => Signal::Traces,
            Self::Metrics(_) => Signal::Metrics,
            Self::Logs(_) => Signal::Logs,
        }
    }

    /// One text for each item: which span, which point (metric, attributes, time), which event.
    pub(crate) fn items(&self) -> Vec<String> {
        match self {
            Self::Traces(request) => {
                let scopes = request.resource_spans.iter().flat_map(|group| &group.scope_spans);
                scopes.flat_map(|scope| &scope.spans).map(|span| format!("{:02x?} {:02x?}", span.trace_id, span.span_id)).collect()
            }
            Self::Metrics(request) => {
                let scopes = request.resource_metrics.iter().flat_map(|group| &group.scope_metrics);
                let mut items = Vec::new();
                for metric in scopes.flat_map(|scope| &scope.metrics) {
                    let mut add =
                        |attributes: &dyn std::fmt::Debug, time: u64| items.push(format!("{} {attributes:?} {time}", metric.name));
                    match &metric.data {
                        Some(Data::Gauge(data)) => data.data_points.iter().for_each(|point| add(&point.attributes, point.time_unix_nano)),
                        Some(Data::Sum(data)) => data.data_points.iter().for_each(|point| add(&point.attributes, point.time_unix_nano)),
                        Some(Data::ExponentialHistogram(data)) => {
                            data.data_points.iter().for_each(|point| add(&point.attributes, point.time_unix_nano));
                        }
                        Some(Data::Histogram(data)) => {
                            data.data_points.iter().for_each(|point| add(&point.attributes, point.time_unix_nano))
                        }
                        Some(Data::Summary(data)) => data.data_points.iter().for_each(|point| add(&point.attributes, point.time_unix_nano)),
                        None => {}
                    }
                }
                items
            }
            Self::Logs(request) => {
                let scopes = request.resource_logs.iter().flat_map(|group| &group.scope_logs);
                scopes
                    .flat_map(|scope| &scope.log_records)
                    .map(|record| format!("{} {}", record.event_name, record.time_unix_nano))
                    .collect()
            }
        }
    }
}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    HttpProtobuf,
    HttpJson,
    Grpc,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) wire: Wire,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The message itself, decompressed.
    pub(crate) body: Vec<u8>,
    pub(crate) request: Decoded,
    pub(crate) behaviour: Behaviour,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The items that the sink took, in the order in which it took them; one that it took twice stands there twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) spans: Vec<String>,
    pub(crate) points: Vec<String>,
    pub(crate) events: Vec<String>,
}

impl Accepted {
    pub(crate) fn of(&self, signal: Signal) -> &[String] {
        match signal {
            Signal::Traces => &self.spans,
            Signal::Metrics => &self.points,
            Signal::Logs => &self.events,
        }
    }
}

type Script = dyn Fn(Signal, usize) -> Behaviour + Send + Sync;

/// What the sink has seen.
#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Received>,
    accepted: Accepted,
    numbers: BTreeMap<Signal, usize>,
    /// What came and was no OTLP.
    faults: Vec<String>,
    connections: usize,
}

struct Shared {
    script: Box<Script>,
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    /// Takes a request up, and says what is to be done with it.
    fn receive(&self, mut received: Received) -> Behaviour {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let signal = received.request.signal();
        let number = seen.numbers.entry(signal).or_default();
        let behaviour = (self.script)(signal, *number);
        *number += 1;
        received.behaviour = behaviour.clone();
        let left_out = match &behaviour {
            Behaviour::Accept | Behaviour::Slow(_) | Behaviour::AcceptAndClose => Some(0),
            Behaviour::Partial { rejected, .. } => Some(*rejected as usize),
            _ => None,
        };
        if let Some(left_out) = left_out {
            let items = received.request.items().into_iter().skip(left_out);
            match signal {
                Signal::Traces => seen.accepted.spans.extend(items),
                Signal::Metrics => seen.accepted.points.extend(items),
                Signal::Logs => seen.accepted.events.extend(items),
            }
        }
        seen.requests.push(received);
        self.changed.notify_all();
        behaviour
    }

    fn fault(&self, what: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).faults.push(what);
        self.changed.notify_all();
    }

    fn connected(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).connections += 1;
    }
}

/// The running sink. Dropping it closes its ports and its connections.
pub(crate) struct OtlpSink {
    shared: Arc<Shared>,
    addresses: [SocketAddr; 2],
    scheme: &'static str,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OtlpSink {
    /// A sink that takes everything.
    pub(crate) fn accepting() -> Self {
        Self::start(|_, _| Behaviour::Accept)
    }

    /// A sink that does what the script says: for a signal, and the number of the request of that signal, from 0.
    pub(crate) fn start(script: impl Fn(Signal, usize) -> Behaviour + Send + Sync + 'static) -> Self {
        Self::start_at(own_addresses(), script)
    }

    /// The same at these addresses (HTTP, gRPC), where nobody listens: the server that comes back.
    pub(crate) fn start_at(addresses: [SocketAddr; 2], script: impl Fn(Signal, usize) -> Behaviour + Send + Sync + 'static) -> Self {
        Self::start_with(addresses, None, script)
    }

    /// The same with TLS.
    pub(crate) fn start_secure(tls: rustls::ServerConfig, script: impl Fn(Signal, usize) -> Behaviour + Send + Sync + 'static) -> Self {
        // Certificates are for this address.
        Self::start_with([0, 0].map(|port| SocketAddr::from(([127, 0, 0, 1], port))), Some(tls), script)
    }

    fn start_with(
        addresses: [SocketAddr; 2],
        tls: Option<rustls::ServerConfig>,
        script: impl Fn(Signal, usize) -> Behaviour + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared { script: Box::new(script), seen: Mutex::default(), changed: Condvar::new() });
        let listeners = addresses.map(|address| {
            let listener = TcpListener::bind(address).expect("a port");
            listener.set_nonblocking(true).expect("a listener");
            listener
        });
        let addresses = [0, 1].map(|place: usize| listeners[place].local_addr().expect("an address"));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let of_thread = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("otlp-sink".to_owned()).spawn(move || server::run(listeners, tls, of_thread, stopped));
        Self { shared, addresses, scheme, stop: Some(stop), thread: Some(thread.expect("a thread")) }
    }

    /// The base URL for HTTP.
    pub(crate) fn http_endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.addresses[0])
    }

    /// The URL for gRPC.
    pub(crate) fn grpc_endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.addresses[1])
    }

    /// Where it listens for HTTP and gRPC.
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        self.addresses
    }

    /// What it took.
    pub(crate) fn accepted(&self) -> Accepted {
        self.seen(|seen| seen.accepted.clone())
    }

    /// All that came, in the order of arrival, whatever was done with it.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen(|seen| seen.requests.clone())
    }

    /// The requests of one signal.
    pub(crate) fn requests_of(&self, signal: Signal) -> Vec<Received> {
        self.requests().into_iter().filter(|received| received.request.signal() == signal).collect()
    }

    /// What came and was no OTLP request.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.seen(|seen| seen.faults.clone())
    }

    /// How often somebody connected.
    pub(crate) fn connections(&self) -> usize {
        self.seen(|seen| seen.connections)
    }

    fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the condition holds of what it took and of all requests; fails the test when it does not within the time.
    pub(crate) fn wait_until(&self, what: &str, patience: Duration, condition: impl Fn(&Accepted, &[Received]) -> bool) {
        let deadline = Instant::now() + patience;
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while !condition(&seen.accepted, &seen.requests) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: not within {patience:?}; {} requests, faults {:?}", seen.requests.len(), seen.faults);
            seen = self.shared.changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes what it took, byte for byte as it came, into files that checkers read: JSON lines, or protobuf with lengths in front.
    pub(crate) fn write_capture(&self, directory: &Path) -> Vec<PathBuf> {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for received in self.requests() {
            if !matches!(received.behaviour, Behaviour::Accept | Behaviour::Slow(_) | Behaviour::AcceptAndClose) {
                continue;
            }
            let signal = received.request.signal().name();
            if received.wire == Wire::HttpJson {
                let file = files.entry(directory.join(format!("{signal}.jsonl"))).or_default();
                file.extend_from_slice(&received.body);
                file.push(b'\n');
            } else {
                let file = files.entry(directory.join(format!("{signal}.binpb"))).or_default();
                file.extend_from_slice(&(received.body.len() as u32).to_be_bytes());
                file.extend_from_slice(&received.body);
            }
        }
        for (path, bytes) in &files {
            fs::write(path, bytes).expect("a file of the capture");
        }
        files.into_keys().collect()
    }
}

impl Drop for OtlpSink {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Addresses (HTTP, gRPC) where nobody listens.
pub(crate) fn addresses_without_listener() -> [SocketAddr; 2] {
    let listeners = own_addresses().map(|address| TcpListener::bind(address).expect("a port"));
    [0, 1].map(|place: usize| listeners[place].local_addr().expect("an address"))
}

/// An address that nobody else in this process has, with any ports.
fn own_addresses() -> [SocketAddr; 2] {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = (std::process::id() % 250) as u8 + 1;
    // Other systems than Linux have 127.0.0.1 alone.
    let address = if cfg!(target_os = "linux") { [127, process, high, low.max(1)] } else { [127, 0, 0, 1] };
    [0, 0].map(|port| SocketAddr::from((address, port)))
}
