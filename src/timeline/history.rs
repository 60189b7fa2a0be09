//! The last readings of each device, for looking up what it did during an interval.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::{GpuReading, Phase, ProcessReading};

/// Readings kept of all devices together.
const MAX_READINGS: usize = 8192;
/// Readings of one device that are given up together, so that the intervals that fold them in are visited seldom.
const EVICTED_AT_ONCE: usize = 16;

/// A value of a field, and when it was read: the reading's own, or the last one before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Known<T> {
    pub(super) time_ns: u64,
    pub(super) value: T,
}

/// One reading of one device, with what makes looking backwards cheap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Reading {
    pub(super) time_ns: u64,
    /// Begin of the window that [`utilization`](Self::utilization) and [`power_w`](Self::power_w) speak of.
    pub(super) window_begin_ns: u64,
    /// Counts the breaks before it: nothing is concluded from two readings with a break (a lost device, a reloaded driver) between them.
    pub(super) generation: u32,
    /// The last known memory of this generation, bytes.
    pub(super) memory: Option<Known<u64>>,
    /// The last known energy counter of this generation, joules.
    pub(super) energy: Option<Known<f64>>,
    pub(super) utilization: Option<f64>,
    pub(super) power_w: Option<f64>,
    /// The innermost phase that was open, and when it had begun; known only after that phase has ended.
    pub(super) phase: Option<(Phase, u64)>,
}

impl Reading {
    /// The memory, if this very reading has it.
    pub(super) fn own_memory(&self) -> Option<Known<u64>> {
        self.memory.filter(|known| known.time_ns == self.time_ns)
    }

    /// The energy counter, if this very reading has it.
    pub(super) fn own_energy(&self) -> Option<Known<f64>> {
        self.energy.filter(|known| known.time_ns == self.time_ns)
    }
}

/// The readings of one device (or of the process, which only has memory) in the order of their times.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Track {
    readings: VecDeque<Reading>,
    /// The newest reading that is no longer in `readings`.
    evicted: Option<Reading>,
    generation: u32,
    lost: bool,
}

impl Track {
    fn push(&mut self, time_ns: u64, reading: &GpuReading, longest_window_ns: u64) -> bool {
        let last = self.last().copied();
        if last.is_some_and(|last| time_ns <= last.time_ns) {
            return false;
        }
        self.lost = false;
        let energy_j = reading.energy_j.filter(|energy| energy.is_finite());
        let before = last.filter(|last| last.generation == self.generation);
        let fell = before.and_then(|before| before.energy).zip(energy_j).is_some_and(|(before, now)| now < before.value);
        if fell {
            self.generation = self.generation.wrapping_add(1);
        }
        let before = before.filter(|_| !fell);
        let shortest_begin_ns = time_ns.saturating_sub(longest_window_ns);
        self.readings.push_back(Reading {
            time_ns,
            window_begin_ns: last.map_or(shortest_begin_ns, |last| last.time_ns.max(shortest_begin_ns)),
            generation: self.generation,
            memory: reading.memory_used_bytes.map(|value| Known { time_ns, value }).or(before.and_then(|before| before.memory)),
            energy: energy_j.map(|value| Known { time_ns, value }).or(before.and_then(|before| before.energy)),
            utilization: reading.utilization.filter(|share| share.is_finite()),
            power_w: reading.power_w.filter(|power| power.is_finite()),
            phase: None,
        });
        true
    }

    fn last(&self) -> Option<&Reading> {
        self.readings.back().or(self.evicted.as_ref())
    }

    /// Whether it gives readings.
    pub(super) fn is_alive(&self) -> bool {
        !self.lost && self.last().is_some()
    }

    /// The last reading at or before that time, if it is still known.
    pub(super) fn at_or_before(&self, time_ns: u64) -> Option<&Reading> {
        let place = self.first_where(|reading| reading.time_ns > time_ns);
        match place.checked_sub(1) {
            Some(place) => self.readings.get(place),
            None => self.evicted.as_ref().filter(|reading| reading.time_ns <= time_ns),
        }
    }

    /// The readings from that time on.
    pub(super) fn since(&self, time_ns: u64) -> impl Iterator<Item = &Reading> {
        let place = self.first_where(|reading| reading.time_ns >= time_ns);
        self.readings.range(place..)
    }

    /// The place of the first reading for which something holds that holds for all after it too. Mostly it is one of the last.
    fn first_where(&self, holds: impl Fn(&Reading) -> bool) -> usize {
        const LAST: usize = 6;
        let len = self.readings.len();
        match self.readings.iter().rev().take(LAST).position(|reading| !holds(reading)) {
            Some(after) => len - after,
            None => self.readings.partition_point(|reading| !holds(reading)),
        }
    }

    /// Whether all readings from that time on, and the one before it, are still known.
    pub(super) fn reaches_back_to(&self, time_ns: u64) -> bool {
        self.evicted.is_none_or(|evicted| evicted.time_ns < time_ns)
    }

    fn tag(&mut self, phase: Phase, begin_ns: u64, end_ns: u64) {
        let place = self.readings.partition_point(|reading| reading.time_ns < begin_ns);
        for reading in self.readings.range_mut(place..).take_while(|reading| reading.time_ns < end_ns) {
            if reading.phase.is_none_or(|(_, other_begin_ns)| begin_ns >= other_begin_ns) {
                reading.phase = Some((phase, begin_ns));
            }
        }
    }
}

/// Readings kept of each of that many devices, and of the process.
fn capacity_for(devices: usize) -> usize {
    (MAX_READINGS / (devices + 1)).max(2 * EVICTED_AT_ONCE)
}

/// The readings of all devices, and of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct History {
    devices: Vec<Track>,
    process: Track,
    pub(super) capacity: usize,
    longest_window_ns: u64,
    /// Beyond this distance two readings say nothing of what is between them.
    longest_gap_ns: u64,
    newest_ns: u64,
    any: bool,
}

impl History {
    pub(super) fn new(devices: usize, sample_interval_ns: u64) -> Self {
        Self {
            devices: vec![Track::default(); devices],
            process: Track::default(),
            capacity: capacity_for(devices),
            // NVML's own window is at most a second; with longer intervals the figure has to stand for all of it.
            longest_window_ns: sample_interval_ns.max(1_000_000_000),
            longest_gap_ns: sample_interval_ns.saturating_mul(3).saturating_add(1_000_000_000),
            newest_ns: 0,
            any: false,
        }
    }

    /// Makes room for that many devices: to be said before the first reading of them.
    pub(super) fn set_devices(&mut self, devices: usize) {
        self.devices.resize(devices, Track::default());
        self.capacity = capacity_for(devices);
    }

    /// Takes a reading of a device. One that is not newer than the last of its device is not taken: `false`.
    pub(super) fn push(&mut self, device: usize, time_ns: u64, reading: &GpuReading) -> bool {
        let longest_window_ns = self.longest_window_ns;
        let taken = self.devices.get_mut(device).is_some_and(|track| track.push(time_ns, reading, longest_window_ns));
        if taken {
            self.newest_ns = self.newest_ns.max(time_ns);
            self.any = true;
        }
        taken
    }

    /// Takes a reading of the process.
    pub(super) fn push_process(&mut self, time_ns: u64, reading: &ProcessReading) -> bool {
        let reading = GpuReading { memory_used_bytes: reading.resident_bytes, ..GpuReading::default() };
        self.process.push(time_ns, &reading, self.longest_window_ns)
    }

    /// A device stopped answering, or answers again: nothing is concluded across this.
    pub(super) fn break_at(&mut self, device: usize, lost: bool) {
        if let Some(track) = self.devices.get_mut(device) {
            track.generation = track.generation.wrapping_add(1);
            track.lost = lost;
        }
    }

    /// The time until which some track must be folded in by those who still need it, before the next reading.
    pub(super) fn due_for_eviction(&self) -> Option<u64> {
        let full = self.tracks().filter(|track| track.readings.len() >= self.capacity);
        full.filter_map(|track| track.readings.get(EVICTED_AT_ONCE - 1)).map(|reading| reading.time_ns).max()
    }

    /// Gives up the oldest readings of the tracks that are full.
    pub(super) fn evict(&mut self) {
        let capacity = self.capacity;
        for track in self.devices.iter_mut().chain([&mut self.process]).filter(|track| track.readings.len() >= capacity) {
            track.evicted = track.readings.drain(..EVICTED_AT_ONCE).next_back();
        }
    }

    /// A phase is over: readings taken in it and in none that began later were taken in this one.
    pub(super) fn tag(&mut self, phase: Phase, begin_ns: u64, end_ns: u64) {
        if begin_ns <= self.newest_ns {
            self.devices.iter_mut().for_each(|track| track.tag(phase, begin_ns, end_ns));
        }
    }

    /// Whether a reading of a device may lie at or after that time.
    pub(super) fn has_since(&self, time_ns: u64) -> bool {
        self.newest_ns >= time_ns
    }

    /// Whether a device has ever been read.
    pub(super) fn has_readings(&self) -> bool {
        self.any
    }

    /// Whether a reading of each living device, and of the process where it is read at all, lies at or after that time, so that
    /// nothing more will be learned of what was before.
    pub(super) fn has_passed(&self, time_ns: u64) -> bool {
        let process = self.process.last().is_none_or(|last| last.time_ns >= time_ns);
        process && self.devices.iter().all(|track| track.lost || track.last().is_some_and(|last| last.time_ns >= time_ns))
    }

    /// The devices, in the order of their numbers.
    pub(super) fn devices(&self) -> &[Track] {
        &self.devices
    }

    /// The training process.
    pub(super) fn process(&self) -> &Track {
        &self.process
    }

    pub(super) fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.devices.iter().chain([&self.process])
    }

    pub(super) fn longest_gap_ns(&self) -> u64 {
        self.longest_gap_ns
    }
}
