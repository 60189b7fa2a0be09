//! What a run was like: read from its files, shown as text or JSON.
//!
//! Knows the model, the file reader and the timeline's summary; knows nothing of a run that lives (who has one hands over its
//! [`Report`]).

pub mod format;
pub mod json;
mod read;
pub mod text;

pub use read::{ReportError, fill_in, from_directory};

use std::path::PathBuf;

use serde::Serialize;

use crate::model::{Attribute, Outcome, RunSummary};

/// What is shown of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The run and its epochs.
    pub summary: RunSummary,
    /// Where its files are.
    pub directory: Option<PathBuf>,
    /// Spans made.
    pub spans: u64,
    /// Metric points made.
    pub points: u64,
    /// Records and items that were lost, as far as the files say; absent where they do not, and where `outcome` says more.
    pub dropped: Option<u64>,
    /// What became of it, at the end of a live run.
    pub outcome: Option<Outcome>,
    /// What else is to be known about this report, one line each.
    pub notes: Vec<String>,
}

impl Report {
    /// The report of a run that has just ended: its spans' summary, its resource, what became of it, and how much was made.
    #[must_use]
    pub fn of_run(mut summary: RunSummary, resource: &[Attribute], outcome: &Outcome, spans: u64, points: u64) -> Self {
        fill_in(&mut summary, resource);
        Self { summary, directory: outcome.directory.clone(), spans, points, outcome: Some(outcome.clone()), ..Self::default() }
    }
}
