//! Names of phases and scalars, ready to stand in spans without being copied where they need not be.

use std::borrow::Cow;

use crate::model::{NameTable, Phase, Scalar};
use crate::semconv::spans;

/// The names as last told.
#[derive(Debug, Default)]
pub(super) struct Names {
    table: NameTable,
}

impl Names {
    pub(super) fn update(&mut self, table: &NameTable) {
        if self.table != *table {
            self.table = table.clone();
        }
    }

    /// The name of the span of a phase.
    pub(super) fn span(&self, phase: Phase) -> &'static str {
        spans::of_phase(self.table.phase(phase))
    }

    /// The name of a phase.
    pub(super) fn phase(&self, phase: Phase) -> Cow<'static, str> {
        let name = self.table.phase(phase);
        let span = spans::of_phase(name);
        match span.strip_prefix(spans::PHASE_PREFIX) {
            Some(shared) if span != spans::OWN_PHASE => Cow::Borrowed(shared),
            _ => Cow::Owned(name.to_owned()),
        }
    }

    /// The phase under which it is counted: numbers that share a name are one.
    pub(super) fn one_phase(&self, phase: Phase) -> Phase {
        NameTable::known_phase(self.table.phase(phase)).unwrap_or(phase)
    }

    /// The scalar under which it is counted: numbers that share a name are one.
    pub(super) fn one_scalar(&self, scalar: Scalar) -> Scalar {
        NameTable::known_scalar(self.table.scalar(scalar)).unwrap_or(scalar)
    }

    /// The name of a number.
    pub(super) fn scalar(&self, scalar: Scalar) -> &str {
        self.table.scalar(scalar)
    }
}
