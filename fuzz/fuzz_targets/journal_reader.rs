//! The journal's reader against any bytes: records or an error, never a panic, an endless loop, or a record that breaks its own rules.
//!
//! The first byte chooses what is attacked: the file as it is; a whole journal with words changed in its head; or with payloads that were
//! never written by a writer but have fitting commit words, which random bytes would not find in the age of the universe.

#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use stepline::journal::ring::{PAYLOAD_WORDS, Payload, Ring};
use stepline::journal::{About, OpenItem, Reader, Writer, journal_path};
use stepline::model::{EndStatus, Identity, Owner, Record, StepRecord};
use stepline::{Phase, Scalar, StepSpans};

const HEAD_AT: usize = 256 / 8;
const TAIL_AT: usize = 320 / 8;
const RING_AT: usize = 65_536 / 8;

/// The bytes of a small journal with something of everything.
fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let identity =
            Identity { instance_id: [3; 16], run_id: "fuzz".into(), run_name: "fuzz".into(), attempt: 0, rank: 0, world_size: 1 };
        let path = journal_path(&directory.path().join("journals"), &identity, 1, 0);
        let about = About { identity, resource: Vec::new(), sample_interval_ns: 1, step_spans: StepSpans::Auto };
        let writer = Arc::new(Writer::create(&path, &about, 4096).expect("a journal"));
        writer.set_devices(&[]);
        writer.run_began(writer.now());
        let epoch = writer.epoch_began(writer.now(), 5);
        for number in 0..3 {
            let step = writer.step_began(writer.now(), number, Some(epoch.0));
            let phase = writer.listed_phase_began(writer.now(), &step, Phase::FORWARD).unwrap_or_default();
            let inner = writer.listed_phase_began(writer.now(), &step, writer.phase_name("own")).unwrap_or_default();
            writer.step_scalar(&step, Scalar::LOSS, f64::NAN);
            if number < 2 {
                writer.listed_phase_ended(writer.now(), &step, inner);
                writer.listed_phase_ended(writer.now(), &step, phase);
                writer.step_ended(writer.now(), &step, true);
            }
        }
        writer.phase_began(writer.now(), Owner::Run, writer.phase_name("load"));
        writer.error(writer.now(), Owner::Run, "oom");
        let ended = writer.epoch_began(writer.now(), 6);
        writer.epoch_ended(writer.now(), ended, EndStatus::Failed);
        std::fs::read(&path).expect("the journal's bytes")
    })
}

/// A stream of numbers from the fuzzer's bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self, bytes: usize) -> Option<u64> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

fn words_of(bytes: &[u8]) -> Vec<AtomicU64> {
    bytes.as_chunks::<8>().0.iter().map(|word| AtomicU64::new(u64::from_le_bytes(*word))).collect()
}

fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
}

/// Words of the head replaced.
fn with_changed_words(mut numbers: Numbers<'_>) -> Vec<u8> {
    let words = words_of(whole());
    while let Some(at) = numbers.next(2) {
        let Some(value) = numbers.next(8) else { break };
        words[at as usize % words.len()].store(value, Ordering::Relaxed);
    }
    bytes_of(&words)
}

/// Payloads with fitting commit words, from a position of the fuzzer's choice on.
fn with_own_payloads(mut numbers: Numbers<'_>) -> Vec<u8> {
    let words = words_of(whole());
    let first = numbers.next(8).unwrap_or(0);
    let mut position = first;
    {
        let ring = Ring { head: &words[HEAD_AT], tail: &words[TAIL_AT], slots: &words[RING_AT..] };
        // The two kinds that span slots come often; a length byte first, so that small inputs fill several slots.
        while let Some(length) = numbers.next(1) {
            let mut payload: Payload = [0; PAYLOAD_WORDS];
            for word in payload.iter_mut().take(length as usize % (PAYLOAD_WORDS + 1)) {
                *word = numbers.next(8).unwrap_or(0);
            }
            if length & 0x80 != 0 {
                payload[0] = (payload[0] & !0xff) | 16 + (length >> 6 & 1);
            }
            ring.publish(position, &payload);
            position = position.wrapping_add(1);
        }
    }
    words[TAIL_AT].store(first, Ordering::Relaxed);
    words[HEAD_AT].store(position, Ordering::Relaxed);
    bytes_of(&words)
}

fn check_step(step: &StepRecord) {
    assert!(step.begin_ns <= step.end_ns);
    for (place, phase) in step.phases.iter().enumerate() {
        assert!(step.begin_ns <= phase.begin_ns && phase.begin_ns <= phase.end_ns && phase.end_ns <= step.end_ns);
        if let Some(parent) = phase.parent {
            assert!(usize::from(parent) < place);
            let around = &step.phases[usize::from(parent)];
            assert!(around.begin_ns <= phase.begin_ns && phase.end_ns <= around.end_ns);
        }
    }
}

fn check(bytes: &[u8]) {
    for writer_is_dead in [false, true] {
        let mut reader = match Reader::of_bytes(bytes) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        };
        let slots = (bytes.len() - RING_AT * 8) / 64;
        let mut seen = 0;
        for round in 0..3 {
            let batch = reader.read(writer_is_dead);
            seen += batch.records.len() as u64 + batch.torn;
            assert!(seen <= slots as u64, "more records than slots");
            assert!(round == 0 || batch.records.is_empty(), "a record was read twice");
            for record in &batch.records {
                let _ = record.time_ns();
                match record {
                    Record::Step(step) => check_step(step),
                    Record::Phase(phase) => assert!(phase.begin_ns <= phase.end_ns),
                    _ => {}
                }
            }
        }
        for item in reader.open_items(1_800_000_000_000_000_000) {
            match item {
                OpenItem::Step(step) => check_step(&step),
                OpenItem::Phase(phase) => assert!(phase.begin_ns <= phase.end_ns),
                _ => {}
            }
        }
        assert!((0.0..=1.0).contains(&reader.fill()));
        let _ = (
            reader.names().phase(Phase::OTHER),
            reader.devices(),
            reader.dropped(),
            reader.names_refused(),
            reader.is_closed(),
            reader.claimed(),
            reader.now_unix_ns(),
        );
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    match choice % 3 {
        0 => check(rest),
        1 => check(&with_changed_words(Numbers(rest))),
        _ => check(&with_own_payloads(Numbers(rest))),
    }
});
