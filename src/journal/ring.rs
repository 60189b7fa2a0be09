//! The ring: claim, publish, consume.
//!
//! Many threads write, one reader consumes, nobody waits for anybody. Positions count slots since the file was made and never
//! wrap in practice (2^64). A writer claims `n` slots in a row by moving the head, if the tail leaves room: one compare-and-swap,
//! and not a plain add, because an add that finds the ring full would leave a hole that the reader could not tell from a slot
//! being written. It then stores the payload, and last a commit word that names the position and a checksum of the payload. A
//! slot whose commit word does not fit was torn by a crash (or is being written right now).

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

/// Words of payload in a slot.
pub const PAYLOAD_WORDS: usize = 7;
/// What a slot carries.
pub type Payload = [u64; PAYLOAD_WORDS];

const SLOT_WORDS: usize = PAYLOAD_WORDS + 1;

/// A view of the words that make up the ring.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    /// Position of the next slot to claim.
    pub head: &'a AtomicU64,
    /// Position of the next slot to read.
    pub tail: &'a AtomicU64,
    /// The slots, eight words each; a power of two of them.
    pub slots: &'a [AtomicU64],
}

/// What stands in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A published payload.
    Published(Payload),
    /// Claimed, but not published: being written, or torn.
    Unpublished,
}

impl Ring<'_> {
    /// Slots of the ring.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (self.slots.len() / SLOT_WORDS) as u64
    }

    /// Claims `count` slots in a row for a writer that leaves `reserved` slots free; the position of the first.
    ///
    /// `None`: there is no room now.
    #[inline]
    #[must_use]
    pub fn claim(&self, count: u64, reserved: u64) -> Option<u64> {
        let room = self.capacity().saturating_sub(reserved);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Acquire: what the reader read from these slots was read before we overwrite them.
            let tail = self.tail.load(Ordering::Acquire);
            if head.saturating_add(count).saturating_sub(tail) > room {
                return None;
            }
            match self.head.compare_exchange_weak(head, head.wrapping_add(count), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(head),
                Err(now) => head = now,
            }
        }
    }

    /// Writes the payload of a claimed slot and commits it.
    #[inline]
    pub fn publish(&self, position: u64, payload: &Payload) {
        let Some(slot) = self.slot(position) else { return };
        for (word, value) in slot[1..].iter().zip(payload) {
            word.store(*value, Ordering::Relaxed);
        }
        // Release: whoever sees the commit word sees the payload.
        slot[0].store(commit_word(position, payload), Ordering::Release);
    }

    /// Reads the slot at a position.
    #[must_use]
    pub fn read(&self, position: u64) -> Slot {
        let Some(slot) = self.slot(position) else { return Slot::Unpublished };
        let commit = slot[0].load(Ordering::Acquire);
        let mut payload = [0; PAYLOAD_WORDS];
        for (value, word) in payload.iter_mut().zip(&slot[1..]) {
            *value = word.load(Ordering::Relaxed);
        }
        if commit == commit_word(position, &payload) { Slot::Published(payload) } else { Slot::Unpublished }
    }

    /// Positions that are claimed and not consumed yet, from tail to head; never more than the ring has slots, whatever the words say.
    #[must_use]
    pub fn unread(&self) -> std::ops::Range<u64> {
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Acquire);
        tail..head.clamp(tail, tail.saturating_add(self.capacity()))
    }

    /// Looks at the slots that will be claimed next, so that the processor has fetched them when they are: the reader's core had them
    /// last. Without this a step's end, and through the next locked instruction the next step's begin, waits for them.
    #[inline]
    pub fn fetch_ahead(&self) {
        let head = self.head.load(Ordering::Relaxed);
        for position in [head, head.wrapping_add(1)] {
            if let Some(slot) = self.slot(position) {
                slot[0].load(Ordering::Relaxed);
            }
        }
    }

    /// Gives the slots before `position` back to the writers.
    pub fn consume(&self, position: u64) {
        // Release: our reads of the slots come before the writers' next stores into them.
        self.tail.store(position, Ordering::Release);
    }

    #[inline]
    fn slot(&self, position: u64) -> Option<&[AtomicU64; SLOT_WORDS]> {
        let (slots, _) = self.slots.as_chunks::<SLOT_WORDS>();
        slots.get((position & (slots.len() as u64).wrapping_sub(1)) as usize)
    }
}

/// Odd numbers with bits all over, one for each word.
const FACTORS: [u64; PAYLOAD_WORDS] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
    0xd6e8_feb8_6659_fd93,
    0xff51_afd7_ed55_8ccd,
];

/// The lower half is the position (so that a slot of the round before does not fit), the upper half a checksum; never 0, which is
/// what a fresh file holds.
#[inline]
fn commit_word(position: u64, payload: &Payload) -> u64 {
    (checksum(position, payload) & 0xffff_ffff_0000_0000) | u64::from((position as u32) | 0x8000_0000)
}

/// A checksum against torn and damaged slots, whose upper half is used. Independent multiplications and one at the end: a third of what
/// a general hash of 56 bytes costs. It is no defence against a forger, who could write a fitting one of any kind.
#[inline]
fn checksum(position: u64, payload: &Payload) -> u64 {
    let mut sum = position.wrapping_mul(0xa076_1d64_78bd_642f);
    for (place, (word, factor)) in payload.iter().zip(FACTORS).enumerate() {
        // A changed word changes its product for certain; the rotation sets those apart that change in the same bits.
        sum = sum.rotate_left(9) ^ word.wrapping_mul(factor).rotate_left(place as u32 * 5);
    }
    (sum ^ (sum >> 32)).wrapping_mul(0xe703_7ed1_a0b4_28db)
}
