//! A step, with its phases and numbers, in as few slots as can be: two for four phases and two numbers.
//!
//! Whole words only, since they are put together in registers. The first slot holds the step itself and the first word of a stream,
//! each further slot six more of its words: the phases, then (if there are more than four numbers) a word that says which the further
//! ones are, then the numbers. A phase is one word: which (7 bits), the one around it (5), begin and length (26 each) as shares of the
//! step's own length. A share is `ticks >> shift`, with the smallest shift that makes the step's length fit: one part in 33 million of
//! the step, or better.

use super::layout::{STEP_PHASES, STEP_SCALARS};
use super::ring::{PAYLOAD_WORDS, Payload, Ring};

/// First byte of a step's first slot.
pub(crate) const KIND_STEP: u8 = 16;
/// First byte of its further slots.
pub(crate) const KIND_STEP_MORE: u8 = 17;

/// Where the stream begins in the first slot.
const FIRST_AT: usize = 6;
/// Where it goes on in further slots.
const MORE_AT: usize = 1;
/// Numbers whose name stands in the first slot.
const NAMED_IN_FIRST: usize = 4;
/// Words of the stream in a further slot.
const ROW_WORDS: usize = PAYLOAD_WORDS - MORE_AT;
/// Words of the longest stream, in whole rows after the first one.
const STREAM_WORDS: usize = 1 + (slots_of(STEP_PHASES, STEP_SCALARS) - 1) * ROW_WORDS;
const SHARE_BITS: u32 = 26;
const SHARE: u64 = (1 << SHARE_BITS) - 1;

/// The step was marked as failed.
pub(crate) const FLAG_FAILED: u8 = 1;
/// The user asked for its span.
pub(crate) const FLAG_KEEP: u8 = 2;
/// It stands in an epoch.
pub(crate) const FLAG_EPOCH: u8 = 4;

const _: () = assert!(STEP_PHASES < 1 << 5 && STEP_SCALARS <= NAMED_IN_FIRST + 8);

/// A step in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StepTicks {
    pub(crate) ordinal: u64,
    pub(crate) step: u64,
    pub(crate) epoch: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) micro_steps: u16,
    pub(crate) flags: u8,
}

/// A phase in ticks; `parent` is its place in the list plus one, or 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PhaseTicks {
    pub(crate) phase: u8,
    pub(crate) parent: u8,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// A step with its phases and numbers.
pub(crate) type StepParts = (StepTicks, Vec<PhaseTicks>, Vec<(u8, f64)>);

/// Slots of a step with so many phases and numbers.
#[inline]
pub(crate) const fn slots_of(phases: usize, scalars: usize) -> usize {
    let names = if scalars > NAMED_IN_FIRST { 1 } else { 0 };
    1 + (phases + names + scalars).saturating_sub(1).div_ceil(ROW_WORDS)
}

/// Writes a step into the slots that were claimed for it, from `position` on. `phases` and `scalars` have as many items as `slots_of`
/// was told.
#[inline]
pub(crate) fn write(
    ring: &Ring<'_>,
    position: u64,
    step: &StepTicks,
    phases: impl ExactSizeIterator<Item = PhaseTicks>,
    scalars: impl ExactSizeIterator<Item = (u8, u64)>,
) {
    // Nearly all steps fit into two slots: for them a small array that needs hardly any zeros.
    if slots_of(phases.len(), scalars.len()) <= 2 {
        write_rows::<{ 1 + ROW_WORDS }>(ring, position, step, phases, scalars);
    } else {
        write_long(ring, position, step, phases, scalars);
    }
}

#[cold]
#[inline(never)]
fn write_long(
    ring: &Ring<'_>,
    position: u64,
    step: &StepTicks,
    phases: impl ExactSizeIterator<Item = PhaseTicks>,
    scalars: impl ExactSizeIterator<Item = (u8, u64)>,
) {
    write_rows::<STREAM_WORDS>(ring, position, step, phases, scalars);
}

#[inline(always)]
fn write_rows<const WORDS: usize>(
    ring: &Ring<'_>,
    position: u64,
    step: &StepTicks,
    phases: impl ExactSizeIterator<Item = PhaseTicks>,
    scalars: impl ExactSizeIterator<Item = (u8, u64)>,
) {
    let length = step.end.saturating_sub(step.begin);
    let shift = (u64::BITS - length.leading_zeros()).saturating_sub(SHARE_BITS);
    let slots = slots_of(phases.len(), scalars.len());
    let head = u64::from(KIND_STEP)
        | u64::from(step.flags) << 8
        | (slots as u64) << 16
        | (phases.len() as u64) << 24
        | (scalars.len() as u64) << 32
        | u64::from(shift) << 40
        | u64::from(step.micro_steps) << 48;

    // The stream as a whole first: whole rows of it then go into their slots without a question at each word.
    let mut stream = [0; WORDS];
    let names_at = phases.len();
    let numbers_at = names_at + usize::from(scalars.len() > NAMED_IN_FIRST);
    for (phase, word) in phases.zip(&mut stream) {
        // Not `clamp`, which may panic.
        let begin = phase.begin.max(step.begin).min(step.end);
        let end = phase.end.max(begin).min(step.end);
        // The difference of the rounded ends and not the rounded difference: what ends within another phase must not seem to end
        // after it.
        let begin = (begin - step.begin) >> shift;
        let length = ((end - step.begin) >> shift) - begin;
        *word = u64::from(phase.phase & 0x7f) | u64::from(phase.parent) << 7 | begin << 12 | length << 38;
    }
    let (mut names, mut further_names) = (0, 0);
    for ((place, (scalar, bits)), word) in scalars.enumerate().zip(stream.iter_mut().skip(numbers_at)) {
        *word = bits;
        if place < NAMED_IN_FIRST {
            names |= u64::from(scalar) << (place * 8);
        } else {
            further_names |= u64::from(scalar) << ((place - NAMED_IN_FIRST) * 8);
        }
    }
    if further_names != 0
        && let Some(word) = stream.get_mut(names_at)
    {
        *word = further_names;
    }

    let first_names = u64::from(step.epoch) | names << 32;
    ring.publish(position, &[head, step.ordinal, step.step, step.begin, length, first_names, stream[0]]);
    for (place, row) in (1..slots as u64).zip(stream[1..].as_chunks::<ROW_WORDS>().0) {
        let [a, b, c, d, e, f] = *row;
        ring.publish(position.wrapping_add(place), &[more_head(place, step.ordinal), a, b, c, d, e, f]);
    }
}

#[inline]
fn more_head(place: u64, ordinal: u64) -> u64 {
    u64::from(KIND_STEP_MORE) | place << 8 | ordinal << 32
}

/// Slots that the step in this first slot takes; at least 1.
pub(crate) fn slot_count(first: &Payload) -> u64 {
    (first[0] >> 16 & 0xff).max(1)
}

/// Reads a step back. `None`: the slots do not belong together.
pub(crate) fn decode(slots: &[Payload]) -> Option<StepParts> {
    let (first, more) = slots.split_first()?;
    let [head, ordinal, step, begin, length, names, _] = *first;
    let [kind, flags, count, phase_count, scalar_count, shift, ..] = head.to_le_bytes();
    let (phase_count, scalar_count) = (usize::from(phase_count), usize::from(scalar_count));
    let fits = kind == KIND_STEP
        && usize::from(count) == slots.len()
        && phase_count <= STEP_PHASES
        && scalar_count <= STEP_SCALARS
        && slots.len() == slots_of(phase_count, scalar_count)
        && u32::from(shift) <= u64::BITS - SHARE_BITS
        && more.iter().enumerate().all(|(place, slot)| slot[0] == more_head(place as u64 + 1, ordinal));
    if !fits {
        return None;
    }
    let end = begin.checked_add(length)?;
    let step = StepTicks { ordinal, step, epoch: names as u32, begin, end, micro_steps: (head >> 48) as u16, flags };
    let mut stream = first[FIRST_AT..].iter().chain(more.iter().flat_map(|slot| &slot[MORE_AT..])).copied();
    let mut phases: Vec<PhaseTicks> = Vec::with_capacity(phase_count);
    for _ in 0..phase_count {
        let word = stream.next()?;
        let share = |from: u32| (word >> from & SHARE) << shift;
        let phase_begin = begin.saturating_add(share(12));
        let phase_end = phase_begin.saturating_add(share(38));
        // Inside the one around it, whatever the bytes say.
        let parent = (word >> 7 & 0x1f) as u8;
        let around = parent.checked_sub(1).and_then(|around| phases.get(usize::from(around)));
        let (parent, least, most) = around.map_or((0, begin, end), |around| (parent, around.begin, around.end));
        let (begin, end) = (phase_begin.clamp(least, most), phase_end.clamp(least, most));
        phases.push(PhaseTicks { phase: (word & 0x7f) as u8, parent, begin, end });
    }
    let further = if scalar_count > NAMED_IN_FIRST { stream.next()? } else { 0 };
    let names = (names >> 32).to_le_bytes().into_iter().take(NAMED_IN_FIRST).chain(further.to_le_bytes());
    let scalars = names.zip(stream).take(scalar_count).map(|(scalar, bits)| (scalar, f64::from_bits(bits))).collect();
    Some((step, phases, scalars))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ring::{AtomicU64, Slot};
    use super::*;

    fn encode(step: &StepTicks, phases: &[PhaseTicks], scalars: &[(u8, u64)]) -> Vec<Payload> {
        let words: Vec<AtomicU64> = (0..16 * 8).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring { head: &AtomicU64::new(0), tail: &AtomicU64::new(0), slots: &words };
        write(&ring, 14, step, phases.iter().copied(), scalars.iter().copied());
        let published = |position| if let Slot::Published(payload) = ring.read(position) { Some(payload) } else { None };
        (14..).map_while(published).collect()
    }

    #[test]
    fn four_phases_and_two_numbers_take_two_slots() {
        let step = StepTicks { begin: 100, end: 1100, ..StepTicks::default() };
        let phases = [PhaseTicks { phase: 3, begin: 200, end: 300, ..PhaseTicks::default() }; 4];
        assert_eq!(encode(&step, &phases, &[(1, 0), (2, 0)]).len(), 2);
    }

    proptest! {
        #[test]
        fn comes_back_as_it_went(
            begin in 0_u64..1 << 60, length in 0_u64..1 << 60, ordinal: u64, number: u64, micro_steps: u16,
            phases in prop::collection::vec((0_u8..80, 0.0_f64..1.0, 0.0_f64..1.0), 0..=STEP_PHASES),
            scalars in prop::collection::vec((0_u8..80, any::<u64>()), 0..=STEP_SCALARS),
        ) {
            let step = StepTicks { ordinal, step: number, epoch: 7, begin, end: begin + length, micro_steps, flags: 5 };
            let place = |share: f64| begin + ((length as f64 * share) as u64).min(length);
            let phases: Vec<_> = phases.iter().map(|(phase, a, b)| PhaseTicks { phase: *phase, parent: 0, begin: place(a.min(*b)), end: place(a.max(*b)) }).collect();
            let slots = encode(&step, &phases, &scalars);
            prop_assert_eq!(slots.len(), slots_of(phases.len(), scalars.len()));
            prop_assert_eq!(slot_count(&slots[0]), slots.len() as u64);
            let (back, back_phases, back_scalars) = decode(&slots).ok_or(TestCaseError::fail("no step"))?;
            prop_assert_eq!(back, step);
            let grain = (length >> 25) + 1;
            for (phase, back) in phases.iter().zip(&back_phases) {
                prop_assert_eq!(phase.phase, back.phase);
                prop_assert!(phase.begin - back.begin <= grain && phase.end - back.end <= grain);
                prop_assert!(back.begin >= begin && back.end <= begin + length);
            }
            prop_assert_eq!(scalars.len(), back_scalars.len());
            for ((scalar, bits), (back, value)) in scalars.iter().zip(&back_scalars) {
                prop_assert_eq!((*scalar, *bits), (*back, value.to_bits()));
            }
        }

        #[test]
        fn any_payload_gives_a_step_or_nothing(slots in prop::collection::vec(any::<Payload>(), 0..12)) {
            let _ = decode(&slots);
        }
    }
}
