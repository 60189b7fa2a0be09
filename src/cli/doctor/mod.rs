//! `stepline doctor`: what is found here and what is wrong with it, for somebody who has little time.
//!
//! Asks for real (a journal is made, an endpoint is spoken to) and leaves nothing behind on this host. Whatever may hang is asked on a
//! thread of its own and given up after [`LIMIT`].

mod endpoints;
mod fields;
mod gpus;
mod host;
mod places;
mod probe;
mod text;
mod watch;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::output::{self, Format};
use crate::config::{Config, Environment, Settings, resolve};
use crate::notice;

/// How long anything that may hang is waited for.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let diagnosis = Diagnosis::make(&resolve(&Settings::default(), &Environment::of_process()));
    output::print(&match arguments.format {
        Format::Text => text::render(&diagnosis, output::style()),
        Format::Json => serde_json::to_string_pretty(&diagnosis)?,
    })?;
    Ok(if diagnosis.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All that was found.
#[derive(Debug, Serialize)]
struct Diagnosis {
    version: &'static str,
    platform: Platform,
    /// Whether runs do nothing at all here.
    disabled: bool,
    gpu: gpus::Gpus,
    host: host::Host,
    places: Vec<places::Place>,
    endpoints: Vec<endpoints::Finding>,
    settings: Vec<Setting>,
    /// What was asked for and does not work, one line each with what to do about it.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Platform {
    os: &'static str,
    architecture: &'static str,
    kernel: Option<String>,
    /// The protocols that this program can send by.
    protocols: Vec<&'static str>,
}

/// A resolved setting; of headers, the names alone.
#[derive(Debug, Clone, Serialize)]
struct Setting {
    name: String,
    value: String,
    origin: String,
}

impl Diagnosis {
    fn make(config: &Config) -> Self {
        // The source's own lines appear on standard error: some of them say what it cannot be asked for (a device that was left out).
        let gpu = gpus::look(config, LIMIT);
        // Not so those about delivery: this command says the same, with more about it.
        notice::set_silent(true);
        let places = places::look(config, LIMIT);
        let endpoints = endpoints::look(config, LIMIT);
        let mut problems = gpu.problems.clone();
        problems.extend(places.iter().filter_map(|place| place.problem.clone()));
        problems.extend(endpoints::problems(&endpoints));
        problems.extend(config.warnings.iter().cloned());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            platform: Platform::here(),
            disabled: config.disabled,
            gpu,
            host: host::look(),
            places,
            endpoints,
            settings: settings(config),
            problems,
        }
    }
}

impl Platform {
    fn here() -> Self {
        let protocols = [("http", cfg!(feature = "http")), ("grpc", cfg!(feature = "grpc"))];
        Self {
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            kernel: kernel(),
            protocols: protocols.iter().filter(|(_, is_built_in)| *is_built_in).map(|(name, _)| *name).collect(),
        }
    }
}

#[cfg(unix)]
fn kernel() -> Option<String> {
    rustix::system::uname().release().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn kernel() -> Option<String> {
    None
}

fn settings(config: &Config) -> Vec<Setting> {
    let described = config.describe();
    described.into_iter().map(|one| Setting { name: one.name, value: one.value, origin: one.origin.to_string() }).collect()
}
