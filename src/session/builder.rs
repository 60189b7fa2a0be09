//! How a run is begun.

use std::path::PathBuf;
use std::time::Duration;

use super::start::start;
use crate::config::{self, Environment, GpuChoice, Protocol, Settings};
use crate::error::StartError;
use crate::hook::Run;
use crate::model::StepSpans;
use crate::notice::notice;

/// Begins a run with the environment's settings alone. Never fails: what is wrong is said in a line on standard error, and the run
/// that comes back then does nothing.
///
/// ```no_run
/// let run = stepline::init();
/// for (step, batch) in run.steps(0..100) {
///     // ..
/// }
/// ```
pub fn init() -> Run {
    match configure().start() {
        Ok(run) => run,
        Err(error) => {
            notice!("{error}. The training goes on without stepline");
            Run::none()
        }
    }
}

/// Begins the settings of a run. What is set in code goes before the environment, and the environment before the defaults.
///
/// ```no_run
/// let run = stepline::configure().run_name("wine").start()?;
/// # Ok::<(), stepline::StartError>(())
/// ```
pub fn configure() -> Builder {
    Builder { settings: Settings::default(), first_step: 0 }
}

/// The settings of a run: made by [`configure`].
///
/// ```no_run
/// use std::time::Duration;
///
/// let run = stepline::configure()
///     .run_name("wine")
///     .endpoint("http://127.0.0.1:4318")
///     .sample_interval(Duration::from_millis(200))
///     .start()?;
/// # Ok::<(), stepline::StartError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing happens until `start` is called"]
pub struct Builder {
    settings: Settings,
    first_step: u64,
}

impl Builder {
    /// What people call the run. Defaults to the executable's name. `STEPLINE_RUN_NAME`.
    ///
    /// ```no_run
    /// let run = stepline::configure().run_name("wine").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn run_name(mut self, name: impl Into<String>) -> Self {
        self.settings.run_name = Some(name.into());
        self
    }

    /// The run's id: the same for all its ranks and all its attempts. Defaults to the launcher's job id (torchrun, Slurm), else it is
    /// drawn. `STEPLINE_RUN_ID`.
    ///
    /// ```no_run
    /// let run = stepline::configure().run_id("wine-2026-12-01").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn run_id(mut self, id: impl Into<String>) -> Self {
        self.settings.run_id = Some(id.into());
        self
    }

    /// `service.name`. Defaults to the run's name. `OTEL_SERVICE_NAME`.
    ///
    /// ```no_run
    /// let run = stepline::configure().service_name("fraud-model").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.settings.service_name = Some(name.into());
        self
    }

    /// Sends everything to this OTLP endpoint. `/v1/traces`, `/v1/metrics` and `/v1/logs` are appended for HTTP. Defaults to nowhere.
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    ///
    /// ```no_run
    /// let run = stepline::configure().endpoint("http://127.0.0.1:4318").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.settings.endpoint = Some(url.into());
        self
    }

    /// How OTLP is spoken. Defaults to protobuf over HTTP. `OTEL_EXPORTER_OTLP_PROTOCOL`.
    ///
    /// ```no_run
    /// use stepline::Protocol;
    /// let run = stepline::configure().endpoint("http://127.0.0.1:4317").protocol(Protocol::Grpc).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = Some(protocol);
        self
    }

    /// Adds a header (gRPC: metadata) to what is sent; the value is never shown. `OTEL_EXPORTER_OTLP_HEADERS`.
    ///
    /// ```no_run
    /// let run = stepline::configure().endpoint("https://otlp.example.com").header("api-key", "secret").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.headers.push((name.into(), value.into()));
        self
    }

    /// Adds an attribute to the resource. `OTEL_RESOURCE_ATTRIBUTES`.
    ///
    /// ```no_run
    /// let run = stepline::configure().resource_attribute("deployment.environment.name", "staging").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn resource_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.resource_attributes.push((name.into(), value.into()));
        self
    }

    /// Where the runs' files go. Defaults to `stepline-runs` in the working directory. `STEPLINE_DIR`.
    ///
    /// ```no_run
    /// let run = stepline::configure().directory("/scratch/runs").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.directory = Some(directory.into());
        self
    }

    /// Whether files are written. Defaults to yes. `STEPLINE_FILES`.
    ///
    /// ```no_run
    /// let run = stepline::configure().endpoint("http://127.0.0.1:4318").files(false).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn files(mut self, files: bool) -> Self {
        self.settings.files = Some(files);
        self
    }

    /// Whether a summary is printed on standard error at the end. Defaults to yes. `STEPLINE_SUMMARY`.
    ///
    /// ```no_run
    /// let run = stepline::configure().summary(false).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn summary(mut self, summary: bool) -> Self {
        self.settings.summary = Some(summary);
        self
    }

    /// Time between two readings of a device. Defaults to 1 s; at least 100 ms (polling faster disturbs the driver), at most 60 s.
    /// `STEPLINE_SAMPLE_INTERVAL`, in milliseconds.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let run = stepline::configure().sample_interval(Duration::from_millis(200)).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn sample_interval(mut self, interval: Duration) -> Self {
        self.settings.sample_interval = Some(interval);
        self
    }

    /// Which steps get a span of their own. Defaults to those that stand out, and some others. `STEPLINE_STEP_SPANS`.
    ///
    /// ```no_run
    /// use stepline::StepSpans;
    /// let run = stepline::configure().step_spans(StepSpans::Every(100)).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn step_spans(mut self, step_spans: StepSpans) -> Self {
        self.settings.step_spans = Some(step_spans);
        self
    }

    /// Where GPU readings come from. Defaults to what is found. `STEPLINE_GPU`.
    ///
    /// ```no_run
    /// use stepline::GpuChoice;
    /// let run = stepline::configure().gpu(GpuChoice::Mirror).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn gpu(mut self, choice: GpuChoice) -> Self {
        self.settings.gpu = Some(choice);
        self
    }

    /// Where journals are. Defaults to a directory of the user's own below the system's temporary one. `STEPLINE_JOURNAL_DIR`.
    ///
    /// ```no_run
    /// let run = stepline::configure().journal_directory("/dev/shm/stepline").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn journal_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.journal_directory = Some(directory.into());
        self
    }

    /// Size of the journal's ring, bytes. Defaults to 2 MiB: 16,000 steps between two looks of the pump, which come every 50 ms.
    /// `STEPLINE_JOURNAL_SIZE`.
    ///
    /// ```no_run
    /// let run = stepline::configure().journal_size_bytes(8 << 20).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn journal_size_bytes(mut self, bytes: u64) -> Self {
        self.settings.journal_size_bytes = Some(bytes);
        self
    }

    /// How long everything at the end may take together. Defaults to 5 s. `STEPLINE_SHUTDOWN_TIMEOUT`, in milliseconds.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let run = stepline::configure().shutdown_timeout(Duration::from_secs(2)).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.settings.shutdown_timeout = Some(timeout);
        self
    }

    /// The number of the first step, after a restart from a checkpoint. Defaults to 0.
    ///
    /// ```no_run
    /// let run = stepline::configure().first_step(12_000).start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn first_step(mut self, number: u64) -> Self {
        self.first_step = number;
        self
    }

    /// Begins the run. With `STEPLINE_DISABLED=1` or `OTEL_SDK_DISABLED=true` the run that comes back does nothing.
    ///
    /// Wrong values in the environment are no errors: a line on standard error says what is used instead.
    ///
    /// # Errors
    /// When the journal cannot be made (its directory is not safe to write to, the disk is full), a thread cannot be started, or a run
    /// of the same id is open in this process.
    ///
    /// ```no_run
    /// let run = stepline::configure().run_name("wine").start()?;
    /// # Ok::<(), stepline::StartError>(())
    /// ```
    pub fn start(self) -> Result<Run, StartError> {
        start(config::resolve(&self.settings, &Environment::of_process()), self.first_step)
    }
}
