//! From ticks to wall-clock time: a line through the anchor, bent a little now and then so that it follows the system's monotonic
//! clock (which the time service keeps in step with the world) without ever running backwards.
//!
//! The pieces stand in the journal, so that every reader, now or after a crash, gets the same nanosecond for the same tick. A new
//! piece begins a little in the future: no record that it speaks of can have been read before it was written.

use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64;

use super::layout::{SEGMENT_COUNT_AT, SEGMENT_WORDS, SEGMENTS, SEGMENTS_AT};
use super::ring::{AtomicU64, Ordering};
use super::ticks::TickKind;
use crate::clock::Anchor;

/// One piece: time from `ticks` on is `unix_ns + (t - ticks) * rate / 2^32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// First tick of the piece.
    pub(crate) ticks: u64,
    /// Its time, Unix nanoseconds.
    pub(crate) unix_ns: u64,
    /// Nanoseconds a tick, in 2^-32.
    pub(crate) rate: u64,
}

impl Segment {
    fn at(&self, ticks: u64) -> u64 {
        let rate = u128::from(self.rate);
        if ticks >= self.ticks {
            let later = (u128::from(ticks - self.ticks) * rate) >> 32;
            self.unix_ns.saturating_add(u64::try_from(later).unwrap_or(u64::MAX))
        } else {
            let earlier = (u128::from(self.ticks - ticks) * rate) >> 32;
            self.unix_ns.saturating_sub(u64::try_from(earlier).unwrap_or(u64::MAX))
        }
    }

    fn check(&self) -> u64 {
        let mut bytes = [0_u8; 24];
        bytes[..8].copy_from_slice(&self.ticks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.unix_ns.to_le_bytes());
        bytes[16..].copy_from_slice(&self.rate.to_le_bytes());
        xxh3_64(&bytes)
    }

    fn write(&self, words: &[AtomicU64]) {
        let count = words[SEGMENT_COUNT_AT].load(Ordering::Relaxed);
        let at = SEGMENTS_AT + (count as usize % SEGMENTS) * SEGMENT_WORDS;
        for (place, value) in [self.ticks, self.unix_ns, self.rate, self.check()].into_iter().enumerate() {
            words[at + place].store(value, Ordering::Relaxed);
        }
        words[SEGMENT_COUNT_AT].store(count.wrapping_add(1), Ordering::Release);
    }
}

/// The reader's side: the pieces that stand in the journal.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockMap {
    segments: Vec<Segment>,
    seen: Option<u64>,
}

impl ClockMap {
    /// Takes up pieces that were added. Damaged ones are left out.
    pub(crate) fn refresh(&mut self, words: &[AtomicU64]) {
        let count = words[SEGMENT_COUNT_AT].load(Ordering::Acquire);
        if self.seen == Some(count) {
            return;
        }
        self.seen = Some(count);
        self.segments.clear();
        // All entries: each stands for itself, and the count only says when to look again.
        for entry in words[SEGMENTS_AT..SEGMENTS_AT + SEGMENTS * SEGMENT_WORDS].as_chunks::<SEGMENT_WORDS>().0 {
            let [ticks, unix_ns, rate, check] = [0, 1, 2, 3].map(|place| entry[place].load(Ordering::Relaxed));
            let segment = Segment { ticks, unix_ns, rate };
            if segment.check() == check {
                self.segments.push(segment);
            }
        }
        self.segments.sort_by_key(|segment| segment.ticks);
    }

    /// Whether there is no piece, so that no time can be told.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The time of a tick, Unix nanoseconds.
    pub(crate) fn unix_ns(&self, ticks: u64) -> u64 {
        let after = self.segments.partition_point(|segment| segment.ticks <= ticks);
        self.segments.get(after.saturating_sub(1)).map_or(0, |segment| segment.at(ticks))
    }
}

/// The writer's side: lays pieces.
#[derive(Debug)]
pub(crate) struct ClockWriter {
    kind: TickKind,
    anchor: Anchor,
    origin: (u64, Instant),
    current: Segment,
    laid_at: Instant,
    interval_ns: u64,
}

/// The first piece lasts this long; each further one twice as long, up to [`MAX_INTERVAL_NS`].
const MIN_INTERVAL_NS: u64 = 1_000_000_000;
/// Long enough to follow the time service, short enough that 64 pieces are an hour of unread journal.
const MAX_INTERVAL_NS: u64 = 64_000_000_000;
/// How far in the future a piece begins.
const AHEAD_NS: u64 = 20_000_000;
/// A difference larger than this is a machine that slept: time steps forward instead of running fast.
const STEP_NS: u64 = 500_000_000;
/// The rate of ticks is first measured over at least this time: 30 ns of reading error in 1 ms are 30 millionths.
const FIRST_BASELINE_NS: u64 = 1_000_000;

impl ClockWriter {
    /// Takes the anchor and lays the first piece. Takes up to a millisecond, to learn how long a tick is.
    pub(crate) fn start(kind: TickKind, words: &[AtomicU64]) -> Self {
        let anchor = Anchor::now();
        let origin = kind.with_instant();
        let (ticks, instant) = match kind {
            TickKind::Nanosecond => origin,
            TickKind::Counter => loop {
                let (ticks, instant) = kind.with_instant();
                if crate::clock::nanoseconds(instant.duration_since(origin.1)) >= FIRST_BASELINE_NS {
                    break (ticks, instant);
                }
                std::hint::spin_loop();
            },
        };
        let rate = match kind {
            TickKind::Nanosecond => 1 << 32,
            TickKind::Counter => rate_between(origin, (ticks, instant)),
        };
        // The piece begins at the origin, so that everything after `start` lies on it.
        let current = Segment { ticks: origin.0, unix_ns: anchor.at(origin.1), rate };
        current.write(words);
        Self { kind, anchor, origin, current, laid_at: instant, interval_ns: MIN_INTERVAL_NS }
    }

    /// Lays a further piece if it is time. To be called now and then by the sampler's or the pump's thread.
    pub(crate) fn follow(&mut self, words: &[AtomicU64]) {
        if self.kind == TickKind::Nanosecond {
            return;
        }
        let (ticks, instant) = self.kind.with_instant();
        if crate::clock::nanoseconds(instant.duration_since(self.laid_at)) < self.interval_ns {
            return;
        }
        self.interval_ns = (self.interval_ns * 2).min(MAX_INTERVAL_NS);
        let next = next_segment(self.current, self.origin, (ticks, instant), self.anchor.at(instant), self.interval_ns);
        self.origin = (ticks, instant);
        self.laid_at = instant;
        self.current = next;
        next.write(words);
    }
}

fn rate_between(from: (u64, Instant), to: (u64, Instant)) -> u64 {
    let ns = u128::from(crate::clock::nanoseconds(to.1.duration_since(from.1)));
    let ticks = u128::from(to.0.saturating_sub(from.0)).max(1);
    u64::try_from((ns << 32) / ticks).unwrap_or(u64::MAX).max(1)
}

/// The piece after `current`: it begins where `current` will be in [`AHEAD_NS`], and meets the true time after `interval_ns`.
fn next_segment(current: Segment, from: (u64, Instant), now: (u64, Instant), true_ns: u64, interval_ns: u64) -> Segment {
    let rate = rate_between(from, now);
    let ticks_in = |ns: u64| u64::try_from((u128::from(ns) << 32) / u128::from(rate)).unwrap_or(u64::MAX);
    let ticks = now.0.saturating_add(ticks_in(AHEAD_NS));
    let on_line = current.at(ticks);
    let truth = true_ns.saturating_add(AHEAD_NS);
    if truth.saturating_sub(on_line) > STEP_NS {
        return Segment { ticks, unix_ns: truth, rate };
    }
    // Ahead of the truth: run slower, at the least at half the rate, so that time still moves forwards.
    let correction = (i128::from(truth) - i128::from(on_line)).max(-i128::from(interval_ns) / 2);
    let bent = i128::from(rate) + i128::from(rate) * correction / i128::from(interval_ns);
    Segment { ticks, unix_ns: on_line, rate: u64::try_from(bent).unwrap_or(rate).max(1) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A machine whose counter runs at `ticks_per_us`, while the time service bends the monotonic clock by `ppm`.
    fn drift_after(hours: u64, ticks_per_us: u64, ppm: i64) -> i128 {
        let base = Instant::now();
        let rate = (1000_u64 << 32) / ticks_per_us;
        let mut current = Segment { ticks: 0, unix_ns: 1_000_000_000_000, rate };
        let mut from = (0, base);
        let mut elapsed_ns = 0_u64;
        let mut interval_ns = MIN_INTERVAL_NS;
        let mut worst = 0;
        while elapsed_ns < hours * 3_600_000_000_000 {
            elapsed_ns += interval_ns;
            let ticks = elapsed_ns / 1000 * ticks_per_us;
            let bent = (elapsed_ns as i64 + elapsed_ns as i64 / 1_000_000 * ppm) as u64;
            let now = (ticks, base + Duration::from_nanos(bent));
            let truth = 1_000_000_000_000 + bent;
            interval_ns = (interval_ns * 2).min(MAX_INTERVAL_NS);
            let next = next_segment(current, from, now, truth, interval_ns);
            assert_eq!(current.at(next.ticks), next.unix_ns, "time jumped");
            current = next;
            from = now;
            worst = (i128::from(current.at(ticks)) - i128::from(truth)).abs().max(worst);
        }
        worst
    }

    #[test]
    fn follows_the_monotonic_clock_for_days() {
        assert!(drift_after(48, 2_000, 50) < 1_000_000);
        assert!(drift_after(48, 2_000, -50) < 1_000_000);
    }

    #[test]
    fn steps_forward_after_sleep_and_never_back() {
        let base = Instant::now();
        let current = Segment { ticks: 0, unix_ns: 1_000_000_000, rate: 1 << 32 };
        let later = (1_000_000_000, base + Duration::from_secs(1));
        let slept = next_segment(current, (0, base), later, 3_602_000_000_000, MIN_INTERVAL_NS);
        assert_eq!(slept.unix_ns, 3_602_000_000_000 + AHEAD_NS);
        let back = next_segment(current, (0, base), later, 5, MIN_INTERVAL_NS);
        assert_eq!(back.unix_ns, current.at(back.ticks));
        assert!(back.rate >= (1 << 31) - 1);
    }
}
