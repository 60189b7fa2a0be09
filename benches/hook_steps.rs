//! So many steps with four phases and two numbers, for callgrind: `hook_steps 1000 [none]`. The ring is large enough for all of them,
//! so that only the hook is counted.

use std::hint::black_box;
use std::sync::Arc;

use stepline::hook::Hook;
use stepline::journal::{About, Writer, journal_path};
use stepline::model::Identity;
use stepline::{Outcome, Phase, Run, Scalar, StepSpans};

/// Known to callgrind by this name: `--toggle-collect=steps_under_callgrind`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn steps_under_callgrind(run: &Run, count: u64) {
    for (step, batch) in run.steps(0..count) {
        step.phase(Phase::FORWARD, || black_box(batch));
        step.phase(Phase::BACKWARD, || black_box(batch));
        step.phase(Phase::OPTIMIZER, || black_box(batch));
        step.record(Scalar::LOSS, 0.5);
        step.record(Scalar::LEARNING_RATE, 0.001);
    }
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).expect("how many steps");
    if std::env::args().nth(2).is_some() {
        return steps_under_callgrind(&Run::none(), count);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let identity = Identity { instance_id: [1; 16], run_id: "bench".into(), run_name: "bench".into(), attempt: 0, rank: 0, world_size: 1 };
    let path = journal_path(&directory.path().join("journals"), &identity, std::process::id(), 0);
    let about = About { identity, resource: Vec::new(), sample_interval_ns: 1_000_000_000, step_spans: StepSpans::Auto };
    let writer = Arc::new(Writer::create(&path, &about, 64 << 20).expect("a journal"));
    let run = Run::begin(Arc::new(Hook::new(writer, 0)), Box::new(Outcome::default));
    steps_under_callgrind(&run, count);
}
