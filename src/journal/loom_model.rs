//! A model of the ring under loom: all ways in which writers and the reader may meet, weak memory included.
//!
//! `make loom`, or `RUSTFLAGS="--cfg loom" cargo test --lib --release loom`.

use loom::sync::Arc;
use loom::thread;

use super::ring::{AtomicU64, PAYLOAD_WORDS, Payload, Ring, Slot};

const SLOTS: usize = 2;
const SLOT_WORDS: usize = PAYLOAD_WORDS + 1;

struct Words {
    head: AtomicU64,
    tail: AtomicU64,
    slots: Vec<AtomicU64>,
}

impl Words {
    fn new() -> Arc<Self> {
        let slots = (0..SLOTS * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { head: AtomicU64::new(0), tail: AtomicU64::new(0), slots })
    }

    fn ring(&self) -> Ring<'_> {
        Ring { head: &self.head, tail: &self.tail, slots: &self.slots }
    }
}

/// A payload in which every word tells the record.
fn payload(writer: u64, number: u64) -> Payload {
    std::array::from_fn(|place| writer << 32 | number << 16 | place as u64)
}

/// Writes rows of `slots` slots; how many did not fit.
fn write(words: &Words, writer: u64, rows: u64, slots: u64) -> u64 {
    let ring = words.ring();
    let dropped = (0..rows).filter(|number| match ring.claim(slots, 0) {
        Some(position) => {
            (0..slots).for_each(|place| ring.publish(position + place, &payload(writer, number * slots + place)));
            false
        }
        None => true,
    });
    dropped.count() as u64
}

/// Reads what is published, as the reader does: stops at the first slot that is not.
fn read(words: &Words, read: &mut Vec<Payload>) {
    let ring = words.ring();
    let unread = ring.unread();
    let mut position = unread.start;
    while position < unread.end {
        let Slot::Published(payload) = ring.read(position) else { break };
        read.push(payload);
        position += 1;
    }
    ring.consume(position);
}

fn check(read: &[Payload], writers: u64) {
    for record in read {
        let (writer, number) = (record[0] >> 32, record[0] >> 16 & 0xffff);
        assert_eq!(*record, payload(writer, number), "a torn record passed as good");
    }
    for writer in 0..writers {
        let numbers: Vec<u64> = read.iter().filter(|record| record[0] >> 32 == writer).map(|record| record[0] >> 16 & 0xffff).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "out of order, or twice: {numbers:?}");
    }
}

fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// Two writers and a ring of two slots that goes round under the reader's eyes: what is read and what did not fit is all there was.
#[test]
fn loom_two_writers_and_the_reader() {
    model(3, || {
        let words = Words::new();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let words = Arc::clone(&words);
                thread::spawn(move || write(&words, writer, 1, 1))
            })
            .collect();
        let mut records = Vec::new();
        read(&words, &mut records);
        let dropped: u64 = writers.into_iter().map(|writer| writer.join().unwrap_or(u64::MAX >> 2)).sum();
        read(&words, &mut records);
        check(&records, 2);
        assert_eq!(records.len() as u64 + dropped, 2);
    });
}

/// One writer that overtakes itself: a slot is written a second time only after the reader has read the first.
#[test]
fn loom_the_ring_goes_round() {
    model(3, || {
        let words = Words::new();
        let writer = {
            let words = Arc::clone(&words);
            thread::spawn(move || write(&words, 0, 4, 1))
        };
        let mut records = Vec::new();
        read(&words, &mut records);
        read(&words, &mut records);
        let dropped = writer.join().unwrap_or(u64::MAX >> 2);
        read(&words, &mut records);
        check(&records, 1);
        assert_eq!(records.len() as u64 + dropped, 4);
    });
}

/// A row of two slots is claimed as a whole: another writer's slot never stands between them.
#[test]
fn loom_a_row_stays_together() {
    model(2, || {
        let words = Words::new();
        let writer = {
            let words = Arc::clone(&words);
            thread::spawn(move || write(&words, 0, 1, 2))
        };
        let dropped = write(&words, 1, 1, 1);
        let dropped_rows = writer.join().unwrap_or(u64::MAX >> 2);
        let mut records = Vec::new();
        read(&words, &mut records);
        check(&records, 2);
        assert_eq!(records.len() as u64 + dropped + 2 * dropped_rows, 3);
    });
}

/// A writer that dies between its claim and its commit word leaves a slot that never looks published.
#[test]
fn loom_a_torn_slot_is_never_taken_for_a_record() {
    model(3, || {
        let words = Words::new();
        let writer = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let ring = words.ring();
                let Some(position) = ring.claim(1, 0) else { return };
                // All of the payload but the commit word.
                let slot = position as usize % SLOTS * SLOT_WORDS;
                for (place, value) in payload(0, 0).into_iter().enumerate() {
                    words.slots[slot + 1 + place].store(value, super::ring::Ordering::Relaxed);
                }
            })
        };
        let mut records = Vec::new();
        read(&words, &mut records);
        let _ = writer.join();
        read(&words, &mut records);
        assert!(records.is_empty());
        assert_eq!(words.ring().unread(), 0..1);
    });
}
