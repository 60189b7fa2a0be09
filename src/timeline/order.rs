//! Puts records into the order of their times. Threads take the time first and a place in the journal after, so neighbours may be
//! swapped by some microseconds, or a few milliseconds when a thread was put to sleep between the two.

use std::collections::VecDeque;

use crate::model::Record;

/// How long a record waits for older ones that come late.
const PATIENCE_NS: u64 = 50_000_000;

/// Records that wait at most; with more, the oldest goes on without waiting.
const MAX_WAITING: usize = 4096;

/// Holds records back until no older one is to be expected.
#[derive(Debug, Default)]
pub(super) struct Order {
    waiting: VecDeque<(Rank, Record)>,
    arrived: u64,
    newest_ns: u64,
}

/// What is sorted by: the time; at one time readings come last, since a span does not hold the reading at its very end; then the
/// order of arrival.
type Rank = (u64, bool, u64);

fn is_reading(record: &Record) -> bool {
    matches!(
        record,
        Record::Gpu { .. }
            | Record::GpuSlow { .. }
            | Record::GpuChanged { .. }
            | Record::Process { .. }
            | Record::Host { .. }
            | Record::Position { .. }
    )
}

impl Order {
    pub(super) fn push(&mut self, record: Record) {
        let time_ns = record.time_ns();
        let rank = (time_ns, is_reading(&record), self.arrived);
        self.arrived += 1;
        self.newest_ns = self.newest_ns.max(time_ns);
        if self.waiting.back().is_none_or(|(last, _)| *last < rank) {
            self.waiting.push_back((rank, record));
        } else {
            let place = self.waiting.partition_point(|(other, _)| *other < rank);
            self.waiting.insert(place, (rank, record));
        }
    }

    /// The oldest record, once it has waited long enough by the time of the newest record, or by `now_ns` where that is later. The
    /// latter holds for this once: the clock of whoever reads a journal need not agree with the clock of who wrote it.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<Record> {
        let ((time_ns, ..), _) = self.waiting.front()?;
        if time_ns.saturating_add(PATIENCE_NS) <= self.newest_ns.max(now_ns) || self.waiting.len() > MAX_WAITING {
            return self.pop_any();
        }
        None
    }

    /// The oldest record, however long it has waited.
    pub(super) fn pop_any(&mut self) -> Option<Record> {
        self.waiting.pop_front().map(|(_, record)| record)
    }
}
