//! The smallest training with stepline in it: a line through made-up points.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use stepline::{Phase, Scalar};

fn main() -> Result<(), stepline::StartError> {
    let run = stepline::configure().run_name("minimal").start()?;
    let (mut slope, mut offset) = (0.0, 0.0);
    for epoch in run.epochs(0..3) {
        for (step, points) in epoch.steps((0..200).map(batch)) {
            let errors = step.phase(Phase::FORWARD, || points.iter().map(|(x, y)| slope * x + offset - y).collect::<Vec<_>>());
            let gradient = step.phase(Phase::BACKWARD, || mean(points.iter().zip(&errors).map(|((x, _), error)| x * error)));
            step.phase(Phase::OPTIMIZER, || {
                slope -= 0.1 * gradient;
                offset -= 0.1 * mean(errors.iter().copied());
            });
            step.record(Scalar::LOSS, mean(errors.iter().map(|error| error * error)));
        }
    }
    println!("y = {slope:.2} x + {offset:.2}");
    run.finish();
    Ok(())
}

/// Points on the line y = 2 x + 1.
fn batch(number: u32) -> Vec<(f64, f64)> {
    (0..2_000).map(|i| f64::from(number * 31 + i).sin()).map(|x| (x, 2.0 * x + 1.0)).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}
