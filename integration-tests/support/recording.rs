//! A journal in a directory of its own, a run that writes into it, and what was read from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepline::hook::Hook;
use stepline::journal::{About, Batch, OpenItem, Reader, Writer, journal_path};
use stepline::model::{Identity, PhaseRecord, Record, StepRecord};
use stepline::{Outcome, Run, StepSpans};
use tempfile::TempDir;

/// A ring in which every test's records find room.
pub(crate) const ROOMY: u64 = 4 << 20;

pub(crate) fn about() -> About {
    let identity = Identity { instance_id: [9; 16], run_id: "run".into(), run_name: "run".into(), attempt: 0, rank: 0, world_size: 1 };
    About { identity, resource: Vec::new(), sample_interval_ns: 1_000_000_000, step_spans: StepSpans::Auto }
}

pub(crate) fn path_in(directory: &Path) -> PathBuf {
    journal_path(&directory.join("journals"), &about().identity, std::process::id(), 0)
}

pub(crate) struct Recording {
    _directory: TempDir,
    pub(crate) writer: Arc<Writer>,
    pub(crate) reader: Reader,
}

impl Recording {
    /// A run whose journal has a ring of so many bytes.
    pub(crate) fn start(ring_bytes: u64, first_step: u64) -> (Run, Self) {
        let directory = tempfile::tempdir().unwrap();
        let writer = Arc::new(Writer::create(&path_in(directory.path()), &about(), ring_bytes).unwrap());
        let reader = Reader::of(&writer).unwrap();
        let run = Run::begin(Arc::new(Hook::new(Arc::clone(&writer), first_step)), Box::new(Outcome::default));
        (run, Self { _directory: directory, writer, reader })
    }

    /// What was written since the last time.
    pub(crate) fn take(&mut self) -> Taken {
        let batch = self.reader.read(false);
        assert_eq!(batch.torn, 0);
        Taken(batch)
    }

    pub(crate) fn open(&self) -> Vec<OpenItem> {
        self.reader.open_items(self.reader.now_unix_ns())
    }

    pub(crate) fn phase_name(&self, phase: stepline::Phase) -> &str {
        self.reader.names().phase(phase)
    }

    /// The phases of a step, as `name` or `name < name of the one around it`.
    pub(crate) fn phases(&self, step: &StepRecord) -> Vec<String> {
        let name = |place: usize| self.phase_name(step.phases[place].phase);
        let line = |(place, phase): (usize, &stepline::model::PhaseInterval)| match phase.parent {
            Some(parent) => format!("{} < {}", name(place), name(usize::from(parent))),
            None => name(place).to_owned(),
        };
        step.phases.iter().enumerate().map(line).collect()
    }
}

pub(crate) struct Taken(pub(crate) Batch);

impl Taken {
    pub(crate) fn records(&self) -> &[Record] {
        &self.0.records
    }

    pub(crate) fn steps(&self) -> Vec<&StepRecord> {
        self.pick(|record| if let Record::Step(step) = record { Some(step) } else { None })
    }

    pub(crate) fn standing(&self) -> Vec<&PhaseRecord> {
        self.pick(|record| if let Record::Phase(phase) = record { Some(phase) } else { None })
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.pick(|record| if let Record::Error { .. } = record { Some(record) } else { None });
        errors
            .into_iter()
            .map(|record| match record {
                Record::Error { owner, error_type, .. } => format!("{owner:?} {error_type}"),
                _ => String::new(),
            })
            .collect()
    }

    pub(crate) fn pick<'a, T>(&'a self, choose: impl Fn(&'a Record) -> Option<T>) -> Vec<T> {
        self.0.records.iter().filter_map(choose).collect()
    }
}
