//! The command line: `stepline report`, `stepline doctor`.

mod doctor;
mod output;
mod report;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Answers why a training ran out of memory, waited for data, or left a GPU idle.
#[derive(Debug, Parser)]
#[command(name = "stepline", version, arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the summary of a run from its files.
    #[command(after_help = "Example: stepline report stepline-runs/wine-20261201-101500-3f2a\n\n\
        Exit status: 0, or 1 when the files cannot be read.")]
    Report(report::Arguments),
    /// Says what is found here: GPUs and what they can tell, the endpoint, the settings and where each comes from.
    #[command(after_help = "Example: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 stepline doctor\n\n\
        Exit status: 0, or 1 when an endpoint is set and does not answer, or a setting is wrong.")]
    Doctor(doctor::Arguments),
}

/// Runs the command that the process's arguments ask for.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Report(arguments) => report::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    match result {
        Ok(code) => code,
        // The reader of our output has gone away (`stepline report | head`): that is no failure of ours.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            crate::notice::notice!("{error}");
            ExitCode::FAILURE
        }
    }
}
