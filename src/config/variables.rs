//! Every variable that stepline reads, declared once: the table in the documentation, the check for unknown names and the
//! names in warnings come from here.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::model::Signal;

/// What a variable is called, and what it is for.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name. With [`per_signal`](Self::per_signal), the general one.
    pub name: &'static str,
    /// What it is for, in one line.
    pub meaning: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// Whether a name with `TRACES_`, `METRICS_` or `LOGS_` in it exists as well, which goes before the general one.
    pub per_signal: bool,
}

const fn variable(name: &'static str, meaning: &'static str, default: &'static str) -> Variable {
    Variable { name, meaning, default, per_signal: false }
}

const fn per_signal(name: &'static str, meaning: &'static str, default: &'static str) -> Variable {
    Variable { name, meaning, default, per_signal: true }
}

pub(super) const DISABLED: &str = "STEPLINE_DISABLED";
pub(super) const RUN_ID: &str = "STEPLINE_RUN_ID";
pub(super) const RUN_NAME: &str = "STEPLINE_RUN_NAME";
pub(super) const DIR: &str = "STEPLINE_DIR";
pub(super) const FILES: &str = "STEPLINE_FILES";
pub(super) const SUMMARY: &str = "STEPLINE_SUMMARY";
pub(super) const JOURNAL_DIR: &str = "STEPLINE_JOURNAL_DIR";
pub(super) const JOURNAL_SIZE: &str = "STEPLINE_JOURNAL_SIZE";
pub(super) const SAMPLE_INTERVAL: &str = "STEPLINE_SAMPLE_INTERVAL";
pub(super) const STEP_SPANS: &str = "STEPLINE_STEP_SPANS";
pub(super) const GPU: &str = "STEPLINE_GPU";
pub(super) const NVML_PATH: &str = "STEPLINE_NVML_PATH";
pub(super) const SHUTDOWN_TIMEOUT: &str = "STEPLINE_SHUTDOWN_TIMEOUT";
pub(super) const QUEUE_SIZE: &str = "STEPLINE_QUEUE_SIZE";
pub(super) const SDK_DISABLED: &str = "OTEL_SDK_DISABLED";
pub(super) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
pub(super) const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
pub(super) const EXPORT_INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
pub(super) const SCHEDULE_DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
pub(super) const LOG_LEVEL: &str = "OTEL_LOG_LEVEL";
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
pub(super) const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
pub(super) const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
pub(super) const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
pub(super) const COMPRESSION: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
pub(super) const INSECURE: &str = "OTEL_EXPORTER_OTLP_INSECURE";
pub(super) const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
pub(super) const CLIENT_KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
pub(super) const CLIENT_CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
pub(super) const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
pub(super) const HISTOGRAMS: &str = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
pub(super) const CONFIG_FILE: &str = "OTEL_CONFIG_FILE";

/// The variables that people set, in the order of the documentation.
pub const VARIABLES: &[Variable] = &[
    variable(DISABLED, "`1`: do nothing at all", "off"),
    variable(RUN_ID, "the run's id, the same for all its ranks and attempts", "the launcher's job id, else drawn"),
    variable(RUN_NAME, "what people call the run", "the executable's name"),
    variable(DIR, "where the runs' files go", "`stepline-runs`"),
    variable(FILES, "`off`: write no files", "on"),
    variable(SUMMARY, "`off`: print no summary at the end", "on"),
    variable(JOURNAL_DIR, "where journals are", "`stepline-<user id>` below the system's temporary directory"),
    variable(JOURNAL_SIZE, "size of the journal's ring: bytes, or with `K`, `M`, `G`; 64 KiB to 1 GiB", "2 MiB"),
    variable(SAMPLE_INTERVAL, "milliseconds between two readings of a device; 100 to 60000", "1000"),
    variable(STEP_SPANS, "which steps get a span: `auto`, `all`, `none`, `every:N`", "`auto`"),
    variable(GPU, "where GPU readings come from: `auto`, `off`, `mirror` (simulated), `replay:FILE`", "`auto`"),
    variable(NVML_PATH, "NVML's library", "searched for"),
    variable(SHUTDOWN_TIMEOUT, "milliseconds that everything at the end may take together; at most 600000", "5000"),
    variable(
        QUEUE_SIZE,
        "how much may wait for the endpoint: bytes, or with `K`, `M`, `G`; 1 MiB to 4 GiB; beyond it the oldest is dropped and counted",
        "64 MiB",
    ),
    variable(SDK_DISABLED, "`true`: do nothing at all", "false"),
    variable(SERVICE_NAME, "`service.name`", "the run's name"),
    variable(RESOURCE_ATTRIBUTES, "further resource attributes: `key=value,key=value`, percent-encoded", "none"),
    variable("OTEL_TRACES_EXPORTER", "`otlp`, or `none`: send no spans", "`otlp` where an endpoint is set"),
    variable("OTEL_METRICS_EXPORTER", "`otlp`, or `none`: send no metrics", "`otlp` where an endpoint is set"),
    variable("OTEL_LOGS_EXPORTER", "`otlp`, or `none`: send no log events", "`otlp` where an endpoint is set"),
    per_signal(
        ENDPOINT,
        "where OTLP goes. The general one is a base: `/v1/traces`, ... is appended for HTTP; that of a signal is taken as it is",
        "nowhere",
    ),
    per_signal(PROTOCOL, "`http/protobuf`, `http/json` or `grpc`", "`http/protobuf`"),
    per_signal(HEADERS, "headers: `name=value,name=value`, percent-encoded; never shown", "none"),
    per_signal(TIMEOUT, "milliseconds that one attempt may take", "10000"),
    per_signal(COMPRESSION, "`gzip` or `none`", "`none`"),
    per_signal(INSECURE, "`true`: no TLS for a gRPC endpoint without `http://` or `https://`", "false"),
    per_signal(CERTIFICATE, "file of certificates (PEM) to trust instead of the system's", "the system's"),
    per_signal(CLIENT_KEY, "file of the client's key (PEM)", "none"),
    per_signal(CLIENT_CERTIFICATE, "file of the client's certificate (PEM)", "none"),
    variable(EXPORT_INTERVAL, "milliseconds between two exports; 100 to 300000", "5000"),
    variable(SCHEDULE_DELAY, "the same; the shorter of the two holds", "5000"),
    variable(LOG_LEVEL, "`none`: stepline says nothing on standard error", "`info`"),
    variable(TEMPORALITY, "`cumulative` is what there is; others are warned of", "`cumulative`"),
    variable(
        HISTOGRAMS,
        "`base2_exponential_bucket_histogram` is what there is; others are warned of",
        "`base2_exponential_bucket_histogram`",
    ),
    variable(CONFIG_FILE, "not supported: warned of", "none"),
    variable("HTTPS_PROXY", "proxy for `https://` endpoints (also in lower case); never for the own host", "none"),
    variable("HTTP_PROXY", "proxy for `http://` endpoints (also in lower case); never for the own host", "none"),
    variable("ALL_PROXY", "proxy where neither of the two is set (also in lower case)", "none"),
    variable("NO_PROXY", "hosts without a proxy: names, `.domains`, addresses, networks, `*` (also in lower case)", "none"),
];

/// Variables that launchers set, read for rank, world size, attempt and run id.
pub(super) const LAUNCHER_VARIABLES: &[&str] = &[
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_JOB_ID",
    "SLURM_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_RANK_IN_NODE",
    "TF_CONFIG",
    "JOB_COMPLETION_INDEX",
];

const OTLP_PREFIX: &str = "OTEL_EXPORTER_OTLP_";

/// The name of a general `OTEL_EXPORTER_OTLP_` variable for one signal.
pub(super) fn of_signal(name: &'static str, signal: Signal) -> Cow<'static, str> {
    match name.strip_prefix(OTLP_PREFIX) {
        Some(rest) => format!("{OTLP_PREFIX}{}_{rest}", signal.name().to_uppercase()).into(),
        None => name.into(),
    }
}

/// Whether a variable of the environment is one that stepline reads, or could have been meant for it.
pub(super) fn concerns_us(name: &str) -> bool {
    name.starts_with("STEPLINE_")
        || name.starts_with(OTLP_PREFIX)
        || LAUNCHER_VARIABLES.contains(&name)
        || VARIABLES.iter().any(|variable| variable.name == name)
        || matches!(name, "https_proxy" | "http_proxy" | "all_proxy" | "no_proxy")
}

/// The names of all variables, those of each signal too.
fn known_names() -> impl Iterator<Item = Cow<'static, str>> {
    VARIABLES.iter().flat_map(|variable| {
        let signals = if variable.per_signal { &Signal::ALL[..] } else { &[] };
        std::iter::once(variable.name.into()).chain(signals.iter().map(|signal| of_signal(variable.name, *signal)))
    })
}

/// A name that begins like ours and is none, and the known one that is nearest.
pub(super) fn unknown_name(name: &str) -> Option<Cow<'static, str>> {
    let ours = name.starts_with("STEPLINE_");
    if !(ours || name.starts_with(OTLP_PREFIX)) || known_names().any(|known| known == name) {
        return None;
    }
    let prefix = if ours { "STEPLINE_" } else { OTLP_PREFIX };
    let near = known_names().filter(|known| known.starts_with(prefix)).map(|known| (distance(&known, name), known));
    let (distance, known) = near.min_by_key(|(distance, _)| *distance)?;
    // Names of OTLP's variables that stepline does not read exist: only a slip of the pen is worth a line.
    (ours || distance <= 3).then_some(known)
}

/// How many letters must be added, taken away or exchanged to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The variables as a table in Markdown, for the documentation.
#[must_use]
pub fn variables_table() -> String {
    let mut table = String::from("| variable | meaning | default |\n|---|---|---|\n");
    for variable in VARIABLES {
        let own = if variable.per_signal {
            format!(" (also `{}`, `..METRICS..`, `..LOGS..`)", of_signal(variable.name, Signal::Traces))
        } else {
            String::new()
        };
        let _ = writeln!(table, "| `{}`{own} | {} | {} |", variable.name, variable.meaning, variable.default);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_declared_once() {
        let mut names: Vec<_> = known_names().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().any(|name| name == "OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE"));
    }

    #[test]
    fn an_unknown_name_has_a_nearest_known_one() {
        for (name, nearest) in [
            ("STEPLINE_SAMPLE_INTERVALL", Some("STEPLINE_SAMPLE_INTERVAL")),
            ("STEPLINE_INTERVAL", Some("STEPLINE_GPU")),
            ("STEPLINE_JOURNALDIR", Some("STEPLINE_JOURNAL_DIR")),
            ("OTEL_EXPORTER_OTLP_ENDPOIN", Some("OTEL_EXPORTER_OTLP_ENDPOINT")),
            ("OTEL_EXPORTER_OTLP_TRACE_ENDPOINT", Some("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")),
            ("OTEL_EXPORTER_OTLP_SOMETHING_ELSE_ALTOGETHER", None),
            ("STEPLINE_DIR", None),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", None),
            ("HOME", None),
        ] {
            // Only that there is one, where several are as near.
            assert_eq!(unknown_name(name).is_some(), nearest.is_some(), "{name}");
            if name != "STEPLINE_INTERVAL" {
                assert_eq!(unknown_name(name).as_deref(), nearest, "{name}");
            }
        }
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("abc", "acb", 2)] {
            assert_eq!(distance(a, b), expected);
            assert_eq!(distance(b, a), expected);
        }
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        assert_eq!(variables_table().lines().count(), VARIABLES.len() + 2);
        assert!(VARIABLES.iter().all(|variable| !variable.meaning.contains('|') && !variable.meaning.is_empty()));
    }
}
