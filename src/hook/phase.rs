//! A phase that is open.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Hook, PANIC, PhaseName, ScalarName, ScalarValue};
use crate::journal::{OpenPhase, OpenStep};
use crate::model::Owner;

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

struct Open<'a> {
    hook: &'a Hook,
    step: Option<OpenStep>,
    phase: OpenPhase,
}

impl<'a> PhaseGuard<'a> {
    pub(super) fn none() -> Self {
        Self { open: None, failed: AtomicBool::new(false) }
    }

    #[inline]
    pub(super) fn in_step(hook: &'a Hook, step: &OpenStep, name: PhaseName<'_>) -> Self {
        let phase = hook.phase(name);
        let phase = hook.writer.step_phase_began(hook.writer.now(), step, phase);
        Self { open: Some(Open { hook, step: Some(*step), phase }), failed: AtomicBool::new(false) }
    }

    pub(super) fn standing(hook: &'a Hook, owner: Owner, name: PhaseName<'_>) -> Self {
        let phase = hook.phase(name);
        let phase = hook.writer.phase_began(hook.writer.now(), owner, phase);
        Self { open: Some(Open { hook, step: None, phase }), failed: AtomicBool::new(false) }
    }

    /// It was no phase after all.
    pub(super) fn cancel(mut self) {
        if let Some(Open { hook, step: Some(step), phase }) = self.open.take().filter(|open| open.hook.writer.is_ours()) {
            hook.writer.step_phase_cancelled(hook.writer.now(), &step, phase);
        }
    }

    fn live(&self) -> Option<&Open<'a>> {
        self.open.as_ref().filter(|open| open.hook.writer.is_ours())
    }

    fn owner(open: &Open<'_>) -> Owner {
        open.phase.owner(open.step.as_ref())
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
            Some(Open { hook, step: Some(step), phase }) if phase.is_listed() => PhaseGuard::in_step(hook, step, name.into()),
            Some(open) => PhaseGuard::standing(open.hook, Self::owner(open), name.into()),
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
            match &open.step {
                Some(step) => open.hook.writer.step_scalar(step, open.hook.scalar(name.into()), value.to_f64()),
                None => open.hook.record(Self::owner(open), name.into(), value.to_f64()),
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
            if let Some(step) = &open.step {
                open.hook.writer.fail_step(step);
            }
            open.hook.fail(Self::owner(open), error_type);
        }
    }
}

impl Drop for PhaseGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(open) = self.live() else { return };
        let writer = &open.hook.writer;
        let ticks = writer.now();
        let failed = self.failed.load(Ordering::Relaxed);
        let panicked = std::thread::panicking() && !failed;
        if panicked {
            self.panicked(open);
        }
        match &open.step {
            Some(step) => writer.step_phase_ended(ticks, step, open.phase, panicked || failed),
            None => writer.phase_ended(ticks, open.phase, panicked || failed),
        }
    }
}

impl PhaseGuard<'_> {
    /// A panic goes through the phase. In a step's own list it is the step that fails, as with [`fail`](PhaseGuard::fail): also if the
    /// panic is caught before it leaves the step.
    #[cold]
    fn panicked(&self, open: &Open<'_>) {
        match &open.step {
            Some(step) if open.phase.is_listed() => open.hook.step_panicked(step),
            _ => open.hook.fail(Self::owner(open), PANIC),
        }
    }
}
