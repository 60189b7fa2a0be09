//! The reader's side: any bytes give records or a clear error, never a panic, never an endless loop.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock_map::ClockMap;
use super::layout::{
    CLOSED, CLOSED_AT, DROPPED_AT, DROPPED_IMPORTANT_AT, HEAD_AT, NAMES_REFUSED_AT, PHASE_NAME_COUNT_AT, PHASE_NAMES_AT, PID_AT,
    SCALAR_NAME_COUNT_AT, SCALAR_NAMES_AT, TICK_KIND_AT, words_for,
};
use super::mapping::Mapping;
use super::open_table::{Ended, OpenItem, OpenTable};
use super::ring::{AtomicU64, Ordering, Payload, Slot};
use super::step_codec::{KIND_STEP, KIND_STEP_MORE, slot_count};
use super::ticks::TickKind;
use super::writer::{Writer, ring};
use super::{About, decode, directory, head, own_names};
use crate::error::JournalError;
use crate::model::{GpuDevice, NameTable, Record};

/// How long a slot may stay claimed without being published before it is taken for torn. A writer publishes within nanoseconds; only
/// a thread that lost its processor in between takes longer. Should it wake up after that, its late stores damage one record of the
/// next round, which the checksum then shows.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one reading gave.
#[derive(Debug, Default)]
pub struct Batch {
    /// The records, in the order in which they were claimed.
    pub records: Vec<Record>,
    /// Records that were torn by a crash or damaged; more than that if one was torn over several slots, never fewer.
    pub torn: u64,
}

/// A journal, open for reading. There is one reader at a time.
pub struct Reader {
    mapping: Arc<Mapping>,
    about: About,
    clock: ClockMap,
    slots: usize,
    names: NameTable,
    names_seen: Option<(u64, u64)>,
    stuck: Option<(u64, Instant)>,
    /// What is known to have ended, if slots of a dead writer were torn.
    ended: Option<HashSet<Ended>>,
}

fn ended(record: &Record) -> Option<Ended> {
    match record {
        Record::RunEnded { .. } => Some(Ended::Run),
        Record::EpochEnded { ordinal, .. } => Some(Ended::Epoch(*ordinal)),
        Record::Phase(phase) => Some(Ended::Phase(phase.ordinal)),
        Record::Step(step) => Some(Ended::Step(step.ordinal)),
        _ => None,
    }
}

impl Reader {
    /// Reads the journal that this process writes.
    ///
    /// # Errors
    /// Never, unless the file was damaged in between.
    pub fn of(writer: &Writer) -> Result<Self, JournalError> {
        Self::new(Arc::clone(&writer.mapping))
    }

    /// Opens a journal of another process, or of one that is dead.
    ///
    /// # Errors
    /// When the file cannot be opened or is no journal of this version.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Open { path: path.to_owned(), source };
        let file = directory::open(path).map_err(failed)?;
        let mapping = Mapping::of_file(&file).map_err(failed)?;
        Self::new(Arc::new(mapping)).map_err(|error| match error {
            JournalError::Format { what } => JournalError::Format { what: format!("{}: {what}", path.display()) },
            other => other,
        })
    }

    /// Reads a copy of a journal's bytes.
    ///
    /// # Errors
    /// When they are no journal of this version.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, JournalError> {
        Self::new(Arc::new(Mapping::of_bytes(bytes)))
    }

    pub(super) fn new(mapping: Arc<Mapping>) -> Result<Self, JournalError> {
        let malformed = |what: String| JournalError::Format { what };
        let (slots, about) = head::read(mapping.words()).map_err(malformed)?;
        let mut reader = Self {
            about,
            clock: ClockMap::default(),
            slots,
            names: NameTable::default(),
            names_seen: None,
            stuck: None,
            ended: None,
            mapping: Arc::clone(&mapping),
        };
        reader.refresh();
        if reader.clock.is_empty() {
            return Err(malformed("its head is damaged: no piece of its clock is whole".to_owned()));
        }
        Ok(reader)
    }

    fn words(&self) -> &[AtomicU64] {
        // Exactly the ring's slots: a longer file must not change what a position means.
        &self.mapping.words()[..words_for(self.slots)]
    }

    /// Takes up names and clock pieces that were added.
    fn refresh(&mut self) {
        let mapping = Arc::clone(&self.mapping);
        let words = mapping.words();
        self.clock.refresh(words);
        let count = |at: usize| words[at].load(Ordering::Acquire);
        let seen = (count(PHASE_NAME_COUNT_AT), count(SCALAR_NAME_COUNT_AT));
        if self.names_seen != Some(seen) {
            self.names_seen = Some(seen);
            self.names = NameTable::new(own_names::read(words, PHASE_NAMES_AT), own_names::read(words, SCALAR_NAMES_AT));
        }
    }

    /// What the journal says about its writer.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The devices that its samples speak of; `None` as long as the sampler has not found out, or if that part is damaged.
    #[must_use]
    pub fn devices(&self) -> Option<Vec<GpuDevice>> {
        head::read_devices(self.words())
    }

    /// The names behind the numbers in the records read so far.
    #[must_use]
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// The writer's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.words()[PID_AT].load(Ordering::Relaxed) as u32
    }

    /// Records that did not fit into the ring so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let word = |at: usize| self.words()[at].load(Ordering::Relaxed);
        word(DROPPED_AT).saturating_add(word(DROPPED_IMPORTANT_AT))
    }

    /// How often an own name beyond the table's room was asked for.
    #[must_use]
    pub fn names_refused(&self) -> u64 {
        self.words()[NAMES_REFUSED_AT].load(Ordering::Relaxed)
    }

    /// Whether the writer has said that nothing more will come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.words()[CLOSED_AT].load(Ordering::Acquire) == CLOSED
    }

    /// Share of the ring that is waiting to be read, 0..=1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let unread = ring(self.words()).unread();
        (unread.end - unread.start) as f64 / self.slots as f64
    }

    /// Reads what was published since the last time and gives the room back. `writer_is_dead`: what is claimed and not published will
    /// never be; otherwise reading stops there and goes on next time.
    pub fn read(&mut self, writer_is_dead: bool) -> Batch {
        self.read_some(writer_is_dead, usize::MAX)
    }

    /// As [`read`](Self::read), but about so many records at the most: what a burst left in a large ring need not stand in memory
    /// decoded all at once.
    pub fn read_some(&mut self, writer_is_dead: bool, most_records: usize) -> Batch {
        let mapping = Arc::clone(&self.mapping);
        let words = &mapping.words()[..words_for(self.slots)];
        let ring = ring(words);
        let mut batch = Batch::default();
        let unread = ring.unread();
        // The names and the clock pieces that a record needs were written before it. Also when there is no record: what is open has
        // names too.
        self.refresh();
        let mut position = unread.start;
        let mut payloads: Vec<Payload> = Vec::new();
        while position < unread.end && batch.records.len() < most_records {
            let Slot::Published(payload) = ring.read(position) else {
                if writer_is_dead || self.is_torn(position) {
                    batch.torn += 1;
                    position += 1;
                    continue;
                }
                break;
            };
            match payload[0] as u8 {
                KIND_STEP => {
                    let row = position..position.saturating_add(slot_count(&payload)).min(unread.end);
                    payloads.clear();
                    payloads.push(payload);
                    let mut missing = None;
                    for next in row.start + 1..row.end {
                        match ring.read(next) {
                            Slot::Published(payload) => payloads.push(payload),
                            Slot::Unpublished => {
                                missing = Some(next);
                                break;
                            }
                        }
                    }
                    if let Some(missing) = missing
                        && !writer_is_dead
                        && !self.is_torn(missing)
                    {
                        break;
                    }
                    match decode::step(&payloads, &self.clock) {
                        Some(step) => batch.records.push(Record::Step(step)),
                        None => batch.torn += 1,
                    }
                    position = row.end;
                }
                // The rest of a step whose first slot was torn, and which is counted there.
                KIND_STEP_MORE => position += 1,
                _ => {
                    match decode::record(&payload, &self.clock) {
                        Some(record) => batch.records.push(record),
                        None => batch.torn += 1,
                    }
                    position += 1;
                }
            }
        }
        let head = self.claimed();
        if position == unread.end && head.saturating_sub(unread.start) > ring.capacity() {
            // No writer claims more than the ring has: the head is damaged. Without this its whole way would be read as torn slots.
            position = head;
        }
        ring.consume(position);
        if writer_is_dead && batch.torn > 0 {
            self.ended.get_or_insert_default().extend(batch.records.iter().filter_map(ended));
        }
        batch
    }

    fn is_torn(&mut self, position: u64) -> bool {
        match self.stuck {
            Some((at, since)) if at == position => since.elapsed() > PATIENCE,
            _ => {
                self.stuck = Some((position, Instant::now()));
                false
            }
        }
    }

    /// What is open, as records that end at `end_ns`: what a dead writer left behind. To be asked after [`read`](Self::read), which
    /// tells what has ended from what is open.
    #[must_use]
    pub fn open_items(&self, end_ns: u64) -> Vec<OpenItem> {
        // What was ending when the writer died has its record in the ring, read now or earlier, unless that was torn.
        let is_lost = |what: Ended| self.ended.as_ref().is_some_and(|read| !read.contains(&what));
        OpenTable { words: self.mapping.head() }.items(&self.clock, end_ns, is_lost)
    }

    /// The time now on the journal's clock, Unix nanoseconds: on the machine of the writer only.
    #[must_use]
    pub fn now_unix_ns(&self) -> u64 {
        let counter = TickKind::Counter as u64;
        let kind = if self.words()[TICK_KIND_AT].load(Ordering::Relaxed) == counter { TickKind::Counter } else { TickKind::Nanosecond };
        self.clock.unix_ns(kind.now())
    }

    /// Positions claimed since the file was made.
    #[must_use]
    pub fn claimed(&self) -> u64 {
        self.words()[HEAD_AT].load(Ordering::Relaxed)
    }
}
