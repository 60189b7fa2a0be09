//! A training of another shape: without epochs, with phases and numbers of its own, gradient accumulation, a loader in a thread of its
//! own, and a step that fails. What it learns is a parabola through made-up points.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use stepline::{Phase, Run, Scalar};

const STEPS: u64 = 200;
/// Batches whose gradients are added up for one step.
const MICRO_STEPS: usize = 4;
const SHARD: usize = 16;
const BATCH: usize = 2_048;
const SPOILED_BATCH: usize = 402;

type Batch = Vec<(f64, f64)>;
type Weights = [f64; 3];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = stepline::configure().run_name("custom_phases").start()?;
    let (sender, receiver) = sync_channel(SHARD);
    let weights = thread::scope(|scope| {
        scope.spawn(|| load(&run, sender));
        train(&run, receiver).inspect_err(|_| run.fail("io"))
    })?;
    println!("y = {:.2} x² + {:.2} x + {:.2}", weights[0], weights[1], weights[2]);
    run.finish();
    Ok(())
}

/// The loader. Its phases stand beside the steps: they tell what it did while a step waited for data.
fn load(run: &Run, sender: SyncSender<Batch>) {
    for shard in 0.. {
        let batches: Vec<Batch> = run.phase("read_shard", || (shard * SHARD..(shard + 1) * SHARD).map(points).collect());
        for batch in batches {
            if sender.send(batch).is_err() {
                return; // The training has all it needs.
            }
        }
    }
}

fn train(run: &Run, batches: Receiver<Batch>) -> Result<Weights, std::io::Error> {
    let mut batches = batches.into_iter();
    let mut weights: Weights = [0.0; 3];
    for number in 1..=STEPS {
        let step = run.step();
        let (mut gradient, mut loss, mut samples) = ([0.0; 3], 0.0, 0);

        // Each is counted as a micro-step, and waiting for it is a data_wait.
        for batch in step.micro_steps(batches.by_ref().take(MICRO_STEPS)) {
            let forward = step.enter(Phase::FORWARD);
            let features = forward.phase("features", || features(&batch)); // a phase in a phase
            let errors = forward.phase("predict", || errors(&weights, &features, &batch));
            drop(forward);
            step.phase(Phase::BACKWARD, || add_gradient(&mut gradient, &features, &errors));
            loss += errors.iter().map(|error| error * error).sum::<f64>();
            samples += batch.len();
        }

        let loss = loss / samples as f64;
        step.record(Scalar::LOSS, loss); // NaN is said as such, never as a number
        step.record(Scalar::SAMPLES, samples);
        if !loss.is_finite() {
            step.fail("not_finite");
            continue;
        }
        step.phase(Phase::OPTIMIZER, || update(&mut weights, &gradient, samples));
        step.record(Scalar::GRAD_NORM, gradient.iter().map(|g| g * g).sum::<f64>().sqrt() / samples as f64);
        step.record("curvature", weights[0]); // a number of one's own
        drop(step); // What follows belongs to no step.

        if number % 50 == 0 {
            let validation = run.enter(Phase::VALIDATION);
            let unseen = points(usize::MAX / 2);
            let error = errors(&weights, &features(&unseen), &unseen).into_iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
            validation.record("worst_error", error);
            drop(validation);
            run.phase(Phase::CHECKPOINT, || save(&weights))?;
        }
    }
    Ok(weights)
}

/// Points on y = 3 x² - 2 x + 1; in one batch there is none where one should be, as in files that nobody has looked at.
fn points(batch: usize) -> Batch {
    let spoiled = if batch == SPOILED_BATCH { f64::NAN } else { 0.0 };
    let position = |index: usize| ((batch % 1_000 * BATCH + index) as f64 * 0.618_034).fract() * 2.0 - 1.0;
    (0..BATCH).map(position).map(|x| (x, 3.0 * x * x - 2.0 * x + 1.0 + spoiled)).collect()
}

fn features(batch: &Batch) -> Vec<[f64; 3]> {
    batch.iter().map(|(x, _)| [x * x, *x, 1.0]).collect()
}

fn errors(weights: &Weights, features: &[[f64; 3]], batch: &Batch) -> Vec<f64> {
    let predict = |feature: &[f64; 3]| feature.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>();
    features.iter().zip(batch).map(|(feature, (_, y))| predict(feature) - y).collect()
}

fn add_gradient(gradient: &mut Weights, features: &[[f64; 3]], errors: &[f64]) {
    for (feature, error) in features.iter().zip(errors) {
        for (sum, value) in gradient.iter_mut().zip(feature) {
            *sum += value * error;
        }
    }
}

fn update(weights: &mut Weights, gradient: &Weights, samples: usize) {
    for (weight, gradient) in weights.iter_mut().zip(gradient) {
        *weight -= 0.5 * gradient / samples as f64;
    }
}

fn save(weights: &Weights) -> Result<(), std::io::Error> {
    let file = tempfile::NamedTempFile::new()?; // A real one would be kept.
    fs::write(file.path(), weights.map(|weight| weight.to_string()).join("\n"))
}
