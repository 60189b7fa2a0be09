//! A training program for tests: real arithmetic, and whatever else the test asks for, as `name=value` arguments.
//!
//! Prints the result of its arithmetic on standard output, so that a test can compare runs with and without stepline bit by bit.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a program for tests, which ends when something fails")]

use std::time::{Duration, Instant};

use stepline::{Phase, Scalar};

struct Wishes(Vec<(String, String)>);

impl Wishes {
    fn of_arguments() -> Self {
        Self(
            std::env::args()
                .skip(1)
                .map(|argument| {
                    let (name, value) = argument.split_once('=').expect("arguments are name=value");
                    (name.to_owned(), value.to_owned())
                })
                .collect(),
        )
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.parse().expect("a whole number"))
    }
}

/// Keeps the processor busy, so that the mirror has something to show.
fn compute(milliseconds: u64, state: &mut f64) {
    let begin = Instant::now();
    loop {
        for _ in 0..200 {
            *state = (*state * 1.000_000_1 + 0.5).sin() + 1.0;
        }
        if begin.elapsed() >= Duration::from_millis(milliseconds) {
            return;
        }
    }
}

/// A child like a data loader's worker: it goes on using what it has inherited, and ends by the ordinary way out.
#[cfg(unix)]
#[allow(unsafe_code)]
fn fork_and_train(run: &stepline::Run) {
    // SAFETY: the child only does arithmetic and ends.
    match unsafe { libc::fork() } {
        0 => {
            for (step, _) in run.steps(0..5) {
                step.phase(Phase::FORWARD, || {});
                step.record(Scalar::LOSS, 1.0);
            }
            // Takes the run itself out of the parent's copy, so that its drop is tested as well.
            // SAFETY: the child never returns to the owner of this run.
            drop(unsafe { std::ptr::read(run) });
            std::process::exit(0);
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            println!("child {status}");
        }
    }
}

#[cfg(not(unix))]
fn fork_and_train(_run: &stepline::Run) {}

fn main() {
    let wishes = Wishes::of_arguments();
    let epochs = wishes.number("epochs").unwrap_or(3);
    let steps = wishes.number("steps").unwrap_or(10);
    let phase_ms = wishes.number("phase_ms").unwrap_or(0);
    let spike_epoch = wishes.number("spike_epoch");
    let spike_mib = wishes.number("spike_mib").unwrap_or(256) as usize;
    let spike_ms = wishes.number("spike_ms").unwrap_or(1000);

    let mut builder = stepline::configure().run_name("trainee");
    if let Some(first) = wishes.number("first_step") {
        builder = builder.first_step(first);
    }
    let run = if wishes.number("init") == Some(1) { stepline::init() } else { builder.start().expect("stepline starts") };

    let mut loss = 1.0_f64;
    let mut clock_state = 0.0;
    for epoch in run.epochs(0..epochs) {
        for (step, sample) in epoch.steps(0..steps) {
            step.phase(Phase::FORWARD, || {
                loss = loss * 0.99 + (sample as f64).sqrt() * 1e-3;
                compute(phase_ms, &mut clock_state);
            });
            step.phase(Phase::BACKWARD, || compute(phase_ms, &mut clock_state));
            step.phase(Phase::OPTIMIZER, || {});
            let shown = if wishes.number("nan_step") == Some(step.index()) { f64::NAN } else { loss };
            step.record(Scalar::LOSS, shown);
            step.record(Scalar::SAMPLES, 32);
            if wishes.number("fail_step") == Some(step.index()) {
                step.fail("diverged");
            }
            if wishes.number("fork_step") == Some(step.index()) {
                fork_and_train(&run);
            }
            if wishes.number("panic_step") == Some(step.index()) {
                panic!("as the test asked");
            }
        }
        epoch.validation(|validation| {
            if spike_epoch == Some(epoch.index()) {
                // Touched, so that it is resident and not only promised.
                let matrix = vec![1_u8; spike_mib << 20];
                compute(spike_ms, &mut clock_state);
                std::hint::black_box(&matrix);
            }
            validation.record("accuracy", 1.0 - loss);
        });
    }
    if let Some(pause_ms) = wishes.number("pause_ms") {
        compute(pause_ms, &mut clock_state);
    }
    // The clock's own state depends on time, and is no part of the result.
    println!("result {:016x}", loss.to_bits());
    let begin = Instant::now();
    let outcome = run.finish();
    println!("finish_ms {}", begin.elapsed().as_millis());
    println!(
        "spans {}/{} points {}/{} events {}/{} journal_dropped {} files_dropped {}",
        outcome.traces.delivered,
        outcome.traces.dropped,
        outcome.metrics.delivered,
        outcome.metrics.dropped,
        outcome.logs.delivered,
        outcome.logs.dropped,
        outcome.journal_dropped,
        outcome.files_dropped,
    );
    for reason in &outcome.reasons {
        println!("reason {reason}");
    }
}
