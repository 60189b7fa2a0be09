//! What a step costs the thread that trains: one step with four phases and two numbers, beside what people would use otherwise.
//!
//! Method (baselines.md): thread CPU time of chunks, round robin over the variants in one process, each after a few steps that are not
//! counted, median of the chunks; so a busy machine does not favour one of them. Process CPU time includes what the variants' own threads
//! do afterwards. The wall clock is not looked at. Beside it the instructions of a step, by callgrind, which do not depend on the machine's mood at all.
//!
//! `cargo bench --manifest-path benches/Cargo.toml --bench hook` prints a table and merges `target/bench.json`.

mod peers;
mod table;

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use stepline::hook::Hook;
use stepline::journal::{About, Reader, Writer, journal_path};
use stepline::model::Identity;
use stepline::{Outcome, Phase, Run, Scalar, StepSpans};

use crate::table::Row;

const CHUNKS: usize = 41;
/// Beginning a step with its wait for data, three phases, two numbers, ending it.
const CALLS_A_STEP: f64 = 7.0;
/// The journal's default size.
const RING_BYTES: u64 = 2 << 20;

/// Something that can do steps.
trait Variant {
    /// Steps of a chunk: as many as the variant's queue takes.
    fn chunk(&self) -> u64;
    /// Does so many steps.
    fn steps(&mut self, count: u64);
    /// Waits until what the steps left to do in the background is done.
    fn settle(&mut self) {}
}

struct Stepline {
    run: Run,
    /// To the reader's thread, and back when it has read everything.
    drain: Option<Sender<()>>,
    drained: Receiver<()>,
    pump: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Stepline {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let identity =
            Identity { instance_id: [1; 16], run_id: "bench".into(), run_name: "bench".into(), attempt: 0, rank: 0, world_size: 1 };
        let path = journal_path(&directory.path().join("journals"), &identity, std::process::id(), 0);
        let about = About { identity, resource: Vec::new(), sample_interval_ns: 1_000_000_000, step_spans: StepSpans::Auto };
        let writer = Arc::new(Writer::create(&path, &about, RING_BYTES).expect("a journal"));
        let mut reader = Reader::of(&writer).expect("its reader");
        let run = Run::begin(Arc::new(Hook::new(writer, 0)), Box::new(Outcome::default));
        let (drain, asked) = mpsc::channel::<()>();
        let (done, drained) = mpsc::channel();
        let pump = thread::spawn(move || {
            for () in asked {
                let batch = reader.read(false);
                black_box(&batch.records);
                assert_eq!((batch.torn, reader.dropped()), (0, 0), "dropping is cheaper than writing: the bench would lie");
                done.send(()).expect("somebody waits");
            }
        });
        Self { run, drain: Some(drain), drained, pump: Some(pump), _directory: directory }
    }
}

impl Variant for Stepline {
    fn chunk(&self) -> u64 {
        10_000
    }

    fn steps(&mut self, count: u64) {
        stepline_steps(&self.run, count);
    }

    fn settle(&mut self) {
        self.drain.as_ref().expect("the reader's thread").send(()).expect("the reader's thread");
        self.drained.recv().expect("the reader's thread");
    }
}

impl Drop for Stepline {
    fn drop(&mut self) {
        self.drain = None;
        if let Some(pump) = self.pump.take() {
            pump.join().expect("the reader's thread");
        }
    }
}

struct Disabled(Run);

impl Variant for Disabled {
    fn chunk(&self) -> u64 {
        200_000
    }

    fn steps(&mut self, count: u64) {
        stepline_steps(&self.0, count);
    }
}

#[inline(never)]
fn stepline_steps(run: &Run, count: u64) {
    for (step, batch) in run.steps(0..count) {
        step.phase(Phase::FORWARD, || black_box(batch));
        step.phase(Phase::BACKWARD, || black_box(batch));
        step.phase(Phase::OPTIMIZER, || black_box(batch));
        step.record(Scalar::LOSS, 0.5);
        step.record(Scalar::LEARNING_RATE, 0.001);
    }
}

/// A clock of this system's, nanoseconds.
fn cpu_ns(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a variable of ours.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(done, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Instructions of a step by callgrind; `None` without valgrind.
fn instructions(more: &[&str]) -> Option<f64> {
    let collected = |count: &str| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--toggle-collect=steps_under_callgrind", "--callgrind-out-file=/dev/null"])
            .arg(env!("CARGO_BIN_EXE_hook_steps"))
            .arg(count)
            .args(more)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok())
    };
    Some((collected("11000")? - collected("1000")?) / 10_000.0)
}

fn main() {
    let mut variants: Vec<(&str, Box<dyn Variant>)> = vec![
        ("stepline", Box::new(Stepline::start())),
        ("stepline, disabled", Box::new(Disabled(Run::none()))),
        ("fastrace 0.7", Box::new(peers::Fastrace::start())),
        ("opentelemetry_sdk 0.33", Box::new(peers::OpenTelemetry::start())),
        ("tracing + tracing-opentelemetry 0.34", Box::new(peers::Tracing::start())),
    ];
    let mut thread_ns = vec![Vec::new(); variants.len()];
    let mut process_ns = vec![Vec::new(); variants.len()];
    for chunk in 0..CHUNKS + 2 {
        for (place, (_, variant)) in variants.iter_mut().enumerate() {
            let count = variant.chunk();
            // Another variant has had the caches since: a little that is not counted, for each of them.
            variant.steps(count / 20);
            variant.settle();
            let process_before = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
            let before = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            variant.steps(count);
            let after = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            variant.settle();
            let process_after = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
            // The first two warm caches and name tables up.
            if chunk >= 2 {
                thread_ns[place].push((after - before) / count as f64);
                process_ns[place].push((process_after - process_before) / count as f64);
            }
        }
    }
    println!("one step with 4 phases and 2 numbers, CPU time, median of {CHUNKS} chunks\n");
    println!("{:<40} {:>14} {:>22}", "", "the thread, ns", "with background, ns");
    let medians: Vec<f64> = thread_ns.into_iter().map(median).collect();
    for ((name, _), (thread, process)) in variants.iter().zip(medians.iter().zip(process_ns.into_iter().map(median))) {
        println!("{name:<40} {thread:>14.1} {process:>22.1}");
    }
    println!();

    let mut rows = vec![
        Row::new("hook.step", "ns", medians[0]).budget(250.0).peer("fastrace 0.7", medians[2]),
        Row::new("hook.step.against_otel", "ns", medians[0]).budget(250.0).peer("opentelemetry_sdk 0.33", medians[3]),
        Row::new("hook.step.against_tracing", "ns", medians[0]).budget(250.0).peer("tracing-opentelemetry 0.34", medians[4]),
        Row::new("hook.disabled.call", "ns", medians[1] / CALLS_A_STEP).budget(10.0),
    ];
    match (instructions(&[]), instructions(&["none"])) {
        (Some(step), Some(disabled)) => {
            rows.push(Row::new("hook.step.instructions", "instructions", step).budget(table::STEP_INSTRUCTIONS));
            rows.push(Row::new("hook.disabled.step.instructions", "instructions", disabled));
        }
        _ => println!("no valgrind: instructions are not counted"),
    }
    table::print(&rows);
    table::merge(&rows);
    // Instructions are the gate: they are the same on a busy machine. Times are shown beside their budget.
    let over = rows.iter().find(|row| row.unit == "instructions" && row.budget.is_some_and(|budget| row.value > budget));
    if let Some(row) = over {
        eprintln!("{} is {:.0}, more than {:.0}", row.id, row.value, row.budget.unwrap_or_default());
        std::process::exit(1);
    }
}
