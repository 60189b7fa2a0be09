//! What a user holds: [`Run`], [`Epoch`], [`Step`], [`PhaseGuard`].
//!
//! Nothing here fails, panics, waits or allocates (after the first use of a name). A guard that does nothing is the same type with
//! nothing in it: when stepline is switched off, and in a forked child, where the journal belongs to the parent.

mod epoch;
mod name;
mod phase;
mod run;
mod step;

pub use epoch::{Epoch, Epochs};
pub use name::{PhaseName, ScalarName, ScalarValue};
pub use phase::PhaseGuard;
pub use run::{Closer, Run};
pub use step::{MicroSteps, Step, Steps};

use std::sync::Arc;

use crate::journal::{StepAt, Writer};
use crate::model::{Owner, Phase, Scalar};

/// What all guards of a run share.
pub struct Hook {
    pub(crate) writer: Arc<Writer>,
    first_step: u64,
}

impl Hook {
    /// A hook that writes into this journal; the training's first step has the number `first_step`.
    #[must_use]
    pub fn new(writer: Arc<Writer>, first_step: u64) -> Self {
        Self { writer, first_step }
    }

    /// The hook, if this is the process that it belongs to.
    #[inline]
    fn ours(&self) -> Option<&Self> {
        self.writer.is_ours().then_some(self)
    }

    #[inline]
    fn phase(&self, name: PhaseName<'_>) -> Phase {
        match name {
            PhaseName::Known(phase) => phase,
            PhaseName::Own(name) => self.own_phase(name),
        }
    }

    #[inline]
    fn scalar(&self, name: ScalarName<'_>) -> Scalar {
        match name {
            ScalarName::Known(scalar) => scalar,
            ScalarName::Own(name) => self.own_scalar(name),
        }
    }

    // Calls, so that the known names, which need nothing, can be looked at in passing.
    #[inline(never)]
    fn own_phase(&self, name: &str) -> Phase {
        self.writer.phase_name(name)
    }

    #[inline(never)]
    fn own_scalar(&self, name: &str) -> Scalar {
        self.writer.scalar_name(name)
    }

    fn record(&self, owner: Owner, name: ScalarName<'_>, value: f64) {
        self.writer.scalar(self.writer.now(), owner, self.scalar(name), value);
    }

    fn fail(&self, owner: Owner, error_type: &str) {
        self.writer.error(self.writer.now(), owner, error_type);
    }

    /// A panic goes through the step. What was said about it before, by the user or by the phase that the panic went through first,
    /// is nearer to the cause.
    #[cold]
    fn step_panicked(&self, step: &StepAt) {
        if self.writer.fail_step(step) {
            self.fail(Owner::Step(step.ordinal()), PANIC);
        }
    }
}

/// `error.type` of what a panic passed through.
const PANIC: &str = "panic";
