//! Names of phases and scalars: a few that everybody uses, and the user's own.

use serde::{Deserialize, Serialize};

/// How many own names of a kind (phases, scalars) one run can have. Further ones are recorded under `other`, and counted.
pub const MAX_OWN_NAMES: usize = 64;

/// A named part of a step or epoch. The constants are the names that every training shares; any string is an own name
/// (`step.phase("augment", ..)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Phase(pub(crate) u8);

/// A number recorded while training. The constants have metrics of their own; any string is an own name
/// (`step.record("accuracy", ..)`), exported as `stepline.scalar` with that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scalar(pub(crate) u8);

const PHASES: [&str; 9] =
    ["other", "data_wait", "host_to_device", "forward", "backward", "optimizer", "collective", "validation", "checkpoint"];

const SCALARS: [&str; 9] =
    ["other", "loss", "learning_rate", "grad_norm", "samples", "tokens", "allocator_allocated", "allocator_reserved", "allocator_peak"];

impl Phase {
    /// Own names beyond the [`MAX_OWN_NAMES`] that a run can have.
    pub const OTHER: Self = Self(0);
    /// Waiting for the next batch.
    pub const DATA_WAIT: Self = Self(1);
    /// Copying a batch to the device.
    pub const HOST_TO_DEVICE: Self = Self(2);
    /// The forward pass.
    pub const FORWARD: Self = Self(3);
    /// The backward pass.
    pub const BACKWARD: Self = Self(4);
    /// The optimizer's update.
    pub const OPTIMIZER: Self = Self(5);
    /// Communication between ranks.
    pub const COLLECTIVE: Self = Self(6);
    /// Evaluating the model.
    pub const VALIDATION: Self = Self(7);
    /// Saving the model.
    pub const CHECKPOINT: Self = Self(8);
}

impl Scalar {
    /// Own names beyond the [`MAX_OWN_NAMES`] that a run can have.
    pub const OTHER: Self = Self(0);
    /// The loss of the step.
    pub const LOSS: Self = Self(1);
    /// The learning rate of the step.
    pub const LEARNING_RATE: Self = Self(2);
    /// The norm of the gradient.
    pub const GRAD_NORM: Self = Self(3);
    /// Samples in the step: added up into a counter.
    pub const SAMPLES: Self = Self(4);
    /// Tokens in the step: added up into a counter.
    pub const TOKENS: Self = Self(5);
    /// Bytes that the framework's allocator has handed out.
    pub const ALLOCATOR_ALLOCATED: Self = Self(6);
    /// Bytes that the framework's allocator holds.
    pub const ALLOCATOR_RESERVED: Self = Self(7);
    /// The most bytes that the framework's allocator has handed out so far.
    pub const ALLOCATOR_PEAK: Self = Self(8);
}

/// The names behind the numbers of [`Phase`] and [`Scalar`] in one journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameTable {
    own_phases: Vec<String>,
    own_scalars: Vec<String>,
}

impl NameTable {
    /// A table with these own names, in the order of their numbers; what is beyond [`MAX_OWN_NAMES`] is left out.
    #[must_use]
    pub fn new(mut own_phases: Vec<String>, mut own_scalars: Vec<String>) -> Self {
        own_phases.truncate(MAX_OWN_NAMES);
        own_scalars.truncate(MAX_OWN_NAMES);
        Self { own_phases, own_scalars }
    }

    /// The name of a phase; `other` for a number that the table does not hold.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> &str {
        Self::find(&PHASES, &self.own_phases, phase.0)
    }

    /// The name of a scalar; `other` for a number that the table does not hold.
    #[must_use]
    pub fn scalar(&self, scalar: Scalar) -> &str {
        Self::find(&SCALARS, &self.own_scalars, scalar.0)
    }

    /// The phase of that name among the ones that everybody uses.
    #[must_use]
    pub fn known_phase(name: &str) -> Option<Phase> {
        PHASES.iter().position(|known| *known == name).map(|index| Phase(index as u8))
    }

    /// The scalar of that name among the ones that everybody uses.
    #[must_use]
    pub fn known_scalar(name: &str) -> Option<Scalar> {
        SCALARS.iter().position(|known| *known == name).map(|index| Scalar(index as u8))
    }

    /// The number of the `index`-th own phase.
    #[must_use]
    pub fn own_phase(index: usize) -> Phase {
        Phase((PHASES.len() + index) as u8)
    }

    /// The number of the `index`-th own scalar.
    #[must_use]
    pub fn own_scalar(index: usize) -> Scalar {
        Scalar((SCALARS.len() + index) as u8)
    }

    fn find<'a>(known: &[&'static str], own: &'a [String], number: u8) -> &'a str {
        let number = usize::from(number);
        known.get(number).copied().or_else(|| own.get(number.checked_sub(known.len())?).map(String::as_str)).unwrap_or("other")
    }
}
