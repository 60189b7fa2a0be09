//! Hostile bytes: a journal with any one byte changed, or cut short anywhere, gives records that were written or an error.

use super::super::layout::{ABOUT_AT, ABOUT_WORDS, DEVICES_AT, DEVICES_WORDS, OPEN_EPOCHS_AT, RING_AT, TAIL_AT, words_for};
use super::super::mapping::Mapping;
use super::super::open_step::ENDING;
use super::super::ring::Ordering;
use super::*;
use crate::error::JournalError;
use crate::model::{EndStatus, GpuReading, HostReading, NameTable, Owner, PhaseInterval, ProcessReading, Record, StepRecord};

/// A journal that has gone round its ring and has something of everything in it.
fn sample() -> Result<Arc<Mapping>, Box<dyn std::error::Error>> {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    writer.set_devices(&[]);
    writer.run_began(writer.now());
    for round in 0..40 {
        let epoch = writer.epoch_began(writer.now(), round);
        let step = writer.step_began(writer.now(), 1000 + round, Some(epoch.0));
        let outer = writer.listed_phase_began(writer.now(), &step, Phase::FORWARD).unwrap_or_default();
        let inner = writer.listed_phase_began(writer.now(), &step, writer.phase_name("attention")).unwrap_or_default();
        writer.listed_phase_ended(writer.now(), &step, inner);
        writer.listed_phase_ended(writer.now(), &step, outer);
        writer.step_scalar(&step, writer.scalar_name("accuracy"), 0.125 * round as f64);
        writer.micro_step(&step);
        writer.step_ended(writer.now(), &step, round % 2 == 0);
        let phase = writer.phase_began(writer.now(), Owner::Epoch(epoch.0), Phase::VALIDATION);
        writer.phase_ended(writer.now(), &phase, false);
        writer.error(writer.now(), Owner::Epoch(epoch.0), "diverged");
        writer.gpu(writer.now(), 0, &GpuReading { memory_used_bytes: Some(1 << 30), power_w: Some(123.5), ..GpuReading::default() });
        writer.process(writer.now(), &ProcessReading { resident_bytes: Some(5), threads: Some(3), ..ProcessReading::default() });
        writer.host(writer.now(), &HostReading { cpu_utilization: Some(0.5), ..HostReading::default() });
        writer.position(writer.now());
        writer.epoch_ended(writer.now(), epoch, EndStatus::Finished);
        // What stays unread are the last three rounds.
        if round < 37 {
            reader.read(false);
        }
    }
    let epoch = writer.epoch_began(writer.now(), 40);
    let step = writer.step_began(writer.now(), 1040, Some(epoch.0));
    for phase in [Phase::DATA_WAIT, Phase::FORWARD] {
        let phase = writer.listed_phase_began(writer.now(), &step, phase).unwrap_or_default();
        writer.listed_phase_ended(writer.now(), &step, phase);
    }
    writer.listed_phase_began(writer.now(), &step, writer.phase_name("attention"));
    writer.step_scalar(&step, Scalar::LOSS, 0.5);
    writer.step_scalar(&step, Scalar::GRAD_NORM, f64::INFINITY);
    writer.micro_step(&step);
    writer.keep_step(&step);
    writer.phase_began(writer.now(), Owner::Epoch(epoch.0), Phase::CHECKPOINT);
    let ended = writer.epoch_began(writer.now(), 41);
    writer.epoch_ended(writer.now(), ended, EndStatus::Failed);
    // As a crash would leave it: the record is written, the entry not given back.
    writer.mapping.words()[OPEN_EPOCHS_AT + 8].store(ENDING, Ordering::Relaxed);
    assert_eq!(reader.dropped(), 0);
    let bytes: Vec<u8> = writer.mapping.words().iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    Ok(Arc::new(Mapping::of_bytes(&bytes)))
}

/// What a journal says, with names in place of their numbers.
#[derive(Debug, PartialEq)]
struct Said {
    records: Vec<(Record, Vec<String>)>,
    open: Vec<(OpenItem, Vec<String>)>,
}

fn names_of_step(step: &StepRecord, names: &NameTable) -> Vec<String> {
    let phases = step.phases.iter().map(|phase| names.phase(phase.phase).to_owned());
    phases.chain(step.scalars.iter().map(|(scalar, _)| names.scalar(*scalar).to_owned())).collect()
}

fn said(mapping: &Arc<Mapping>, writer_is_dead: bool) -> Result<Said, JournalError> {
    let mut reader = Reader::new(Arc::clone(mapping))?;
    let batch = reader.read(writer_is_dead);
    let names = reader.names().clone();
    let records = batch.records.into_iter().map(|record| {
        let of_record = match &record {
            Record::Step(step) => names_of_step(step, &names),
            _ => Vec::new(),
        };
        (record, of_record)
    });
    let open = reader.open_items(u64::MAX >> 1).into_iter().map(|item| {
        let of_item = match &item {
            OpenItem::Step(step) => names_of_step(step, &names),
            _ => Vec::new(),
        };
        (item, of_item)
    });
    Ok(Said { records: records.collect(), open: open.collect() })
}

fn is_damaged(name: &str) -> bool {
    name.starts_with("damaged name")
}

/// Whether a step may stand for the true one: the same, with phases and numbers left out at most.
fn is_part_of(step: &StepRecord, whole: &StepRecord) -> bool {
    let same =
        |one: &PhaseInterval, other: &PhaseInterval| (one.phase, one.begin_ns, one.end_ns) == (other.phase, other.begin_ns, other.end_ns);
    let bare = |step: &StepRecord| StepRecord { phases: Vec::new(), scalars: Vec::new(), ..step.clone() };
    bare(step) == bare(whole)
        && step.phases.iter().all(|phase| whole.phases.iter().any(|other| same(phase, other)))
        && step.scalars.iter().all(|scalar| whole.scalars.contains(scalar))
}

fn assert_true(said: &Said, truth: &Said, what: &str) {
    for (record, names) in &said.records {
        let fits = truth.records.iter().any(|(other, true_names)| {
            record == other && names.iter().zip(true_names).all(|(name, true_name)| name == true_name || is_damaged(name))
        });
        assert!(fits, "{what}: nobody wrote {record:?} {names:?}");
    }
    let ended_is_lost = !said.records.iter().any(|(record, _)| matches!(record, Record::EpochEnded { ordinal: 41, .. }));
    for (item, names) in &said.open {
        if matches!(item, OpenItem::Epoch { ordinal: 41, epoch: 41, .. }) {
            // What was ending is taken for interrupted when its own record is among the damaged.
            assert!(ended_is_lost, "{what}: an epoch ended twice");
            continue;
        }
        let fits = truth.open.iter().any(|(other, true_names)| {
            let same = match (item, other) {
                (OpenItem::Step(step), OpenItem::Step(whole)) => is_part_of(step, whole),
                _ => item == other,
            };
            same && names.iter().all(|name| true_names.contains(name) || is_damaged(name))
        });
        assert!(fits, "{what}: nobody left {item:?} {names:?} open");
    }
}

/// The about and device texts are mostly unused room: a few places of it are enough.
fn matters(offset: usize) -> bool {
    let unused = |at: usize, words: usize| (at * 8 + 512..(at + words) * 8).contains(&offset);
    !(unused(ABOUT_AT, ABOUT_WORDS) || unused(DEVICES_AT, DEVICES_WORDS)) || offset.is_multiple_of(509)
}

#[test]
fn any_one_byte_may_be_wrong() -> Outcome {
    let mapping = sample()?;
    let words = mapping.words();
    let tail = words[TAIL_AT].load(Ordering::Relaxed);
    let truth = said(&mapping, true)?;
    words[TAIL_AT].store(tail, Ordering::Relaxed);
    assert_eq!((truth.records.len(), truth.open.len()), (33, 4), "{truth:#?}");

    let (mut errors, mut less, mut same) = (0, 0, 0);
    for offset in (0..words_for(super::super::layout::MIN_SLOTS) * 8).filter(|offset| matters(*offset)) {
        for pattern in [0x01_u64, 0x80, 0xff] {
            let word = &words[offset / 8];
            let before = word.load(Ordering::Relaxed);
            word.store(before ^ pattern << (offset % 8 * 8), Ordering::Relaxed);
            // Alive it stops at what looks unpublished, so it says a part of what it says dead.
            match said(&mapping, !offset.is_multiple_of(16)) {
                Err(_) => errors += 1,
                Ok(said) => {
                    assert_true(&said, &truth, &format!("byte {offset} ^ {pattern:#x}"));
                    if said == truth { same += 1 } else { less += 1 }
                }
            }
            word.store(before, Ordering::Relaxed);
            words[TAIL_AT].store(tail, Ordering::Relaxed);
        }
    }
    assert!(errors > 500 && less > 5_000 && same > 5_000, "{errors} errors, {less} with less, {same} unchanged");
    Ok(())
}

#[test]
fn it_may_be_cut_short_anywhere() -> Outcome {
    let mapping = sample()?;
    let bytes: Vec<u8> = mapping.words().iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let lengths = (0..600).chain((600..bytes.len()).step_by(61)).chain(bytes.len() - 70..bytes.len());
    for length in lengths {
        let error = Reader::of_bytes(&bytes[..length]).err().map(|error| error.to_string()).unwrap_or_default();
        let expected = if length < 8 {
            "it is no journal"
        } else if length < 16 {
            "version 0"
        } else {
            ""
        };
        assert!(!error.is_empty() && error.contains(expected), "{length}: {error}");
    }
    // Longer is no harm: what follows is not looked at.
    let longer: Vec<u8> = bytes.iter().copied().chain([0xff; 1000]).collect();
    let mut reader = Reader::of_bytes(&longer)?;
    assert_eq!(reader.read(true).records.len(), 33);
    assert_eq!(longer.len() / 8 - mapping.words().len(), 125);
    assert!(RING_AT * 8 < bytes.len());
    Ok(())
}
