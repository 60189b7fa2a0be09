//! What a crash leaves behind, between any two stores of the writer.

use std::time::Duration;

use super::super::layout::{OPEN_EPOCHS_AT, OPEN_PHASES_AT, OPEN_RUN_AT, OPEN_STEPS_AT, VERSION, VERSION_AT};
use super::super::open_step::{ENDING, TAKEN};
use super::super::ring::{Ordering, PAYLOAD_WORDS};
use super::super::writer::ring;
use super::*;
use crate::model::{EndStatus, Owner, Record};

fn steps(batch: &Batch) -> Vec<u64> {
    batch
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Step(step) => Some(step.step),
            _ => None,
        })
        .collect()
}

/// Writes a step of several slots.
fn write_step(writer: &Writer, number: u64) {
    let step = writer.step_began(writer.now(), number, None);
    for phase in [Phase::FORWARD, Phase::BACKWARD, Phase::OPTIMIZER, Phase::COLLECTIVE] {
        let phase = writer.listed_phase_began(writer.now(), &step, phase).unwrap_or_default();
        writer.listed_phase_ended(writer.now(), &step, phase);
    }
    writer.step_scalar(&step, Scalar::LOSS, 0.5);
    writer.step_ended(writer.now(), &step, false);
}

#[test]
fn a_payload_without_its_commit_word_is_torn_and_the_next_record_is_read() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    write_step(&writer, 1);
    let words = writer.mapping.words();
    let position = ring(words).claim(1, 0).ok_or("full")?;
    let at = super::super::layout::RING_AT + position as usize * 8;
    words[at + 1..at + 1 + PAYLOAD_WORDS].iter().for_each(|word| word.store(42, Ordering::Relaxed));
    write_step(&writer, 2);

    let mut reader = Reader::of(&writer)?;
    let live = reader.read(false);
    assert_eq!((steps(&live), live.torn), (vec![1], 0), "a slot that is being written was passed over");
    let dead = reader.read(true);
    assert_eq!((steps(&dead), dead.torn), (vec![2], 1));
    Ok(())
}

#[test]
fn a_thread_that_never_publishes_holds_the_reader_up_for_two_seconds_only() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    assert!(ring(writer.mapping.words()).claim(1, 0).is_some());
    write_step(&writer, 2);
    assert!(steps(&reader.read(false)).is_empty());
    std::thread::sleep(Duration::from_millis(2100));
    let batch = reader.read(false);
    assert_eq!((steps(&batch), batch.torn), (vec![2], 1));
    Ok(())
}

#[test]
fn a_step_torn_in_any_of_its_slots_is_one_torn_record() -> Outcome {
    for torn_slot in 0..2 {
        let (_directory, writer) = journal(SMALLEST)?;
        write_step(&writer, 1);
        write_step(&writer, 2);
        let words = writer.mapping.words();
        assert_eq!(ring(words).unread().end, 4, "a step of four phases takes two slots");
        words[super::super::layout::RING_AT + torn_slot * 8].store(0, Ordering::Relaxed);
        let batch = Reader::of(&writer)?.read(true);
        assert_eq!((steps(&batch), batch.torn), (vec![2], 1));
    }
    Ok(())
}

#[test]
fn what_is_open_is_closed_at_the_last_time_with_what_it_had() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    writer.run_began(writer.now());
    let (ordinal, _) = writer.epoch_began(writer.now(), 7);
    let step = writer.step_began(writer.now(), 70, Some(ordinal));
    let outer = writer.listed_phase_began(writer.now(), &step, Phase::FORWARD).unwrap_or_default();
    let inner = writer.listed_phase_began(writer.now(), &step, writer.phase_name("attention")).unwrap_or_default();
    writer.listed_phase_ended(writer.now(), &step, inner);
    writer.step_scalar(&step, Scalar::LOSS, f64::NAN);
    writer.micro_step(&step);
    writer.keep_step(&step);
    writer.phase_began(writer.now(), Owner::Epoch(ordinal), Phase::CHECKPOINT);
    let _ = outer;

    let mut reader = Reader::open(writer.path())?;
    reader.read(true);
    let end_ns = reader.now_unix_ns();
    let items = reader.open_items(end_ns);
    let [OpenItem::Run { .. }, OpenItem::Epoch { epoch: 7, .. }, OpenItem::Phase(phase), OpenItem::Step(step)] = &items[..] else {
        return Err(format!("{items:?}").into());
    };
    assert_eq!((phase.owner, phase.end_ns, phase.interrupted), (Owner::Epoch(0), end_ns, true));
    assert_eq!((step.step, step.epoch, step.micro_steps, step.keep, step.interrupted), (70, Some(0), 1, true, true));
    assert_eq!(step.end_ns, end_ns);
    assert_eq!((step.phases[0].end_ns, step.phases[0].parent), (end_ns, None));
    assert!(step.phases[1].end_ns <= end_ns && step.phases[1].parent == Some(0));
    assert_eq!(reader.names().phase(step.phases[1].phase), "attention");
    assert!(step.scalars[0].1.is_nan());
    Ok(())
}

#[test]
fn a_crash_while_an_entry_is_filled_does_not_bring_back_an_earlier_step() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    write_step(&writer, 1);
    let words = writer.mapping.words();
    for at in [OPEN_STEPS_AT, OPEN_RUN_AT, OPEN_EPOCHS_AT, OPEN_PHASES_AT] {
        words[at].store(TAKEN, Ordering::Relaxed);
    }
    let mut reader = Reader::of(&writer)?;
    reader.read(true);
    assert_eq!(reader.open_items(0), []);
    Ok(())
}

/// The writer dies after it wrote the record that something ended, and before it took that off the table; and the same with the record
/// torn. Either way it is there once.
#[test]
fn what_was_just_ending_is_there_once() -> Outcome {
    for torn in [false, true] {
        let (_directory, writer) = journal(SMALLEST)?;
        let words = writer.mapping.words();
        writer.run_began(writer.now());
        let epoch = writer.epoch_began(writer.now(), 3);
        let phase = writer.phase_began(writer.now(), Owner::Run, Phase::CHECKPOINT);
        let step = writer.step_began(writer.now(), 9, None);
        let mut reader = Reader::of(&writer)?;
        reader.read(false);
        writer.step_ended(writer.now(), &step, false);
        writer.phase_ended(writer.now(), &phase, false);
        writer.epoch_ended(writer.now(), epoch, EndStatus::Finished);
        writer.run_ended(writer.now(), EndStatus::Finished);
        for at in [OPEN_RUN_AT, OPEN_EPOCHS_AT, OPEN_PHASES_AT, OPEN_STEPS_AT] {
            words[at].store(ENDING, Ordering::Relaxed);
        }
        if torn {
            // The step's and the run's record.
            let first = ring(words).unread();
            for position in [first.start, first.end - 1] {
                words[super::super::layout::RING_AT + position as usize * 8].store(0, Ordering::Relaxed);
            }
        }
        let batch = reader.read(true);
        let items = reader.open_items(reader.now_unix_ns());
        if torn {
            assert_eq!((batch.records.len(), batch.torn), (2, 2));
            assert!(matches!(&items[..], [OpenItem::Run { .. }, OpenItem::Step(step)] if step.step == 9), "{items:?}");
        } else {
            assert_eq!((batch.records.len(), batch.torn, items.len()), (4, 0, 0));
        }
    }
    Ok(())
}

#[test]
fn a_guard_that_outlives_its_step_leaves_the_next_one_alone() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    let first = writer.step_began(writer.now(), 1, None);
    let stale = writer.listed_phase_began(writer.now(), &first, Phase::FORWARD).unwrap_or_default();
    writer.step_ended(writer.now(), &first, false);

    let second = writer.step_began(writer.now(), 2, None);
    let phase = writer.listed_phase_began(writer.now(), &second, Phase::BACKWARD).unwrap_or_default();
    writer.listed_phase_ended(writer.now(), &first, stale);
    writer.micro_step(&first);
    writer.keep_step(&first);
    writer.fail_step(&first);
    writer.step_ended(writer.now(), &first, true);
    assert_eq!(reader.read(false).records.len(), 1 + 1, "the first step, and its double end");
    writer.listed_phase_ended(writer.now(), &second, phase);
    writer.step_ended(writer.now(), &second, false);
    let [Record::Step(step)] = &reader.read(false).records[..] else { return Err("the second step is not there".into()) };
    assert_eq!((step.step, step.failed, step.keep, step.micro_steps, step.phases.len()), (2, false, false, 0, 1));
    Ok(())
}

#[test]
fn run_and_epoch_records_still_get_in_when_the_ring_is_full_of_steps() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    let begun = (0..100).inspect(|number| write_step(&writer, *number)).count() as u64;
    writer.error(writer.now(), Owner::Step(3), "a step's error has no reserved room");
    let epoch = writer.epoch_began(writer.now(), 1);
    writer.epoch_ended(writer.now(), epoch, EndStatus::Finished);
    writer.run_ended(writer.now(), EndStatus::Finished);
    let batch = reader.read(false);
    let read = steps(&batch).len() as u64;
    assert_eq!(read, 30, "60 of 64 slots, two a step");
    assert_eq!(batch.records.len() as u64 - read, 3);
    assert_eq!(read + reader.dropped(), begun + 1, "each that is not read is counted");
    assert_eq!(steps(&batch), (0..30).collect::<Vec<_>>(), "the newest are dropped, and not the oldest");
    Ok(())
}

#[test]
fn a_journal_of_another_version_is_refused_by_its_number() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    writer.mapping.words()[VERSION_AT].store(VERSION + 1, Ordering::Relaxed);
    let error = Reader::open(writer.path()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(&format!("version {}", VERSION + 1)) && error.contains(&writer.path().display().to_string()), "{error}");
    Ok(())
}

#[test]
fn a_damaged_head_is_one_round_of_torn_slots_and_not_all_numbers_there_are() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    write_step(&writer, 1);
    writer.mapping.words()[super::super::layout::HEAD_AT].store(u64::MAX - 5, Ordering::Relaxed);
    let mut reader = Reader::of(&writer)?;
    let batch = reader.read(true);
    assert_eq!((steps(&batch), batch.torn), (vec![1], 62));
    let batch = reader.read(true);
    assert_eq!((batch.records.len(), batch.torn), (0, 0));
    Ok(())
}
