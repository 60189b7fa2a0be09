//! The resolved values for people, with where each comes from, and without secrets.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use super::{Config, Endpoint, GpuChoice};
use crate::model::{Signal, StepSpans};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// It was set in code.
    Code,
    /// It was taken from this variable.
    Variable(Cow<'static, str>),
    /// Nobody said anything.
    #[default]
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code => "code",
            Self::Variable(name) => name,
            Self::Default => "default",
        })
    }
}

/// One value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// What it is called, as in the builder.
    pub name: String,
    /// The value for people; of headers, the names alone.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where values come from, by name. What is not in here is at its default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins(Vec<(Cow<'static, str>, Origin)>);

impl Origins {
    pub(super) fn set(&mut self, name: impl Into<Cow<'static, str>>, origin: Origin) {
        let name = name.into();
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, origin));
    }

    fn of(&self, name: &str) -> Origin {
        self.0.iter().find(|(other, _)| other == name).map(|(_, origin)| origin.clone()).unwrap_or_default()
    }
}

impl Config {
    /// Every value with its origin, for `stepline doctor`. Holds no secrets.
    #[must_use]
    pub fn describe(&self) -> Vec<Described> {
        let mut list = Vec::new();
        let mut add = |name: Cow<'static, str>, value: String| {
            list.push(Described { origin: self.origins.of(&name), name: name.into_owned(), value });
        };
        let drawn = |text: &Option<String>, else_what: &str| text.clone().unwrap_or_else(|| else_what.to_owned());
        add("disabled".into(), yes_or_no(self.disabled));
        add("run_id".into(), drawn(&self.run_id, "drawn at start"));
        add("run_name".into(), drawn(&self.run_name, "the executable's name"));
        add("launcher".into(), self.launch.launcher.unwrap_or("none").to_owned());
        add("rank".into(), format!("{} of {}", self.launch.rank, self.launch.world_size));
        if let Some(local_rank) = self.launch.local_rank {
            add("local_rank".into(), local_rank.to_string());
        }
        add("attempt".into(), self.launch.attempt.to_string());
        add("service_name".into(), drawn(&self.service_name, "the run's name"));
        let attributes: Vec<String> = self.resource_attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        add("resource_attributes".into(), or_none(attributes.join(", ")));
        add("directory".into(), self.directory.display().to_string());
        add("files".into(), yes_or_no(self.files));
        add("summary".into(), yes_or_no(self.summary));
        add("journal_directory".into(), self.journal_directory.display().to_string());
        add("journal_size_bytes".into(), bytes(self.journal_size_bytes));
        add("sample_interval".into(), format!("{:?}", self.sample_interval));
        add("step_spans".into(), step_spans(self.step_spans));
        add("gpu".into(), gpu(&self.gpu));
        add("nvml_path".into(), path(self.nvml_path.as_deref(), "searched for"));
        add("export_interval".into(), format!("{:?}", self.export_interval));
        add("shutdown_timeout".into(), format!("{:?}", self.shutdown_timeout));
        add("queue_bytes".into(), bytes(self.queue_bytes));
        add("silent".into(), yes_or_no(self.silent));
        for signal in Signal::ALL {
            let name = |what: &str| Cow::Owned(format!("{}_{what}", signal.name()));
            let Some(endpoint) = self.endpoint(signal) else {
                add(name("endpoint"), "nowhere".to_owned());
                continue;
            };
            for (what, value) in describe_endpoint(endpoint) {
                add(name(what), value);
            }
        }
        list
    }
}

fn describe_endpoint(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let headers: Vec<&str> = endpoint.headers.iter().map(|(name, _)| name.as_str()).collect();
    let mut list = vec![
        ("endpoint", endpoint.shown_url()),
        ("protocol", endpoint.protocol.name().to_owned()),
        ("headers", if headers.is_empty() { "none".to_owned() } else { format!("{} (values not shown)", headers.join(", ")) }),
        ("timeout", format!("{:?}", endpoint.timeout)),
        ("compression", if endpoint.gzip { "gzip" } else { "none" }.to_owned()),
    ];
    if endpoint.url.starts_with("https") {
        list.push(("certificate", path(endpoint.certificate.as_deref(), "the system's")));
        list.push(("client_certificate", path(endpoint.client_certificate.as_deref(), "none")));
        list.push(("client_key", path(endpoint.client_key.as_deref(), "none")));
    }
    if let Some(proxy) = &endpoint.proxy {
        list.push(("proxy", proxy.url.shown()));
    }
    list
}

pub(super) fn yes_or_no(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

fn path(path: Option<&Path>, else_what: &str) -> String {
    path.map_or_else(|| else_what.to_owned(), |path| path.display().to_string())
}

pub(super) fn bytes(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} bytes")
}

pub(super) fn step_spans(choice: StepSpans) -> String {
    match choice {
        StepSpans::Auto => "auto".to_owned(),
        StepSpans::All => "all".to_owned(),
        StepSpans::None => "none".to_owned(),
        StepSpans::Every(n) => format!("every:{n}"),
    }
}

pub(super) fn gpu(choice: &GpuChoice) -> String {
    match choice {
        GpuChoice::Auto => "auto".to_owned(),
        GpuChoice::Off => "off".to_owned(),
        GpuChoice::Mirror => "mirror".to_owned(),
        GpuChoice::Replay(file) => format!("replay:{}", file.display()),
    }
}
