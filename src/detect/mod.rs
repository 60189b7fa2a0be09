//! Detectors: conclusions from finished spans. Pure; one file a detector.

mod memory_spike;

use self::memory_spike::MemorySpike;
use crate::model::{Event, Span};

/// All detectors of one run.
#[derive(Debug, Default)]
pub struct Detectors {
    memory_spike: MemorySpike,
}

impl Detectors {
    /// Looks at spans that have ended, in the order in which they came out of the timeline, and says what they show.
    pub fn observe(&mut self, spans: &[Span]) -> Vec<Event> {
        spans.iter().filter_map(|span| self.memory_spike.observe(span)).collect()
    }
}
