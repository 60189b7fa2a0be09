//! The hook through its public face: what a training loop does, right or wrong, and what then stands in the journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use stepline::journal::OpenItem;
use stepline::model::{EndStatus, Owner, Record};
use stepline::{Epoch, Epochs, MicroSteps, Phase, PhaseGuard, Run, Scalar, Step, Steps};

use crate::support::recording::{ROOMY, Recording};

#[test]
fn a_loop_is_recorded_as_it_ran() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    for epoch in run.epochs(0..2) {
        for (step, batch) in epoch.steps([10, 20, 30]) {
            step.phase(Phase::FORWARD, || std::thread::sleep(Duration::from_millis(1)));
            {
                let _backward = step.enter(Phase::BACKWARD);
            }
            step.phase("augment", || ());
            step.record(Scalar::LOSS, 1.0 / f64::from(batch));
        }
        epoch.validation(|validation| validation.record("accuracy", 0.5));
        epoch.checkpoint(|_| ());
    }
    run.finish();

    let taken = recording.take();
    let steps = taken.steps();
    let numbers: Vec<_> = steps.iter().map(|step| (step.step, step.epoch, step.ordinal)).collect();
    assert_eq!(numbers, (0..6).map(|step| (step, Some(step as u32 / 3), step)).collect::<Vec<_>>());
    for step in &steps {
        assert_eq!(recording.phases(step), ["data_wait", "forward", "backward", "augment"]);
        assert!(step.phases[1].end_ns - step.phases[1].begin_ns >= 1_000_000);
        assert!(step.phases.iter().all(|phase| phase.begin_ns >= step.begin_ns && phase.end_ns <= step.end_ns));
        assert_eq!((step.failed, step.keep, step.interrupted, step.micro_steps), (false, false, false, 0));
    }
    assert_eq!(steps[1].scalars, [(Scalar::LOSS, 0.05)]);
    let standing: Vec<_> = taken.standing().iter().map(|phase| (phase.owner, recording.phase_name(phase.phase))).collect();
    let [first, second] = [Owner::Epoch(0), Owner::Epoch(1)];
    assert_eq!(standing, [(first, "validation"), (first, "checkpoint"), (second, "validation"), (second, "checkpoint")]);
    let accuracy = taken.pick(|record| match record {
        Record::Scalar { owner, scalar, value, .. } => Some((*owner, recording.reader.names().scalar(*scalar).to_owned(), *value)),
        _ => None,
    });
    assert_eq!(accuracy, [(Owner::Phase(0), "accuracy".to_owned(), 0.5), (Owner::Phase(2), "accuracy".to_owned(), 0.5)]);
    assert!(matches!(taken.records()[0], Record::RunBegan { .. }));
    assert!(matches!(taken.records().last(), Some(Record::RunEnded { status: EndStatus::Finished, .. })));
    let times: Vec<_> = taken.records().iter().map(Record::time_ns).collect();
    assert!(times.is_sorted());
    assert_eq!(recording.open(), []);
}

#[test]
fn a_run_without_epochs_and_of_unknown_length() {
    let (run, mut recording) = Recording::start(ROOMY, 1000);
    let mut left = 3;
    let unknown = std::iter::from_fn(|| {
        left -= 1;
        (left >= 0).then_some(left)
    });
    for (step, _batch) in run.steps(unknown) {
        assert!(step.index() >= 1000);
    }
    // Numbers go on where the loop ended, without the step that turned out to be none.
    assert_eq!(run.step().index(), 1003);
    let taken = recording.take();
    let numbers: Vec<_> = taken.steps().iter().map(|step| (step.ordinal, step.step, step.epoch)).collect();
    assert_eq!(numbers, [(0, 1000, None), (1, 1001, None), (2, 1002, None), (3, 1003, None)]);
    assert!(!taken.records().iter().any(|record| matches!(record, Record::EpochBegan { .. })));
}

#[test]
fn epochs_after_a_restart_keep_their_numbers() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let mut numbers = Vec::new();
    for epoch in run.epochs(7..20) {
        numbers.push(epoch.index());
    }
    assert_eq!(numbers, (7..20).collect::<Vec<_>>());
    let began = recording.take().pick(|record| match record {
        Record::EpochBegan { ordinal, epoch, .. } => Some((*ordinal, *epoch)),
        _ => None,
    });
    assert_eq!(began, (0..13).map(|ordinal| (ordinal, u64::from(ordinal) + 7)).collect::<Vec<_>>());
}

#[test]
fn a_step_left_by_break_or_by_an_error_is_closed() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    for (step, batch) in run.steps(0..10) {
        let _forward = step.enter(Phase::FORWARD);
        if batch == 1 {
            break;
        }
    }
    let failing = || -> Result<(), std::num::ParseIntError> {
        for (step, _batch) in run.steps(0..10) {
            let _forward = step.enter(Phase::FORWARD);
            let _: u32 = "no number".parse()?;
        }
        Ok(())
    };
    assert!(failing().is_err());
    assert_eq!(recording.open().len(), 1, "the run alone");
    let taken = recording.take();
    assert_eq!(taken.steps().iter().map(|step| step.step).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(taken.steps().iter().all(|step| !step.failed && step.phases.len() == 2 && step.phases[1].end_ns <= step.end_ns));
}

#[test]
fn a_panic_closes_what_it_goes_through_and_marks_it() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        for epoch in run.epochs(0..3) {
            for (step, batch) in epoch.steps(0..3) {
                step.phase(Phase::FORWARD, || assert!(batch < 1, "out of memory"));
            }
        }
    }));
    assert!(caught.is_err());
    let taken = recording.take();
    assert_eq!(taken.steps().iter().map(|step| step.failed).collect::<Vec<_>>(), [false, true]);
    assert_eq!(taken.errors(), ["Step(1) panic", "Epoch(0) panic"]);
    assert!(taken.records().iter().any(|record| matches!(record, Record::EpochEnded { status: EndStatus::Failed, .. })));
    assert_eq!(recording.open().len(), 1, "the run alone");
}

#[test]
fn a_panic_that_is_caught_inside_the_step_marks_the_step_once() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    {
        let step = run.step();
        let _ = catch_unwind(AssertUnwindSafe(|| step.phase(Phase::FORWARD, || panic!("caught"))));
        let _ = catch_unwind(AssertUnwindSafe(|| step.phase(Phase::BACKWARD, || panic!("caught"))));
    }
    let checkpoint = catch_unwind(AssertUnwindSafe(|| run.phase(Phase::CHECKPOINT, || panic!("disk full"))));
    assert!(checkpoint.is_err());
    let taken = recording.take();
    assert!(taken.steps()[0].failed);
    assert_eq!(taken.errors(), ["Step(0) panic", "Phase(0) panic"]);
    assert!(taken.standing()[0].failed);
}

#[test]
fn what_the_user_says_of_an_error_comes_before_the_panic() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let run = run;
        let step = run.step();
        step.fail("nan");
        panic!("diverged");
    }));
    assert!(caught.is_err());
    let taken = recording.take();
    assert_eq!(taken.errors(), ["Step(0) nan", "Run panic"]);
    assert!(matches!(taken.records().last(), Some(Record::RunEnded { status: EndStatus::Failed, .. })));
}

#[test]
fn phases_nest_and_heal_themselves() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    {
        let step = run.step();
        let outer = step.enter(Phase::FORWARD);
        let inner = outer.enter("attention");
        inner.phase("softmax", || ());
        // The outer one ends first: the inner one ends with it at the latest, and what follows stands beside both.
        drop(outer);
        step.phase(Phase::BACKWARD, || ());
        drop(inner);
        step.phase(Phase::OPTIMIZER, || ());
        // Left open: ends with the step.
        std::mem::forget(step.enter("forgotten"));
    }
    let taken = recording.take();
    let step = taken.steps()[0];
    assert_eq!(recording.phases(step), ["forward", "attention < forward", "softmax < attention", "backward", "optimizer", "forgotten"]);
    assert_eq!(step.phases[1].end_ns, step.phases[0].end_ns);
    assert_eq!(step.phases[5].end_ns, step.end_ns);
    for phase in &step.phases {
        let (begin, end) = phase.parent.map_or((step.begin_ns, step.end_ns), |parent| {
            let around = &step.phases[usize::from(parent)];
            (around.begin_ns, around.end_ns)
        });
        assert!(begin <= phase.begin_ns && phase.begin_ns <= phase.end_ns && phase.end_ns <= end);
    }
}

#[test]
fn phases_of_another_thread_stand_beside_the_steps_own() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    {
        let step = run.step();
        let forward = step.enter(Phase::FORWARD);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let loading = step.enter("load");
                loading.phase("decode", || ());
                step.record("images", 12);
                loading.record("bytes", 100);
            });
            // A guard that travels: ended elsewhere, it still ends.
            scope.spawn(move || drop(forward));
        });
        step.phase(Phase::BACKWARD, || ());
    }
    let taken = recording.take();
    assert_eq!(recording.phases(taken.steps()[0]), ["forward", "backward"]);
    let standing: Vec<_> = taken.standing().iter().map(|phase| (recording.phase_name(phase.phase), phase.owner)).collect();
    // They are written when they end: the inner one first.
    assert_eq!(standing, [("decode", Owner::Phase(0)), ("load", Owner::Step(0))]);
    let numbers = taken.pick(|record| match record {
        Record::Scalar { owner, value, .. } => Some((*owner, *value)),
        _ => None,
    });
    assert_eq!(numbers, [(Owner::Step(0), 12.0), (Owner::Step(0), 100.0)]);
}

#[test]
fn a_guard_that_outlives_its_step_does_no_harm() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let stale = run.step().enter(Phase::FORWARD);
    {
        let step = run.step();
        let _backward = step.enter(Phase::BACKWARD);
        stale.record(Scalar::LOSS, 1.0);
        stale.phase("inside", || ());
        stale.fail("late");
        drop(stale);
    }
    let taken = recording.take();
    let [first, second] = taken.steps()[..] else { panic!("two steps") };
    assert_eq!((recording.phases(first), first.failed), (vec!["forward".to_owned()], false));
    assert_eq!((recording.phases(second), second.failed, second.scalars.len()), (vec!["backward".to_owned()], false, 0));
    assert_eq!(taken.errors(), ["Step(0) late"]);
    assert_eq!(taken.standing()[0].owner, Owner::Step(0));
}

#[test]
fn a_hundred_phases_and_twenty_numbers_in_one_step_are_all_there() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    {
        let step = run.step();
        for _ in 0..100 {
            step.phase(Phase::FORWARD, || ());
        }
        for number in 0..20 {
            step.record("number", number);
        }
    }
    let taken = recording.take();
    let step = taken.steps()[0];
    assert_eq!(step.phases.len() + taken.standing().len(), 100);
    assert!(taken.standing().iter().all(|phase| phase.owner == Owner::Step(0)));
    let further = taken.pick(|record| match record {
        Record::Scalar { owner: Owner::Step(0), value, .. } => Some(*value),
        _ => None,
    });
    let all: Vec<_> = step.scalars.iter().map(|(_, value)| *value).chain(further).collect();
    assert_eq!(all, (0..20).map(f64::from).collect::<Vec<_>>());
    assert_eq!(recording.reader.dropped(), 0);
}

#[test]
fn own_names_beyond_the_room_for_them_are_other_and_counted() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    for number in 0..80 {
        run.phase(&format!("phase {number}"), || ());
        run.record(&format!("number {number}"), number);
    }
    let taken = recording.take();
    let names: Vec<_> = taken.standing().iter().map(|phase| recording.phase_name(phase.phase).to_owned()).collect();
    assert_eq!(names[63], "phase 63");
    assert!(names[64..].iter().all(|name| name == "other"));
    assert_eq!(recording.reader.names_refused(), 2 * 16);
}

#[test]
fn numbers_come_through_as_they_came() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -0.0];
    {
        let step = run.step();
        values.iter().for_each(|value| step.record(Scalar::LOSS, *value));
    }
    let taken = recording.take();
    let bits = |value: &f64| value.to_bits();
    let read: Vec<_> = taken.steps()[0].scalars.iter().map(|(_, value)| bits(value)).collect();
    assert_eq!(read, values.iter().map(bits).collect::<Vec<_>>());
}

#[test]
fn batches_and_updates_are_told_apart() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let mut loader = 0..10;
    for (step, _) in run.steps(0..3) {
        for _batch in step.micro_steps(loader.by_ref().take(4)) {}
    }
    let taken = recording.take();
    assert_eq!(taken.steps().iter().map(|step| step.micro_steps).collect::<Vec<_>>(), [4, 4, 2]);
    // Three for the steps, ten for the batches; finding that there is none is no wait.
    let waits = taken.steps().iter().flat_map(|step| &step.phases).filter(|phase| phase.phase == Phase::DATA_WAIT).count();
    assert_eq!(waits, 3 + 10);
}

#[test]
fn more_open_steps_than_the_table_has_room_for() {
    let (run, mut recording) = Recording::start(ROOMY, 0);
    let steps: Vec<_> = (0..40).map(|_| run.step()).collect();
    steps.iter().for_each(|step| step.phase(Phase::FORWARD, || ()));
    assert_eq!(recording.open().iter().filter(|item| matches!(item, OpenItem::Step(_))).count(), 16);
    drop(steps);
    let taken = recording.take();
    assert_eq!(taken.steps().len(), 40);
    let listed: usize = taken.steps().iter().map(|step| step.phases.len()).sum();
    assert_eq!((listed, taken.standing().len()), (16, 24));
    assert_eq!(recording.open().len(), 1, "the run alone");
}

#[test]
fn a_run_that_does_nothing_does_nothing() {
    let run = Run::none();
    assert!(!run.is_recording());
    for epoch in run.epochs(3..5) {
        assert!(epoch.index() >= 3);
        for (step, _) in epoch.steps(0..3) {
            assert_eq!(step.index(), 0);
            let phase = step.enter(Phase::FORWARD);
            phase.phase("inner", || ());
            phase.record(Scalar::LOSS, f64::NAN);
            phase.fail("no");
            step.record("own", 1);
            step.micro_step();
            for _ in step.micro_steps(0..2) {}
            step.keep();
            step.fail("no");
        }
        drop(epoch.step());
        epoch.validation(|validation| validation.enter("inner").record("accuracy", 1.0));
        epoch.checkpoint(|_| ());
        epoch.phase("own", || ());
        epoch.record("own", 1);
        epoch.fail("no");
    }
    drop(run.epoch(1));
    drop(run.step());
    for (_, _) in run.steps(0..2) {}
    drop(run.enter("own"));
    run.phase("own", || ());
    run.record("own", 1);
    run.fail("no");
    let outcome = run.finish();
    assert!(outcome.is_complete() && outcome.reasons.is_empty());
}

#[test]
fn a_closer_that_panics_is_no_panic_of_the_training() {
    use std::sync::Arc;
    let (run, recording) = Recording::start(ROOMY, 0);
    drop(run);
    let hook = Arc::new(stepline::hook::Hook::new(Arc::clone(&recording.writer), 0));
    let run = Run::begin(hook, Box::new(|| panic!("a fault of stepline's")));
    assert_eq!(run.finish().reasons.len(), 1);
}

#[test]
fn guards_may_be_sent_and_shared() {
    fn both<T: Send + Sync>() {}
    both::<Run>();
    both::<Epoch<'_>>();
    both::<Step<'_>>();
    both::<PhaseGuard<'_>>();
    both::<Epochs<'_, std::ops::Range<u64>>>();
    both::<Steps<'_, std::ops::Range<u64>>>();
    both::<MicroSteps<'_, '_, std::ops::Range<u64>>>();
}

#[cfg(unix)]
mod fork {
    use std::process::Command;

    use super::*;

    const ROLE: &str = "STEPLINE_TEST_FORKS";

    /// Runs as a process of its own, because a forked child of this program would have its other tests' locks and none of their threads.
    #[test]
    fn a_forked_child_writes_nothing_and_hangs_nowhere() {
        let forking = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--test-threads=1", "hook::fork::forks"])
            .env(ROLE, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&forking.stdout);
        assert!(forking.status.success() && output.contains("1 passed"), "{output}{}", String::from_utf8_lossy(&forking.stderr));
    }

    #[test]
    #[ignore = "forks: the test above runs it in a process of its own"]
    fn forks() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let (run, mut recording) = Recording::start(ROOMY, 0);
        let epoch = run.epoch(0);
        let step = epoch.step();
        let forward = step.enter(Phase::FORWARD);
        let claimed = recording.reader.claimed();
        let child = fork();
        if child == 0 {
            std::panic::set_hook(Box::new(|_| leave(2)));
            // Guards of before the fork, and new ones.
            drop(forward);
            step.record("unseen", 1);
            drop(step);
            for (step, _) in epoch.steps(0..100) {
                step.phase("unseen too", || ());
            }
            drop(epoch);
            let is_recording = run.is_recording();
            let outcome = run.finish();
            let passed = !is_recording && outcome.is_complete() && recording.reader.claimed() == claimed;
            leave(i32::from(!passed));
        }
        assert_eq!(status_of(child), 0, "the child's own view");
        assert_eq!(recording.reader.claimed(), claimed, "the child wrote");
        assert_eq!(recording.open().len(), 3);
        let taken = recording.take();
        assert!(taken.steps().is_empty());
        assert_eq!(recording.reader.names().phase(stepline::model::NameTable::own_phase(0)), "other", "the child added a name");
    }

    #[allow(unsafe_code)]
    fn fork() -> libc::pid_t {
        // SAFETY: the child has one thread, and touches nothing that another thread of the parent could have locked: the parent has the
        // test's thread and libtest's, which waits. It leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        child
    }

    #[allow(unsafe_code)]
    fn leave(status: i32) -> ! {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(status) }
    }

    #[allow(unsafe_code)]
    fn status_of(child: libc::pid_t) -> i32 {
        let mut status = 0;
        // SAFETY: waits for the child that was just made, into a variable of ours.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(waited, child);
        assert!(libc::WIFEXITED(status), "the child was killed: {status}");
        libc::WEXITSTATUS(status)
    }
}
