//! `stepline report`: the summary of a run, from its files.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use super::output::{self, Format};
use crate::config::{Environment, Settings, resolve};
use crate::report::{from_directory, json, text};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of a run, or the one that holds the runs: then the newest is taken [default: STEPLINE_DIR, else stepline-runs]
    directory: Option<PathBuf>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => resolve(&Settings::default(), &Environment::of_process()).directory,
    };
    let report = from_directory(&directory).map_err(|error| io::Error::other(error.to_string()))?;
    output::print(&match arguments.format {
        Format::Text => text::render(&report, output::style()),
        Format::Json => json::render(&report),
    })?;
    Ok(ExitCode::SUCCESS)
}
