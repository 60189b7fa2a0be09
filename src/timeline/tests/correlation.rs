//! The aggregates against a reference that knows all readings at once and follows the definitions word by word: utilization by looking
//! at each tenth of a second, memory by filtering, energy by what a counter that only grows can have been.

use proptest::prelude::*;

use crate::model::GpuReading;
use crate::timeline::correlate::{Aggregate, End, Fold, Folds, look_up};
use crate::timeline::history::History;

const TICK_NS: u64 = 100_000_000;
const INTERVAL_NS: u64 = 5 * TICK_NS;
/// max(1 s, interval)
const WINDOW_TICKS: u64 = 10;
/// 3 intervals + 1 s
const GAP_TICKS: u64 = 25;

/// What happens to a device at a tick.
#[derive(Debug, Clone)]
struct Step {
    ticks_later: u64,
    /// The device is lost and comes back right before this reading.
    broken: bool,
    memory: Option<u64>,
    utilization: Option<f64>,
    power: Option<f64>,
    energy_more: Option<f64>,
    counter_restarts: bool,
}

#[derive(Debug, Clone, Copy)]
struct Read {
    tick: u64,
    broken: bool,
    memory: Option<u64>,
    utilization: Option<f64>,
    power: Option<f64>,
    energy: Option<f64>,
}

fn field<T: std::fmt::Debug + Clone + 'static>(values: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Option<T>> {
    prop_oneof![1 => Just(None), 4 => values.prop_map(Some)].boxed()
}

fn device() -> impl Strategy<Value = Vec<Read>> {
    let step = (
        prop_oneof![8 => 1_u64..8, 1 => 8_u64..60],
        prop::bool::weighted(0.05),
        field(0_u64..100),
        field(0.0_f64..1.0),
        field(0.0_f64..700.0),
        field(0.0_f64..50.0),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(ticks_later, broken, memory, utilization, power, energy_more, counter_restarts)| Step {
            ticks_later,
            broken,
            memory,
            utilization,
            power,
            energy_more,
            counter_restarts,
        });
    (0_u64..20, prop::collection::vec(step, 0..90)).prop_map(|(first_tick, steps)| {
        let (mut tick, mut counter) = (first_tick, 1000.0);
        let read = |step: Step| {
            tick += step.ticks_later;
            counter = if step.counter_restarts { 0.0 } else { counter + step.energy_more.unwrap_or(7.0) };
            let energy = step.energy_more.map(|_| counter);
            let Step { broken, memory, utilization, power, .. } = step;
            Read { tick, broken, memory, utilization, power, energy }
        };
        steps.into_iter().map(read).collect()
    })
}

/// The number of breaks before each reading.
fn generations(reads: &[Read]) -> Vec<u32> {
    let (mut generation, mut last_energy) = (0, None::<f64>);
    let number = |read: &Read| {
        if read.broken || last_energy.zip(read.energy).is_some_and(|(last, now)| now < last) {
            generation += 1;
            last_energy = None;
        }
        last_energy = read.energy.or(last_energy);
        generation
    };
    reads.iter().map(number).collect()
}

/// Lowest, likeliest and highest that the counter can have been, the readings that say so, and their generation.
type Counter = (f64, f64, f64, (usize, usize), u32);

fn counter_at(reads: &[Read], generations: &[u32], tick: u64) -> Option<Counter> {
    let with_energy: Vec<usize> = (0..reads.len()).filter(|place| reads[*place].energy.is_some()).collect();
    let value = |place: usize| reads[place].energy.unwrap();
    if let Some(place) = with_energy.iter().copied().find(|place| reads[*place].tick == tick) {
        return Some((value(place), value(place), value(place), (place, place), generations[place]));
    }
    let before = with_energy.iter().copied().rfind(|place| reads[*place].tick < tick)?;
    let after = with_energy.iter().copied().find(|place| reads[*place].tick > tick)?;
    // Nothing of another generation may lie between, with or without the counter.
    if generations[before] != generations[after] {
        return None;
    }
    let share = (tick - reads[before].tick) as f64 / (reads[after].tick - reads[before].tick) as f64;
    let likeliest = value(before) * (1.0 - share) + value(after) * share;
    Some((value(before), likeliest, value(after), (before, after), generations[before]))
}

fn reference(reads: &[Read], begin: u64, end: u64) -> Option<Aggregate> {
    let generations = generations(reads);
    let inside = |tick: u64| begin <= tick && tick < end;
    let count = reads.iter().filter(|read| inside(read.tick)).count() as u64;
    // Two readings around the interval, for a field or for any.
    let around = |has: &dyn Fn(&Read) -> bool| {
        let before = (0..reads.len()).rfind(|place| reads[*place].tick <= begin && has(&reads[*place]))?;
        let after = (0..reads.len()).find(|place| reads[*place].tick >= end && has(&reads[*place]))?;
        let near = reads[after].tick - reads[before].tick <= GAP_TICKS && generations[before] == generations[after];
        near.then_some((before, after))
    };
    let brackets = around(&|_| true);

    let memories: Vec<u64> = reads.iter().filter(|read| inside(read.tick)).filter_map(|read| read.memory).collect();
    let (memory_max, memory_end_bytes) = match memories.last() {
        Some(last) => (memories.iter().max().copied(), Some(*last)),
        None => match around(&|read| read.memory.is_some()) {
            Some((before, after)) => (reads[before].memory.max(reads[after].memory), reads[after].memory),
            None => (None, None),
        },
    };

    let weighted = |value: &dyn Fn(&Read) -> Option<f64>| {
        let of_tick = |tick: u64| {
            let read = reads.iter().find(|read| read.tick > tick)?;
            (tick + WINDOW_TICKS >= read.tick).then(|| value(read))?
        };
        let values: Vec<f64> = (begin..end).filter_map(of_tick).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };

    let energy = (|| {
        let (low_b, at_b, high_b, pair_b, generation_b) = counter_at(reads, &generations, begin)?;
        let (low_e, at_e, high_e, pair_e, generation_e) = counter_at(reads, &generations, end)?;
        let joules = (at_e - at_b).max(0.0);
        // All that lies between must be of one generation, and it is if both ends are: generations only rise.
        (generation_b == generation_e).then_some(())?;
        let one_line = pair_b == pair_e && pair_b.0 != pair_b.1;
        let error = if one_line {
            joules.max(high_e - low_e - joules)
        } else {
            (at_b - low_b).max(high_b - at_b) + (at_e - low_e).max(high_e - at_e)
        };
        Some((joules, error))
    })();

    let samples = match (count, brackets, energy) {
        (0, Some((before, after)), _) => 1 + u64::from(before != after),
        (0, None, Some(_)) => 2,
        (0, None, None) => return None,
        (count, ..) => count,
    };
    let power = match energy {
        _ if count == 0 => None,
        Some((joules, _)) => Some(joules / ((end - begin) as f64 / 10.0)),
        None if end - begin >= 10 => weighted(&|read| read.power),
        None => None,
    };
    Some(Aggregate {
        samples,
        memory_max: memory_max.map(|bytes| crate::timeline::correlate::Peak { bytes, phase: None }),
        memory_end_bytes,
        utilization: weighted(&|read| read.utilization).filter(|_| count > 0 || brackets.is_some()),
        power_w: power,
        energy: energy.map(|(joules, error_j)| crate::timeline::correlate::Energy { joules, error_j }),
    })
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs())),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn compare(found: Option<Aggregate>, expected: Option<Aggregate>, what: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.is_some(), expected.is_some(), "{}: {:?} for {:?}", what, found, expected);
    let (Some(found), Some(expected)) = (found, expected) else { return Ok(()) };
    prop_assert_eq!(found.samples, expected.samples, "{}", what);
    prop_assert_eq!(found.memory_max.map(|peak| peak.bytes), expected.memory_max.map(|peak| peak.bytes), "{}", what);
    prop_assert_eq!(found.memory_end_bytes, expected.memory_end_bytes, "{}", what);
    let (energy, expected_energy) = (found.energy, expected.energy);
    let pairs = [
        ("utilization", found.utilization, expected.utilization),
        ("power", found.power_w, expected.power_w),
        ("energy", energy.map(|energy| energy.joules), expected_energy.map(|energy| energy.joules)),
        ("energy error", energy.map(|energy| energy.error_j), expected_energy.map(|energy| energy.error_j)),
    ];
    for (field, found, expected) in pairs {
        prop_assert!(close(found, expected), "{what}, {field}: {found:?} for {expected:?}");
    }
    Ok(())
}

fn push(history: &mut History, device: usize, read: &Read) {
    if read.broken {
        history.break_at(device, true);
        history.break_at(device, false);
    }
    let reading = GpuReading {
        memory_used_bytes: read.memory,
        utilization: read.utilization,
        power_w: read.power,
        energy_j: read.energy,
        ..GpuReading::default()
    };
    assert!(history.push(device, read.tick * TICK_NS, &reading));
}

/// All readings of all devices in the order of their times.
fn merged(devices: &[Vec<Read>]) -> Vec<(usize, Read)> {
    let all = devices.iter().enumerate().flat_map(|(device, reads)| reads.iter().map(move |read| (device, *read)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, read)| read.tick);
    all
}

fn spans() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0_u64..500, prop_oneof![3 => 0_u64..6, 2 => 0_u64..300]), 1..12)
        .prop_map(|spans| spans.into_iter().map(|(begin, ticks)| (begin, begin + ticks)).collect())
}

proptest! {
    /// Intervals looked up when all readings are there.
    #[test]
    fn looked_up_as_defined(devices in prop::collection::vec(device(), 1..4), spans in spans()) {
        let mut history = History::new(devices.len(), INTERVAL_NS);
        merged(&devices).iter().for_each(|(device, read)| push(&mut history, *device, read));
        for (begin, end) in spans {
            let found = look_up(&history, begin * TICK_NS, End::new(end * TICK_NS, false));
            for (device, reads) in devices.iter().enumerate() {
                compare(found[device], reference(reads, begin, end), &format!("device {device}, [{begin}, {end})"))?;
            }
        }
    }

    /// Intervals that are open at the same time while readings come and old ones leave the history.
    #[test]
    fn folded_as_defined(devices in prop::collection::vec(device(), 1..4), spans in spans(), late in 0_u64..8) {
        let mut history = History::new(devices.len(), INTERVAL_NS);
        history.capacity = 32;
        let mut open: Vec<(u64, u64, Option<Folds>)> = spans.iter().map(|(begin, end)| (*begin, *end, None)).collect();
        let mut finished = Vec::new();
        let readings = merged(&devices);
        let last_tick = readings.last().map_or(0, |(_, read)| read.tick);
        for (device, read) in readings {
            // What began or ended is told before the next reading is.
            for (begin, end, folds) in &mut open {
                if folds.is_none() && *begin <= read.tick {
                    *folds = Some(Folds::new(&history, *begin * TICK_NS));
                }
                if *end <= read.tick && let Some(folds) = folds {
                    folds.catch_up(&history, *end * TICK_NS);
                }
            }
            // An ended one waits for some readings more.
            open.retain_mut(|(begin, end, folds)| {
                let over = *end + late < read.tick;
                if over && let Some(folds) = folds.take() {
                    finished.push((*begin, *end, read.tick, folds.finish(&history, End::new(*end * TICK_NS, false)).0));
                }
                !over
            });
            if let Some(until_ns) = history.due_for_eviction() {
                for (_, end, folds) in &mut open {
                    if let Some(folds) = folds {
                        folds.catch_up(&history, (until_ns + 1).min(*end * TICK_NS));
                    }
                }
                history.evict();
            }
            push(&mut history, device, &read);
        }
        for (begin, end, folds) in open {
            let folds = folds.unwrap_or_else(|| Folds::new(&history, begin * TICK_NS));
            finished.push((begin, end, u64::MAX, folds.finish(&history, End::new(end * TICK_NS, false)).0));
        }
        for (begin, end, known_until, found) in finished {
            for (device, reads) in devices.iter().enumerate() {
                let known: Vec<Read> = reads.iter().copied().filter(|read| read.tick < known_until).collect();
                // An interval of which the first is heard after its readings are gone says nothing.
                if begin > last_tick { continue; }
                compare(found[device], reference(&known, begin, end), &format!("device {device}, [{begin}, {end}) until {known_until}"))?;
            }
        }
    }

    /// Looking up what the history no longer holds gives the truth or nothing.
    #[test]
    fn forgotten_is_absent(reads in device(), spans in spans()) {
        let mut history = History::new(1, INTERVAL_NS);
        history.capacity = 32;
        for read in &reads {
            if history.due_for_eviction().is_some() { history.evict(); }
            push(&mut history, 0, read);
        }
        for (begin, end) in spans {
            if let Some(found) = look_up(&history, begin * TICK_NS, End::new(end * TICK_NS, false))[0] {
                compare(Some(found), reference(&reads, begin, end), &format!("[{begin}, {end})"))?;
            }
        }
    }
}

fn steady(count: u64) -> History {
    let mut history = History::new(1, 1_000_000_000);
    for second in 0..count {
        let reading = GpuReading {
            memory_used_bytes: Some(second),
            utilization: Some(if second == 3 { 1.0 } else { 0.0 }),
            energy_j: Some(100.0 * second as f64),
            ..GpuReading::default()
        };
        history.push(0, second * 1_000_000_000, &reading);
    }
    history
}

#[test]
fn utilization_describes_the_time_before_its_reading() {
    let history = steady(10);
    // The reading at 3 s says that the second before it was busy: 2.5 s to 3.5 s was so by half.
    let half = look_up(&history, 2_500_000_000, End::new(3_500_000_000, false))[0].unwrap();
    assert_eq!(half.utilization, Some(0.5));
    let busy = look_up(&history, 2_100_000_000, End::new(2_900_000_000, false))[0].unwrap();
    assert_eq!((busy.utilization, busy.samples, busy.power_w), (Some(1.0), 2, None));
}

#[test]
fn energy_is_interpolated_with_its_bound() {
    let history = steady(10);
    let energy = look_up(&history, 2_250_000_000, End::new(5_500_000_000, false))[0].unwrap().energy.unwrap();
    assert_eq!((energy.joules, energy.error_j), (325.0, 75.0 + 50.0));
    let short = look_up(&history, 2_250_000_000, End::new(2_500_000_000, false))[0].unwrap().energy.unwrap();
    assert_eq!((short.joules, short.error_j), (25.0, 75.0));
    let exact = look_up(&history, 2_000_000_000, End::new(5_000_000_000, false))[0].unwrap().energy.unwrap();
    assert_eq!((exact.joules, exact.error_j), (300.0, 0.0));
}

#[test]
fn nothing_is_known_before_the_first_and_after_the_last_reading() {
    let history = steady(3);
    assert_eq!(look_up(&history, 2_100_000_000, End::new(2_200_000_000, false))[0], None);
    let mut later = History::new(1, 1_000_000_000);
    later.push(0, 5_000_000_000, &GpuReading { memory_used_bytes: Some(1), utilization: Some(1.0), ..GpuReading::default() });
    assert_eq!(look_up(&later, 4_500_000_000, End::new(4_600_000_000, false))[0], None);
}

#[test]
fn an_end_told_too_late_gives_nothing_rather_than_too_much() {
    let history = steady(10);
    let mut fold = Fold::new(0);
    fold.catch_up(&history.devices()[0], 8_000_000_000);
    assert_eq!(fold.finish(&history.devices()[0], End::new(5_000_000_000, false), u64::MAX), None);
}
