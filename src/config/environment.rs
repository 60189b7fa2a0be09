//! The environment as a value: read in one place, given to everything else, made up in tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::variables;

/// What the process was started with.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `None`: set, but not UTF-8. Only names that stepline reads or that could be meant for it, so that no stranger's secret is copied.
    variables: BTreeMap<String, Option<String>>,
    /// The system's directory for temporary files.
    pub temporary_directory: PathBuf,
    /// Who runs the process, where the system has user numbers.
    pub user_id: Option<u32>,
    /// Tells this start of the parent process from all others on this host: asked when several ranks must agree on a run id.
    pub parent: fn() -> Option<String>,
}

impl Environment {
    /// The environment of this process, as it is now. The only place that asks the system.
    #[must_use]
    pub fn of_process() -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            variables::concerns_us(&name).then(|| (name, value.into_string().map_err(|_: OsString| ()).ok()))
        });
        Self { variables: variables.collect(), temporary_directory: std::env::temp_dir(), user_id: user_id(), parent: parent_start }
    }

    /// An environment of these variables alone.
    pub fn of<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        Self {
            variables: variables.into_iter().map(|(name, value)| (name.into(), Some(value.into()))).collect(),
            temporary_directory: PathBuf::from("/tmp"),
            user_id: Some(1000),
            parent: || None,
        }
    }

    /// The value of a variable, without the space around it. An empty value is as good as none, as OpenTelemetry has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?.as_deref()?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// The value of a variable as a number.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }

    /// The names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// The names of the variables whose values are not UTF-8.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str())
    }
}

#[cfg(unix)]
fn user_id() -> Option<u32> {
    Some(rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn user_id() -> Option<u32> {
    None
}

/// `<pid>-<start>` of the parent: process numbers come again, but not with the same start time.
#[cfg(target_os = "linux")]
fn parent_start() -> Option<String> {
    let parent = std::os::unix::process::parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{parent}/stat")).ok()?;
    // The name in parentheses may hold anything, so fields are counted from behind it: the start time is the 22nd field.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: String = boot.chars().take(8).collect();
    Some(format!("{boot}-{parent}-{start}"))
}

#[cfg(not(target_os = "linux"))]
fn parent_start() -> Option<String> {
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_none() {
        let environment = Environment::of([("STEPLINE_DIR", "  "), ("STEPLINE_RUN_ID", " a ")]);
        assert_eq!(environment.get("STEPLINE_DIR"), None);
        assert_eq!(environment.get("STEPLINE_RUN_ID"), Some("a"));
    }

    #[test]
    fn takes_up_no_strangers_variables() {
        let environment = Environment::of_process();
        assert!(environment.names().all(variables::concerns_us), "{:?}", environment.names().collect::<Vec<_>>());
        assert_eq!(environment.get("PATH"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_parent_is_always_the_same() {
        assert!(parent_start().is_some());
        assert_eq!(parent_start(), parent_start());
    }
}
