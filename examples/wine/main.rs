//! A training with stepline's hook in its loop: a small network learns to guess the marks of red wines.
//!
//! ```text
//! STEPLINE_GPU=mirror STEPLINE_SAMPLE_INTERVAL=100 cargo run --release -p stepline-wine --example wine
//! ```
//!
//! In one epoch the validation makes a mistake that costs some 350 MiB; the summary at the end tells in which one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::error::Error;

use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use stepline::{Phase, Run, Scalar};
use stepline_wine::{Checksum, Classifier, Options, Wines, learning_rate, neighbour_accuracy};

const BATCH_SIZE: usize = 256;
const NEIGHBOUR_CHECK_IN_EPOCH: u64 = 3;
const SEED: u64 = 20_090_601;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::from_arguments()?;
    stepline_wine::settle();
    // A training that is worth having without stepline does not use `?` here.
    let run = stepline::configure().run_name("wine").start().unwrap_or_else(|error| {
        eprintln!("{error}. The training goes on without stepline");
        Run::none()
    });
    // Without `fail`, a training that `?` has left early would look like one that went well.
    let result = train(&run, &options).inspect_err(|_| run.fail("training"));
    run.finish();
    result
}

fn train(run: &Run, options: &Options) -> Result<(), Box<dyn Error>> {
    let (train, validation) = run.phase("load_dataset", Wines::load);
    let (train_all, validation_all) = (train.all()?, validation.all()?);
    let model = Classifier::new(SEED)?;
    let mut optimizer = AdamW::new(model.variables(), ParamsAdamW { weight_decay: 0.2, ..ParamsAdamW::default() })?;
    let checkpoints = tempfile::tempdir()?;
    let steps = train.batch_count(BATCH_SIZE, options.passes) * options.epochs as usize;
    let mut losses = Vec::with_capacity(steps);

    for epoch in run.epochs(0..options.epochs) {
        let batches = train.batches(BATCH_SIZE, options.passes, SEED + epoch.index());

        // The time that the loader takes for a batch is the step's data_wait.
        for (step, batch) in epoch.steps(batches) {
            let batch = batch?;
            // Counted by the training itself: `step.index()` is 0 when stepline is switched off, and must not change what is computed.
            let rate = learning_rate(losses.len(), steps);
            optimizer.set_learning_rate(rate);

            let loss = step.phase(Phase::FORWARD, || model.loss(&batch))?;
            let gradients = step.phase(Phase::BACKWARD, || loss.backward())?;
            step.phase(Phase::OPTIMIZER, || optimizer.step(&gradients))?;

            // Cheap on the CPU. On CUDA `to_scalar` waits for all work that is queued: there one records the loss every so many steps.
            let loss: f32 = loss.to_scalar()?;
            step.record(Scalar::LOSS, loss);
            step.record(Scalar::LEARNING_RATE, rate);
            step.record(Scalar::SAMPLES, batch.len());
            losses.push(loss);
        }

        epoch.validation(|phase| -> Result<(), Box<dyn Error>> {
            let accuracy = model.accuracy(&validation_all)?;
            phase.record("accuracy", accuracy);
            if epoch.index() == NEIGHBOUR_CHECK_IN_EPOCH {
                let neighbours = neighbour_accuracy(&model, &train_all, &validation_all)?;
                phase.record("neighbour_accuracy", neighbours.all_features);
                phase.record("neighbour_accuracy_without_one", neighbours.worst_without_one);
            }
            println!("epoch {}: loss {:.4}, validation accuracy {accuracy:.4}", epoch.index(), mean_of_last(&losses, 100));
            Ok(())
        })?;
        epoch.checkpoint(|_| model.save(&checkpoints.path().join(format!("wine-{}.safetensors", epoch.index()))))?;
    }

    println!("final validation accuracy {:.4} on {} wines", model.accuracy(&validation_all)?, validation.len());
    if options.print_checksum {
        let mut checksum = Checksum::default();
        checksum.add(&losses);
        model.add_to(&mut checksum)?;
        println!("checksum {checksum}");
    }
    Ok(())
}

fn mean_of_last(losses: &[f32], count: usize) -> f32 {
    let last = &losses[losses.len().saturating_sub(count)..];
    last.iter().sum::<f32>() / last.len() as f32
}
