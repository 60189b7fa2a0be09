//! The integration tests: one program, everything through public faces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod architecture;
mod cli;
mod configuration;
mod delivery;
mod documents;
mod examples;
mod gpu_sources;
mod hook;
mod journal;
mod metrics_document;
mod stack;
mod surroundings;

mod support {
    pub(crate) mod backends;
    pub(crate) mod invariants;
    pub(crate) mod otlp_sink;
    pub(crate) mod recording;
    pub(crate) mod trainee;
}
