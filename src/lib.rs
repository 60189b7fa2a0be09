//! stepline: OpenTelemetry instrumentation with a hook in the training loop.
//!
//! GPU samples become metrics, runs, epochs, steps and phases become spans, and each span carries what the GPU did while it was open: so
//! that "which epoch ate the memory, and in which phase?" is answered by one look, in the terminal, in files, in Jaeger, in Prometheus,
//! in whatever speaks OTLP.
//!
//! # The hook
//!
//! ```no_run
//! use stepline::{Phase, Scalar};
//! # struct Model; struct Loss;
//! # impl Model { fn forward(&self, _: &u8) -> Loss { Loss } }
//! # impl Loss { fn backward(&self) {} fn value(&self) -> f32 { 0.0 } }
//! # let (model, loader) = (Model, vec![1_u8]);
//! # fn evaluate(_: &Model) -> f64 { 0.0 }
//! let run = stepline::configure().run_name("wine").start()?;
//! for epoch in run.epochs(0..10) {
//!     for (step, batch) in epoch.steps(&loader) {              // waiting for the batch is the step's data_wait
//!         let loss = step.phase(Phase::FORWARD, || model.forward(batch));
//!         step.phase(Phase::BACKWARD, || loss.backward());
//!         step.record(Scalar::LOSS, loss.value());
//!     }
//!     epoch.validation(|validation| validation.record("accuracy", evaluate(&model)));
//! }
//! run.finish();
//! # Ok::<(), stepline::StartError>(())
//! ```
//!
//! [`init`] takes everything from the environment and cannot fail. What is dropped is ended: a `break`, a `?` or a panic leaves nothing
//! open, and a panic marks what it passed through. Loops of another shape use [`Run::epoch`], [`Epoch::step`], [`Step::enter`].
//!
//! # What it costs the training
//!
//! A step with four phases and two numbers is one record in a memory-mapped file: no allocation, no lock, no system call. Everything
//! else happens on threads of stepline's own, which read that file. Nothing in the loop can fail, and what stepline loses it counts
//! ([`Outcome`], and the metrics `stepline.journal.dropped` and `stepline.export.dropped`).
//!
//! # Where it goes
//!
//! Without an endpoint into OTLP/JSON files under `stepline-runs/<run>/`, beside a summary on standard error. With
//! `OTEL_EXPORTER_OTLP_ENDPOINT` set (or [`Builder::endpoint`]) over OTLP as well.
//!
//! # Features
//!
//! - `http` (default): OTLP over HTTP, protobuf and JSON.
//! - `grpc` (default): OTLP over gRPC.
//! - `cli`: the program `stepline`.

// The rooms are reachable for the tests, the fuzzer, the benches and the Python package, and are no part of the public API:
// that is what this file re-exports by name.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
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
pub mod pump;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod sampler;
#[doc(hidden)]
pub mod semconv;
mod session;
#[doc(hidden)]
pub mod timeline;

pub use config::{GpuChoice, Protocol};
pub use error::{JournalError, StartError};
pub use hook::{Epoch, Epochs, MicroSteps, PhaseGuard, PhaseName, Run, ScalarName, ScalarValue, Step, Steps};
pub use model::{Delivery, Outcome, Phase, Scalar, StepSpans};

pub use session::{Builder, configure, init};
