//! Names of phases and numbers, as they are written in a training loop.

use crate::model::{Phase, Scalar};

/// The name of a phase: one of [`Phase`]'s constants, or a text of one's own.
///
/// ```no_run
/// use stepline::Phase;
/// # let run = stepline::init();
/// # let step = run.step();
/// let _known = step.enter(Phase::FORWARD);
/// let _own = step.enter("augment");
/// ```
#[derive(Debug, Clone, Copy)]
pub enum PhaseName<'a> {
    /// One that everybody uses.
    Known(Phase),
    /// One of one's own: at most 64 in a run, 56 bytes of it.
    Own(&'a str),
}

impl From<Phase> for PhaseName<'_> {
    #[inline]
    fn from(phase: Phase) -> Self {
        Self::Known(phase)
    }
}

impl<'a> From<&'a str> for PhaseName<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        Self::Own(name)
    }
}

impl<'a> From<&'a String> for PhaseName<'a> {
    #[inline]
    fn from(name: &'a String) -> Self {
        Self::Own(name)
    }
}

/// The name of a number: one of [`Scalar`]'s constants, or a text of one's own.
///
/// ```no_run
/// use stepline::Scalar;
/// # let run = stepline::init();
/// # let step = run.step();
/// step.record(Scalar::LOSS, 0.25);
/// step.record("accuracy", 0.9);
/// ```
#[derive(Debug, Clone, Copy)]
pub enum ScalarName<'a> {
    /// One that everybody uses.
    Known(Scalar),
    /// One of one's own: at most 64 in a run, 56 bytes of it.
    Own(&'a str),
}

impl From<Scalar> for ScalarName<'_> {
    #[inline]
    fn from(scalar: Scalar) -> Self {
        Self::Known(scalar)
    }
}

impl<'a> From<&'a str> for ScalarName<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        Self::Own(name)
    }
}

impl<'a> From<&'a String> for ScalarName<'a> {
    #[inline]
    fn from(name: &'a String) -> Self {
        Self::Own(name)
    }
}

/// What can be recorded as a number.
///
/// ```no_run
/// use stepline::Scalar;
/// # let run = stepline::init();
/// # let step = run.step();
/// # let batch = vec![0.0_f32; 32];
/// step.record(Scalar::SAMPLES, batch.len());
/// step.record(Scalar::LOSS, 0.25_f32);
/// ```
pub trait ScalarValue {
    /// The number. Whole numbers beyond 2^53 are rounded.
    fn to_f64(self) -> f64;
}

macro_rules! scalar_values {
    ($($kind:ty),*) => {$(
        impl ScalarValue for $kind {
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

scalar_values!(f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
