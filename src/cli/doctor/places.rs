//! Whether the directories that a run writes to can be written to: tried for real, and tidied up.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::watch::Watch;
use crate::config::Config;
use crate::journal::{About, Writer, journal_path};
use crate::model::Identity;
use crate::otlp::file::FileSink;

#[derive(Debug, Serialize)]
pub(super) struct Place {
    /// For what it is used.
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    /// In a few words.
    pub(super) state: &'static str,
    /// Why it cannot be used, and what to do.
    pub(super) problem: Option<String>,
}

/// Both at once, since a file system may hang (a network's, a disk that dies).
pub(super) fn look(config: &Config, limit: Duration) -> Vec<Place> {
    let deadline = Instant::now() + limit;
    let (directory, size_bytes) = (config.journal_directory.clone(), config.journal_size_bytes);
    let journal = Watch::start("doctor-journal", move |say| say(try_journal(&directory, size_bytes)));
    let directory = config.directory.clone();
    let files = config.files.then(|| Watch::start("doctor-files", move |say| say(try_files(&directory))));
    let journal = place("journal", &config.journal_directory, journal, deadline, limit);
    let files = match files {
        Some(files) => place("files", &config.directory, files, deadline, limit),
        None => Place { name: "files", path: config.directory.clone(), state: "switched off", problem: None },
    };
    vec![journal, files]
}

fn place(name: &'static str, path: &Path, watch: Watch<Result<(), String>>, deadline: Instant, limit: Duration) -> Place {
    let problem = match watch.wait(deadline) {
        (Some(Ok(())), _) => None,
        (Some(Err(why)), _) => Some(why),
        (None, true) => Some(format!("{} could not be tried", path.display())),
        (None, false) => Some(format!(
            "the file system of {} does not answer within {} s: use a directory on a local disk",
            path.display(),
            limit.as_secs()
        )),
    };
    Place { name, path: path.to_owned(), state: if problem.is_none() { "usable" } else { "NOT USABLE" }, problem }
}

/// A journal of the size that a run's has, so that a disk without room for it shows now.
fn try_journal(directory: &Path, size_bytes: u64) -> Result<(), String> {
    let process = std::process::id();
    let identity = Identity {
        instance_id: [0; 16],
        run_id: format!("stepline-doctor-{process}"),
        run_name: "stepline doctor".to_owned(),
        attempt: 0,
        rank: 0,
        world_size: 1,
    };
    let path = journal_path(directory, &identity, process, 0);
    let about = About { identity, resource: Vec::new(), sample_interval_ns: 0, step_spans: crate::model::StepSpans::None };
    let own = path.parent().unwrap_or(directory).to_owned();
    tidily(&own, || {
        let made = Writer::create(&path, &about, size_bytes).map(|writer| writer.close());
        let _ = fs::remove_file(&path);
        made.map_err(|error| error.to_string())
    })
}

fn try_files(directory: &Path) -> Result<(), String> {
    let own = directory.join(format!(".stepline-doctor-{}", std::process::id()));
    tidily(&own, || {
        let made = FileSink::new(&own).prepare();
        for entry in fs::read_dir(&own).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        made.map_err(|error| error.to_string())
    })
}

/// Removes the directory after the work, and those above it that were not there before.
fn tidily<T>(directory: &Path, work: impl FnOnce() -> T) -> T {
    let new: Vec<&Path> = directory.ancestors().take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists()).collect();
    let result = work();
    for directory in new {
        // One that somebody else has begun to use in the meantime is not empty and stays.
        let _ = fs::remove_dir(directory);
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_behind() {
        let root = tempfile::tempdir().unwrap();
        let (journal, files) = (root.path().join("a/journal"), root.path().join("b/c/runs"));
        assert_eq!(try_journal(&journal, 64 << 10), Ok(()));
        assert_eq!(try_files(&files), Ok(()));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        fs::create_dir_all(&files).unwrap();
        assert_eq!(try_files(&files), Ok(()));
        assert_eq!(fs::read_dir(&files).unwrap().count(), 0, "what was there stays, and nothing more");
    }

    #[test]
    fn what_cannot_be_used_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(try_journal(&file, 64 << 10).unwrap_err().contains("STEPLINE_JOURNAL_DIR"));
        assert!(try_files(&file).unwrap_err().contains("STEPLINE_DIR"));
        assert!(file.exists());
    }
}
