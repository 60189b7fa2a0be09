//! The strict checker that others wrote, where it is at hand: `../shared/tools/otlpcheck.py`, beside the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What became of asking it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It found nothing.
    Passed,
    /// It could not be asked, and why.
    Skipped(String),
    /// What it found.
    Failed(String),
}

impl Outcome {
    /// Fails the test if it found something; says so if it was not asked.
    pub(crate) fn require(self) {
        match self {
            Self::Passed => {}
            Self::Skipped(why) => eprintln!("skipped: otlpcheck: {why}"),
            Self::Failed(what) => panic!("otlpcheck found\n{what}"),
        }
    }
}

/// Has it check the files, all of one process, as one capture.
pub(crate) fn otlpcheck(files: &[PathBuf]) -> Outcome {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/tools/otlpcheck.py");
    if !tool.is_file() {
        return Outcome::Skipped(format!("{} is not there", tool.display()));
    }
    let found = Command::new("python3").args(["-c", "import opentelemetry.proto"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Outcome::Skipped("python3 or its package opentelemetry-proto is not there (pip install opentelemetry-proto)".to_owned());
    }
    let output = Command::new("python3")
        .arg(tool)
        .args(["--one-resource", "--strict", "--temporality", "cumulative"])
        .args(files)
        .output()
        .expect("python3 was there just now");
    match output.status.code() {
        Some(0) => Outcome::Passed,
        _ => Outcome::Failed(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))),
    }
}
