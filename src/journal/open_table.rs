//! What is open right now, in the journal's head: the run, its epochs, free-standing phases, and the steps being filled. A reader
//! that finds the writer dead closes them from here; the sampler looks here to say where the training stands.

use super::clock_map::ClockMap;
use super::layout::{
    OPEN_ENTRY_WORDS, OPEN_EPOCHS, OPEN_EPOCHS_AT, OPEN_PHASES, OPEN_PHASES_AT, OPEN_RUN_AT, OPEN_STEP_WORDS, OPEN_STEPS, OPEN_STEPS_AT,
};
use super::mapping::Head;
use super::open_step::{ENDING, FREE, OPEN, StepEntry, TAKEN, mix};
use super::ring::{AtomicU64, Ordering};
use super::step_codec::StepTicks;
use super::{decode, encode};
use crate::model::{Owner, Phase, PhaseRecord, StepRecord};

/// An entry that a writer has taken; [`NO_ENTRY`] when all were taken, so that the thing is not shown as open.
pub(crate) type Entry = u16;
/// All entries were taken.
pub(crate) const NO_ENTRY: Entry = u16::MAX;

/// Something that is open.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenItem {
    /// The run.
    Run {
        /// When it began, Unix nanoseconds.
        begin_ns: u64,
    },
    /// An epoch.
    Epoch {
        /// The n-th epoch of the process.
        ordinal: u32,
        /// The training's own number of it.
        epoch: u64,
        /// When it began, Unix nanoseconds.
        begin_ns: u64,
    },
    /// A free-standing phase, as a record that ends when it was last heard of.
    Phase(PhaseRecord),
    /// A step, as a record that ends when it was last heard of.
    Step(StepRecord),
}

/// The tables' words.
#[derive(Clone, Copy)]
pub(crate) struct OpenTable<'a> {
    pub(crate) words: &'a Head,
}

/// Words of an entry that are filled when it is taken; the word after them is their checksum.
const VALUES: usize = 4;

type EntryWords = [AtomicU64; OPEN_ENTRY_WORDS];

impl<'a> OpenTable<'a> {
    fn run(self) -> &'a [EntryWords] {
        self.words[OPEN_RUN_AT..OPEN_RUN_AT + OPEN_ENTRY_WORDS].as_chunks().0
    }

    fn epochs(self) -> &'a [EntryWords] {
        self.words[OPEN_EPOCHS_AT..OPEN_EPOCHS_AT + OPEN_EPOCHS * OPEN_ENTRY_WORDS].as_chunks().0
    }

    fn phases(self) -> &'a [EntryWords] {
        self.words[OPEN_PHASES_AT..OPEN_PHASES_AT + OPEN_PHASES * OPEN_ENTRY_WORDS].as_chunks().0
    }

    #[inline]
    fn step_words(self) -> &'a [[AtomicU64; OPEN_STEP_WORDS]] {
        self.words[OPEN_STEPS_AT..OPEN_STEPS_AT + OPEN_STEPS * OPEN_STEP_WORDS].as_chunks().0
    }

    #[inline]
    fn steps(self) -> impl Iterator<Item = StepEntry<'a>> {
        self.step_words().iter().map(|words| StepEntry { words })
    }

    pub(crate) fn open_run(self, begin: u64) -> Entry {
        take(self.run(), [begin, 0, 0, 0])
    }

    pub(crate) fn open_epoch(self, ordinal: u32, epoch: u64, begin: u64) -> Entry {
        take(self.epochs(), [u64::from(ordinal), epoch, begin, 0])
    }

    pub(crate) fn open_phase(self, ordinal: u64, phase: u8, owner: Owner, begin: u64) -> Entry {
        let (owner_kind, owner_number) = encode::owner_words(owner);
        take(self.phases(), [ordinal, u64::from(phase) | u64::from(owner_kind) << 8, owner_number, begin])
    }

    /// The state word of the run, to be handed to [`Ending`].
    pub(crate) fn run_ending(self) -> Ending<'a> {
        Ending::of(self.run(), 0)
    }

    /// The state word of an epoch.
    pub(crate) fn epoch_ending(self, entry: Entry) -> Ending<'a> {
        Ending::of(self.epochs(), entry)
    }

    /// The state word of a free-standing phase.
    pub(crate) fn phase_ending(self, entry: Entry) -> Ending<'a> {
        Ending::of(self.phases(), entry)
    }

    #[inline]
    pub(crate) fn open_step(self, step: &StepTicks) -> Entry {
        self.steps().position(|entry| entry.take(step)).map_or(NO_ENTRY, |place| place as Entry)
    }

    /// The entry of a step, if it is still that step's.
    #[inline]
    pub(crate) fn step(self, entry: Entry, ordinal: u64) -> Option<StepEntry<'a>> {
        let words = self.step_words().get(usize::from(entry))?;
        Some(StepEntry { words }).filter(|entry| entry.is(ordinal))
    }

    /// The training's own number of the step that is open, and the innermost phase that is.
    pub(crate) fn position(self) -> (Option<u64>, Option<u8>) {
        let newest = self.steps().filter(|entry| entry.state() == OPEN).max_by_key(|entry| entry.ordinal());
        let standing = self.phases().iter().filter(|entry| entry[0].load(Ordering::Acquire) == OPEN);
        let standing = standing.filter_map(values).map(|[_, which, _, begin]| (begin, which as u8));
        let in_step = newest.and_then(StepEntry::current_phase).map(|phase| (phase.begin, phase.phase));
        // Of two that began at once the step's own, which comes last.
        let phase = standing.chain(in_step).max_by_key(|(begin, _)| *begin);
        (newest.map(StepEntry::step), phase.map(|(_, phase)| phase))
    }

    /// Everything that is open, closed at `end_ns`. Of what was ending when the writer died, only what `is_lost` says was lost.
    pub(crate) fn items(self, clock: &ClockMap, end_ns: u64, is_lost: impl Fn(Ended) -> bool) -> Vec<OpenItem> {
        let mut items = Vec::new();
        let there = |entry: &EntryWords, ended: Ended| match entry[0].load(Ordering::Acquire) {
            OPEN => true,
            ENDING => is_lost(ended),
            _ => false,
        };
        for entry in self.run() {
            let Some([begin, ..]) = values(entry) else { continue };
            if there(entry, Ended::Run) {
                items.push(OpenItem::Run { begin_ns: clock.unix_ns(begin) });
            }
        }
        for entry in self.epochs() {
            let Some([ordinal, epoch, begin, _]) = values(entry) else { continue };
            let ordinal = ordinal as u32;
            if there(entry, Ended::Epoch(ordinal)) {
                items.push(OpenItem::Epoch { ordinal, epoch, begin_ns: clock.unix_ns(begin) });
            }
        }
        for entry in self.phases() {
            let Some([ordinal, which, owner, begin]) = values(entry) else { continue };
            if there(entry, Ended::Phase(ordinal)) {
                let begin_ns = clock.unix_ns(begin);
                items.push(OpenItem::Phase(PhaseRecord {
                    ordinal,
                    phase: Phase(which as u8),
                    owner: decode::owner((which >> 8) as u8, owner),
                    begin_ns,
                    end_ns: end_ns.max(begin_ns),
                    failed: false,
                    interrupted: true,
                }));
            }
        }
        for entry in self.steps() {
            let there = match entry.state() {
                OPEN => true,
                ENDING => is_lost(Ended::Step(entry.ordinal())),
                _ => false,
            };
            if there && let Some((mut step, phases, scalars)) = entry.contents() {
                step.end = u64::MAX;
                let mut record = decode::step_record(&step, &phases, scalars, clock);
                record.end_ns = end_ns.max(record.begin_ns);
                for phase in &mut record.phases {
                    phase.begin_ns = phase.begin_ns.min(record.end_ns);
                    phase.end_ns = phase.end_ns.min(record.end_ns);
                }
                record.interrupted = true;
                items.push(OpenItem::Step(record));
            }
        }
        items
    }
}

/// Something that was ending when its writer died: its record is in the ring, or torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ended {
    Run,
    Epoch(u32),
    Phase(u64),
    Step(u64),
}

/// An entry whose record is being written: marked before, given back after.
#[derive(Clone, Copy)]
pub(crate) struct Ending<'a>(Option<&'a AtomicU64>);

impl<'a> Ending<'a> {
    /// For a record that ends nothing.
    pub(crate) const NOTHING: Self = Self(None);

    fn of(entries: &'a [EntryWords], entry: Entry) -> Self {
        Self(entries.get(usize::from(entry)).map(|words| &words[0]))
    }

    pub(crate) fn mark(self) {
        if let Some(state) = self.0 {
            state.store(ENDING, Ordering::Relaxed);
        }
    }

    pub(crate) fn free(self) {
        if let Some(state) = self.0 {
            state.store(FREE, Ordering::Release);
        }
    }
}

/// Takes a free entry and fills it.
fn take(entries: &[EntryWords], new: [u64; VALUES]) -> Entry {
    for (place, entry) in entries.iter().enumerate() {
        let state = &entry[0];
        if state.load(Ordering::Relaxed) == FREE && state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            for (word, value) in entry[1..].iter().zip(new.into_iter().chain([check(new)])) {
                word.store(value, Ordering::Relaxed);
            }
            state.store(OPEN, Ordering::Release);
            return place as Entry;
        }
    }
    NO_ENTRY
}

/// What an entry was filled with; `None` if the words do not belong together.
fn values(entry: &EntryWords) -> Option<[u64; VALUES]> {
    let mut values = [0; VALUES];
    for (value, word) in values.iter_mut().zip(&entry[1..]) {
        *value = word.load(Ordering::Relaxed);
    }
    (entry[1 + VALUES].load(Ordering::Relaxed) == check(values)).then_some(values)
}

fn check([a, b, c, d]: [u64; VALUES]) -> u64 {
    mix(mix(a, b, c), d, 1)
}
