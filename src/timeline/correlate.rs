//! What the readings say about an interval. The rules, for one device and the interval `[begin, end)`:
//!
//! - Of what was interrupted the end is the last that was heard, so a reading right at it lies inside as well.
//! - A reading lies *inside* when `begin <= time < end`. The *brackets* are the last one at or before `begin` and the first one at or
//!   after `end`; they count only without a break (lost device, counter that fell) between them and at most three sample intervals
//!   and a second apart. An interval with neither says nothing.
//! - Memory, maximum: over the readings inside; without any the larger bracket. Memory, end: the last reading inside; without any the
//!   later bracket. Readings that lack the field do not count.
//! - Utilization: NVML's figure describes the time since the reading before, at most the longest window. The mean weights each figure
//!   with the overlap of its window and the interval; the reading that follows the end counts with its overlap.
//! - Energy: the counter, interpolated linearly at both ends from the nearest readings that have it; its error is the most by which
//!   the true counter, which only grows, may differ from that line.
//! - Power: energy by time; without a counter the figures, weighted like utilization. Only where a reading lies inside and, for the
//!   figures, the interval lasts a second: the driver's figure is itself an average over up to a second.

use serde::{Deserialize, Serialize};

use super::history::{History, Known, Reading, Track};
use crate::model::Phase;

/// Shortest interval of which the driver's power figure, an average over up to a second, can speak.
const SHORTEST_FOR_POWER_NS: u64 = 1_000_000_000;

/// What is known of one device during one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Aggregate {
    /// Readings that stand behind it: those inside, else the brackets.
    pub(super) samples: u64,
    pub(super) memory_max: Option<Peak>,
    pub(super) memory_end_bytes: Option<u64>,
    pub(super) utilization: Option<f64>,
    pub(super) power_w: Option<f64>,
    pub(super) energy: Option<Energy>,
}

/// The most memory, and the phase that was open then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Peak {
    pub(super) bytes: u64,
    pub(super) phase: Option<Phase>,
}

/// Energy, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Energy {
    pub(super) joules: f64,
    pub(super) error_j: f64,
}

/// A sum of values with weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Weighted {
    sum: f64,
    weight: f64,
}

impl Weighted {
    fn add(&mut self, value: Option<f64>, weight_ns: u64) {
        if let Some(value) = value
            && weight_ns > 0
        {
            self.sum += value * weight_ns as f64;
            self.weight += weight_ns as f64;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// A place on the line between two readings of the energy counter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Interpolated {
    value: f64,
    error: f64,
    before: Known<f64>,
    after: Known<f64>,
    generation: u32,
}

impl Interpolated {
    fn new(before: Known<f64>, after: Known<f64>, time_ns: u64, generation: u32) -> Self {
        let (value, error) = if time_ns <= before.time_ns {
            (before.value, 0.0)
        } else if time_ns >= after.time_ns {
            (after.value, 0.0)
        } else {
            let share = (time_ns - before.time_ns) as f64 / (after.time_ns - before.time_ns) as f64;
            let value = before.value + (after.value - before.value) * share;
            (value, (value - before.value).max(after.value - value))
        };
        Self { value, error, before, after, generation }
    }

    /// The energy since an earlier place.
    fn since(&self, begin: &Self) -> Option<Energy> {
        if self.generation != begin.generation {
            return None;
        }
        let joules = (self.value - begin.value).max(0.0);
        let both_exact = self.error == 0.0 && begin.error == 0.0;
        let same_bracket = begin.before == self.before && begin.after == self.after;
        let error_j =
            if same_bracket && !both_exact { joules.max(self.after.value - self.before.value - joules) } else { begin.error + self.error };
        Some(Energy { joules, error_j })
    }
}

/// The end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) time_ns: u64,
    /// Whether a reading right at the end lies inside.
    pub(super) included: bool,
}

impl End {
    pub(super) fn new(time_ns: u64, interrupted: bool) -> Self {
        Self { time_ns, included: interrupted }
    }

    /// What lies inside is before this.
    pub(super) fn until_ns(self) -> u64 {
        self.time_ns.saturating_add(u64::from(self.included))
    }
}

/// One device during one interval that may still be open: takes readings in as they leave the history, and the rest at the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Fold {
    begin_ns: u64,
    /// Time of the last reading taken in, if any has been looked at.
    taken_ns: Option<u64>,
    before: Option<Reading>,
    started: bool,
    /// Readings of the interval had left the history before they were taken in.
    incomplete: bool,
    inside: u64,
    memory_max: Option<Peak>,
    memory_end: Option<u64>,
    utilization: Weighted,
    power: Weighted,
    energy_begin: Option<Interpolated>,
    /// Generation and last known energy counter of the last reading taken in, or of the one before.
    last: Option<(u32, Option<Known<f64>>)>,
}

impl Fold {
    pub(super) fn new(begin_ns: u64) -> Self {
        Self { begin_ns, ..Self::default() }
    }

    /// Takes in the readings before `until_ns` that it has not seen.
    pub(super) fn catch_up(&mut self, track: &Track, until_ns: u64) {
        if !self.started {
            self.started = true;
            self.incomplete = !track.reaches_back_to(self.begin_ns);
            self.before = track.at_or_before(self.begin_ns).copied();
            self.last = self.before.map(|before| (before.generation, before.energy));
        }
        let from_ns = self.taken_ns.map_or(self.begin_ns, |taken_ns| taken_ns.saturating_add(1));
        for reading in track.since(from_ns).take_while(|reading| reading.time_ns < until_ns) {
            self.take_in(reading);
        }
    }

    fn take_in(&mut self, reading: &Reading) {
        self.taken_ns = Some(reading.time_ns);
        self.inside += 1;
        if let Some(memory) = reading.own_memory() {
            self.memory_end = Some(memory.value);
            if self.memory_max.is_none_or(|peak| memory.value > peak.bytes) {
                self.memory_max = Some(Peak { bytes: memory.value, phase: reading.phase.map(|(phase, _)| phase) });
            }
        }
        let overlap_ns = reading.time_ns - reading.window_begin_ns.max(self.begin_ns).min(reading.time_ns);
        self.utilization.add(reading.utilization, overlap_ns);
        self.power.add(reading.power_w, overlap_ns);
        if self.energy_begin.is_none() {
            self.energy_begin = self.energy_at_begin(reading);
        }
        self.last = Some((reading.generation, reading.energy));
    }

    /// The energy counter at the begin, if `reading` is the first at or after it that has the counter.
    fn energy_at_begin(&self, reading: &Reading) -> Option<Interpolated> {
        let after = reading.own_energy()?;
        let exact = (after.time_ns == self.begin_ns).then_some(after);
        let before = self.before.filter(|before| before.generation == reading.generation).and_then(|before| before.energy);
        Some(Interpolated::new(exact.or(before)?, after, self.begin_ns, reading.generation))
    }

    /// What is known of the interval, now that its end is.
    pub(super) fn finish(mut self, track: &Track, end: End, longest_gap_ns: u64) -> Option<Aggregate> {
        let end_ns = end.time_ns.max(self.begin_ns);
        let until_ns = End { time_ns: end_ns, ..end }.until_ns();
        self.catch_up(track, until_ns);
        // Readings taken in that are not inside: the end was told later than what came after it. Rather nothing than a false number.
        if self.incomplete || self.taken_ns.is_some_and(|taken_ns| taken_ns >= until_ns) {
            return None;
        }
        let after = track.since(until_ns).next();
        let close = |before: u64, after: u64| after - before <= longest_gap_ns;
        let brackets =
            self.before.zip(after).filter(|(before, after)| before.generation == after.generation && close(before.time_ns, after.time_ns));
        let energy = self.energy(track, end_ns);
        let samples = match brackets {
            _ if self.inside > 0 => self.inside,
            Some((before, after)) if before.time_ns == after.time_ns => 1,
            None if energy.is_none() => return None,
            _ => 2,
        };
        let (mut memory_max, mut memory_end_bytes) = (self.memory_max, self.memory_end);
        if memory_max.is_none()
            && let Some(before) = self.before.filter(|before| before.memory.is_some())
            && let Some((known, after)) = before.memory.zip(first_memory(track, end_ns, before.generation))
            && close(known.time_ns, after.time_ns)
        {
            let phase = |reading: Option<&Reading>| reading.and_then(|reading| reading.phase).map(|(phase, _)| phase);
            memory_max = Some(if known.value > after.value {
                Peak { bytes: known.value, phase: phase(track.at_or_before(known.time_ns)) }
            } else {
                Peak { bytes: after.value, phase: phase(track.at_or_before(after.time_ns)) }
            });
            memory_end_bytes = Some(after.value);
        }
        let stands = self.inside > 0 || brackets.is_some();
        if let Some(after) = after {
            let overlap_ns = end_ns.saturating_sub(after.window_begin_ns.max(self.begin_ns));
            self.utilization.add(after.utilization, overlap_ns);
            self.power.add(after.power_w, overlap_ns);
        }
        let duration_ns = end_ns - self.begin_ns;
        let power_w = match energy {
            _ if self.inside == 0 => None,
            Some(energy) => Some(energy.joules / (duration_ns as f64 / 1e9)),
            None => self.power.mean().filter(|_| duration_ns >= SHORTEST_FOR_POWER_NS),
        };
        let utilization = self.utilization.mean().filter(|_| stands);
        Some(Aggregate { samples, memory_max, memory_end_bytes, utilization, power_w, energy })
    }

    fn energy(&self, track: &Track, end_ns: u64) -> Option<Energy> {
        let (generation, known) = self.last?;
        let known = known?;
        let at_end = match first_energy(track, end_ns, generation) {
            Some(after) => Interpolated::new(known, after, end_ns, generation),
            None if known.time_ns == end_ns => Interpolated::new(known, known, end_ns, generation),
            None => return None,
        };
        // Without a reading of the counter inside, both ends lie between the same two.
        let begin = match (self.energy_begin, self.before) {
            (Some(begin), _) => begin,
            (None, Some(before)) if before.generation == generation => {
                Interpolated::new(before.energy?, at_end.after, self.begin_ns, generation)
            }
            _ => return None,
        };
        at_end.since(&begin)
    }
}

/// The first memory read at or after that time, before any break.
fn first_memory(track: &Track, time_ns: u64, generation: u32) -> Option<Known<u64>> {
    track.since(time_ns).take_while(|reading| reading.generation == generation).find_map(Reading::own_memory)
}

/// The first energy counter read at or after that time, before any break.
fn first_energy(track: &Track, time_ns: u64, generation: u32) -> Option<Known<f64>> {
    track.since(time_ns).take_while(|reading| reading.generation == generation).find_map(Reading::own_energy)
}

/// What is known of one device during an interval that is over and not older than the history.
pub(super) fn look_up_device(track: &Track, begin_ns: u64, end: End, longest_gap_ns: u64) -> Option<Aggregate> {
    Fold::new(begin_ns).finish(track, end, longest_gap_ns)
}

/// What is known of each device during an interval that is over and not older than the history.
pub(super) fn look_up(history: &History, begin_ns: u64, end: End) -> Vec<Option<Aggregate>> {
    let gap_ns = history.longest_gap_ns();
    history.devices().iter().map(|track| look_up_device(track, begin_ns, end, gap_ns)).collect()
}

/// All devices and the process during one interval that may still be open.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Folds {
    begin_ns: u64,
    devices: Vec<Fold>,
    process: Fold,
}

impl Folds {
    pub(super) fn new(history: &History, begin_ns: u64) -> Self {
        Self { begin_ns, devices: vec![Fold::new(begin_ns); history.devices().len()], process: Fold::new(begin_ns) }
    }

    /// Takes in the readings before `until_ns`.
    pub(super) fn catch_up(&mut self, history: &History, until_ns: u64) {
        if until_ns > self.begin_ns {
            self.take_up_devices(history);
            self.devices.iter_mut().zip(history.devices()).for_each(|(fold, track)| fold.catch_up(track, until_ns));
            self.process.catch_up(history.process(), until_ns);
        }
    }

    /// Devices may become known while the interval is open: a driver that answers late.
    fn take_up_devices(&mut self, history: &History) {
        self.devices.resize(history.devices().len(), Fold::new(self.begin_ns));
    }

    /// What is known of each device, and of the process (its memory only).
    pub(super) fn finish(mut self, history: &History, end: End) -> (Vec<Option<Aggregate>>, Option<Aggregate>) {
        self.take_up_devices(history);
        let gap_ns = history.longest_gap_ns();
        let devices = self.devices.into_iter().zip(history.devices()).map(|(fold, track)| fold.finish(track, end, gap_ns)).collect();
        (devices, self.process.finish(history.process(), end, gap_ns))
    }
}
