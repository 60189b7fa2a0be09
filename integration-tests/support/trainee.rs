//! The training program for tests, run as a process of its own in surroundings of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use stepline::model::{Series, Signal, Span};
use stepline::otlp::file::read_directory;
use tempfile::TempDir;

/// A training that is going to run. Nothing of the test's own environment that concerns stepline reaches it.
pub(crate) struct Trainee {
    command: Command,
    directory: TempDir,
}

impl Trainee {
    /// A training with these wishes (`name=value`, see `trainee.rs`), a simulated GPU read every 100 ms, and directories of its own.
    pub(crate) fn new(wishes: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(program("trainee"));
        for (name, _) in std::env::vars() {
            if name.starts_with("OTEL_") || name.starts_with("STEPLINE_") || name.ends_with("_proxy") || name.ends_with("_PROXY") {
                command.env_remove(name);
            }
        }
        command
            .args(wishes)
            .env("STEPLINE_GPU", "mirror")
            .env("STEPLINE_SAMPLE_INTERVAL", "100")
            .env("STEPLINE_DIR", directory.path().join("runs"))
            .env("STEPLINE_JOURNAL_DIR", directory.path().join("journal"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command, directory }
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Running {
        let child = self.command.spawn().expect("the trainee starts");
        Running { child, directory: self.directory }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Finished {
        self.start().wait()
    }
}

/// A training that is running.
pub(crate) struct Running {
    child: Child,
    directory: TempDir,
}

impl Running {
    /// Waits for its end.
    pub(crate) fn wait(self) -> Finished {
        let output = self.child.wait_with_output().expect("the trainee ends");
        Finished::new(&output, self.directory)
    }
}

/// A training that has ended.
pub(crate) struct Finished {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    directory: TempDir,
}

impl Finished {
    fn new(output: &Output, directory: TempDir) -> Self {
        Self {
            succeeded: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            directory,
        }
    }

    /// What follows a word at the beginning of a line of its output.
    fn line(&self, word: &str) -> &str {
        let found = self.stdout.lines().find_map(|line| line.strip_prefix(word));
        found.unwrap_or_else(|| panic!("no line {word:?} in\n{}\n{}", self.stdout, self.stderr)).trim()
    }

    /// The result of its arithmetic, bit by bit.
    pub(crate) fn result(&self) -> &str {
        self.line("result ")
    }

    /// How long `finish()` took, milliseconds.
    pub(crate) fn finish_ms(&self) -> u64 {
        self.line("finish_ms ").parse().expect("a number")
    }

    /// What `finish()` said: name -> (delivered, dropped), and `journal`/`files` -> (0, dropped).
    pub(crate) fn ledger(&self) -> Ledger {
        let words: Vec<&str> = self.line("spans ").split_whitespace().collect();
        let pair = |text: &str| -> (u64, u64) {
            let (delivered, dropped) = text.split_once('/').expect("delivered/dropped");
            (delivered.parse().expect("a number"), dropped.parse().expect("a number"))
        };
        Ledger {
            spans: pair(words[0]),
            points: pair(words[2]),
            events: pair(words[4]),
            journal_dropped: words[6].parse().expect("a number"),
            files_dropped: words[8].parse().expect("a number"),
        }
    }

    /// Why something was lost, as `finish()` said.
    pub(crate) fn reasons(&self) -> Vec<&str> {
        self.stdout.lines().filter_map(|line| line.strip_prefix("reason ")).collect()
    }

    /// The directory of its only run.
    pub(crate) fn run_directory(&self) -> PathBuf {
        let runs = self.directory.path().join("runs");
        let mut entries: Vec<PathBuf> = std::fs::read_dir(&runs)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", runs.display(), self.stderr))
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// The files of its run.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = read_directory(&self.run_directory()).expect("the run's files");
        Signal::ALL.into_iter().flat_map(|signal| files.files(signal).to_vec()).collect()
    }

    /// The spans in its files.
    pub(crate) fn spans(&self) -> Vec<Span> {
        read_directory(&self.run_directory()).expect("the run's files").spans().flat_map(|group| group.spans).collect()
    }

    /// The series of a metric in its files, one for each set of attributes.
    pub(crate) fn series(&self, metric: &str) -> Vec<Series> {
        let groups = read_directory(&self.run_directory()).expect("the run's files").series();
        let mut merged: BTreeMap<String, Series> = BTreeMap::new();
        for series in groups.flat_map(|group| group.series).filter(|series| series.metric == metric) {
            use stepline::model::Points::Numbers;
            match merged.entry(format!("{:?}", series.attributes)) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(series);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    if let (Numbers(all), Numbers(more)) = (&mut entry.get_mut().points, series.points) {
                        all.extend(more);
                    }
                }
            }
        }
        merged.into_values().collect()
    }

    /// Whether its journal is gone, as it should be when everything was delivered or counted.
    pub(crate) fn journal_is_gone(&self) -> bool {
        let journals = self.directory.path().join("journal");
        std::fs::read_dir(journals).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// What `finish()` said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Delivered, dropped.
    pub(crate) spans: (u64, u64),
    pub(crate) points: (u64, u64),
    pub(crate) events: (u64, u64),
    pub(crate) journal_dropped: u64,
    pub(crate) files_dropped: u64,
}

/// An example program of this package, built beside the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("this program's path");
    let profile = tests.parent().and_then(Path::parent).expect("target/<profile>/deps");
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}
