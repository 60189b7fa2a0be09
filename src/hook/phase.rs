//! A phase that is open.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Hook, PANIC, PhaseName, ScalarName, ScalarValue};
use crate::journal::{OpenPhase, StepAt};
use crate::model::{Owner, Phase};

/// A phase that is open: it ends when this is dropped.
///
/// ```no_run
/// use stepline::Phase;
/// # let run = stepline::init();
/// # fn evaluate() -> f64 { 0.9 }
/// for epoch in run.epochs(0..3) {
///     let validation = epoch.enter(Phase::VALIDATION);
///     validation.record("accuracy", evaluate());
/// }
/// ```
#[must_use = "the phase ends when this is dropped: give it a name (`let _phase = ..`)"]
pub struct PhaseGuard<'a> {
    open: Option<Open<'a>>,
    failed: AtomicBool,
}

enum Open<'a> {
    /// In its step's own list.
    Listed { hook: &'a Hook, step: StepAt, place: u8 },
    /// Beside it, or of something else than a step.
    Standing { hook: &'a Hook, step: Option<StepAt>, phase: OpenPhase },
}

impl<'a> PhaseGuard<'a> {
    #[inline]
    pub(super) fn none() -> Self {
        Self { open: None, failed: AtomicBool::new(false) }
    }

    #[inline]
    fn of(open: Open<'a>) -> Self {
        Self { open: Some(open), failed: AtomicBool::new(false) }
    }

    #[inline]
    pub(super) fn in_step(hook: &'a Hook, step: &StepAt, name: PhaseName<'_>) -> Self {
        Self::in_step_now(hook, step, hook.phase(name))
    }

    // A call, and no part of the training's code: there it would be in the way of the training's registers. What is rare is a call at
    // the end, so that it costs the others nothing.
    #[inline(never)]
    fn in_step_now(hook: &'a Hook, step: &StepAt, phase: Phase) -> Self {
        match hook.writer.counter_now() {
            Some(ticks) => Self::in_step_at(hook, step, phase, ticks),
            None => Self::in_step_by_clock(hook, step, phase),
        }
    }

    #[cold]
    #[inline(never)]
    fn in_step_by_clock(hook: &'a Hook, step: &StepAt, phase: Phase) -> Self {
        Self::in_step_at(hook, step, phase, hook.writer.now())
    }

    #[inline]
    pub(super) fn in_step_at(hook: &'a Hook, step: &StepAt, phase: Phase, begin: u64) -> Self {
        match hook.writer.listed_phase_began(begin, step, phase) {
            Some(place) => Self::of(Open::Listed { hook, step: *step, place }),
            None => Self::beside(hook, step, phase, begin),
        }
    }

    #[cold]
    #[inline(never)]
    fn beside(hook: &'a Hook, step: &StepAt, phase: Phase, begin: u64) -> Self {
        let phase = hook.writer.phase_began(begin, Owner::Step(step.ordinal()), phase);
        Self::of(Open::Standing { hook, step: Some(*step), phase })
    }

    pub(super) fn standing(hook: &'a Hook, owner: Owner, name: PhaseName<'_>) -> Self {
        let phase = hook.phase(name);
        let phase = hook.writer.phase_began(hook.writer.now(), owner, phase);
        Self::of(Open::Standing { hook, step: None, phase })
    }

    /// It was no phase after all. One that stands beside the list is rare, and then a phase like others.
    pub(super) fn cancel(mut self) {
        if let Some(Open::Listed { hook, step, place }) = self.live() {
            hook.writer.listed_phase_cancelled(hook.writer.now(), step, *place);
            self.open = None;
        }
    }

    #[inline]
    fn live(&self) -> Option<&Open<'a>> {
        self.open.as_ref().filter(|open| open.hook().writer.is_ours())
    }

    /// Opens a phase inside this one.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// let forward = step.enter(stepline::Phase::FORWARD);
    /// let _attention = forward.enter("attention");
    /// ```
    pub fn enter<'n>(&self, name: impl Into<PhaseName<'n>>) -> PhaseGuard<'a> {
        match self.live() {
            Some(Open::Listed { hook, step, .. }) => PhaseGuard::in_step(hook, step, name.into()),
            Some(open @ Open::Standing { hook, .. }) => PhaseGuard::standing(hook, open.owner(), name.into()),
            None => PhaseGuard::none(),
        }
    }

    /// Runs a closure in a phase inside this one.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let step = run.step();
    /// let forward = step.enter(stepline::Phase::FORWARD);
    /// let hidden = forward.phase("encoder", || 1 + 1);
    /// ```
    pub fn phase<'n, T>(&self, name: impl Into<PhaseName<'n>>, body: impl FnOnce() -> T) -> T {
        let _phase = self.enter(name);
        body()
    }

    /// Records a number. In a step it belongs to the step.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// run.enter(stepline::Phase::VALIDATION).record("accuracy", 0.9);
    /// ```
    pub fn record<'n>(&self, name: impl Into<ScalarName<'n>>, value: impl ScalarValue) {
        if let Some(open) = self.live() {
            let hook = open.hook();
            match open.step() {
                Some(step) => hook.writer.step_scalar(step, hook.scalar(name.into()), value.to_f64()),
                None => hook.record(open.owner(), name.into(), value.to_f64()),
            }
        }
    }

    /// Marks the phase (in a step: the step) as failed. `error_type` is the name of a kind of error, not a message: 32 bytes of it
    /// become `error.type`.
    ///
    /// ```no_run
    /// # let run = stepline::init();
    /// # let save = || std::fs::write("model.bin", []);
    /// let checkpoint = run.enter(stepline::Phase::CHECKPOINT);
    /// if let Err(_error) = save() {
    ///     checkpoint.fail("io");
    /// }
    /// ```
    pub fn fail(&self, error_type: &str) {
        if let Some(open) = self.live() {
            self.failed.store(true, Ordering::Relaxed);
            if let Some(step) = open.step() {
                open.hook().writer.fail_step(step);
            }
            open.hook().fail(open.owner(), error_type);
        }
    }
}

impl Drop for PhaseGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // What does nothing costs a look, and no more.
        if self.open.is_some() {
            self.end();
        }
    }
}

impl PhaseGuard<'_> {
    #[inline(never)]
    fn end(&self) {
        // The way of nearly all: in its step's own list, no panic, a processor with a counter.
        if let Some(Open::Listed { hook, step, place }) = self.live()
            && !std::thread::panicking()
            && let Some(ticks) = hook.writer.counter_now()
        {
            hook.writer.listed_phase_ended(ticks, step, *place);
        } else {
            self.end_otherwise();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_otherwise(&self) {
        let Some(open) = self.live() else { return };
        let ticks = open.hook().writer.now();
        let failed = self.failed.load(Ordering::Relaxed);
        let panicked = std::thread::panicking() && !failed;
        match open {
            Open::Listed { hook, step, place } => {
                // In a step's own list it is the step that fails, as with `fail`: also if the panic is caught before it leaves the step.
                if panicked {
                    hook.step_panicked(step);
                }
                hook.writer.listed_phase_ended(ticks, step, *place);
            }
            Open::Standing { hook, phase, .. } => {
                if panicked {
                    hook.fail(open.owner(), PANIC);
                }
                hook.writer.phase_ended(ticks, phase, panicked || failed);
            }
        }
    }
}

impl<'a> Open<'a> {
    #[inline]
    fn hook(&self) -> &'a Hook {
        match self {
            Self::Listed { hook, .. } | Self::Standing { hook, .. } => hook,
        }
    }

    fn step(&self) -> Option<&StepAt> {
        match self {
            Self::Listed { step, .. } => Some(step),
            Self::Standing { step, .. } => step.as_ref(),
        }
    }

    fn owner(&self) -> Owner {
        match self {
            Self::Listed { step, .. } => Owner::Step(step.ordinal()),
            Self::Standing { phase, .. } => phase.as_owner(),
        }
    }
}
