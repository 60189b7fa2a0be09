//! A step that is being filled, in the table of what is open.
//!
//! Its owner's thread alone adds to it; the words are atomics so that others may look. Each word can be judged by itself: what a
//! crash left half written, what an earlier step left in the same place and what a bad disk changed is left out, and not taken for
//! part of the step.

use super::layout::{OPEN_STEP_WORDS, STEP_HEAD_WORDS, STEP_PHASES, STEP_SCALARS};
use super::ring::{AtomicU64, Ordering};
use super::step_codec::{PhaseTicks, StepParts, StepTicks};

/// Nobody has the entry.
pub(super) const FREE: u64 = 0;
/// Somebody fills the entry; what stands in it is not whole yet. No state becomes another one by a single damaged byte.
pub(super) const TAKEN: u64 = u64::from_le_bytes(*b"takenTAK");
/// What stands in the entry is open.
pub(super) const OPEN: u64 = u64::from_le_bytes(*b"openOPEN");
/// The record that says that it has ended is being written, or was written when the writer died.
pub(super) const ENDING: u64 = u64::from_le_bytes(*b"endsENDS");

const ORDINAL_AT: usize = 1;
const STEP_AT: usize = 2;
/// Flags, twice; the epoch's ordinal in the upper half.
const FLAGS_AT: usize = 3;
const BEGIN_AT: usize = 4;
/// Batches, in both halves.
const MICRO_STEPS_AT: usize = 5;
/// Phases in the list, place of the current one plus one; both again in the upper half.
const PHASES_AT: usize = 6;
/// Numbers in the list, and inverted; a checksum of the head in the upper 48 bits.
const SCALARS_AT: usize = 7;

const EPOCH_PART: u64 = 0xffff_ffff_0000_0000;
const PHASE_CHECK: u64 = !0xffff;
const HEAD_CHECK: u64 = !0xffff;
const SCALAR_CHECK: u64 = !0xff;
/// The end of a phase that is open.
const NO_END: u64 = 0;

/// A checksum of three words. Its low bits are weak, the callers use its upper ones.
#[inline]
pub(super) fn mix(a: u64, b: u64, c: u64) -> u64 {
    // Odd numbers with bits all over: a changed byte changes everything above it, and the fold brings it down again.
    let first = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (first ^ (first >> 29) ^ c).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// An open step's words.
#[derive(Clone, Copy)]
pub(crate) struct StepEntry<'a> {
    pub(super) words: &'a [AtomicU64; OPEN_STEP_WORDS],
}

impl<'a> StepEntry<'a> {
    /// Takes the entry if it is free, and fills it.
    #[inline]
    pub(super) fn take(self, step: &StepTicks) -> bool {
        let state = &self.words[0];
        if state.load(Ordering::Relaxed) != FREE || state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let set = |at: usize, value: u64| self.words[at].store(value, Ordering::Relaxed);
        set(ORDINAL_AT, step.ordinal);
        set(STEP_AT, step.step);
        set(FLAGS_AT, u64::from(step.flags) | u64::from(step.flags) << 8 | u64::from(step.epoch) << 32);
        set(BEGIN_AT, step.begin);
        set(MICRO_STEPS_AT, 0);
        set(PHASES_AT, counts(0, 0));
        set(SCALARS_AT, 0xff00 | head_check(step.ordinal, step.step, step.epoch, step.begin));
        // Release: who sees that it is open sees all of it.
        state.store(OPEN, Ordering::Release);
        true
    }

    /// Whether this is still the step with that ordinal: a guard may outlive its step.
    #[inline]
    pub(crate) fn is(self, ordinal: u64) -> bool {
        self.words[ORDINAL_AT].load(Ordering::Relaxed) == ordinal && self.state() == OPEN
    }

    #[inline]
    pub(super) fn state(self) -> u64 {
        self.words[0].load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn ordinal(self) -> u64 {
        self.words[ORDINAL_AT].load(Ordering::Relaxed)
    }

    pub(super) fn step(self) -> u64 {
        self.words[STEP_AT].load(Ordering::Relaxed)
    }

    #[inline]
    fn phase_words(self, place: usize) -> &'a [AtomicU64; 3] {
        let (phases, _) = self.words[STEP_HEAD_WORDS..].as_chunks::<3>();
        &phases[place.min(STEP_PHASES - 1)]
    }

    /// Opens a phase: its place in the list, or `None` when the list is full.
    #[inline]
    pub(crate) fn enter(self, phase: u8, begin: u64) -> Option<u8> {
        let state = self.words[PHASES_AT].load(Ordering::Relaxed);
        let (count, current) = (state as u8, (state >> 8) as u8);
        if usize::from(count) >= STEP_PHASES {
            return None;
        }
        let [first, last, which] = self.phase_words(usize::from(count));
        first.store(begin, Ordering::Relaxed);
        last.store(NO_END, Ordering::Relaxed);
        which.store(phase_word(self.ordinal(), u64::from(phase) | u64::from(current) << 8, begin), Ordering::Relaxed);
        self.words[PHASES_AT].store(counts(count + 1, count + 1), Ordering::Release);
        Some(count)
    }

    /// Closes a phase. `by_owner`: on the thread that fills the step; another one only leaves the time.
    #[inline]
    pub(crate) fn exit(self, place: u8, end: u64, by_owner: bool) {
        let [begin, last, word] = self.phase_words(usize::from(place));
        // A counter that lags on another core must not make it end before it began.
        let end = end.max(begin.load(Ordering::Relaxed));
        let open = word.load(Ordering::Relaxed);
        // The end first: without its part of the checksum it is a phase that is still open. A double end would be none: guards end once.
        last.store(end, Ordering::Relaxed);
        word.store(open ^ end_check(end), Ordering::Release);
        let which = open & !PHASE_CHECK;
        if by_owner {
            let count = self.words[PHASES_AT].load(Ordering::Relaxed) as u8;
            self.words[PHASES_AT].store(counts(count, (which >> 8) as u8), Ordering::Release);
        }
    }

    /// Takes back the phase that was opened last, if this is it; otherwise it ends. On the step's own thread only.
    pub(crate) fn cancel(self, place: u8, end: u64) {
        let count = self.words[PHASES_AT].load(Ordering::Relaxed) as u8;
        if place + 1 == count {
            let around = self.phase_words(usize::from(place))[2].load(Ordering::Relaxed) >> 8;
            self.words[PHASES_AT].store(counts(place, around as u8), Ordering::Release);
        } else {
            self.exit(place, end, true);
        }
    }

    /// Adds a number; `false` when the list is full.
    #[inline]
    pub(crate) fn scalar(self, scalar: u8, bits: u64) -> bool {
        let state = self.words[SCALARS_AT].load(Ordering::Relaxed);
        let count = state as u8;
        if usize::from(count) >= STEP_SCALARS {
            return false;
        }
        let [which, value] = &self.scalar_words()[usize::from(count)];
        which.store(scalar_word(self.ordinal(), scalar, bits), Ordering::Relaxed);
        value.store(bits, Ordering::Relaxed);
        let count = count + 1;
        self.words[SCALARS_AT].store((state & HEAD_CHECK) | u64::from(count) | u64::from(!count) << 8, Ordering::Release);
        true
    }

    #[inline]
    fn scalar_words(self) -> &'a [[AtomicU64; 2]] {
        self.words[STEP_HEAD_WORDS + 3 * STEP_PHASES..].as_chunks::<2>().0
    }

    pub(crate) fn micro_step(self) {
        self.words[MICRO_STEPS_AT].fetch_add(1 << 32 | 1, Ordering::Relaxed);
    }

    /// Sets a flag; the flags of before.
    pub(crate) fn flag(self, flag: u8) -> u8 {
        self.words[FLAGS_AT].fetch_or(u64::from(flag) | u64::from(flag) << 8, Ordering::Relaxed) as u8
    }

    /// The innermost phase that is open.
    pub(super) fn current_phase(self) -> Option<PhaseTicks> {
        let mut place = (self.words[PHASES_AT].load(Ordering::Acquire) >> 8) as u8;
        // Guards that were dropped out of order leave an ended phase as the current one: the next one out is meant. Bounded, since
        // each is further in front.
        while let Some(index) = place.checked_sub(1) {
            let phase = self.phase(usize::from(index))?;
            if phase.end == u64::MAX {
                return Some(phase);
            }
            place = phase.parent.min(index);
        }
        None
    }

    /// A phase of the list; `None` if its words do not belong together. One that is open has no end (`u64::MAX`).
    #[inline]
    fn phase(self, place: usize) -> Option<PhaseTicks> {
        let [begin, end, which] = self.phase_words(place);
        let (begin, end, which) = (begin.load(Ordering::Relaxed), end.load(Ordering::Relaxed), which.load(Ordering::Acquire));
        let open = phase_word(self.ordinal(), which & !PHASE_CHECK, begin);
        let end = if which == open {
            u64::MAX
        } else if which == open ^ end_check(end) {
            end
        } else {
            return None;
        };
        Some(PhaseTicks { phase: which as u8, parent: (which >> 8) as u8, begin, end })
    }

    /// The step's own words; `end` is left 0. For the writer, who knows that they are whole.
    #[inline]
    pub(crate) fn head(self) -> StepTicks {
        let word = |at: usize| self.words[at].load(Ordering::Relaxed);
        StepTicks {
            ordinal: word(ORDINAL_AT),
            step: word(STEP_AT),
            epoch: (word(FLAGS_AT) >> 32) as u32,
            begin: word(BEGIN_AT),
            end: 0,
            micro_steps: (word(MICRO_STEPS_AT) as u32).min(u32::from(u16::MAX)) as u16,
            flags: word(FLAGS_AT) as u8,
        }
    }

    /// Its phases in the order of their begin, for the writer. One that was left open has no end (`u64::MAX`); one that began after
    /// the phase around it had ended (its guard was dropped out of order, or on another thread) belongs to the next one out.
    #[inline]
    pub(crate) fn phases(self) -> impl ExactSizeIterator<Item = PhaseTicks> {
        let count = usize::from(self.words[PHASES_AT].load(Ordering::Acquire) as u8).min(STEP_PHASES);
        (0..count).map(move |place| {
            let mut phase = self.bare_phase(place);
            while let Some(around) = phase.parent.checked_sub(1) {
                let around = self.bare_phase(usize::from(around));
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
    fn bare_phase(self, place: usize) -> PhaseTicks {
        let [begin, end, which] = self.phase_words(place);
        let which = which.load(Ordering::Relaxed);
        let end = end.load(Ordering::Relaxed);
        // A parent stands in front of its child, also if another thread's guard mixed the list up: no endless loop.
        let parent = ((which >> 8) as u8).min(place as u8);
        PhaseTicks { phase: which as u8, parent, begin: begin.load(Ordering::Relaxed), end: if end == NO_END { u64::MAX } else { end } }
    }

    /// Its numbers, for the writer.
    #[inline]
    pub(crate) fn scalars(self) -> impl ExactSizeIterator<Item = (u8, u64)> {
        let count = usize::from(self.words[SCALARS_AT].load(Ordering::Acquire) as u8).min(STEP_SCALARS);
        self.scalar_words()[..count].iter().map(|[which, bits]| (which.load(Ordering::Relaxed) as u8, bits.load(Ordering::Relaxed)))
    }

    /// What a reader may believe of it; `None` if the head's words do not belong together. A phase or number whose words do not is
    /// left out.
    pub(super) fn contents(self) -> Option<StepParts> {
        let head = self.head();
        let flags = self.words[FLAGS_AT].load(Ordering::Relaxed);
        let micro_steps = self.words[MICRO_STEPS_AT].load(Ordering::Relaxed);
        let phases = self.words[PHASES_AT].load(Ordering::Acquire);
        let scalars = self.words[SCALARS_AT].load(Ordering::Acquire);
        let (phase_count, scalar_count) = (phases as u8, scalars as u8);
        let whole = flags == u64::from(head.flags) | u64::from(head.flags) << 8 | (flags & EPOCH_PART)
            && micro_steps as u32 == (micro_steps >> 32) as u32
            && phases == counts(phase_count, (phases >> 8) as u8)
            && scalars
                == head_check(head.ordinal, head.step, head.epoch, head.begin) | u64::from(scalar_count) | u64::from(!scalar_count) << 8
            && usize::from(phase_count) <= STEP_PHASES
            && usize::from(scalar_count) <= STEP_SCALARS;
        if !whole {
            return None;
        }
        let mut list: Vec<PhaseTicks> = Vec::with_capacity(usize::from(phase_count));
        // Places change where a damaged phase is left out.
        let mut new_places = [0_u8; STEP_PHASES];
        for place in 0..usize::from(phase_count) {
            let Some(mut phase) = self.phase(place) else { continue };
            phase.parent = match phase.parent.checked_sub(1) {
                Some(around) if usize::from(around) < place => new_places[usize::from(around)],
                _ => 0,
            };
            while let Some(around) = phase.parent.checked_sub(1).and_then(|around| list.get(usize::from(around))) {
                if around.end > phase.begin {
                    phase.end = phase.end.min(around.end);
                    break;
                }
                phase.parent = around.parent;
            }
            list.push(phase);
            new_places[place] = list.len() as u8;
        }
        let numbers = self.scalars().zip(self.scalar_words()).filter_map(|((scalar, bits), [which, _])| {
            (which.load(Ordering::Relaxed) == scalar_word(head.ordinal, scalar, bits)).then_some((scalar, f64::from_bits(bits)))
        });
        Some((head, list, numbers.collect()))
    }

    /// The record that says that the step has ended is about to be written.
    #[inline]
    pub(crate) fn ending(self) {
        self.words[0].store(ENDING, Ordering::Relaxed);
    }

    /// Gives the entry back.
    #[inline]
    pub(crate) fn close(self) {
        self.words[0].store(FREE, Ordering::Release);
    }
}

#[inline]
fn counts(count: u8, current: u8) -> u64 {
    (u64::from(count) | u64::from(current) << 8) * (1 << 32 | 1)
}

#[inline]
fn head_check(ordinal: u64, step: u64, epoch: u32, begin: u64) -> u64 {
    mix(ordinal ^ u64::from(epoch) << 32, step, begin) & HEAD_CHECK
}

// One multiplication each, since there is one for each phase and number of each step. The words are of one step and one entry, so a
// changed word, or one of an earlier step, is all that these have to tell.

/// Which phase, the one around it, and a checksum, as long as it is open.
#[inline]
fn phase_word(ordinal: u64, which: u64, begin: u64) -> u64 {
    which | ((begin ^ ordinal.rotate_left(32) ^ which << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) & PHASE_CHECK)
}

/// What the checksum of a phase changes by when it ends.
#[inline]
fn end_check(end: u64) -> u64 {
    end.wrapping_mul(0xd6e8_feb8_6659_fd93) & PHASE_CHECK
}

#[inline]
fn scalar_word(ordinal: u64, scalar: u8, bits: u64) -> u64 {
    let scalar = u64::from(scalar);
    scalar | ((bits ^ ordinal.rotate_left(32) ^ scalar << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) & SCALAR_CHECK)
}
