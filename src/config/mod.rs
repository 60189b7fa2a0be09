//! From the builder's settings and the environment to one resolved [`Config`].
//!
//! What is set in code goes before `STEPLINE_` variables, those before OpenTelemetry's of one signal, those before its general ones.
//! A bad value is never a failure: a line says what was found and what is used instead. Knows nothing of what the values are for.

mod describe;
mod endpoint;
mod environment;
mod launch;
mod pairs;
mod proxy;
mod resolve;
mod resource;
mod settings;
mod url;
mod value;
mod variables;

use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Signal, StepSpans};

pub use describe::{Described, Origin};
pub use environment::Environment;
pub use proxy::Proxy;
pub use resolve::resolve;
pub use settings::{Compression, Settings};
pub use url::Url;
pub use variables::{VARIABLES, Variable, variables_table};

/// Everything that a run needs to know before it starts.
#[derive(Debug, Clone)]
pub struct Config {
    /// Do nothing at all (`STEPLINE_DISABLED`, `OTEL_SDK_DISABLED`).
    pub disabled: bool,
    /// The run's id (`STEPLINE_RUN_ID`, else the launcher's job id); drawn at start where absent.
    pub run_id: Option<String>,
    /// What people call the run (`STEPLINE_RUN_NAME`); the executable's name where absent.
    pub run_name: Option<String>,
    /// What the launcher says about this process.
    pub launch: Launch,
    /// `service.name` (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`); the run's name where absent.
    pub service_name: Option<String>,
    /// Further resource attributes (`OTEL_RESOURCE_ATTRIBUTES`), percent-decoded.
    pub resource_attributes: Vec<(String, String)>,
    /// Where the runs' files go (`STEPLINE_DIR`): `stepline-runs`.
    pub directory: PathBuf,
    /// Whether files are written (`STEPLINE_FILES`).
    pub files: bool,
    /// Whether a summary is printed at the end (`STEPLINE_SUMMARY`).
    pub summary: bool,
    /// Where journals are (`STEPLINE_JOURNAL_DIR`).
    pub journal_directory: PathBuf,
    /// Size of the journal's file, bytes (`STEPLINE_JOURNAL_SIZE`): 2 MiB.
    pub journal_size_bytes: u64,
    /// Time between two readings of a device (`STEPLINE_SAMPLE_INTERVAL`): 1 s; 100 ms to 60 s.
    pub sample_interval: Duration,
    /// Which steps get a span (`STEPLINE_STEP_SPANS`).
    pub step_spans: StepSpans,
    /// Where GPU readings come from (`STEPLINE_GPU`).
    pub gpu: GpuChoice,
    /// NVML's library (`STEPLINE_NVML_PATH`).
    pub nvml_path: Option<PathBuf>,
    /// Where spans are sent; `None`: nowhere.
    pub traces: Option<Endpoint>,
    /// Where metrics are sent; `None`: nowhere.
    pub metrics: Option<Endpoint>,
    /// Where log events are sent; `None`: nowhere.
    pub logs: Option<Endpoint>,
    /// Time between two exports (`OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_BSP_SCHEDULE_DELAY`, the shorter): 5 s.
    pub export_interval: Duration,
    /// How long everything at shutdown may take together (`STEPLINE_SHUTDOWN_TIMEOUT`): 5 s.
    pub shutdown_timeout: Duration,
    /// Whether stepline says anything on standard error (`OTEL_LOG_LEVEL=none`: no).
    pub silent: bool,
    /// How much may wait for the endpoint, bytes (`STEPLINE_QUEUE_SIZE`): 64 MiB.
    pub queue_bytes: u64,
    /// What was wrong with the settings, one line each: what was found, what is used instead, what to do.
    pub warnings: Vec<String>,
    /// Where each value comes from, by the names of [`describe`](Self::describe).
    pub(crate) origins: describe::Origins,
}

impl Config {
    /// Where a signal is sent; `None`: nowhere.
    #[must_use]
    pub fn endpoint(&self, signal: Signal) -> Option<&Endpoint> {
        match signal {
            Signal::Traces => self.traces.as_ref(),
            Signal::Metrics => self.metrics.as_ref(),
            Signal::Logs => self.logs.as_ref(),
        }
    }
}

/// What the launcher (torchrun, Slurm, MPI, ...) says about this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// Which launcher: `torchrun`, `slurm`, `mpi`, ...
    pub launcher: Option<&'static str>,
    /// Number of this training process within the run.
    pub rank: u32,
    /// Number of this training process within its host.
    pub local_rank: Option<u32>,
    /// Training processes of the run.
    pub world_size: u32,
    /// Restarts so far.
    pub attempt: u32,
}

impl Launch {
    /// Which of the host's devices is this rank's, where several ranks share a host and see all of its devices: the one of the local
    /// rank's number, by the convention that all launchers follow. Were each to report all of them, sums over ranks would be too large
    /// by as much.
    #[must_use]
    pub fn own_device(&self) -> Option<u32> {
        self.local_rank.filter(|_| self.world_size > 1)
    }
}

/// Where GPU readings come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GpuChoice {
    /// NVML, else sysfs, else none.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// A simulated device whose memory and utilization follow this process.
    Mirror,
    /// A recorded CSV file.
    Replay(PathBuf),
}

/// How OTLP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Protobuf over HTTP.
    #[default]
    HttpProtobuf,
    /// JSON over HTTP.
    HttpJson,
    /// gRPC.
    Grpc,
}

/// Where one signal is sent, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How OTLP is spoken.
    pub protocol: Protocol,
    /// The final URL: with `/v1/<signal>` for HTTP, scheme and authority for gRPC.
    pub url: String,
    /// Headers (gRPC: metadata), percent-decoded. Values are secrets: `Debug` does not show them.
    pub headers: Vec<(String, String)>,
    /// How long one attempt may take: 10 s.
    pub timeout: Duration,
    /// Whether bodies are compressed with gzip.
    pub gzip: bool,
    /// A file of certificates (PEM) to trust instead of the system's.
    pub certificate: Option<PathBuf>,
    /// A file with the client's key (PEM).
    pub client_key: Option<PathBuf>,
    /// A file with the client's certificate (PEM).
    pub client_certificate: Option<PathBuf>,
    /// What stands between this host and the endpoint.
    pub proxy: Option<Proxy>,
}

impl Endpoint {
    /// The URL for people: without a query, which may hold a secret.
    #[must_use]
    pub fn shown_url(&self) -> String {
        Url::parse(&self.url).map_or_else(|_| "(no URL)".to_owned(), |url| url.shown())
    }
}

impl Protocol {
    /// Its name in variables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::HttpJson => "http/json",
            Self::Grpc => "grpc",
        }
    }

    /// Whether it is built into this program.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::HttpProtobuf | Self::HttpJson => cfg!(feature = "http"),
            Self::Grpc => cfg!(feature = "grpc"),
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("protocol", &self.protocol)
            .field("url", &self.shown_url())
            .field("header_names", &names)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod endpoint_tests;
#[cfg(test)]
mod tests;
