//! stepline

// The rooms are reachable for the tests, the fuzzer, the benches and the Python package, and are no part of the public API:
// that is what this file re-exports by name.
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod detect;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod gpu;
#[doc(hidden)]
pub mod hook;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod journal;
#[doc(hidden)]
pub mod model;
mod notice;
#[doc(hidden)]
pub mod otlp;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod semconv;
#[doc(hidden)]
pub mod timeline;

pub use error::{JournalError, StartError};
pub use hook::{Epoch, Epochs, MicroSteps, PhaseGuard, PhaseName, Run, ScalarName, ScalarValue, Step, Steps};
pub use model::{Delivery, Outcome, Phase, Scalar, StepSpans};

/// (placeholder)
#[derive(Debug)]
pub struct Builder;
/// (placeholder)
pub fn init() {}
