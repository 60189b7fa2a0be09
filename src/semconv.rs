//! Every name that goes on the wire, once. `docs/metrics.md` lists the metrics; a test compares the two.
//!
//! Official names stand exactly as OpenTelemetry semantic conventions 1.44 define them; what those lack is under `stepline.`.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value at a time.
    Gauge,
    /// Only ever grows.
    Counter,
    /// Goes up and down, and adds up over series.
    UpDownCounter,
    /// A distribution.
    Histogram,
}

/// A metric's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit in UCUM.
    pub unit: &'static str,
    /// One sentence.
    pub description: &'static str,
}

const fn metric(name: &'static str, kind: Kind, unit: &'static str, description: &'static str) -> Metric {
    Metric { name, kind, unit, description }
}

/// Definitions of the metrics, official ones first.
pub mod metrics {
    use super::Kind::{Counter, Gauge, Histogram, UpDownCounter};
    use super::{Metric, metric};

    /// All of them.
    pub const ALL: &[Metric] = &[
        GPU_UTILIZATION,
        GPU_MEMORY_USAGE,
        GPU_MEMORY_LIMIT,
        GPU_MEMORY_UTILIZATION,
        GPU_IO,
        ENERGY,
        POWER,
        TEMPERATURE,
        FAN_SPEED_RATIO,
        ERRORS,
        STATUS,
        PROCESS_CPU_TIME,
        PROCESS_MEMORY_USAGE,
        PROCESS_THREAD_COUNT,
        PROCESS_DISK_IO,
        STEP_DURATION,
        PHASE_DURATION,
        STEPS,
        SAMPLES,
        TOKENS,
        EPOCH_CURRENT,
        STEP_CURRENT,
        PHASE_STATE,
        LOSS,
        LEARNING_RATE,
        GRAD_NORM,
        SCALAR,
        SCALARS_NONFINITE,
        GPU_PROCESS_MEMORY_USAGE,
        ALLOCATOR_MEMORY_ALLOCATED,
        ALLOCATOR_MEMORY_RESERVED,
        ALLOCATOR_MEMORY_PEAK,
        GPU_MEMORY_RESERVED,
        GPU_MEMORY_BANDWIDTH_UTILIZATION,
        GPU_CLOCK_FREQUENCY,
        GPU_THROTTLE_TIME,
        CHILDREN_MEMORY_USAGE,
        CHILDREN_CPU_TIME,
        HOST_MEMORY_USAGE,
        HOST_MEMORY_LIMIT,
        HOST_CPU_UTILIZATION,
        JOURNAL_DROPPED,
        EXPORT_DROPPED,
        EXPORT_DELIVERED,
        OVERHEAD_CPU_TIME,
    ];

    /// Share of time in which a kernel ran.
    pub const GPU_UTILIZATION: Metric = metric("hw.gpu.utilization", Gauge, "1", "Fraction of time spent in a specific task.");
    /// Memory in use on the device.
    pub const GPU_MEMORY_USAGE: Metric = metric("hw.gpu.memory.usage", UpDownCounter, "By", "GPU memory used.");
    /// Memory of the device.
    pub const GPU_MEMORY_LIMIT: Metric = metric("hw.gpu.memory.limit", UpDownCounter, "By", "Size of the GPU memory.");
    /// Share of the device's memory in use.
    pub const GPU_MEMORY_UTILIZATION: Metric = metric("hw.gpu.memory.utilization", Gauge, "1", "Fraction of GPU memory used.");
    /// Bytes over PCIe.
    pub const GPU_IO: Metric = metric("hw.gpu.io", Counter, "By", "Received and transmitted bytes by the GPU.");
    /// Energy counter.
    pub const ENERGY: Metric = metric("hw.energy", Counter, "J", "Energy consumed by the component.");
    /// Power.
    pub const POWER: Metric = metric("hw.power", Gauge, "W", "Instantaneous power consumed by the component.");
    /// Temperature.
    pub const TEMPERATURE: Metric = metric("hw.temperature", Gauge, "Cel", "Temperature in degrees Celsius.");
    /// Fan.
    pub const FAN_SPEED_RATIO: Metric = metric("hw.fan.speed_ratio", Gauge, "1", "Fan speed expressed as a fraction of its maximum speed.");
    /// ECC errors.
    pub const ERRORS: Metric = metric("hw.errors", Counter, "{error}", "Number of errors encountered by the component.");
    /// State of the device: one 0/1 series a state.
    pub const STATUS: Metric =
        metric("hw.status", UpDownCounter, "1", "Operational status: `1` (true) or `0` (false) for each of the possible states.");
    /// CPU time of the training process.
    pub const PROCESS_CPU_TIME: Metric = metric("process.cpu.time", Counter, "s", "Total CPU seconds broken down by different CPU modes.");
    /// Resident memory of the training process.
    pub const PROCESS_MEMORY_USAGE: Metric = metric("process.memory.usage", UpDownCounter, "By", "The amount of physical memory in use.");
    /// Threads of the training process.
    pub const PROCESS_THREAD_COUNT: Metric = metric("process.thread.count", UpDownCounter, "{thread}", "Process threads count.");
    /// Bytes to and from storage.
    pub const PROCESS_DISK_IO: Metric = metric("process.disk.io", Counter, "By", "Disk bytes transferred.");

    /// How long steps take.
    pub const STEP_DURATION: Metric =
        metric("stepline.step.duration", Histogram, "s", "Duration of a training step, waiting for its data included.");
    /// How long phases take.
    pub const PHASE_DURATION: Metric =
        metric("stepline.phase.duration", Histogram, "s", "Duration of a phase of a training step or epoch.");
    /// Steps done.
    pub const STEPS: Metric = metric("stepline.steps", Counter, "{step}", "Training steps (optimizer updates) done.");
    /// Samples seen.
    pub const SAMPLES: Metric = metric("stepline.samples", Counter, "{sample}", "Training samples seen.");
    /// Tokens seen.
    pub const TOKENS: Metric = metric("stepline.tokens", Counter, "{token}", "Training tokens seen.");
    /// The epoch that is open.
    pub const EPOCH_CURRENT: Metric =
        metric("stepline.epoch.current", Gauge, "{epoch}", "Number of the epoch that was open when the devices were sampled.");
    /// The step that is open.
    pub const STEP_CURRENT: Metric = metric(
        "stepline.step.current",
        Gauge,
        "{step}",
        "Number of the step that was open, or had just ended, when the devices were sampled.",
    );
    /// Which phase is open: one 0/1 series a phase.
    pub const PHASE_STATE: Metric = metric(
        "stepline.phase.state",
        UpDownCounter,
        "1",
        "1 for the phase that was open when the devices were sampled, 0 for the others.",
    );
    /// The loss.
    pub const LOSS: Metric = metric("stepline.loss", Gauge, "1", "Training loss.");
    /// The learning rate.
    pub const LEARNING_RATE: Metric = metric("stepline.learning_rate", Gauge, "1", "Learning rate.");
    /// The gradient's norm.
    pub const GRAD_NORM: Metric = metric("stepline.grad_norm", Gauge, "1", "Norm of the gradient.");
    /// The user's own numbers.
    pub const SCALAR: Metric = metric("stepline.scalar", Gauge, "1", "A number that the training recorded under a name of its own.");
    /// Numbers that were not finite.
    pub const SCALARS_NONFINITE: Metric =
        metric("stepline.scalars.nonfinite", Counter, "{value}", "Recorded numbers that were NaN or infinite.");
    /// Memory of this run's processes.
    pub const GPU_PROCESS_MEMORY_USAGE: Metric =
        metric("stepline.gpu.process.memory.usage", UpDownCounter, "By", "GPU memory used by the processes of this run.");
    /// The framework's view: handed out.
    pub const ALLOCATOR_MEMORY_ALLOCATED: Metric =
        metric("stepline.allocator.memory.allocated", Gauge, "By", "Memory that the framework's allocator has handed out.");
    /// The framework's view: held.
    pub const ALLOCATOR_MEMORY_RESERVED: Metric =
        metric("stepline.allocator.memory.reserved", Gauge, "By", "Memory that the framework's allocator holds.");
    /// The framework's view: peak.
    pub const ALLOCATOR_MEMORY_PEAK: Metric =
        metric("stepline.allocator.memory.peak", Gauge, "By", "The most memory that the framework's allocator has handed out.");
    /// Memory that the driver holds.
    pub const GPU_MEMORY_RESERVED: Metric =
        metric("stepline.gpu.memory.reserved", UpDownCounter, "By", "GPU memory that the driver reserves for itself.");
    /// Memory controller.
    pub const GPU_MEMORY_BANDWIDTH_UTILIZATION: Metric =
        metric("stepline.gpu.memory.bandwidth.utilization", Gauge, "1", "Fraction of time in which device memory was read or written.");
    /// Clocks.
    pub const GPU_CLOCK_FREQUENCY: Metric = metric("stepline.gpu.clock.frequency", Gauge, "Hz", "Clock of a part of the GPU.");
    /// Throttling.
    pub const GPU_THROTTLE_TIME: Metric = metric("stepline.gpu.throttle.time", Counter, "s", "Time that the GPU's clocks were held down.");
    /// Memory of data-loader workers.
    pub const CHILDREN_MEMORY_USAGE: Metric = metric(
        "stepline.children.memory.usage",
        UpDownCounter,
        "By",
        "Resident memory of the training process's descendants; shared pages count in each.",
    );
    /// CPU time of data-loader workers.
    pub const CHILDREN_CPU_TIME: Metric =
        metric("stepline.children.cpu.time", UpDownCounter, "s", "CPU time of the training process's living descendants.");
    /// Memory of the host.
    pub const HOST_MEMORY_USAGE: Metric =
        metric("stepline.host.memory.usage", UpDownCounter, "By", "Memory of the host in use (total less available).");
    /// Memory of the host.
    pub const HOST_MEMORY_LIMIT: Metric = metric("stepline.host.memory.limit", UpDownCounter, "By", "Memory of the host.");
    /// CPU of the host.
    pub const HOST_CPU_UTILIZATION: Metric =
        metric("stepline.host.cpu.utilization", Gauge, "1", "Fraction of all cores' time that was busy.");
    /// Lost before the pump.
    pub const JOURNAL_DROPPED: Metric =
        metric("stepline.journal.dropped", Counter, "{record}", "Records that did not fit into the journal.");
    /// Lost on the way out.
    pub const EXPORT_DROPPED: Metric =
        metric("stepline.export.dropped", Counter, "{item}", "Spans, points and events that could not be delivered.");
    /// Arrived.
    pub const EXPORT_DELIVERED: Metric =
        metric("stepline.export.delivered", Counter, "{item}", "Spans, points and events that the endpoint accepted.");
    /// What stepline costs.
    pub const OVERHEAD_CPU_TIME: Metric = metric("stepline.overhead.cpu.time", Counter, "s", "CPU time of stepline's own threads.");
}

/// The definition of a metric.
#[must_use]
pub fn find_metric(name: &str) -> Option<&'static Metric> {
    metrics::ALL.iter().find(|metric| metric.name == name)
}

/// Names of spans.
pub mod spans {
    /// A run.
    pub const RUN: &str = "train.run";
    /// An epoch.
    pub const EPOCH: &str = "train.epoch";
    /// A bounded stretch of steps.
    pub const SEGMENT: &str = "train.segment";
    /// A step.
    pub const STEP: &str = "train.step";
    /// What stands before the name of a phase.
    pub const PHASE_PREFIX: &str = "train.";
    /// A phase with a name of the user's own; the name is in an attribute, since span names must be few.
    pub const OWN_PHASE: &str = "train.phase";

    /// The name of the span of a phase: its own for the phases that every training shares, else [`OWN_PHASE`].
    #[must_use]
    pub fn of_phase(name: &str) -> &'static str {
        match name {
            "data_wait" => "train.data_wait",
            "host_to_device" => "train.host_to_device",
            "forward" => "train.forward",
            "backward" => "train.backward",
            "optimizer" => "train.optimizer",
            "collective" => "train.collective",
            "validation" => "train.validation",
            "checkpoint" => "train.checkpoint",
            _ => OWN_PHASE,
        }
    }
}

/// Names of log events and span events.
pub mod events {
    /// A run began.
    pub const RUN_STARTED: &str = "stepline.run.started";
    /// A run ended.
    pub const RUN_FINISHED: &str = "stepline.run.finished";
    /// An epoch began.
    pub const EPOCH_STARTED: &str = "stepline.epoch.started";
    /// A recorded number was NaN or infinite.
    pub const SCALAR_NONFINITE: &str = "stepline.scalar.nonfinite";
    /// An error was reported, or a panic passed.
    pub const EXCEPTION: &str = "stepline.run.exception";
    /// A device stopped answering.
    pub const GPU_LOST: &str = "stepline.gpu.lost";
    /// A lost device answers again.
    pub const GPU_RETURNED: &str = "stepline.gpu.returned";
    /// An epoch used much more memory than the others: a finding.
    pub const MEMORY_SPIKE: &str = "stepline.memory.spike";
}

/// Names of attributes.
pub mod attributes {
    /// Name of the service.
    pub const SERVICE_NAME: &str = "service.name";
    /// Namespace of the service.
    pub const SERVICE_NAMESPACE: &str = "service.namespace";
    /// Version of the service.
    pub const SERVICE_VERSION: &str = "service.version";
    /// Unique per process and attempt.
    pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";
    /// The SDK's name.
    pub const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";
    /// The SDK's language.
    pub const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
    /// The SDK's version.
    pub const TELEMETRY_SDK_VERSION: &str = "telemetry.sdk.version";
    /// Name of the host.
    pub const HOST_NAME: &str = "host.name";
    /// Architecture of the host.
    pub const HOST_ARCH: &str = "host.arch";
    /// Operating system.
    pub const OS_TYPE: &str = "os.type";
    /// Process id.
    pub const PROCESS_PID: &str = "process.pid";
    /// When the process began, ISO 8601.
    pub const PROCESS_CREATION_TIME: &str = "process.creation.time";
    /// Name of the executable, without its path.
    pub const PROCESS_EXECUTABLE_NAME: &str = "process.executable.name";
    /// The run.
    pub const RUN_ID: &str = "stepline.run.id";
    /// What people call the run.
    pub const RUN_NAME: &str = "stepline.run.name";
    /// The start of the job.
    pub const ATTEMPT: &str = "stepline.attempt";
    /// The training process within the run.
    pub const RANK: &str = "stepline.rank";
    /// The training process within its host.
    pub const LOCAL_RANK: &str = "stepline.local_rank";
    /// Training processes of the run.
    pub const WORLD_SIZE: &str = "stepline.world_size";
    /// What started the ranks.
    pub const LAUNCHER: &str = "stepline.launcher";
    /// What the sampled devices simulate, on the resource of a run that has simulated devices.
    pub const GPU_SIMULATED: &str = "stepline.gpu.simulated";

    /// Identity of a component: the device's UUID.
    pub const HW_ID: &str = "hw.id";
    /// Its name.
    pub const HW_NAME: &str = "hw.name";
    /// Its vendor.
    pub const HW_VENDOR: &str = "hw.vendor";
    /// Its model.
    pub const HW_MODEL: &str = "hw.model";
    /// Its serial number.
    pub const HW_SERIAL_NUMBER: &str = "hw.serial_number";
    /// Its driver's version.
    pub const HW_DRIVER_VERSION: &str = "hw.driver_version";
    /// Its kind; `gpu` here. Not on `hw.gpu.*`.
    pub const HW_TYPE: &str = "hw.type";
    /// A state of it.
    pub const HW_STATE: &str = "hw.state";
    /// Direction of bytes.
    pub const NETWORK_IO_DIRECTION: &str = "network.io.direction";
    /// Direction of bytes.
    pub const DISK_IO_DIRECTION: &str = "disk.io.direction";
    /// Mode of the CPU.
    pub const CPU_MODE: &str = "cpu.mode";
    /// Kind of an error.
    pub const ERROR_TYPE: &str = "error.type";

    /// How a run, epoch, step or phase ended: `finished`, `failed`, `interrupted`.
    pub const STATUS: &str = "stepline.status";
    /// The training's own number of an epoch.
    pub const EPOCH_INDEX: &str = "stepline.epoch.index";
    /// The training's own number of a step.
    pub const STEP_INDEX: &str = "stepline.step.index";
    /// Number of a segment in its process.
    pub const SEGMENT_INDEX: &str = "stepline.segment.index";
    /// Name of a phase.
    pub const PHASE_NAME: &str = "stepline.phase.name";
    /// Name of a number.
    pub const SCALAR_NAME: &str = "stepline.scalar.name";
    /// The number, as text where it is not finite.
    pub const SCALAR_VALUE: &str = "stepline.scalar.value";
    /// What a link means.
    pub const LINK_TYPE: &str = "stepline.link.type";
    /// How many segments an epoch or a run has, where it links to only some of them.
    pub const SEGMENT_COUNT: &str = "stepline.segment.count";
    /// Why a step's span was kept.
    pub const STEP_KEPT_FOR: &str = "stepline.step.kept_for";
    /// Batches in a step.
    pub const STEP_MICRO_STEPS: &str = "stepline.step.micro_steps";
    /// Steps in an epoch, a segment or a run.
    pub const STEP_COUNT: &str = "stepline.step.count";
    /// Median of the steps' durations, s.
    pub const STEP_DURATION_P50: &str = "stepline.step.duration.p50";
    /// 95th percentile of the steps' durations, s.
    pub const STEP_DURATION_P95: &str = "stepline.step.duration.p95";
    /// Share of the steps' time spent waiting for data.
    pub const DATA_WAIT_RATIO: &str = "stepline.data_wait.ratio";
    /// Batch samples of a step.
    pub const STEP_SAMPLES: &str = "stepline.step.samples";
    /// Tokens of a step.
    pub const STEP_TOKENS: &str = "stepline.step.tokens";
    /// Loss of a step.
    pub const STEP_LOSS: &str = "stepline.step.loss";
    /// Learning rate of a step.
    pub const STEP_LEARNING_RATE: &str = "stepline.step.learning_rate";
    /// Gradient norm of a step.
    pub const STEP_GRAD_NORM: &str = "stepline.step.grad_norm";
    /// What stands before a number's name in the attributes of a step.
    pub const SPAN_SCALAR_PREFIX: &str = "stepline.scalar.values.";
    /// Numbers that were not finite.
    pub const SCALARS_NONFINITE: &str = "stepline.scalars.nonfinite";

    /// The most memory in use on a device of this rank, By.
    pub const GPU_MEMORY_USAGE_MAX: &str = "stepline.gpu.memory.usage.max";
    /// The median of the other epochs' maxima, By.
    pub const GPU_MEMORY_USAGE_MEDIAN: &str = "stepline.gpu.memory.usage.median";
    /// The phase in which that was.
    pub const GPU_MEMORY_USAGE_MAX_PHASE: &str = "stepline.gpu.memory.peak.phase";
    /// Memory in use on all devices of this rank at the end, By.
    pub const GPU_MEMORY_USAGE_END: &str = "stepline.gpu.memory.usage.end";
    /// Time-weighted mean of the utilization over this rank's devices.
    pub const GPU_UTILIZATION_MEAN: &str = "stepline.gpu.utilization.mean";
    /// Mean power of this rank's devices together, W.
    pub const GPU_POWER_MEAN: &str = "stepline.gpu.power.mean";
    /// Energy of this rank's devices together, J.
    pub const GPU_ENERGY_CONSUMED: &str = "stepline.gpu.energy.consumed";
    /// How far that may be off, J.
    pub const GPU_ENERGY_ERROR: &str = "stepline.gpu.energy.error";
    /// Readings behind the aggregates.
    pub const GPU_SAMPLES: &str = "stepline.gpu.samples";
    /// The devices of the `_by_device` arrays.
    pub const GPU_IDS: &str = "stepline.gpu.ids";
    /// Numbers of the devices on their host, in the order of `stepline.gpu.ids`.
    pub const GPU_INDICES: &str = "stepline.gpu.indices";
    /// Names of the devices, in the order of `stepline.gpu.ids`.
    pub const GPU_NAMES: &str = "stepline.gpu.names";
    /// Memory of the devices, By; only as an array, in the order of `stepline.gpu.ids`.
    pub const GPU_MEMORY_LIMIT: &str = "stepline.gpu.memory.limit";
    /// Median time between two readings of a device, s.
    pub const GPU_SAMPLE_INTERVAL: &str = "stepline.gpu.sample.interval";
    /// What follows the name of an aggregate that is given device by device.
    pub const BY_DEVICE: &str = "_by_device";
    /// Devices that were lost.
    pub const GPU_LOST_IDS: &str = "stepline.gpu.lost_ids";
    /// The most resident memory of the process, By.
    pub const PROCESS_MEMORY_USAGE_MAX: &str = "stepline.process.memory.usage.max";
    /// Resident memory of the process at the end, By.
    pub const PROCESS_MEMORY_USAGE_END: &str = "stepline.process.memory.usage.end";
    /// The framework allocator's peak, By.
    pub const ALLOCATOR_PEAK: &str = "stepline.allocator.peak";

    /// Direction or part that a metric speaks of.
    pub const GPU_CLOCK_DOMAIN: &str = "stepline.gpu.clock.domain";
    /// Why clocks were held down.
    pub const GPU_THROTTLE_REASON: &str = "stepline.gpu.throttle.reason";
    /// One of OTLP's three kinds of data.
    pub const SIGNAL: &str = "stepline.signal";
    /// What of stepline.
    pub const COMPONENT: &str = "stepline.component";
}

/// Values of `hw.type`.
pub const HW_TYPE_GPU: &str = "gpu";

/// The conventions that the official names are taken from.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Name of the instrumentation scope.
pub const SCOPE_NAME: &str = "stepline";
