//! Random trainings: several epochs open at once, ends missing and doubled, swapped records, devices that come and go.

use std::collections::HashMap;

use proptest::prelude::*;

use super::checks::{points, total};
use super::scenario::{MIB, MS, T0, phase, run_through, settings, step};
use crate::model::{
    EndStatus, GpuEvent, GpuReading, Number, Owner, Phase, PhaseInterval, ProcessReading, Record, Scalar, Span, StepSpans, Value,
};
use crate::semconv::{attributes as keys, metrics, spans};
use crate::timeline::{Emitted, Settings};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Act {
    Epoch,
    EndEpoch { of: usize, twice: bool },
    Step { of: usize, ms: u64, phases: Vec<(u8, u64, u64, Option<u8>)>, failed: bool, keep: bool, loss: f64 },
    Phase { number: u8, owner: u8, of: usize, ms: u64, failed: bool },
    Scalar { owner: u8, of: usize, value: f64 },
    Error { owner: u8, of: usize },
    Gpu { device: u8, memory: Option<u64>, energy: bool },
    Change { device: u8, lost: bool },
    Process { memory: u64 },
    Position { phase: Option<u8> },
    EndRun,
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![6 => 0.0_f64..10.0, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)]
}

fn act() -> impl Strategy<Value = Act> {
    let interval = (0_u8..12, 0_u64..50, 0_u64..50, prop::option::of(0_u8..4));
    prop_oneof![
        2 => Just(Act::Epoch),
        2 => (0_usize..4, prop::bool::weighted(0.2)).prop_map(|(of, twice)| Act::EndEpoch { of, twice }),
        20 => (0_usize..6, 0_u64..400, prop::collection::vec(interval, 0..6), prop::bool::weighted(0.05), prop::bool::weighted(0.1), value())
            .prop_map(|(of, ms, phases, failed, keep, loss)| Act::Step { of, ms, phases, failed, keep, loss }),
        4 => (0_u8..12, 0_u8..5, 0_usize..6, 0_u64..3000, prop::bool::weighted(0.1))
            .prop_map(|(number, owner, of, ms, failed)| Act::Phase { number, owner, of, ms, failed }),
        2 => (0_u8..5, 0_usize..6, value()).prop_map(|(owner, of, value)| Act::Scalar { owner, of, value }),
        1 => (0_u8..5, 0_usize..6).prop_map(|(owner, of)| Act::Error { owner, of }),
        12 => (0_u8..3, prop::option::weighted(0.9, 1_u64..900), any::<bool>())
            .prop_map(|(device, memory, energy)| Act::Gpu { device, memory, energy }),
        1 => (0_u8..3, any::<bool>()).prop_map(|(device, lost)| Act::Change { device, lost }),
        2 => (1_u64..1000).prop_map(|memory| Act::Process { memory }),
        2 => prop::option::of(0_u8..12).prop_map(|phase| Act::Position { phase }),
        1 => prop::bool::weighted(0.1).prop_map(|_| Act::EndRun),
    ]
}

/// A made-up training: its records nearly in the order of their times, as a journal gives them.
#[derive(Debug, Clone)]
struct Training {
    records: Vec<Record>,
}

fn training() -> impl Strategy<Value = Training> {
    let acts = prop::collection::vec((0_u64..1500, 0_usize..3, act()), 1..150);
    (acts, any::<bool>()).prop_map(|(acts, sorted)| build(acts, sorted))
}

fn build(acts: Vec<(u64, usize, Act)>, sorted: bool) -> Training {
    let mut now = T0;
    let mut records = vec![Record::RunBegan { time_ns: now }];
    let (mut epochs, mut steps, mut phases, mut energy) = (0_u32, 0_u64, 0_u64, 0.0);
    let owner = |kind: u8, of: usize, epochs: u32, steps: u64, phases: u64| match kind {
        0 => Owner::Run,
        1 | 2 => Owner::Epoch(epochs.saturating_sub(1 + of as u32)),
        3 => Owner::Step((steps + 1).saturating_sub(of as u64)),
        _ => Owner::Phase((phases + 3).saturating_sub(of as u64)),
    };
    for (ms, swap, act) in acts {
        // Half of the time passes in less than a millisecond.
        now += if ms % 2 == 0 { ms * MS } else { ms };
        let record = match act {
            Act::Epoch => {
                epochs += 1;
                Record::EpochBegan { time_ns: now, ordinal: epochs - 1, epoch: u64::from(epochs) * 10 }
            }
            Act::EndEpoch { of, twice } => {
                let end = Record::EpochEnded { time_ns: now, ordinal: epochs.saturating_sub(1 + of as u32), status: EndStatus::Finished };
                if twice {
                    records.push(end.clone());
                }
                end
            }
            Act::Step { of, ms, phases, failed, keep, loss } => {
                let epoch = (of < 5).then(|| epochs.saturating_sub(1 + of as u32));
                let begin_ns = now.saturating_sub(ms * MS).max(T0);
                let mut record = step(steps, epoch, begin_ns, now);
                steps += 1;
                record.failed = failed;
                record.keep = keep;
                record.scalars = vec![(Scalar::LOSS, loss), (Scalar::SAMPLES, 32.0)];
                record.phases = phases
                    .iter()
                    .map(|(number, begin, more, parent)| PhaseInterval {
                        phase: Phase(*number),
                        begin_ns: begin_ns + begin * MS,
                        end_ns: begin_ns + (begin + more) * MS,
                        parent: *parent,
                    })
                    .collect();
                Record::Step(record)
            }
            Act::Phase { number, owner: kind, of, ms, failed } => {
                let owner = owner(kind, of, epochs, steps, phases);
                let mut record = phase(phases, Phase(number), owner, now.saturating_sub(ms * MS).max(T0), now);
                record.failed = failed;
                phases += 1;
                // No phase is inside of itself.
                if record.owner == Owner::Phase(record.ordinal) {
                    record.owner = Owner::Run;
                }
                Record::Phase(record)
            }
            Act::Scalar { owner: kind, of, value } => {
                Record::Scalar { time_ns: now, owner: owner(kind, of, epochs, steps, phases), scalar: Scalar(1 + kind % 9), value }
            }
            Act::Error { owner: kind, of } => {
                Record::Error { time_ns: now, owner: owner(kind, of, epochs, steps, phases), error_type: "ValueError".into() }
            }
            Act::Gpu { device, memory, energy: has_energy } => {
                energy += 10.0;
                let reading = GpuReading {
                    memory_used_bytes: memory.map(|memory| memory * MIB),
                    utilization: memory.map(|memory| memory as f64 / 1000.0),
                    energy_j: has_energy.then_some(energy),
                    ..GpuReading::default()
                };
                Record::Gpu { time_ns: now, device, reading }
            }
            Act::Change { device, lost } => {
                Record::GpuChanged { time_ns: now, device, event: if lost { GpuEvent::Lost } else { GpuEvent::Returned } }
            }
            Act::Process { memory } => {
                let reading = ProcessReading {
                    resident_bytes: Some(memory * MIB),
                    cpu_user_s: Some(memory as f64),
                    threads: Some(3),
                    ..ProcessReading::default()
                };
                Record::Process { time_ns: now, reading }
            }
            Act::Position { phase } => Record::Position { time_ns: now, step: Some(steps), phase: phase.map(Phase) },
            Act::EndRun => Record::RunEnded { time_ns: now, status: EndStatus::Failed },
        };
        // A record of another thread that had the older time comes a little late.
        let place = if sorted { records.len() } else { records.len() - swap.min(records.len() - 1) };
        let near = records[place.min(records.len() - 1)].time_ns().abs_diff(now) < 5 * MS;
        if near && place > 0 { records.insert(place, record) } else { records.push(record) }
    }
    Training { records }
}

/// Few cases unless more are asked for, since each is a whole training.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { 64 };
    ProptestConfig { cases, ..config }
}

fn with(spans: StepSpans) -> Settings {
    Settings { step_spans: spans, ..settings(2) }
}

fn policy() -> impl Strategy<Value = StepSpans> {
    prop_oneof![Just(StepSpans::Auto), Just(StepSpans::All), Just(StepSpans::None), (1_u64..5).prop_map(StepSpans::Every)]
}

fn is(name: &'static str) -> impl Fn(&&Span) -> bool {
    move |span| span.name == name
}

fn count(span: &Span) -> u64 {
    span.number(keys::STEP_COUNT).unwrap_or(0.0) as u64
}

/// The epoch that each reading was taken in according to the gauge.
fn epoch_by_gauge(all: &Emitted) -> Vec<(u64, Option<i64>)> {
    let values = points(all, metrics::EPOCH_CURRENT.name).into_iter().map(|(_, point)| match point.value {
        Number::I64(epoch) => (point.time_ns, Some(epoch)),
        _ => (point.time_ns, None),
    });
    values.collect()
}

proptest! {
    #![proptest_config(config())]

    /// `run_through` checks all that must hold of any output.
    #[test]
    fn every_step_is_counted_once(training in training(), policy in policy(), batch in 1_usize..40) {
        let steps = training.records.iter().filter(|record| matches!(record, Record::Step(_))).count() as u64;
        let all = run_through(with(policy), &training.records, batch);
        prop_assert_eq!(total(&all, metrics::STEPS.name) as u64, steps);
        prop_assert_eq!(total(&all, metrics::SAMPLES.name) as u64 >= steps * 32, true);
        let run = all.spans.iter().find(is(spans::RUN)).unwrap();
        prop_assert_eq!(count(run), steps);
        prop_assert_eq!(all.spans.iter().filter(is(spans::SEGMENT)).map(count).sum::<u64>(), steps);
        let kept = all.spans.iter().filter(is(spans::STEP)).count() as u64;
        match policy {
            StepSpans::All => prop_assert_eq!(kept, steps),
            StepSpans::None => prop_assert_eq!(kept, 0),
            _ => prop_assert!(kept <= steps),
        }
        let epochs = training.records.iter().filter(|record| matches!(record, Record::EpochBegan { .. })).count();
        prop_assert_eq!(all.spans.iter().filter(is(spans::EPOCH)).count(), epochs);
    }

    /// The same records in other batches give the same spans and events, byte for byte, and the same gauges.
    #[test]
    fn batches_do_not_matter(training in training(), policy in policy(), batch in 1_usize..40) {
        let one = run_through(with(policy), &training.records, usize::MAX);
        let other = run_through(with(policy), &training.records, batch);
        prop_assert_eq!(serde_json::to_string(&one.spans).unwrap(), serde_json::to_string(&other.spans).unwrap());
        prop_assert_eq!(serde_json::to_string(&one.events).unwrap(), serde_json::to_string(&other.events).unwrap());
        for metric in [metrics::GPU_MEMORY_USAGE, metrics::EPOCH_CURRENT, metrics::LOSS, metrics::PHASE_STATE, metrics::STATUS] {
            prop_assert_eq!(points(&one, metric.name), points(&other, metric.name), "{}", metric.name);
        }
    }

    /// "The maximum during epoch N", asked of the metrics, is the epoch span's attribute.
    #[test]
    fn the_gauge_joins_to_the_spans_maximum(acts in prop::collection::vec((0_u64..1500, 0_usize..3, act()), 1..150)) {
        // One epoch at a time: with several open at once the gauge tells the last one only.
        let mut records = Vec::new();
        let mut open = None;
        for record in build(acts, true).records {
            match (&record, open) {
                (Record::EpochBegan { .. }, Some(_)) | (Record::RunEnded { .. }, _) => continue,
                (Record::EpochBegan { ordinal, .. }, None) => open = Some(*ordinal),
                (Record::EpochEnded { ordinal, .. }, Some(last)) if *ordinal == last => open = None,
                (Record::EpochEnded { .. }, _) => continue,
                _ => {}
            }
            records.push(record);
        }
        let all = run_through(with(StepSpans::Auto), &records, 7);
        let gauge = epoch_by_gauge(&all);
        let mut maxima: HashMap<i64, f64> = HashMap::new();
        for (_, point) in points(&all, metrics::GPU_MEMORY_USAGE.name) {
            let at = gauge.iter().rfind(|(time_ns, _)| *time_ns <= point.time_ns);
            if let (Some((_, Some(epoch))), Number::I64(used)) = (at, point.value) {
                let max = maxima.entry(*epoch).or_insert(0.0);
                *max = max.max(used as f64);
            }
        }
        for span in all.spans.iter().filter(is(spans::EPOCH)) {
            let Some(Value::I64(epoch)) = span.attribute(keys::EPOCH_INDEX) else { unreachable!() };
            let inside: HashMap<String, bool> = points(&all, metrics::GPU_MEMORY_USAGE.name).iter().fold(HashMap::new(), |mut inside, (device, point)| {
                // Of what was interrupted the last reading is a part.
                let until_ns = span.end_ns + u64::from(span.text(keys::STATUS) == Some("interrupted"));
                let is_inside = (span.begin_ns..until_ns).contains(&point.time_ns) && point.value != Number::Absent;
                *inside.entry(format!("{device:?}")).or_insert(false) |= is_inside;
                inside
            });
            let (found, told) = (maxima.get(epoch).copied(), span.number(keys::GPU_MEMORY_USAGE_MAX));
            if inside.values().all(|inside| *inside) {
                prop_assert_eq!(found, told, "epoch {}", epoch);
            } else {
                // Of a device without a reading inside the span tells the readings around it; the metrics cannot.
                prop_assert!(found <= told, "epoch {}: {:?} {:?}", epoch, found, told);
                prop_assert_eq!(found.is_some(), inside.values().any(|inside| *inside));
            }
        }
    }
}
