//! What is open right now, in the journal's head: the run, its epochs, free-standing phases, and the steps being filled. A reader
//! that finds the writer dead closes them from here; the sampler looks here to say where the training stands.

use super::clock_map::ClockMap;
use super::decode;
use super::layout::{
    OPEN_ENTRY_WORDS, OPEN_EPOCHS, OPEN_EPOCHS_AT, OPEN_PHASES, OPEN_PHASES_AT, OPEN_RUN_AT, OPEN_STEP_WORDS, OPEN_STEPS, OPEN_STEPS_AT,
    STEP_PHASES, STEP_SCALARS,
};
use super::ring::{AtomicU64, Ordering};
use super::step_codec::{PhaseTicks, StepTicks};
use crate::model::{Owner, Phase, PhaseRecord, StepRecord};

const FREE: u64 = 0;
const OPEN: u64 = 1;

/// Words of an open step before its phases.
const STEP_HEAD_WORDS: usize = 8;

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
    pub(crate) words: &'a [AtomicU64],
}

impl<'a> OpenTable<'a> {
    fn epochs(self) -> &'a [AtomicU64] {
        &self.words[OPEN_EPOCHS_AT..OPEN_EPOCHS_AT + OPEN_EPOCHS * OPEN_ENTRY_WORDS]
    }

    fn phases(self) -> &'a [AtomicU64] {
        &self.words[OPEN_PHASES_AT..OPEN_PHASES_AT + OPEN_PHASES * OPEN_ENTRY_WORDS]
    }

    fn steps(self) -> &'a [AtomicU64] {
        &self.words[OPEN_STEPS_AT..OPEN_STEPS_AT + OPEN_STEPS * OPEN_STEP_WORDS]
    }

    pub(crate) fn set_run(self, begin_ticks: Option<u64>) {
        let run = &self.words[OPEN_RUN_AT..];
        run[1].store(begin_ticks.unwrap_or(0), Ordering::Relaxed);
        run[0].store(if begin_ticks.is_some() { OPEN } else { FREE }, Ordering::Release);
    }

    pub(crate) fn open_epoch(self, ordinal: u32, epoch: u64, begin: u64) -> Entry {
        take(self.epochs(), OPEN_ENTRY_WORDS, [u64::from(ordinal), epoch, begin, 0])
    }

    pub(crate) fn close_epoch(self, entry: Entry) {
        free(self.epochs(), OPEN_ENTRY_WORDS, entry);
    }

    pub(crate) fn open_phase(self, ordinal: u64, phase: u8, owner: Owner, begin: u64) -> Entry {
        let (owner_kind, owner_number) = super::encode::owner_words(owner);
        take(self.phases(), OPEN_ENTRY_WORDS, [ordinal, u64::from(phase) | u64::from(owner_kind) << 8, owner_number, begin])
    }

    pub(crate) fn close_phase(self, entry: Entry) {
        free(self.phases(), OPEN_ENTRY_WORDS, entry);
    }

    #[inline]
    pub(crate) fn open_step(self, step: &StepTicks) -> Entry {
        let words = self.steps();
        for (place, entry) in words.as_chunks::<OPEN_STEP_WORDS>().0.iter().enumerate() {
            if entry[0].load(Ordering::Relaxed) == FREE
                && entry[0].compare_exchange(FREE, OPEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                entry[1].store(step.ordinal, Ordering::Relaxed);
                entry[2].store(step.step, Ordering::Relaxed);
                entry[3].store(u64::from(step.flags) | u64::from(step.epoch) << 32, Ordering::Relaxed);
                entry[4].store(step.begin, Ordering::Relaxed);
                entry[5].store(0, Ordering::Relaxed);
                entry[6].store(0, Ordering::Relaxed);
                entry[7].store(0, Ordering::Release);
                return place as Entry;
            }
        }
        NO_ENTRY
    }

    #[inline]
    pub(crate) fn step(self, entry: Entry) -> Option<StepEntry<'a>> {
        self.steps().as_chunks::<OPEN_STEP_WORDS>().0.get(usize::from(entry)).map(|words| StepEntry { words })
    }

    /// The training's own number of the step that is open, and the innermost phase that is.
    pub(crate) fn position(self) -> (Option<u64>, Option<u8>) {
        let mut newest: Option<(u64, u64, StepEntry<'a>)> = None;
        for words in self.steps().as_chunks::<OPEN_STEP_WORDS>().0 {
            let entry = StepEntry { words };
            let ordinal = words[1].load(Ordering::Relaxed);
            if entry.is_open() && newest.as_ref().is_none_or(|(other, ..)| ordinal > *other) {
                newest = Some((ordinal, words[2].load(Ordering::Relaxed), entry));
            }
        }
        let mut phase: Option<(u64, u8)> = None;
        for entry in self.phases().as_chunks::<OPEN_ENTRY_WORDS>().0 {
            let begin = entry[4].load(Ordering::Relaxed);
            if entry[0].load(Ordering::Acquire) == OPEN && phase.is_none_or(|(other, _)| begin >= other) {
                phase = Some((begin, entry[2].load(Ordering::Relaxed) as u8));
            }
        }
        if let Some(in_step) = newest.as_ref().and_then(|(.., entry)| entry.current_phase())
            && phase.is_none_or(|(begin, _)| in_step.begin >= begin)
        {
            phase = Some((in_step.begin, in_step.phase));
        }
        (newest.map(|(_, step, _)| step), phase.map(|(_, phase)| phase))
    }

    /// Everything that is open, closed at `end_ns`.
    pub(crate) fn items(self, clock: &ClockMap, end_ns: u64) -> Vec<OpenItem> {
        let mut items = Vec::new();
        let run = &self.words[OPEN_RUN_AT..];
        if run[0].load(Ordering::Acquire) == OPEN {
            items.push(OpenItem::Run { begin_ns: clock.unix_ns(run[1].load(Ordering::Relaxed)) });
        }
        for entry in self.epochs().as_chunks::<OPEN_ENTRY_WORDS>().0 {
            if entry[0].load(Ordering::Acquire) == OPEN {
                let word = |place: usize| entry[place].load(Ordering::Relaxed);
                items.push(OpenItem::Epoch { ordinal: word(1) as u32, epoch: word(2), begin_ns: clock.unix_ns(word(3)) });
            }
        }
        for entry in self.phases().as_chunks::<OPEN_ENTRY_WORDS>().0 {
            if entry[0].load(Ordering::Acquire) == OPEN {
                let word = |place: usize| entry[place].load(Ordering::Relaxed);
                let begin_ns = clock.unix_ns(word(4));
                items.push(OpenItem::Phase(PhaseRecord {
                    ordinal: word(1),
                    phase: Phase(word(2) as u8),
                    owner: match (word(2) >> 8) as u8 {
                        1 => Owner::Epoch(word(3) as u32),
                        2 => Owner::Step(word(3)),
                        3 => Owner::Phase(word(3)),
                        _ => Owner::Run,
                    },
                    begin_ns,
                    end_ns: end_ns.max(begin_ns),
                    failed: false,
                    interrupted: true,
                }));
            }
        }
        for words in self.steps().as_chunks::<OPEN_STEP_WORDS>().0 {
            let entry = StepEntry { words };
            if entry.is_open() {
                let (mut step, phases, scalars) = entry.contents();
                step.end = u64::MAX;
                let mut record = decode::step_record(&step, &phases, scalars, clock);
                record.end_ns = end_ns.max(record.begin_ns);
                for phase in &mut record.phases {
                    phase.end_ns = phase.end_ns.min(record.end_ns).max(phase.begin_ns);
                }
                record.interrupted = true;
                items.push(OpenItem::Step(record));
            }
        }
        items
    }
}

/// A step being filled. Its owner's thread alone adds to it; the words are atomics so that others may look.
#[derive(Clone, Copy)]
pub(crate) struct StepEntry<'a> {
    words: &'a [AtomicU64; OPEN_STEP_WORDS],
}

impl StepEntry<'_> {
    fn is_open(self) -> bool {
        self.words[0].load(Ordering::Acquire) == OPEN
    }

    #[inline]
    fn phase_words(&self, place: usize) -> &[AtomicU64] {
        &self.words[STEP_HEAD_WORDS + 3 * place..STEP_HEAD_WORDS + 3 * place + 3]
    }

    /// Opens a phase: its place in the list, or `None` when the list is full.
    #[inline]
    pub(crate) fn enter(self, phase: u8, begin: u64) -> Option<u8> {
        let state = self.words[6].load(Ordering::Relaxed);
        let (count, current) = (state as u8, state >> 8);
        if usize::from(count) >= STEP_PHASES {
            return None;
        }
        let words = self.phase_words(usize::from(count));
        words[0].store(begin, Ordering::Relaxed);
        words[1].store(0, Ordering::Relaxed);
        words[2].store(u64::from(phase) | current << 8, Ordering::Relaxed);
        self.words[6].store(u64::from(count) + 1 | (u64::from(count) + 1) << 8, Ordering::Release);
        Some(count)
    }

    /// Closes a phase. `by_owner`: on the thread that fills the step; another one only leaves the time.
    #[inline]
    pub(crate) fn exit(self, place: u8, end: u64, by_owner: bool) {
        let words = self.phase_words(usize::from(place).min(STEP_PHASES - 1));
        words[1].store(end, Ordering::Relaxed);
        if by_owner {
            let count = self.words[6].load(Ordering::Relaxed) & 0xff;
            let around = words[2].load(Ordering::Relaxed) >> 8;
            self.words[6].store(count | around << 8, Ordering::Release);
        }
    }

    /// Adds a number; `false` when the list is full.
    #[inline]
    pub(crate) fn scalar(self, scalar: u8, bits: u64) -> bool {
        let count = self.words[7].load(Ordering::Relaxed) as usize;
        if count >= STEP_SCALARS {
            return false;
        }
        let at = STEP_HEAD_WORDS + 3 * STEP_PHASES + 2 * count;
        self.words[at].store(u64::from(scalar), Ordering::Relaxed);
        self.words[at + 1].store(bits, Ordering::Relaxed);
        self.words[7].store(count as u64 + 1, Ordering::Release);
        true
    }

    pub(crate) fn micro_step(self) {
        self.words[5].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn flag(self, flag: u8) {
        self.words[3].fetch_or(u64::from(flag), Ordering::Relaxed);
    }

    fn current_phase(self) -> Option<PhaseTicks> {
        let place = (self.words[6].load(Ordering::Acquire) >> 8).checked_sub(1)?;
        (place < STEP_PHASES as u64).then(|| self.phase(place as usize))
    }

    #[inline]
    fn phase(self, place: usize) -> PhaseTicks {
        let words = self.phase_words(place);
        let which = words[2].load(Ordering::Relaxed);
        let end = words[1].load(Ordering::Relaxed);
        PhaseTicks {
            phase: which as u8,
            parent: (which >> 8) as u8,
            begin: words[0].load(Ordering::Relaxed),
            end: if end == 0 { u64::MAX } else { end },
        }
    }

    /// The step's own words; `end` is left 0.
    #[inline]
    pub(crate) fn head(self) -> StepTicks {
        let word = |place: usize| self.words[place].load(Ordering::Relaxed);
        StepTicks {
            ordinal: word(1),
            step: word(2),
            epoch: (word(3) >> 32) as u32,
            begin: word(4),
            end: 0,
            micro_steps: word(5).min(u64::from(u16::MAX)) as u16,
            flags: word(3) as u8,
        }
    }

    /// Its phases in the order of their begin. One that was left open has no end (`u64::MAX`); one that began after the phase around
    /// it had ended (its guard was dropped out of order, or on another thread) belongs to the next one out.
    #[inline]
    pub(crate) fn phases(&self) -> impl Iterator<Item = PhaseTicks> + '_ {
        let count = (self.words[6].load(Ordering::Acquire) as u8 as usize).min(STEP_PHASES);
        (0..count).map(move |place| {
            let mut phase = self.phase(place);
            while let Some(around) = phase.parent.checked_sub(1) {
                if usize::from(around) >= place {
                    phase.parent = 0;
                    break;
                }
                let around = self.phase(usize::from(around));
                if around.end > phase.begin {
                    phase.end = phase.end.min(around.end);
                    break;
                }
                phase.parent = around.parent;
            }
            phase
        })
    }

    #[inline]
    pub(crate) fn scalars(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let count = (self.words[7].load(Ordering::Acquire) as usize).min(STEP_SCALARS);
        let at = STEP_HEAD_WORDS + 3 * STEP_PHASES;
        let words = &self.words[at..at + 2 * count];
        words.as_chunks::<2>().0.iter().map(|[scalar, bits]| (scalar.load(Ordering::Relaxed) as u8, bits.load(Ordering::Relaxed)))
    }

    fn contents(self) -> (StepTicks, Vec<PhaseTicks>, Vec<(u8, f64)>) {
        (self.head(), self.phases().collect(), self.scalars().map(|(scalar, bits)| (scalar, f64::from_bits(bits))).collect())
    }

    #[inline]
    pub(crate) fn close(self) {
        self.words[0].store(FREE, Ordering::Release);
    }
}

/// Takes a free entry and fills the words after its state.
fn take(words: &[AtomicU64], entry_words: usize, values: [u64; 4]) -> Entry {
    for (place, entry) in words.chunks_exact(entry_words).enumerate() {
        if entry[0].load(Ordering::Relaxed) == FREE && entry[0].compare_exchange(FREE, OPEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            for (word, value) in entry[1..].iter().zip(values) {
                word.store(value, Ordering::Relaxed);
            }
            return place as Entry;
        }
    }
    NO_ENTRY
}

fn free(words: &[AtomicU64], entry_words: usize, entry: Entry) {
    if let Some(state) = words.get(usize::from(entry) * entry_words) {
        state.store(FREE, Ordering::Release);
    }
}
