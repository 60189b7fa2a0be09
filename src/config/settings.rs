//! What is set in code.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{GpuChoice, Protocol};
use crate::model::StepSpans;

/// How bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With gzip.
    Gzip,
}

/// What is set in code; what is `None` (or empty) comes from the environment, else it is the default.
#[derive(Clone, Default)]
pub struct Settings {
    /// The run's id.
    pub run_id: Option<String>,
    /// What people call the run.
    pub run_name: Option<String>,
    /// `service.name`.
    pub service_name: Option<String>,
    /// Further resource attributes; they go before the environment's of the same name.
    pub resource_attributes: Vec<(String, String)>,
    /// Where the runs' files go.
    pub directory: Option<PathBuf>,
    /// Whether files are written.
    pub files: Option<bool>,
    /// Whether a summary is printed at the end.
    pub summary: Option<bool>,
    /// Where journals are.
    pub journal_directory: Option<PathBuf>,
    /// Size of the journal's ring, bytes.
    pub journal_size_bytes: Option<u64>,
    /// Time between two readings of a device.
    pub sample_interval: Option<Duration>,
    /// Which steps get a span.
    pub step_spans: Option<StepSpans>,
    /// Where GPU readings come from.
    pub gpu: Option<GpuChoice>,
    /// NVML's library.
    pub nvml_path: Option<PathBuf>,
    /// Where everything is sent: a base URL, like the general variable.
    pub endpoint: Option<String>,
    /// How OTLP is spoken.
    pub protocol: Option<Protocol>,
    /// Headers; they go before the environment's of the same name. Values are secrets.
    pub headers: Vec<(String, String)>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How bodies are compressed.
    pub compression: Option<Compression>,
    /// A file of certificates (PEM) to trust instead of the system's.
    pub certificate: Option<PathBuf>,
    /// A file with the client's key (PEM).
    pub client_key: Option<PathBuf>,
    /// A file with the client's certificate (PEM).
    pub client_certificate: Option<PathBuf>,
    /// Time between two exports.
    pub export_interval: Option<Duration>,
    /// How long everything at the end may take together.
    pub shutdown_timeout: Option<Duration>,
    /// How much may wait for the endpoint, bytes.
    pub queue_bytes: Option<u64>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Settings")
            .field("run_id", &self.run_id)
            .field("run_name", &self.run_name)
            .field("header_names", &headers)
            .finish_non_exhaustive()
    }
}
