//! What a guard holds of something that is open: plain numbers, as few as can be, since a guard is copied about in every step.

use super::open_table::Entry;
use crate::model::Owner;

/// A step that is open. Whoever holds it ends it.
#[derive(Debug, Clone, Copy)]
pub struct OpenStep {
    pub(super) at: StepAt,
    pub(super) step: u64,
    pub(super) begin: u64,
    pub(super) epoch: Option<u32>,
}

/// Where an open step stands: all that its phases need to know.
#[derive(Debug, Clone, Copy)]
pub struct StepAt {
    pub(super) ordinal: u64,
    /// The thread that fills its entry.
    pub(super) thread: usize,
    pub(super) entry: Entry,
}

impl OpenStep {
    /// The training's own number of it.
    #[inline]
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// When it began, ticks.
    #[inline]
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.begin
    }
}

impl std::ops::Deref for OpenStep {
    type Target = StepAt;

    #[inline]
    fn deref(&self) -> &StepAt {
        &self.at
    }
}

impl StepAt {
    /// The n-th step of this process.
    #[inline]
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Whether this is the thread that fills its entry.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.thread == this_thread()
    }
}

/// A phase that is open and stands beside the lists of steps. Whoever holds it ends it.
#[derive(Debug, Clone, Copy)]
pub struct OpenPhase {
    pub(super) ordinal: u64,
    pub(super) begin: u64,
    pub(super) owner: Owner,
    pub(super) entry: Entry,
    pub(super) phase: u8,
}

impl OpenPhase {
    /// What belongs to this phase.
    #[must_use]
    pub fn as_owner(&self) -> Owner {
        Owner::Phase(self.ordinal)
    }
}

/// A number that differs from thread to thread: the address of a variable that each thread has its own of.
#[inline]
pub(super) fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}
