//! A step, with its phases and numbers, in as few slots as can be: two for four phases and two numbers.
//!
//! The first slot holds the step itself and one phase; each further slot 48 bytes of entries. A phase takes 10 bytes (which, the one
//! around it, begin and length as 32-bit shares of the step's own length), a number 9. Entries do not straddle slots. A share is
//! `ticks >> shift`, with the smallest shift that makes the step's length fit: one part in 2 billion of the step, or better.

use super::layout::{STEP_PHASES, STEP_SCALARS};
use super::ring::{PAYLOAD_WORDS, Payload};

/// First byte of a step's first slot.
pub(crate) const KIND_STEP: u8 = 16;
/// First byte of its further slots.
pub(crate) const KIND_STEP_MORE: u8 = 17;

const PHASE_BYTES: usize = 10;
const SCALAR_BYTES: usize = 9;
const SLOT_BYTES: usize = PAYLOAD_WORDS * 8;
/// Where entries begin in the first slot.
const FIRST_AT: usize = 44;
/// Where entries begin in further slots.
const MORE_AT: usize = 8;
/// Slots of the longest step.
pub(crate) const MAX_STEP_SLOTS: usize = 1 + (STEP_PHASES * PHASE_BYTES + STEP_SCALARS * SCALAR_BYTES).div_ceil(40);

/// The step was marked as failed.
pub(crate) const FLAG_FAILED: u8 = 1;
/// The user asked for its span.
pub(crate) const FLAG_KEEP: u8 = 2;
/// It stands in an epoch.
pub(crate) const FLAG_EPOCH: u8 = 4;

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

/// Slots being filled, in plain bytes.
pub(crate) struct StepSlots {
    bytes: [[u8; SLOT_BYTES]; MAX_STEP_SLOTS],
    used: usize,
    at: usize,
    begin: u64,
    end: u64,
    shift: u32,
}

impl StepSlots {
    /// Begins with the step itself.
    #[inline]
    pub(crate) fn new(step: &StepTicks) -> Self {
        let length = step.end.saturating_sub(step.begin);
        let shift = (u64::BITS - length.leading_zeros()).saturating_sub(32);
        let mut slots = Self { bytes: [[0; SLOT_BYTES]; MAX_STEP_SLOTS], used: 1, at: FIRST_AT, begin: step.begin, end: step.end, shift };
        let first = &mut slots.bytes[0];
        first[0] = KIND_STEP;
        first[1] = step.flags;
        first[5] = shift as u8;
        first[6..8].copy_from_slice(&step.micro_steps.to_le_bytes());
        first[8..16].copy_from_slice(&step.ordinal.to_le_bytes());
        first[16..24].copy_from_slice(&step.step.to_le_bytes());
        first[24..32].copy_from_slice(&step.begin.to_le_bytes());
        first[32..40].copy_from_slice(&length.to_le_bytes());
        first[40..44].copy_from_slice(&step.epoch.to_le_bytes());
        slots
    }

    /// Adds a phase; those that do not fit any more are the caller's to count.
    #[inline]
    pub(crate) fn phase(&mut self, phase: &PhaseTicks) {
        let begin = phase.begin.clamp(self.begin, self.end);
        let end = phase.end.clamp(begin, self.end);
        let mut entry = [phase.phase, phase.parent, 0, 0, 0, 0, 0, 0, 0, 0];
        let share = |ticks: u64| ((ticks - self.begin) >> self.shift) as u32;
        entry[2..6].copy_from_slice(&share(begin).to_le_bytes());
        // The difference of the rounded ends and not the rounded difference: what ends within another phase must not seem to end
        // after it.
        entry[6..10].copy_from_slice(&(share(end) - share(begin)).to_le_bytes());
        self.put(entry);
        self.bytes[0][3] += 1;
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn scalar(&mut self, scalar: u8, bits: u64) {
        let mut entry = [scalar, 0, 0, 0, 0, 0, 0, 0, 0];
        entry[1..9].copy_from_slice(&bits.to_le_bytes());
        self.put(entry);
        self.bytes[0][4] += 1;
    }

    #[inline]
    fn put<const N: usize>(&mut self, entry: [u8; N]) {
        if self.at + N > SLOT_BYTES {
            self.used += 1;
            self.at = MORE_AT;
        }
        let slot = &mut self.bytes[self.used - 1];
        slot[self.at..self.at + N].copy_from_slice(&entry);
        self.at += N;
    }

    /// The payloads of the slots, in order.
    #[inline]
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = Payload> + '_ {
        let used = self.used;
        self.bytes[0][2] = used as u8;
        let [low0, low1, low2, low3, ..] =
            u64::from_le_bytes([self.bytes[0][8], self.bytes[0][9], self.bytes[0][10], self.bytes[0][11], 0, 0, 0, 0]).to_le_bytes();
        for (place, slot) in self.bytes[..used].iter_mut().enumerate().skip(1) {
            slot[0] = KIND_STEP_MORE;
            slot[1] = place as u8;
            slot[4..8].copy_from_slice(&[low0, low1, low2, low3]);
        }
        self.bytes[..used].iter().map(words)
    }

    /// Slots in use.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.used as u64
    }
}

#[inline]
fn words(bytes: &[u8; SLOT_BYTES]) -> Payload {
    let mut payload = [0; PAYLOAD_WORDS];
    for (word, chunk) in payload.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    payload
}

/// Slots that the step in this first slot takes; at least 1.
pub(crate) fn slot_count(first: &Payload) -> u64 {
    (first[0] >> 16 & 0xff).max(1)
}

/// A step with its phases and numbers.
pub(crate) type StepParts = (StepTicks, Vec<PhaseTicks>, Vec<(u8, f64)>);

/// Reads a step back. `None`: the slots do not belong together.
pub(crate) fn decode(slots: &[Payload]) -> Option<StepParts> {
    let bytes: Vec<[u8; SLOT_BYTES]> = slots
        .iter()
        .map(|slot| {
            let mut bytes = [0; SLOT_BYTES];
            for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(slot) {
                *chunk = word.to_le_bytes();
            }
            bytes
        })
        .collect();
    let first = bytes.first()?;
    if first[0] != KIND_STEP || usize::from(first[2]) != bytes.len() {
        return None;
    }
    let number = |at: usize| -> u64 { first[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)) };
    let begin = number(24);
    let end = begin.checked_add(number(32))?;
    let step = StepTicks {
        ordinal: number(8),
        step: number(16),
        epoch: u32::from_le_bytes([first[40], first[41], first[42], first[43]]),
        begin,
        end,
        micro_steps: u16::from_le_bytes([first[6], first[7]]),
        flags: first[1],
    };
    let shift = u32::from(first[5]);
    if shift > 32 {
        return None;
    }
    for (place, slot) in bytes.iter().enumerate().skip(1) {
        if slot[0] != KIND_STEP_MORE || usize::from(slot[1]) != place || slot[4..8] != first[8..12] {
            return None;
        }
    }
    let mut entries = Entries { bytes: &bytes, slot: 0, at: FIRST_AT };
    let mut phases = Vec::with_capacity(usize::from(first[3]));
    for place in 0..first[3] {
        let entry = entries.take(PHASE_BYTES)?;
        let share = |at: usize| u64::from(u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])) << shift;
        let phase_begin = begin.saturating_add(share(2)).min(end);
        let parent = if entry[1] <= place { entry[1] } else { 0 };
        let phase_end = phase_begin.saturating_add(share(6)).min(end);
        // Inside the one around it, whatever the bytes say.
        let around = parent.checked_sub(1).and_then(|around| phases.get(usize::from(around)));
        let (least, most) = around.map_or((begin, end), |around: &PhaseTicks| (around.begin, around.end));
        phases.push(PhaseTicks { phase: entry[0], parent, begin: phase_begin.clamp(least, most), end: phase_end.clamp(least, most) });
    }
    let mut scalars = Vec::with_capacity(usize::from(first[4]));
    for _ in 0..first[4] {
        let entry = entries.take(SCALAR_BYTES)?;
        let bits = entry[1..9].iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        scalars.push((entry[0], f64::from_bits(bits)));
    }
    Some((step, phases, scalars))
}

struct Entries<'a> {
    bytes: &'a [[u8; SLOT_BYTES]],
    slot: usize,
    at: usize,
}

impl<'a> Entries<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        if self.at + length > SLOT_BYTES {
            self.slot += 1;
            self.at = MORE_AT;
        }
        let entry = self.bytes.get(self.slot)?.get(self.at..self.at + length)?;
        self.at += length;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(step: &StepTicks, phases: &[PhaseTicks], scalars: &[(u8, u64)]) -> Vec<Payload> {
        let mut slots = StepSlots::new(step);
        phases.iter().for_each(|phase| slots.phase(phase));
        scalars.iter().for_each(|(scalar, bits)| slots.scalar(*scalar, *bits));
        slots.finish().collect()
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
            prop_assert!(slots.len() <= MAX_STEP_SLOTS);
            prop_assert_eq!(slot_count(&slots[0]), slots.len() as u64);
            let (back, back_phases, back_scalars) = decode(&slots).ok_or(TestCaseError::fail("no step"))?;
            prop_assert_eq!(back, step);
            let grain = (length >> 31) + 1;
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
