//! What became of what was recorded.

use serde::{Deserialize, Serialize};

/// One of OTLP's three kinds of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metric points.
    Metrics,
    /// Log events.
    Logs,
}

impl Signal {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Its name in addresses, variables and attributes: `traces`, `metrics`, `logs`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

/// What became of one signal's items (spans, points, events) on their way to the endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Accepted by the endpoint.
    pub delivered: u64,
    /// Kept on disk to be delivered later.
    pub spooled: u64,
    /// Lost: refused by the endpoint, or still waiting when the deadline passed or the queue was full.
    pub dropped: u64,
}

/// What a run left behind: returned by `finish()`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Spans on their way to the endpoint; all zero without one.
    pub traces: Delivery,
    /// Metric points on their way to the endpoint; all zero without one.
    pub metrics: Delivery,
    /// Log events on their way to the endpoint; all zero without one.
    pub logs: Delivery,
    /// Records that did not fit into the journal.
    pub journal_dropped: u64,
    /// Items that could not be written to files.
    pub files_dropped: u64,
    /// Where the files are, if files were written.
    pub directory: Option<std::path::PathBuf>,
    /// Why something was dropped, in one line each; empty if nothing was.
    pub reasons: Vec<String>,
}

impl Outcome {
    /// The delivery of one signal.
    #[must_use]
    pub fn delivery(&self, signal: Signal) -> Delivery {
        match signal {
            Signal::Traces => self.traces,
            Signal::Metrics => self.metrics,
            Signal::Logs => self.logs,
        }
    }

    /// Whether everything that was recorded was written or delivered (spooled is not lost).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.journal_dropped == 0 && self.files_dropped == 0 && Signal::ALL.iter().all(|signal| self.delivery(*signal).dropped == 0)
    }
}
