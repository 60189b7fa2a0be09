//! Everything put together.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use super::describe::{Origin, bytes, gpu, step_spans, yes_or_no};
use super::environment::Environment;
use super::settings::Settings;
use super::value::{
    Bad, Finder, Read, any_path, milliseconds, otel_switch, show_milliseconds, show_path, shown, size, size_within, switch, within,
    yes_or_no_otel,
};
use super::variables as name;
use super::{Config, GpuChoice, endpoint, launch, resource};
use crate::model::{Signal, StepSpans};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const LEAST_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const MOST_SAMPLE_INTERVAL: Duration = Duration::from_secs(60);
const EXPORT_INTERVAL: Duration = Duration::from_secs(5);
const LEAST_EXPORT_INTERVAL: Duration = Duration::from_millis(100);
const MOST_EXPORT_INTERVAL: Duration = Duration::from_secs(300);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const MOST_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(600);
const JOURNAL_SIZE: u64 = 2 << 20;
const LEAST_JOURNAL_SIZE: u64 = 64 << 10;
const MOST_JOURNAL_SIZE: u64 = 1 << 30;
const QUEUE_SIZE: u64 = 64 << 20;
const LEAST_QUEUE_SIZE: u64 = 1 << 20;
const MOST_QUEUE_SIZE: u64 = 4 << 30;

/// Ids and names longer than this are cut: they stand in file names and on every span.
const LONGEST_NAME: usize = 200;

/// From what code and environment say to the configuration. Never fails: what is wrong is a warning in it.
#[must_use]
pub fn resolve(settings: &Settings, environment: &Environment) -> Config {
    let mut finder = Finder { environment, warnings: Vec::new(), origins: super::describe::Origins::default() };
    let disabled = disabled(&mut finder);
    let silent = silent(&mut finder);
    let found = launch::launch(&mut finder);
    let run_id = run_id(&mut finder, settings, found.run_id);
    if run_id.is_none() {
        launch::warn_without_run_id(&mut finder, &found.launch);
    }
    let run_name = finder.find("run_name", settings.run_name.clone().map(Some), &[name::RUN_NAME.into()], None, text, show_text);
    let resource = resource::resource(&mut finder, settings);
    let config = Config {
        disabled,
        run_id,
        run_name,
        launch: found.launch,
        service_name: resource.service_name,
        resource_attributes: resource.attributes,
        directory: finder.find("directory", settings.directory.clone(), &[name::DIR.into()], "stepline-runs".into(), path, |path| {
            path.display().to_string()
        }),
        files: finder.find("files", settings.files, &[name::FILES.into()], true, switch, |on| yes_or_no(*on)),
        summary: finder.find("summary", settings.summary, &[name::SUMMARY.into()], true, switch, |on| yes_or_no(*on)),
        journal_directory: finder.find(
            "journal_directory",
            settings.journal_directory.clone(),
            &[name::JOURNAL_DIR.into()],
            default_journal_directory(environment),
            path,
            |path| path.display().to_string(),
        ),
        journal_size_bytes: sized(
            &mut finder,
            "journal_size_bytes",
            settings.journal_size_bytes,
            name::JOURNAL_SIZE,
            JOURNAL_SIZE,
            (LEAST_JOURNAL_SIZE, MOST_JOURNAL_SIZE),
        ),
        sample_interval: timed(
            &mut finder,
            "sample_interval",
            settings.sample_interval,
            &[name::SAMPLE_INTERVAL.into()],
            SAMPLE_INTERVAL,
            (LEAST_SAMPLE_INTERVAL, MOST_SAMPLE_INTERVAL),
        ),
        step_spans: finder.find(
            "step_spans",
            settings.step_spans,
            &[name::STEP_SPANS.into()],
            StepSpans::Auto,
            read_step_spans,
            |choice| step_spans(*choice),
        ),
        gpu: finder.find("gpu", settings.gpu.clone(), &[name::GPU.into()], GpuChoice::Auto, read_gpu, gpu),
        nvml_path: finder.find("nvml_path", settings.nvml_path.clone().map(Some), &[name::NVML_PATH.into()], None, any_path, show_path),
        traces: endpoint::endpoint(&mut finder, settings, Signal::Traces),
        metrics: endpoint::endpoint(&mut finder, settings, Signal::Metrics),
        logs: endpoint::endpoint(&mut finder, settings, Signal::Logs),
        export_interval: export_interval(&mut finder, settings),
        shutdown_timeout: timed(
            &mut finder,
            "shutdown_timeout",
            settings.shutdown_timeout,
            &[name::SHUTDOWN_TIMEOUT.into()],
            SHUTDOWN_TIMEOUT,
            (Duration::ZERO, MOST_SHUTDOWN_TIMEOUT),
        ),
        silent,
        queue_bytes: sized(
            &mut finder,
            "queue_bytes",
            settings.queue_bytes,
            name::QUEUE_SIZE,
            QUEUE_SIZE,
            (LEAST_QUEUE_SIZE, MOST_QUEUE_SIZE),
        ),
        warnings: Vec::new(),
        origins: super::describe::Origins::default(),
    };
    warn_of_the_unsupported(&mut finder, &config);
    warn_of_names(&mut finder);
    // Whoever switched everything off wants to hear nothing of it.
    let warnings = if config.disabled { Vec::new() } else { finder.warnings };
    Config { warnings, origins: finder.origins, ..config }
}

fn disabled(finder: &mut Finder<'_>) -> bool {
    let own = finder.find("disabled", None, &[name::DISABLED.into()], None, |text| wrap(switch(text)), show_switch);
    if let Some(disabled) = own {
        return disabled;
    }
    finder.find("disabled", None, &[name::SDK_DISABLED.into()], false, otel_switch, yes_or_no_otel)
}

fn wrap<T>(read: Read<T>) -> Read<Option<T>> {
    read.map(Some).map_err(|bad| Bad { why: bad.why, instead: bad.instead.map(|value| Box::new(Some(*value))) })
}

fn show_switch(value: &Option<bool>) -> String {
    yes_or_no(value.unwrap_or(false))
}

fn silent(finder: &mut Finder<'_>) -> bool {
    let read = |text: &str| match text.to_ascii_lowercase().as_str() {
        "none" | "off" => Ok(true),
        "trace" | "debug" | "verbose" | "info" | "warn" | "warning" | "error" | "fatal" | "all" => Ok(false),
        _ => Err(Bad::new("is no level")),
    };
    finder.find("silent", None, &[name::LOG_LEVEL.into()], false, read, |silent| if *silent { "none" } else { "info" }.to_owned())
}

fn run_id(finder: &mut Finder<'_>, settings: &Settings, of_launcher: Option<(String, Origin)>) -> Option<String> {
    let own = finder.find("run_id", settings.run_id.clone().map(Some), &[name::RUN_ID.into()], None, text, show_text);
    own.or_else(|| {
        let (run_id, origin) = of_launcher?;
        finder.origins.set("run_id", origin);
        Some(run_id)
    })
}

fn export_interval(finder: &mut Finder<'_>, settings: &Settings) -> Duration {
    let bounds = (LEAST_EXPORT_INTERVAL, MOST_EXPORT_INTERVAL);
    let value = |finder: &Finder<'_>, variable: &str| finder.environment.get(variable).and_then(|text| text.parse::<u64>().ok());
    let mut variables: Vec<Cow<'static, str>> = vec![name::EXPORT_INTERVAL.into(), name::SCHEDULE_DELAY.into()];
    // The shorter of the two goes first; one that is no number goes last.
    if value(finder, name::SCHEDULE_DELAY).unwrap_or(u64::MAX) < value(finder, name::EXPORT_INTERVAL).unwrap_or(u64::MAX) {
        variables.reverse();
    }
    timed(finder, "export_interval", settings.export_interval, &variables, EXPORT_INTERVAL, bounds)
}

fn timed(
    finder: &mut Finder<'_>,
    setting: &'static str,
    code: Option<Duration>,
    variables: &[Cow<'static, str>],
    default: Duration,
    (least, most): (Duration, Duration),
) -> Duration {
    let code = code.map(|value| bounded(finder, setting, show_milliseconds(&value), within(value, least, most), show_milliseconds));
    finder.find(setting, code, variables, default, |text| milliseconds(text, least, most), show_milliseconds)
}

fn sized(
    finder: &mut Finder<'_>,
    setting: &'static str,
    code: Option<u64>,
    variable: &'static str,
    default: u64,
    (least, most): (u64, u64),
) -> u64 {
    let show = |value: &u64| bytes(*value);
    let code = code.map(|value| bounded(finder, setting, bytes(value), size_within(value, least, most), show));
    finder.find(setting, code, &[variable.into()], default, |text| size(text, least, most), show)
}

/// A value set in code, brought within its bounds.
fn bounded<T: Default>(finder: &mut Finder<'_>, setting: &str, found: String, read: Read<T>, show: impl Fn(&T) -> String) -> T {
    match read {
        Ok(value) => value,
        Err(bad) => {
            let value = bad.instead.map(|value| *value).unwrap_or_default();
            finder.warn(format!("{setting} was set to {found} in code, which {}: {} is used", bad.why, show(&value)));
            value
        }
    }
}

fn default_journal_directory(environment: &Environment) -> PathBuf {
    environment.temporary_directory.join(match environment.user_id {
        Some(user) => format!("stepline-{user}"),
        None => "stepline".to_owned(),
    })
}

fn text(text: &str) -> Read<Option<String>> {
    if text.chars().any(char::is_control) {
        return Err(Bad::new("holds a control character"));
    }
    if text.chars().count() > LONGEST_NAME {
        let start = text.chars().take(LONGEST_NAME).collect();
        return Err(Bad::but(format!("is longer than {LONGEST_NAME} characters"), Some(start)));
    }
    Ok(Some(text.to_owned()))
}

fn show_text(text: &Option<String>) -> String {
    text.as_deref().map_or_else(|| "the default".to_owned(), shown)
}

fn path(text: &str) -> Read<PathBuf> {
    Ok(PathBuf::from(text))
}

fn read_step_spans(text: &str) -> Read<StepSpans> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "auto" => Ok(StepSpans::Auto),
        "all" => Ok(StepSpans::All),
        "none" => Ok(StepSpans::None),
        _ => match text.strip_prefix("every:").map(str::parse::<u64>) {
            Some(Ok(n)) if n > 0 => Ok(StepSpans::Every(n)),
            _ => Err(Bad::new("is none of auto, all, none, every:N")),
        },
    }
}

fn read_gpu(text: &str) -> Read<GpuChoice> {
    match text.to_ascii_lowercase().as_str() {
        "auto" => return Ok(GpuChoice::Auto),
        "off" | "none" => return Ok(GpuChoice::Off),
        "mirror" => return Ok(GpuChoice::Mirror),
        _ => {}
    }
    match text.split_once(':') {
        Some((kind, file)) if kind.eq_ignore_ascii_case("replay") && !file.is_empty() => Ok(GpuChoice::Replay(PathBuf::from(file))),
        _ => Err(Bad::new("is none of auto, off, mirror, replay:FILE")),
    }
}

/// Variables of OpenTelemetry that ask for what there is not: better said than silently done otherwise.
fn warn_of_the_unsupported(finder: &mut Finder<'_>, config: &Config) {
    for (variable, supported) in [(name::TEMPORALITY, "cumulative"), (name::HISTOGRAMS, "base2_exponential_bucket_histogram")] {
        let environment = finder.environment;
        if let Some(value) = environment.get(variable)
            && config.metrics.is_some()
            && !value.eq_ignore_ascii_case(supported)
        {
            finder.warn(format!("{variable}={} is not supported: {supported} is used", shown(value)));
        }
    }
    if finder.environment.get(name::CONFIG_FILE).is_some() {
        finder.warn(format!("{} is not supported: the file is not read, the variables hold", name::CONFIG_FILE));
    }
}

fn warn_of_names(finder: &mut Finder<'_>) {
    let environment = finder.environment;
    for variable in environment.unreadable() {
        finder.warn(format!("{variable} is not UTF-8: it is taken as not set"));
    }
    for variable in environment.names() {
        if let Some(nearest) = name::unknown_name(variable) {
            finder.warn(format!("{variable} is no variable that stepline knows: it has no effect. The nearest one is {nearest}"));
        }
    }
}
