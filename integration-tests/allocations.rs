//! The hook allocates nothing after the first use of a name. Counted by the allocator of this whole program, which is why this test is
//! a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use stepline::hook::Hook;
use stepline::journal::{About, Reader, Writer, journal_path};
use stepline::model::Identity;
use stepline::{Outcome, Phase, Run, Scalar, StepSpans};

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

/// Counts what each thread asks for.
struct Counting;

#[allow(unsafe_code)]
// SAFETY: everything is left to the system's allocator; the count is a plain number of the calling thread, which needs no memory of its
// own and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Everything that stands in a training loop.
fn train(run: &Run, epochs: std::ops::Range<u64>) {
    for epoch in run.epochs(epochs) {
        for (step, batch) in epoch.steps(0..100_u64) {
            step.phase(Phase::FORWARD, || black_box(batch));
            {
                let backward = step.enter(Phase::BACKWARD);
                let _reduce = backward.enter("all_reduce");
            }
            for _ in step.micro_steps(0..4) {}
            step.record(Scalar::LOSS, 0.5);
            step.record("accuracy", f64::NAN);
            step.keep();
            if batch % 10 == 0 {
                step.fail("diverged");
            }
            // More than a step's own list holds.
            for _ in 0..30 {
                step.phase("overflow", || black_box(batch));
                step.record(Scalar::GRAD_NORM, 1.0);
            }
        }
        epoch.validation(|validation| validation.record("accuracy", 0.9));
        epoch.checkpoint(|_| ());
        epoch.record("f1", 0.8);
    }
    drop(run.step());
    run.record("parameters", 12_000);
}

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

#[test]
fn a_step_allocates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity { instance_id: [1; 16], run_id: "run".into(), run_name: "run".into(), attempt: 0, rank: 0, world_size: 1 };
    let path = journal_path(&directory.path().join("journals"), &identity, std::process::id(), 0);
    let about = About { identity, resource: Vec::new(), sample_interval_ns: 1_000_000_000, step_spans: StepSpans::Auto };
    // Small enough to be full most of the time: dropping allocates nothing either.
    let writer = Arc::new(Writer::create(&path, &about, 64 * 1024).unwrap());
    let mut reader = Reader::of(&writer).unwrap();
    let run = Run::begin(Arc::new(Hook::new(writer, 0)), Box::new(Outcome::default));

    let first = allocations(|| train(&run, 0..1));
    assert!((1..=5).contains(&first), "each of the five own names once: {first} allocations");
    assert!(!reader.read(false).records.is_empty());
    assert_eq!(allocations(|| train(&run, 1..20)), 0);
    assert!(reader.dropped() > 0);

    let none = Run::none();
    assert_eq!(allocations(|| train(&none, 0..20)), 0);
    drop(run);
}
