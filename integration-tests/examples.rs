//! Every example runs, says what it should, and leaves files that are right. (`make examples` runs wine, which is a package of its own.)

use std::process::Command;

use crate::support::invariants;
use crate::support::trainee::program;

fn run(name: &str) -> (String, String, Vec<std::path::PathBuf>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program(name));
    command.current_dir(directory.path()).env("STEPLINE_JOURNAL_DIR", directory.path().join("journal"));
    let output = command.env("STEPLINE_GPU", "mirror").env("STEPLINE_SAMPLE_INTERVAL", "100").output().expect("the example runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let runs: Vec<_> =
        std::fs::read_dir(directory.path().join("stepline-runs")).expect("files").map(|entry| entry.unwrap().path()).collect();
    let mut files = Vec::new();
    for run in &runs {
        let of_run = invariants::files_of(run);
        assert_eq!(invariants::check(&of_run), Vec::<String>::new());
        invariants::otlpcheck(&of_run).require();
        files.extend(of_run);
    }
    (String::from_utf8_lossy(&output.stdout).into_owned(), stderr, files)
}

#[test]
fn minimal() {
    let (stdout, stderr, files) = run("minimal");
    assert_eq!(stdout.trim(), "y = 2.00 x + 1.00");
    assert!(stderr.contains("minimal · 3 epochs · 600 steps"), "{stderr}");
    assert_eq!(files.len(), 3);
}

#[test]
fn custom_phases() {
    let (_, stderr, files) = run("custom_phases");
    assert!(stderr.contains("custom_phases"), "{stderr}");
    assert!(!files.is_empty());
}
