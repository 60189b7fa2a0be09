//! Many writers, one reader, at once.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::super::ring::Ordering;
use super::*;
use crate::model::{Owner, Record};

/// Each thread writes records of one and of several slots, numbered. What was read and what was counted as dropped is all there was, each
/// once, in the order of its thread.
fn nothing_is_lost_uncounted(threads: u64, records: u64, ring_bytes: u64, pause: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let (_directory, writer) = journal(ring_bytes)?;
    let mut reader = Reader::of(&writer)?;
    let left = AtomicUsize::new(threads as usize);
    let mut read: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut torn = 0;
    let mut take = |reader: &mut Reader| {
        let batch = reader.read(false);
        torn += batch.torn;
        for record in batch.records {
            let (thread, number) = match record {
                Record::Step(step) => {
                    assert_eq!(step.scalars, [(Scalar::LOSS, step.step as f64)]);
                    assert_eq!(step.phases.len() as u64, step.step % 7);
                    (step.step >> 32, step.step & 0xffff_ffff)
                }
                Record::Scalar { owner: Owner::Phase(thread), value, .. } => (thread, value as u64),
                other => panic!("nobody wrote {other:?}"),
            };
            read.entry(thread).or_default().push(number);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (writer, left) = (&writer, &left);
            scope.spawn(move || {
                for number in 0..records {
                    if number % 3 == 0 {
                        let step = writer.step_began(writer.now(), thread << 32 | number, None);
                        for _ in 0..(thread << 32 | number) % 7 {
                            let phase = writer.listed_phase_began(writer.now(), &step, Phase::FORWARD).unwrap_or_default();
                            writer.listed_phase_ended(writer.now(), &step, phase);
                        }
                        writer.step_scalar(&step, Scalar::LOSS, (thread << 32 | number) as f64);
                        writer.step_ended(writer.now(), &step, false);
                    } else {
                        writer.scalar(writer.now(), Owner::Phase(thread), Scalar::LOSS, number as f64);
                    }
                }
                left.fetch_sub(1, Ordering::Release);
            });
        }
        while left.load(Ordering::Acquire) > 0 {
            take(&mut reader);
            (0..pause).for_each(|_| std::hint::spin_loop());
        }
    });
    take(&mut reader);
    let mut sum = 0;
    for numbers in read.values() {
        assert!(numbers.is_sorted_by(|a, b| a < b), "out of order, or twice");
        sum += numbers.len() as u64;
    }
    assert_eq!(torn, 0);
    assert_eq!(sum + reader.dropped(), threads * records);
    assert_eq!(reader.open_items(0), []);
    Ok(reader.dropped())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_record_arrives_once_and_in_order_or_is_counted(threads in 1_u64..7, records in 1_u64..2_000, slots in 6_u32..12, pause in 0_u32..2_000) {
        nothing_is_lost_uncounted(threads, records, 64 << slots, pause).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn a_reader_that_keeps_up_loses_nothing_over_many_rounds_of_the_ring() -> Outcome {
    let (_directory, writer) = journal(SMALLEST)?;
    let mut reader = Reader::of(&writer)?;
    let mut next = 0.0;
    for number in 0..10_000 {
        writer.scalar(writer.now(), Owner::Run, Scalar::LOSS, f64::from(number));
        if number % 59 == 0 {
            for record in reader.read(false).records {
                assert!(matches!(record, Record::Scalar { value, .. } if value == next), "{record:?}");
                next += 1.0;
            }
        }
    }
    assert_eq!(reader.dropped(), 0);
    Ok(())
}
