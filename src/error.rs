//! What can go wrong, one type an operation.

use std::io;
use std::path::PathBuf;

/// Why a run could not be started by [`Builder::start`](crate::Builder::start).
///
/// [`init`](crate::init) never returns it: it warns and hands out a run that does nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The journal could not be made.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A run of the same id is open in this process.
    #[error("the run {run_id} is already open in this process: finish it before starting it again, or give the second one another run id")]
    AlreadyStarted {
        /// Its id.
        run_id: String,
    },
    /// A thread could not be started.
    #[error("cannot start the thread {name}: {source}")]
    Thread {
        /// Which one.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no random numbers.
    #[error("the system gave no random numbers for the ids: {reason}")]
    NoRandomness {
        /// What the system said.
        reason: String,
    },
}

/// Why a journal could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The directory could not be made or is not safe to write to.
    #[error("cannot use the journal directory {}: {reason}. Set STEPLINE_JOURNAL_DIR to a directory that only you can write to", path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file could not be made.
    #[error("cannot make the journal {}: {source}. Set STEPLINE_JOURNAL_DIR to another directory, or make room", path.display())]
    Create {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be opened or mapped.
    #[error("cannot read the journal {}: {source}", path.display())]
    Open {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are no journal, or one of a version that this program does not know.
    #[error("{what}")]
    Format {
        /// What is wrong, and with what.
        what: String,
    },
}
