//! OTLP/JSON lines on disk, in the format of the collector's file exporter: one request a line, in
//! `<directory>/{traces,metrics,logs}.jsonl`.
//!
//! A file that passes its size limit is renamed to `traces.1.jsonl`, the next one to `traces.2.jsonl`, and so on: the numbers
//! rise with time, and the file without a number is the newest. Nothing is ever deleted.

mod decode;
mod reader;
mod sink;

pub use decode::{ResourceSeries, ResourceSpans, attributes, series, spans};
pub use reader::{Decoded, Directory, Requests, read_directory};
pub use sink::{DEFAULT_MAX_FILE_BYTES, FileSink};

use std::io;
use std::path::{Path, PathBuf};

use crate::model::Signal;

/// Why files could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The directory could not be made.
    #[error("cannot make the directory {}: {source}. Set STEPLINE_DIR to a directory that you can write to", path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads somewhere else, or to something that is no regular file.
    #[error("{} is {what}: it is left alone. Remove it, or set STEPLINE_DIR to another directory", path.display())]
    NotOurs {
        /// Which one.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file could not be opened or made.
    #[error("cannot open {}: {source}. {}", path.display(), advice(source))]
    Open {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line could not be written.
    #[error("cannot write to {}: {source}. {}", path.display(), advice(source))]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory or file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What somebody can do about it.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Make room (writing goes on by itself then), set STEPLINE_DIR to another disk, or set STEPLINE_FILES=off"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "Set STEPLINE_DIR to a directory that you can write to, or set STEPLINE_FILES=off"
        }
        _ => "Writing is tried again with the next lines; set STEPLINE_DIR to another directory if it goes on",
    }
}

/// The file that is being written.
fn current_path(directory: &Path, signal: Signal) -> PathBuf {
    directory.join(format!("{}.jsonl", signal.name()))
}

/// The `number`-th file that was put away; they count from 1.
fn rotated_path(directory: &Path, signal: Signal, number: u64) -> PathBuf {
    directory.join(format!("{}.{number}.jsonl", signal.name()))
}

/// The number in the name of a file that was put away; `None` for other names.
fn rotation_number(name: &str, signal: Signal) -> Option<u64> {
    let number = name.strip_prefix(signal.name())?.strip_prefix('.')?.strip_suffix(".jsonl")?;
    // `01` or `+1` is no name that the sink gives.
    number.parse().ok().filter(|parsed: &u64| *parsed > 0 && parsed.to_string() == number)
}
