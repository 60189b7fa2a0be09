//! The three real servers, for a test: collector, Jaeger and Prometheus as child processes on free ports of
//! 127.0.0.1, with the very files of `collector-config/` and all of their state in one directory.
//!
//! `Backends::require("test name")` is where a test begins. It builds the servers when Go is there and says why
//! the test is skipped when it is not; with `CI=true` a missing tool is a failure.
//! What they received is read back by `jaeger_*` and `prometheus_*` (in the files beside this one) and from
//! `collector_files()`. Data arrives some time after it was sent: wrap what you expect in `wait_for`.
#![allow(clippy::expect_used, clippy::print_stderr, reason = "a test fails by panicking, and says aloud what it skips")]

pub(crate) mod jaeger;
pub(crate) mod prometheus;
mod selftest;
mod server;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs, process, thread};

pub(crate) use server::wait_for;

use server::Server;

/// A server that shares two cores with a compiler still has to come up within this.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The running servers. Dropping it kills them.
pub(crate) struct Backends {
    ports: Ports,
    directory: PathBuf,
    /// Set when the directory is ours to remove.
    owns_directory: bool,
    collector: Server,
    jaeger: Server,
    prometheus: Server,
    http: ureq::Agent,
}

/// Where the collector's file exporters write: one OTLP/JSON message a line.
pub(crate) struct CollectorFiles {
    pub(crate) traces: PathBuf,
    pub(crate) metrics: PathBuf,
    pub(crate) logs: PathBuf,
}

#[derive(Clone, Copy)]
struct Ports {
    collector_grpc: u16,
    collector_http: u16,
    collector_health: u16,
    jaeger_otlp: u16,
    jaeger_query: u16,
    jaeger_query_grpc: u16,
    jaeger_health: u16,
    prometheus: u16,
}

impl Backends {
    /// Starts the servers in a directory of their own, or says that the test is skipped.
    /// The directory goes at the end, unless the test fails: then its path is printed and the logs lie in it.
    pub(crate) fn require(test_name: &str) -> Option<Self> {
        if let Err(reason) = build().and_then(|()| Self::available()) {
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{test_name}: CI must not skip this: {reason}");
            eprintln!("skipped: {test_name}: {reason}");
            return None;
        }
        let file_name = test_name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let directory = env::temp_dir().join(format!("stepline-{file_name}-{}", process::id()));
        let mut backends = Self::start(&directory);
        backends.owns_directory = true;
        Some(backends)
    }

    /// Whether all of the programs are there; the error names the one that is missing and what to do.
    pub(crate) fn available() -> Result<(), String> {
        for program in ["otelcol", "jaeger", "prometheus"] {
            if !program_path(program).is_file() {
                return Err(format!("target/backends/{program} is missing: run `make -C integration-tests/backends` (needs Go)"));
            }
        }
        Ok(())
    }

    /// Starts the servers with their state, files and logs in `directory`, which stays.
    ///
    /// # Panics
    /// When one of them does not become ready; the message ends with the last lines of its log.
    pub(crate) fn start(directory: &Path) -> Self {
        // Between choosing a port and binding it another process may take it: begin again with others.
        for _ in 0..2 {
            match Self::start_on(Ports::free(), directory) {
                Ok(backends) => return backends,
                Err(failure) if failure.contains("address already in use") => {}
                Err(failure) => panic!("{failure}"),
            }
        }
        Self::start_on(Ports::free(), directory).unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn start_on(ports: Ports, directory: &Path) -> Result<Self, String> {
        fs::create_dir_all(directory).expect("the directory of the servers");
        let config = repository().join("collector-config");
        let loopback = |port: u16| format!("127.0.0.1:{port}");
        let text = |path: PathBuf| path.to_str().expect("a path in UTF-8").to_owned();

        let jaeger = Server::new("jaeger", &program_path("jaeger"), directory)
            .args(["--config".into(), text(config.join("jaeger.yaml"))])
            .envs([
                ("JAEGER_OTLP_PORT", ports.jaeger_otlp.to_string()),
                ("JAEGER_QUERY_PORT", ports.jaeger_query.to_string()),
                ("JAEGER_QUERY_GRPC_PORT", ports.jaeger_query_grpc.to_string()),
                ("JAEGER_HEALTH_PORT", ports.jaeger_health.to_string()),
                ("JAEGER_MAX_TRACES", jaeger::MAX_TRACES.to_string()),
            ])
            .ready_at(format!("http://{}/status", loopback(ports.jaeger_health)));
        let prometheus = Server::new("prometheus", &program_path("prometheus"), directory)
            .args([
                format!("--config.file={}", text(config.join("prometheus.yml"))),
                format!("--storage.tsdb.path={}", text(directory.join("prometheus"))),
                format!("--web.listen-address={}", loopback(ports.prometheus)),
                "--web.enable-otlp-receiver".into(),
                "--enable-feature=exemplar-storage".into(),
            ])
            .ready_at(format!("http://{}/-/ready", loopback(ports.prometheus)));
        let collector = Server::new("collector", &program_path("otelcol"), directory)
            .args(["--config".into(), text(config.join("collector.yaml"))])
            .envs([
                ("COLLECTOR_GRPC_PORT", ports.collector_grpc.to_string()),
                ("COLLECTOR_HTTP_PORT", ports.collector_http.to_string()),
                ("COLLECTOR_HEALTH_PORT", ports.collector_health.to_string()),
                ("COLLECTOR_STATE_DIR", text(directory.join("collector-state"))),
                ("COLLECTOR_FILES_DIR", text(directory.join("collector-files"))),
                ("JAEGER_OTLP_ENDPOINT", loopback(ports.jaeger_otlp)),
                ("PROMETHEUS_OTLP_URL", format!("http://{}/api/v1/otlp", loopback(ports.prometheus))),
            ])
            .ready_at(format!("http://{}/", loopback(ports.collector_health)));

        let http = server::http_agent(Duration::from_secs(30));
        let directory = directory.to_owned();
        let mut backends = Self { ports, directory, owns_directory: false, collector, jaeger, prometheus, http };
        let servers = [&mut backends.jaeger, &mut backends.prometheus, &mut backends.collector];
        // All at once, then wait for each: they come up side by side.
        let mut started = Vec::new();
        for server in servers {
            server.spawn()?;
            started.push(server);
        }
        for server in started {
            server.wait_until_ready(START_TIMEOUT)?;
        }
        Ok(backends)
    }

    /// For OTLP over HTTP, without `/v1/…`.
    pub(crate) fn otlp_http_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.collector_http)
    }

    /// For OTLP over gRPC.
    pub(crate) fn otlp_grpc_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.collector_grpc)
    }

    /// The files that the collector writes; one exists once something of its signal has arrived.
    pub(crate) fn collector_files(&self) -> CollectorFiles {
        let file = |name: &str| self.directory.join("collector-files").join(name);
        CollectorFiles { traces: file("traces.jsonl"), metrics: file("metrics.jsonl"), logs: file("logs.jsonl") }
    }

    /// Stops the collector as an administrator does (SIGTERM) and returns when its process has gone.
    pub(crate) fn stop_collector(&mut self) {
        self.collector.terminate();
    }

    /// Ends the collector as the OOM killer does (SIGKILL).
    pub(crate) fn kill_collector(&mut self) {
        self.collector.kill();
    }

    /// Starts the collector again, on the same ports and with the queue that it left on disk.
    pub(crate) fn start_collector(&mut self) {
        start_again(&mut self.collector);
    }

    /// Stops Jaeger; its traces are in memory and go with it.
    pub(crate) fn stop_jaeger(&mut self) {
        self.jaeger.terminate();
    }

    /// Starts Jaeger again, on the same ports and empty.
    pub(crate) fn start_jaeger(&mut self) {
        start_again(&mut self.jaeger);
    }

    /// Stops Prometheus; what it has stays on disk.
    pub(crate) fn stop_prometheus(&mut self) {
        self.prometheus.terminate();
    }

    /// Starts Prometheus again, on the same port and with what it had.
    pub(crate) fn start_prometheus(&mut self) {
        start_again(&mut self.prometheus);
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        // The collector first: it would only log that the others have gone.
        self.collector.kill();
        self.jaeger.kill();
        self.prometheus.kill();
        if !self.owns_directory {
            return;
        }
        if thread::panicking() {
            eprintln!("the logs and data of the servers are in {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

impl Ports {
    /// Ports that nothing listens on now. They lie below those that the system gives to outgoing connections
    /// (32768 and up): while the collector is down, a client that keeps trying its port cannot be given
    /// that very port as its own, and so keep the collector from coming back.
    fn free() -> Self {
        let mut taken = Vec::new();
        let mut next = || loop {
            let candidate = 10_000 + random_u16() % 20_000;
            // Held until all are chosen, so that no port is chosen twice.
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", candidate)) {
                taken.push(listener);
                return candidate;
            }
        };
        Self {
            collector_grpc: next(),
            collector_http: next(),
            collector_health: next(),
            jaeger_otlp: next(),
            jaeger_query: next(),
            jaeger_query_grpc: next(),
            jaeger_health: next(),
            prometheus: next(),
        }
    }
}

/// From the keys that std draws for its hash maps: different in each process and at each call.
fn random_u16() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8) as u16
}

fn start_again(server: &mut Server) {
    if let Err(failure) = server.spawn().and_then(|()| server.wait_until_ready(START_TIMEOUT)) {
        panic!("{failure}");
    }
}

/// Answers at once when nothing is to be built. Without Go it does nothing: programs that are there are used.
fn build() -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success());
    for (tool, argument) in [("go", "version"), ("make", "--version")] {
        if !runs(tool, argument) {
            return Backends::available().map_err(|missing| format!("{tool} is not installed, and {missing}"));
        }
    }
    // -s: silent unless something is built. The variables belong to a make that may have started the tests.
    let folder = repository().join("integration-tests/backends");
    let status = Command::new("make").arg("-s").arg("-C").arg(folder).env_remove("MAKEFLAGS").env_remove("MAKELEVEL").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("make -C integration-tests/backends failed: {status}")),
        Err(error) => Err(format!("make could not be run: {error}")),
    }
}

fn program_path(program: &str) -> PathBuf {
    repository().join("target/backends").join(program)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
