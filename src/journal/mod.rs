//! The crash-safe ring file that the training process writes and the pump reads.
//!
//! Owns the file: its place, its bytes, its clock. Knows nothing of spans, metrics or devices beyond `model`'s plain data.
//! The layout with offsets stands in `docs/journal.md`.

mod clock_map;
mod decode;
mod directory;
mod encode;
mod fork;
mod handles;
mod head;
mod layout;
#[cfg(all(test, loom))]
mod loom_model;
mod mapping;
mod open_step;
mod open_table;
mod own_names;
mod reader;
pub mod ring;
mod samples;
mod step_codec;
#[cfg(all(test, not(loom)))]
mod tests;
mod ticks;
mod writer;

use serde::{Deserialize, Serialize};

pub use directory::{file_name, journal_path};
pub use handles::{OpenPhase, OpenStep, StepAt};
pub use open_table::OpenItem;
pub use reader::{Batch, Reader};
pub use writer::Writer;

use crate::model::{Attribute, Identity, StepSpans};

/// What a journal says about its writer: written once, before the first record, so that a reader needs nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Who wrote it.
    pub identity: Identity,
    /// The resource under which everything in it is exported.
    pub resource: Vec<Attribute>,
    /// Intended time between two samples, nanoseconds.
    pub sample_interval_ns: u64,
    /// Which steps are to get a span.
    pub step_spans: StepSpans,
}
